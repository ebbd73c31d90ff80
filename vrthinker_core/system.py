"""What this machine gives: processors, memory, disk, and open files."""

import ctypes
import math
import os
import shutil
import sys
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import fields, is_dataclass
from pathlib import Path

import psutil  # type: ignore[import-untyped]

from vrthinker_core.errors import BadInput

if sys.platform != "win32":
    import resource

CGROUP = Path("/sys/fs/cgroup")  # The control group of a container, version 1 or 2
WANTED_FILES = 2**16  # The limit is raised to this, if the system allows it


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


def free_memory() -> int:
    """Return the free bytes of memory, within the control group's limit.

    Cached file pages count as free: they are evicted on demand.
    """
    free = int(psutil.virtual_memory().available)
    old = CGROUP / "memory"  # Of control groups of version 1
    for folder, limit, used, cached in (
        (CGROUP, "memory.max", "memory.current", "inactive_file"),
        (old, "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    ):
        with suppress(OSError, ValueError):
            lines = (folder / "memory.stat").read_text("ascii").splitlines()
            pages = dict(line.split() for line in lines)
            allowed, taken = (int((folder / name).read_text("ascii")) for name in (limit, used))
            return min(free, max(0, allowed - taken + int(pages.get(cached, 0))))
    return free


def peak_memory() -> int:
    """Return the most bytes of RAM that this process has held."""
    if sys.platform == "win32":
        return int(psutil.Process().memory_info().peak_wset)
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else 1024 * most  # Linux counts in kB


def memory_of(value: object) -> int:
    """Return the bytes of memory that a value of our types or of JSON takes."""
    parts: Iterable[object] = value if isinstance(value, tuple | list) else ()
    if isinstance(value, dict):
        parts = value.values()
    if is_dataclass(value):
        parts = (getattr(value, field.name) for field in fields(value))
    return sys.getsizeof(value) + sum(map(memory_of, parts))


def give_back_memory() -> None:
    """Return freed memory to the system: glibc keeps it otherwise."""
    with suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)


def free_disk(folder: Path) -> int:
    """Return the free bytes of the disk for a folder, which may not exist yet."""
    existing = next(each for each in (folder, *folder.parents) if each.exists())
    return shutil.disk_usage(existing).free


def allow_open_files() -> int:
    """Raise the limit (often 1,024) as far as allowed; return the limit."""
    if sys.platform == "win32":
        return WANTED_FILES  # Windows has no such limit
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit, most = (WANTED_FILES if each == resource.RLIM_INFINITY else each for each in limits)
    if limit < (wanted := min(WANTED_FILES, most)):
        with suppress(OSError, ValueError):  # macOS allows less than it says
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, limits[1]))
            return wanted
    return limit


def allow_pairs(concurrency: int) -> None:
    """Raise the limit for `concurrency` pairs at once. Raises `BadInput` if that fails."""
    limit = allow_open_files()
    # The process itself has 50 files; a pair has two decoding processes and a server connection
    most = max(1, (limit - 50) // 10)
    if concurrency > most:
        raise BadInput(
            f"A concurrency of {concurrency:,} needs more than the {limit:,} files that this "
            f"process may have open: give a number up to {most:,}, or raise the limit with "
            "`ulimit -n`."
        )
