"""What this machine has."""

import os
import sys


def cpu_count() -> int:
    """How many processors this process may use: fewer than there are where it is held to some of them."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
