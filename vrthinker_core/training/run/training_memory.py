"""How much memory a training loop of our own takes, asked before anything is loaded."""

import math

from vrthinker_core.backends.local.checkpoint.checkpoint_files import check_files, locate
from vrthinker_core.backends.local.checkpoint.devices import available_memory
from vrthinker_core.errors import BadInput

COPIES = 4  # Of the weights: policy, gradients, both moments of AdamW
FLOAT_BYTES = 4
WORKING_BYTES = 2**30  # For activations, rollouts and torch itself


def require_training_memory(source: str, *, reference: bool, device: str = "cpu") -> None:
    """Raises BadInput where the machine has too little memory to train this checkpoint (a folder or hub id) in float32.

    `reference`: a second model is held, which the KL term compares with. Raises CheckpointError for what is no checkpoint of this
    architecture.
    """
    weights = sum(map(math.prod, check_files(locate(source)).values()))
    needed, free = weights * (COPIES + reference) * FLOAT_BYTES + WORKING_BYTES, available_memory(device)
    if free is not None and needed > free:
        raise BadInput(
            f"Training this model takes about {needed / 2**30:.1f} GiB of memory, and {free / 2**30:.1f} GiB are free: "
            "take a larger machine, or a smaller model."
        )
