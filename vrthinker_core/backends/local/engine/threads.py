"""With how many threads torch computes, and how many computations run side by side."""

from __future__ import annotations

import torch

from vrthinker_core.cpus import cpu_count


def limit_threads(threads: int | None) -> None:
    """Hold torch to the wanted threads. The setting belongs to the calling thread, and each token may come from another.

    On a busy machine the small matrices of a small judge wait for one another: two threads were many times slower than one.
    """
    if threads is not None and torch.get_num_threads() != threads:
        torch.set_num_threads(threads)


def parallelism(threads: int | None) -> int:
    """How many computations of their own run side by side: a judge held to one thread gets one for every processor.

    They never wait for one another. Other judges use all processors for each computation.
    """
    return cpu_count() if threads == 1 else 1
