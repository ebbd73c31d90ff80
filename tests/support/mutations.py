"""`python -m tests.support.mutations COVERAGE [--seed 56] [--count 60] [--only 3 7]`: which changes of the core do tests find?

Draws changes over all packages, makes each in a copy of the project, and runs those tests that pass over the changed line, the
package's own first, until one fails. COVERAGE is a file of `coverage` whose contexts are ids of tests (`-p tests.support.mutations`
names them while `coverage` measures). A line that runs at import is tested by whatever passes over a line with the same name.
"""

from __future__ import annotations

import argparse
import ast
import copy
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import Queue

import coverage
import pytest

ROOT = Path(__file__).resolve().parents[2]
CORE = "vrthinker_core"
AT_MOST = 500  # tests of one change
SECONDS = 120  # of one test
TURNED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.GtE, ast.LtE: ast.Gt, ast.Gt: ast.LtE, ast.GtE: ast.Lt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
ESCAPES = re.compile(r"escape|quote|saniti[sz]e|plain|redact|strip_controls")


@dataclass(frozen=True)
class Change:
    """One change: the text of a node of the tree, and what stands there instead."""

    path: str
    kind: str
    line: int
    start: int
    end: int
    before: str
    after: str

    @property
    def package(self) -> str:
        parts = Path(self.path).parts
        return parts[1] if len(parts) > 2 else "top"

    def apply(self, folder: Path) -> bytes:
        """Make it; gives the file as it was."""
        source = (folder / self.path).read_bytes()
        (folder / self.path).write_bytes(
            source[: self.start] + self.after.encode() + source[self.end :]
        )
        return source


def changes(path: Path) -> Iterator[Change]:
    """Every change that a file offers."""
    source = path.read_bytes()
    tree = ast.parse(source)
    starts = [0]
    for text in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(text))
    notes = {
        id(inner)
        for node in ast.walk(tree)
        for field in ("annotation", "returns")
        if (note := getattr(node, field, None)) is not None
        for inner in ast.walk(note)
    }
    for node in ast.walk(tree):
        if id(node) in notes or not hasattr(node, "end_lineno"):
            continue
        for kind, target, new in _changed(node):
            start = starts[target.lineno - 1] + target.col_offset
            end = starts[target.end_lineno - 1] + target.end_col_offset
            before = source[start:end].decode()
            yield Change(str(path.relative_to(ROOT)), kind, target.lineno, start, end, before, new)


def _changed(node: ast.AST) -> Iterator[tuple[str, ast.expr | ast.stmt, str]]:
    match node:
        case ast.Compare(ops=[only]):
            new = copy.deepcopy(node)
            new.ops = [TURNED[type(only)]()]
            yield "comparison", node, f"({ast.unparse(new)})"
        case ast.Constant(value=bool() as value):
            yield "constant", node, str(not value)
        case ast.Constant(value=int() | float() as value):
            yield "constant", node, f"({value + 1 if abs(value) < 10 else value * 2})"
        case ast.Expr(value=ast.Call()):
            yield "call", node, "pass"
        case ast.Call(args=[first, second, *_]) if ast.dump(first) != ast.dump(second):
            if not any(isinstance(each, ast.Starred) for each in (first, second)):
                new = copy.deepcopy(node)
                new.args[:2] = [new.args[1], new.args[0]]
                yield "arguments", node, ast.unparse(new)
        case ast.With(items=[item]) if "lock" in ast.unparse(item.context_expr).lower():
            yield "guard", item.context_expr, '__import__("contextlib").nullcontext()'
    if isinstance(node, ast.Call) and len(node.args) == 1 and ESCAPES.search(_name(node.func)):
        yield "guard", node, f"({ast.unparse(node.args[0])})"


def _name(function: ast.expr) -> str:
    return ast.unparse(function).split(".")[-1]


def draw(seed: int, count: int) -> list[Change]:
    """So many, in each package by its lines and at least three, and in each of all kinds."""
    chance = random.Random(seed)
    offered: dict[str, dict[str, list[Change]]] = defaultdict(lambda: defaultdict(list))
    lines: dict[str, int] = defaultdict(int)
    for path in sorted((ROOT / CORE).rglob("*.py")):
        for each in changes(path):
            offered[each.package][each.kind].append(each)
            lines[each.package] += 1
    drawn: list[Change] = []
    wanted = {
        name: max(3, round(count * part / sum(lines.values()))) for name, part in lines.items()
    }
    while sum(wanted.values()) > count:
        wanted[max(wanted, key=lambda name: wanted[name])] -= 1
    for name, number in wanted.items():
        for _ in range(number):
            kind = chance.choice([key for key, value in sorted(offered[name].items()) if value])
            drawn.append(offered[name][kind].pop(chance.randrange(len(offered[name][kind]))))
    return drawn


class Tests:
    """Which tests pass over which line."""

    def __init__(self, measured: Path) -> None:
        self.data = coverage.CoverageData(str(measured))
        self.data.read()
        self.files = {
            f"{CORE}{name.rpartition(CORE)[2]}": name for name in self.data.measured_files()
        }

    def at(self, path: str, line: int) -> set[str]:
        found = (
            self.data.contexts_by_lineno(self.files[path]).get(line, ())
            if path in self.files
            else ()
        )
        return {re.sub(r" \((setup|call|teardown)\)$", "", name) for name in found if name}

    def of(self, change: Change) -> list[str]:
        found = self.at(change.path, change.line) or self._of_names(change)
        near = f"tests/{change.package}/"
        return sorted(found, key=lambda name: (near not in name, "journeys" in name, name))[
            :AT_MOST
        ]

    def _of_names(self, change: Change) -> set[str]:
        tree = ast.parse((ROOT / change.path).read_bytes())
        top = next(
            node for node in tree.body if node.lineno <= change.line <= (node.end_lineno or 0)
        )
        names = {
            node.id
            for node in ast.walk(top)
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        }
        names |= {node.name for node in [top] if isinstance(node, ast.ClassDef | ast.FunctionDef)}
        pattern = re.compile(rf"\b({'|'.join(names) or '$^'})\b")
        found: set[str] = set()
        for path in sorted((ROOT / CORE).rglob("*.py")):
            for number, text in enumerate(path.read_text("utf-8").splitlines(), 1):
                if pattern.search(text):
                    found |= self.at(str(path.relative_to(ROOT)), number)
        return found or {name for line in range(5000) for name in self.at(change.path, line)}


def try_out(change: Change, tests: list[str], folder: Path) -> str:
    """The test that found it, or how many did not."""
    if not tests:
        return "SURVIVED: no test passes here"
    before = change.apply(folder)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-x",
        "-q",
        "-p",
        "no:cacheprovider",
        f"--timeout={SECONDS}",
    ]
    try:
        done = subprocess.run(
            [*command, *tests],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
            errors="replace",
        )
    finally:
        (folder / change.path).write_bytes(before)
    if done.returncode == 0:
        return f"SURVIVED {len(tests)} tests"
    first = re.search(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE)
    return (
        f"found by {first[1]}"
        if first
        else f"found, status {done.returncode}: {done.stdout[-200:]!r}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("coverage", type=Path)
    parser.add_argument("--seed", type=int, default=56)
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--only", type=int, nargs="*")
    options = parser.parse_args()
    tests, folders = Tests(options.coverage), Queue[Path]()
    drawn = list(enumerate(draw(options.seed, options.count)))
    with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor(2) as pool:
        for side in ("one", "two"):
            ignored = shutil.ignore_patterns(".git", ".venv", "__pycache__", ".*_cache")
            shutil.copytree(ROOT, Path(name, side), ignore=ignored)
            folders.put(Path(name, side))

        def tell(number: int, change: Change) -> None:
            folder = folders.get()
            said = try_out(change, tests.of(change), folder)
            folders.put(folder)
            print(
                f"{number} {change.path}:{change.line} {change.kind}: {change.before} -> {change.after}: {said}",
                flush=True,
            )

        for number, change in drawn:
            if options.only is None or number in options.only:
                pool.submit(tell, number, change)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Name the test while coverage measures."""
    if (measuring := coverage.Coverage.current()) is not None:
        measuring.switch_context(item.nodeid)
    return (yield)


if __name__ == "__main__":
    main()
