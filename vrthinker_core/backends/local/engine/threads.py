"""How many threads torch computes with, and how many computations run in parallel."""

import torch

from vrthinker_core.cpus import cpu_count


def limit_threads(threads: int | None) -> None:
    """Set torch's thread count in the calling thread (None: leave it). Call it before each forward: any may run in another thread.

    The threads of a small model's small matrices wait for one another: on a busy machine two threads were many times slower than
    one.
    """
    if threads is not None and torch.get_num_threads() != threads:
        torch.set_num_threads(threads)


def parallelism(threads: int | None) -> int:
    """How many computations to run in parallel: one a CPU for a model that is limited to one thread, else one.

    Such computations never wait for one another. Any other model uses all CPUs for each computation.
    """
    return cpu_count() if threads == 1 else 1
