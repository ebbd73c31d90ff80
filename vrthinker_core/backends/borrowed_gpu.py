"""Whether this is a Hugging Face Space with ZeroGPU, told without torch."""

import os


def borrows_gpu() -> bool:
    """ZeroGPU: a GPU is there in the process of a run alone. Elsewhere one is imitated, in the thread that imported `spaces`."""
    return os.environ.get("SPACES_ZERO_GPU", "").lower() in ("1", "t", "true")
