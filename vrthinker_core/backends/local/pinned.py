"""With how many threads torch computes."""

from __future__ import annotations

import torch


def hold(threads: int | None) -> None:
    """Hold torch to the wanted threads. The setting belongs to the calling thread, and each token may come from another.

    On a busy machine the small matrices of a small judge wait for one another: two threads were many times slower than one.
    """
    if threads is not None and torch.get_num_threads() != threads:
        torch.set_num_threads(threads)
