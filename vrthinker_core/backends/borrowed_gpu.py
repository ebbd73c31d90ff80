"""What a Hugging Face Space with ZeroGPU needs to know, without torch."""

import math
import os

from vrthinker_core.protocols.paired import Paired
from vrthinker_core.types import Settings

MAX_GPU_SECONDS = 75  # ZeroGPU refuses a run that needs more than a visitor's remaining quota


def borrows_gpu() -> bool:
    """Return whether this is a Space with ZeroGPU.

    ZeroGPU gives a GPU to the process of a run only. Elsewhere `spaces` imitates one, but only in
    the thread that imported `spaces`.
    """
    return os.environ.get("SPACES_ZERO_GPU", "").lower() in ("1", "t", "true")


def gpu_seconds(settings: Settings) -> int:
    """Return seconds for which a run asks for the GPU of ZeroGPU.

    Ten to start, then each turn 1 s to prefill and 25 tokens a second to decode. Both orders take
    twice as many turns.
    """
    turns = min(max(settings.max_turns or Paired.max_turns, 1), MAX_GPU_SECONDS)
    orders = 2 if settings.swap == "on" else 1
    seconds = 10 + orders * turns * (1 + min(settings.max_new_tokens, 300) / 25)
    return min(MAX_GPU_SECONDS, math.ceil(seconds))
