"""python -m tests.support.profiled CORE OUT now|later PROGRAM [ARGUMENTS]

Run a module or a script and write to OUT which files below CORE ran a function: from the start, or from SIGUSR1 to SIGUSR2.
"""

from __future__ import annotations

import json
import signal
import sys
import threading
from pathlib import Path
from runpy import run_module, run_path
from types import FrameType

OPTIMIZED = 1  # A flag of the code of functions: module and class bodies have it not


def main(core: str, out: str, when: str, program: str, *arguments: str) -> None:
    seen: set[str] = set()
    counting = threading.Event()

    def count(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        named = code.co_flags & OPTIMIZED and not code.co_name.startswith("<")
        of_core = code.co_filename.startswith(f"{core}/")
        if event == "call" and counting.is_set() and named and of_core:
            seen.add(code.co_filename)

    def write(*_: object) -> None:
        counting.clear()
        Path(out).write_text(json.dumps(sorted(seen)))

    signal.signal(signal.SIGUSR1, lambda *_: counting.set())
    signal.signal(signal.SIGUSR2, write)  # The page's own end runs nothing more
    if when == "now":
        counting.set()
    threading.setprofile(count)
    sys.argv = [program, *arguments]
    if when == "later":
        run_path(program, run_name="__main__")  # Its threads serve; the imports stay fast
        return
    sys.setprofile(count)
    try:
        run_module(program, run_name="__main__")
    finally:
        write()


if __name__ == "__main__":
    main(*sys.argv[1:])
