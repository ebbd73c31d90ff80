"""python -m tests.benchmarks [NAME ...] [--quick] [--gpu] [--update-readme]

Lists the benchmarks; with names, runs these.

Each runs in a process of its own, as `python -m tests.benchmarks.NAME` does; then one sentence says what it found. With
`--update-readme` that sentence goes into the README's table of measurements. Figures of `--quick` are not written there, nor those
of a benchmark that failed.
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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.benchmarks.tools import benchmark_parser
from vrthinker_core.system import cpu_count

BENCHMARKS = (
    "turns", "video", "batch", "decode", "nano", "server", "page", "load", "kills", "attacks",
)  # fmt: skip
"""In the order of the README."""

FOLDER = Path(__file__).parent
ROOT = FOLDER.parents[1]
README, SHORT = FOLDER / "README.md", ROOT / "README.md"  # The second shows some of the rows
START, END = "<!-- benchmarks -->\n", "<!-- /benchmarks -->"
HEADER = "| command | what it compares | what it found | on |\n|---|---|---|---|\n"


def main() -> int:
    """List or run benchmarks; returns the exit status."""
    options = _options()
    if not options.names:
        print("\n".join(f"{name:8} {summary(name)}" for name in BENCHMARKS))
        return 0
    if options.update_readme:
        # A README without the table is refused before anything runs for hours
        read_rows(README.read_text("utf-8"))
    failed = False
    for name in options.names:
        flags = [f"--{flag}" for flag in ("quick", "gpu") if getattr(options, flag)]
        command = ["-m", f"tests.benchmarks.{name}", *flags]
        status, last_line = run_python(command)
        if status != 0:
            failed = True
            said = f"{name} ended with exit status {status}; nothing of it goes into the README."
            print(said, file=sys.stderr)
            continue
        row = make_row(name, " ".join(["python", *command]), json.loads(last_line), options.gpu)
        print(f"{name}: {row.found}", flush=True)
        if options.update_readme:
            README.write_text(replace_row(README.read_text("utf-8"), row), "utf-8")
            if row.command in (each.command for each in read_rows(SHORT.read_text("utf-8"))):
                SHORT.write_text(replace_row(SHORT.read_text("utf-8"), row), "utf-8")
    return int(failed)


def summary(name: str) -> str:
    """What a benchmark compares: the second paragraph of its docstring, read without importing it."""
    docstring = ast.get_docstring(ast.parse((FOLDER / f"{name}.py").read_text("utf-8"))) or ""
    return " ".join(docstring.split("\n\n")[1].split()).removesuffix(".")


def make_row(name: str, command: str, result: dict[str, Any], gpu: bool) -> Row:
    """The README's row for the result that `command` printed on this machine."""
    sentence: str = importlib.import_module(f"tests.benchmarks.{name}").readme_row(result)
    machine = f"{cpu_count()} processor{'' if cpu_count() == 1 else 's'}"
    if gpu:
        import torch

        machine = torch.cuda.get_device_name()
    return Row(command, summary(name), sentence, machine)


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


@dataclass(frozen=True)
class Row:
    """One command and what it found."""

    command: str
    compares: str
    found: str
    machine: str

    def __str__(self) -> str:
        return f"| `{self.command}` | {self.compares} | {self.found} | {self.machine} |\n"

    @classmethod
    def parse(cls, line: str) -> Row:
        """Read a line of the table back. Raises ValueError for a line that is none."""
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if len(cells) != 4:
            raise ValueError(f"not a row of four cells: {line!r}")
        return cls(cells[0].strip("`"), *cells[1:])


def read_rows(readme: str) -> list[Row]:
    """All rows of the table in a README's text. Raises ValueError where there is no such table."""
    _, _, rest = readme.partition(START)
    table, end, _ = rest.partition(END)
    if not end or not table.startswith(HEADER):
        raise ValueError(f"There is no table of measurements between {START.strip()} and {END}.")
    return [Row.parse(line) for line in table.removeprefix(HEADER).splitlines()]


def replace_row(readme: str, row: Row) -> str:
    """The README's text with `row` in place of the same command's, or at the end."""
    if Row.parse(str(row)) != row:
        raise ValueError(f"a cell holds what ends a cell or a row: {row}")
    rows = read_rows(readme)
    commands = [each.command for each in rows]
    if row.command in commands:
        rows[commands.index(row.command)] = row
    else:
        rows.append(row)
    before, _, rest = readme.partition(START)
    return before + START + HEADER + "".join(map(str, rows)) + END + rest.partition(END)[2]


def _options() -> argparse.Namespace:
    gpu = "the shape of the 7B on a GPU, where a benchmark has that form"
    parser = benchmark_parser(__doc__, "the short form", gpu)
    parser.prog = "python -m tests.benchmarks"
    parser.add_argument("names", nargs="*", metavar="NAME", help="what to run; none lists them")
    update = "write what the full form found into the README's table"
    parser.add_argument("--update-readme", action="store_true", help=update)
    options = parser.parse_args()
    if unknown := [name for name in options.names if name not in BENCHMARKS]:
        parser.error(f"there is no benchmark {unknown[0]}; there are {', '.join(BENCHMARKS)}")
    if options.update_readme and options.quick:
        parser.error("figures of --quick are not written to the README; leave out one of the two")
    if not options.names and (options.quick or options.gpu or options.update_readme):
        parser.error("name the benchmarks to run")
    return options


if __name__ == "__main__":
    sys.exit(main())
