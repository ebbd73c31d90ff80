"""The limit on open files of this process.

Decoding processes and connections to a server count as files, too.
"""

import sys
from contextlib import suppress

from vrthinker_core.errors import BadInput

if sys.platform != "win32":
    import resource

WANTED = 2**16  # The limit is raised to this, if the system allows it
OF_PAIR = 10  # Most files of one pair: two decoding processes and a server connection
OF_PROCESS = 50  # Files of the process itself


def allow_open_files() -> int:
    """Raise the limit (often 1,024) as far as allowed; return the limit."""
    if sys.platform == "win32":
        return WANTED  # Windows has no such limit
    limit, most = (
        WANTED if found == resource.RLIM_INFINITY else found
        for found in resource.getrlimit(resource.RLIMIT_NOFILE)
    )
    wanted = min(WANTED, most)
    with suppress(OSError, ValueError):  # macOS allows less than it says
        if limit < wanted:
            resource.setrlimit(
                resource.RLIMIT_NOFILE, (wanted, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
            )
            limit = wanted
    return limit


def allow_pairs(concurrency: int) -> None:
    """Raise the limit so that `concurrency` pairs can be judged at once.

    Raises `BadInput` if the process may not have so many files open.
    """
    limit = allow_open_files()
    most = max(1, (limit - OF_PROCESS) // OF_PAIR)
    if concurrency > most:
        raise BadInput(
            f"A concurrency of {concurrency:,} needs more than the {limit:,} files that this "
            f"process may have open: give a number up to {most:,}, or raise the limit with "
            "`ulimit -n`."
        )
