"""How much memory a training in one process takes, asked before anything is loaded."""

import math

import torch

from vrthinker_core.backends.local.checkpoint.checkpoint_files import check_files, locate
from vrthinker_core.backends.local.checkpoint.devices import available_memory
from vrthinker_core.errors import BadInput

LEARNING = (
    3  # Copies of the weights that learn beside these themselves: gradients, both moments of AdamW
)
VISION = "visual."  # In the names of the weights of the vision tower
FLOAT_BYTES = 4
WORKING_BYTES = 2**30  # For activations, rollouts and torch itself


def require_training_memory(source: str, *, reference: bool, frozen_vision: bool) -> None:
    """Raises BadInput where the machine has too little memory to train this checkpoint (a folder or hub id) in float32.

    `reference`: a second model is held, which the KL term compares with; `frozen_vision`: its tower does not learn. Raises
    CheckpointError for what is no checkpoint of this architecture.
    """
    sizes = {name: math.prod(shape) for name, shape in check_files(locate(source)).items()}
    learning = sum(size for name, size in sizes.items() if not (frozen_vision and VISION in name))
    floats = sum(sizes.values()) * (1 + reference) + learning * LEARNING
    needed = floats * FLOAT_BYTES + WORKING_BYTES
    free = available_memory("cuda" if torch.cuda.is_available() else "cpu")
    if free is not None and needed > free:
        raise BadInput(
            f"Training this model takes about {needed / 2**30:.1f} GiB of memory, and {free / 2**30:.1f} GiB are free: "
            "take a larger machine, or a smaller model."
        )
