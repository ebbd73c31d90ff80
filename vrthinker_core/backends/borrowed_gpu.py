"""The test for a Hugging Face Space with ZeroGPU, without torch."""

import os


def borrows_gpu() -> bool:
    """Return whether this is a Space with ZeroGPU.

    ZeroGPU gives a GPU to the process of a run only. Elsewhere `spaces` imitates one, but only in
    the thread that imported `spaces`.
    """
    return os.environ.get("SPACES_ZERO_GPU", "").lower() in ("1", "t", "true")
