"""Every check of the project: `python -m tests [PART ...] [--fast] [pytest arguments]`.

Style and the direction of imports, then the tests, in one process more than there are processors, for many tests wait (`-n 0` for
one process, as a debugger needs it), and the types meanwhile; says which tests were left out and why. Exit status 0 only when all
of them passed. A PART is a folder of tests, a file of them, or a word in a test's name; `--fast` leaves out the browser,
training and what else costs several seconds a file. Neither of the two checks types.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import takewhile
from pathlib import Path

from vrthinker_core.system import cpu_count

TESTS = Path(__file__).resolve().parent
ROOT = TESTS.parent
PYTHON = (sys.executable, "-m")
LINT_IMPORTS = (
    sys.executable,
    "-c",
    "from importlinter.cli import lint_imports_command; lint_imports_command()",
)

CHECKS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("style", (*PYTHON, "ruff", "check", "--no-cache", ".")),
    ("format", (*PYTHON, "ruff", "format", "--no-cache", "--check", ".")),
    ("imports", LINT_IMPORTS),
)
# Torch's threads wait for one another busily, which the others pay for
ONE_THREAD = {"OMP_NUM_THREADS": "1", **os.environ}
COSTLY = """
training test_house.py test_second_try.py test_storage.py test_stream_ends.py
evaluation/test_kills.py evaluation/test_ray_engine.py project/test_readme.py
ui/test_api.py ui/test_mcp.py ui/test_queue.py ui/test_zero_gpu.py backends/test_quantize.py
video/test_browser_copy.py video/test_cost.py video/test_decoding_process.py video/test_exact.py
video/test_reports.py
"""
FAST = ("-m", "not browser", *(f"--ignore={TESTS / each}" for each in COSTLY.split()))
TYPES = (*PYTHON, "mypy", "--no-incremental", "vrthinker_core", "app.py")


def main(arguments: list[str]) -> int:
    """Run everything, also after a failure; gives the exit status. Asked for help, pytest's too."""
    if {"-h", "--help"}.intersection(arguments):
        print(__doc__)
        return subprocess.run((*PYTHON, "pytest", "--help"), cwd=ROOT, check=False).returncode
    words = list(takewhile(lambda each: not each.startswith("-"), arguments))
    options = [*chosen(words), *arguments[len(words) :]]
    if fast := "--fast" in options:
        options[options.index("--fast") : options.index("--fast") + 1] = FAST
    with ThreadPoolExecutor(1) as pool:
        # They take a minute of one processor, while the tests often wait
        types = None if fast or words else pool.submit(_types)
        failed = [name for name, command in CHECKS if not _passes(name, command)]
        if failed:
            print(f"\nfailed before the tests: {', '.join(failed)}", flush=True)
        # A process takes tests that stand together, so that a module's server mostly starts once, and the idle one takes over from
        # the other in the end.
        shared = ("-n", str(min(cpu_count() + 1, 4)), "--dist", "worksteal")
        tests = subprocess.run(
            (*PYTHON, "pytest", "-rs", *shared, *options), cwd=ROOT, env=ONE_THREAD, check=False
        ).returncode
        status, said = types.result() if types else (0, "not checked")
    print(f"== types\n{said}", flush=True)
    return tests or status or int(bool(failed))


def chosen(words: Sequence[str]) -> list[str]:
    """The arguments of pytest for folders, files and, if there is none of that name, words."""
    places, rest = list[str](), list[str]()
    for word in words:
        found = [word] if (ROOT / word.partition("::")[0]).exists() else []
        found = found or [str(path) for path in sorted(TESTS.rglob(word)) if path.is_dir()]
        found = found or [str(path) for path in sorted(TESTS.rglob(f"test_{word}.py"))]
        places += found
        rest += [] if found else [word]
    return [*places, *(("-k", " or ".join(rest)) if rest else ())]


def _types() -> tuple[int, str]:
    """The exit status of the type checker, and what it says."""
    done = subprocess.run(
        TYPES, cwd=ROOT, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    return done.returncode, done.stdout


def _passes(name: str, command: tuple[str, ...]) -> bool:
    print(f"== {name}", flush=True)
    return subprocess.run(command, cwd=ROOT, check=False).returncode == 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
