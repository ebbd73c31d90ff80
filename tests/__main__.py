"""Every check of the project: `python -m tests [pytest arguments]`.

Style, types, the direction of imports, then the tests, in one process more than there are processors, for many tests wait (`-n 0`
for one process, as a debugger needs it); says at the end which tests were left out and why. Exit status 0 only when all of them
passed.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from vrthinker_core.cpus import cpu_count

ROOT = Path(__file__).resolve().parents[1]
PYTHON = (sys.executable, "-m")
LINT_IMPORTS = (sys.executable, "-c", "from importlinter.cli import lint_imports_command; lint_imports_command()")

CHECKS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("style", (*PYTHON, "ruff", "check", "--no-cache", ".")),
    ("format", (*PYTHON, "ruff", "format", "--no-cache", "--check", ".")),
    ("types", (*PYTHON, "mypy", "--no-incremental", "vrthinker_core", "app.py")),
    ("imports", LINT_IMPORTS),
)


def main(arguments: list[str]) -> int:
    """Run everything, also after a failure; gives the exit status."""
    failed = [name for name, command in CHECKS if not _passes(name, command)]
    if failed:
        print(f"\nfailed before the tests: {', '.join(failed)}", flush=True)
    # A process takes tests that stand together, so that a module's server mostly starts once, and the idle one takes over from the
    # other in the end.
    shared = ("-n", str(min(cpu_count() + 1, 4)), "--dist", "worksteal")
    tests = subprocess.run((*PYTHON, "pytest", "-rs", *shared, *arguments), cwd=ROOT, check=False).returncode
    return tests or int(bool(failed))


def _passes(name: str, command: tuple[str, ...]) -> bool:
    print(f"== {name}", flush=True)
    return subprocess.run(command, cwd=ROOT, check=False).returncode == 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
