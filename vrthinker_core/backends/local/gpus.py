"""Whether there is a GPU: asked before anything that speaks is loaded, which takes far longer."""

from __future__ import annotations

import torch


def has_cuda() -> bool:
    """A CUDA device can be used here."""
    return torch.cuda.is_available()
