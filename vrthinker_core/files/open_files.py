"""How many files this process may have open: decoding processes and connections to a server count as well as files."""

import sys
from contextlib import suppress

from vrthinker_core.errors import BadInput

if sys.platform != "win32":
    import resource

WANTED = 2**16  # What the limit is raised to, where the system allows as much
OF_PAIR = 10  # that a pair in hand takes at most: both of its decoding processes, and a conversation with a server
OF_PROCESS = 50  # of the process itself


def allow_open_files() -> int:
    """Raise the limit of this process, which is often 1,024, as far as it may do so itself; gives the limit."""
    if sys.platform == "win32":
        return WANTED  # there is no such limit
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
    """Let this process have the files open that so many pairs in hand take. Raises BadInput where it may not."""
    limit = allow_open_files()
    most = max(1, (limit - OF_PROCESS) // OF_PAIR)
    if concurrency > most:
        raise BadInput(
            f"A concurrency of {concurrency:,} needs more than the {limit:,} files that this process may have open: "
            f"give a number up to {most:,}, or raise the limit with `ulimit -n`."
        )
