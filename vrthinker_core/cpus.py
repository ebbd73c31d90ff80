"""The processors that this process may use."""

import math
import os
import sys
from pathlib import Path

CGROUP = Path("/sys/fs/cgroup")  # The control group of a container, version 1 or 2


def cpu_count() -> int:
    """Return the processors for this process, within affinity and control group."""
    there = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    try:
        if (CGROUP / "cpu.max").exists():
            quota, period = (CGROUP / "cpu.max").read_text("ascii").split()
        else:
            quota, period = (
                (CGROUP / "cpu" / f"cpu.cfs_{name}_us").read_text("ascii")
                for name in ("quota", "period")
            )
        allowed = int(quota) / int(period)  # Processor seconds per second
    except (OSError, ValueError, ZeroDivisionError):  # "max" means no limit
        return there
    return math.ceil(min(there, allowed)) if allowed > 0 else there
