"""python -m tests.benchmarks [NAME ...] [--quick] [--gpu]

Lists the benchmarks; with names, runs these.

Each runs in a process of its own, as `python -m tests.benchmarks.NAME` does; then its row for the README's table is printed.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.benchmarks.tools import benchmark_parser
from vrthinker_core.system import cpu_count

BENCHMARKS = ("turns", "video", "batch", "decode", "nano", "server", "load", "paint", "measure", "kills", "attacks")  # fmt: skip
"""In the order of the README."""

FOLDER = Path(__file__).parent
ROOT = FOLDER.parents[1]


def main() -> int:
    """List or run benchmarks; returns the exit status."""
    options = _options()
    if not options.names:
        print("\n".join(f"{name:8} {summary(name)}" for name in BENCHMARKS))
        return 0
    failed = False
    for name in options.names:
        flags = [f"--{flag}" for flag in ("quick", "gpu") if getattr(options, flag)]
        command = ["-m", f"tests.benchmarks.{name}", *flags]
        status, last_line = run_python(command)
        if status != 0:
            failed = True
            print(f"{name} ended with exit status {status}.", file=sys.stderr)
            continue
        row = make_row(name, " ".join(["python", *command]), json.loads(last_line), options.gpu)
        print(row, flush=True)
    return int(failed)


def summary(name: str) -> str:
    """What a benchmark compares: the second paragraph of its docstring, read without importing it."""
    docstring = ast.get_docstring(ast.parse((FOLDER / f"{name}.py").read_text("utf-8"))) or ""
    return " ".join(docstring.split("\n\n")[1].split()).removesuffix(".")


def make_row(name: str, command: str, result: dict[str, Any], gpu: bool) -> str:
    """The README's row for the result that `command` printed on this machine."""
    sentence: str = importlib.import_module(f"tests.benchmarks.{name}").readme_row(result)
    machine = f"{cpu_count()} processor{'' if cpu_count() == 1 else 's'}"
    if gpu:
        import torch

        machine = torch.cuda.get_device_name()
    return f"| `{command}` | {summary(name)} | {sentence} | {machine} |"


def run_python(arguments: Sequence[str]) -> tuple[int, str]:
    """Run in a process of its own, and print what it prints as it comes; gives the exit status and the last line."""
    last_line = ""
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        [sys.executable, *arguments], cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True
    ) as process:
        for line in process.stdout:
            print(line, end="", flush=True)
            last_line = line.strip() or last_line
    return process.returncode, last_line


def _options() -> argparse.Namespace:
    gpu = "the shape of the 7B on a GPU, where a benchmark has that form"
    parser = benchmark_parser(__doc__, "the short form", gpu)
    parser.prog = "python -m tests.benchmarks"
    parser.add_argument("names", nargs="*", metavar="NAME", help="what to run; none lists them")
    options = parser.parse_args()
    if unknown := [name for name in options.names if name not in BENCHMARKS]:
        parser.error(f"there is no benchmark {unknown[0]}; there are {', '.join(BENCHMARKS)}")
    if not options.names and (options.quick or options.gpu):
        parser.error("name the benchmarks to run")
    return options


if __name__ == "__main__":
    sys.exit(main())
