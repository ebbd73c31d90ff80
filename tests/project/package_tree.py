"""python -m tests.project.package_tree

Writes the tree in `vrthinker_core/README.md` anew: one line a file, which is the first line of its docstring.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "vrthinker_core"
README = PACKAGE / "README.md"
TREE = re.compile(r"(<!-- tree -->\n```\n).*?(```\n<!-- end of tree -->)", re.DOTALL)


def tree() -> str:
    """The files of the package, each with what it is."""
    return "".join(f"{line}\n" for line in _lines(PACKAGE, ""))


def with_tree(text: str) -> str:
    """The README with the tree of today."""
    return TREE.sub(lambda match: match[1] + tree() + match[2], text)


def _lines(folder: Path, indent: str) -> Iterator[str]:
    yield f"{indent}{folder.name}/".ljust(34) + _first_line(folder / "__init__.py")
    for path in sorted(folder.glob("*.py")):
        if path.name != "__init__.py":
            yield f"{indent}  {path.name}".ljust(34) + _first_line(path)
    for inner in sorted(path for path in folder.iterdir() if (path / "__init__.py").is_file()):
        yield from _lines(inner, indent + "  ")


def _first_line(path: Path) -> str:
    """The first sentence of a file's docstring, on one line."""
    head = (ast.get_docstring(ast.parse(path.read_text("utf-8"))) or "").split("\n\n")[0]
    return " ".join(head.split())


if __name__ == "__main__":
    README.write_text(with_tree(README.read_text("utf-8")), "utf-8")
