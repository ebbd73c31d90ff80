"""The number of torch's threads and of parallel computations."""

import torch

from vrthinker_core.cpus import cpu_count


def limit_threads(threads: int | None) -> None:
    """Set torch's thread count in the calling thread; None leaves it.

    Call it before each forward: any forward may run in another thread. The threads of a small
    model's small matrices wait for one another: on a busy machine two threads were many times
    slower than one.
    """
    if threads is not None and torch.get_num_threads() != threads:
        torch.set_num_threads(threads)


def parallelism(threads: int | None) -> int:
    """Return the number of computations to run in parallel.

    A model that is limited to one thread runs one computation a CPU, because such computations
    never wait for one another. Any other model runs one: it uses all CPUs for each computation.
    """
    return cpu_count() if threads == 1 else 1
