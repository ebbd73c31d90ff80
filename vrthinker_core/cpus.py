"""What this machine has."""

import math
import os
import sys
from pathlib import Path

CGROUP = Path("/sys/fs/cgroup")
"""What the control group of a container is held to, version 1 or 2."""


def cpu_count() -> int:
    """How many processors this process may use: fewer than there are where it is held to some of them or to a share of time."""
    there = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    return math.ceil(min(there, _time_limit()))


def _time_limit() -> float:
    """Seconds of processor time a second that the control group allows; infinite without a limit."""
    try:
        if (CGROUP / "cpu.max").exists():
            quota, period = (CGROUP / "cpu.max").read_text("ascii").split()
        else:
            quota, period = (
                (CGROUP / "cpu" / f"cpu.cfs_{name}_us").read_text("ascii")
                for name in ("quota", "period")
            )
        allowed = int(quota) / int(period)
    except (OSError, ValueError, ZeroDivisionError):  # "max" among them
        return math.inf
    return allowed if allowed > 0 else math.inf
