"""The shape of the code, so that whoever comes next finds a thing by its name and reads it in one screen."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.project.package_tree import PACKAGE, README, ROOT, with_tree

WHERE = {
    "KV cache": "backends/local/engine/kv_cache.py",
    "prefill": "backends/local/engine/kv_cache.py",
    "detokenizer": "backends/local/text/detokenizer.py",
    "chat template": "backends/local/text/chat_template.py",
    "CUDA graph": "backends/local/engine/decode_step.py",
    "batch": "backends/local/engine/batch_decoding.py",
    "vision encoder": "backends/local/engine/vision_encoder.py",
    "worker pool": "video/processes/pool.py",
    "fork server": "video/processes",
    "session": "ui/sessions/sessions.py",
    "waiting room": "ui/sessions/waiting_room.py",
    "origin guard": "ui/server/origin_guard.py",
    "request limits": "ui/server/request_limits.py",
}
"""Where a search for the field's word must lead: to the docstring at the head of that file."""


def python_files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*.py") if "__pycache__" not in path.parts)


def named_types(path: Path) -> Iterator[tuple[str, str]]:
    """The classes of a file and the types it gives a name to at its top, each with what it is."""
    tree = ast.parse(path.read_text("utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            yield node.name, f"a class in {path.relative_to(ROOT)}"
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and not _is_type_variable(node.value):
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                if re.fullmatch(r"_?[A-Z]\w*[a-z]\w*", name := ast.unparse(target)):
                    yield name, ast.unparse(node.value or node)


def _is_type_variable(value: ast.expr | None) -> bool:
    return isinstance(value, ast.Call) and ast.unparse(value.func) in ("TypeVar", "ParamSpec")


def test_one_name_for_one_type() -> None:
    names: dict[str, set[str]] = {}
    for path in python_files(PACKAGE):
        for name, what in named_types(path):
            names.setdefault(name, set()).add(what)
    assert {name: whats for name, whats in names.items() if len(whats) > 1} == {}


@pytest.mark.parametrize(("word", "place"), WHERE.items(), ids=WHERE)
def test_the_fields_word_leads_to_its_file(word: str, place: str) -> None:
    files = python_files(PACKAGE / place) if (PACKAGE / place).is_dir() else [PACKAGE / place]
    heads = " ".join(ast.get_docstring(ast.parse(path.read_text("utf-8"))) or "" for path in files)
    assert re.search(rf"\b{word}", heads, re.IGNORECASE), heads


@pytest.mark.parametrize(("start", "most"), [("cli.py", 8), ("../app.py", 12)])
def test_one_comparison_is_a_short_walk(start: str, most: int) -> None:
    """The package's README names the files from a person's request to the verdict, in order; every one of them exists."""
    text = README.read_text("utf-8")
    walk = re.search(rf"<!-- walk from {re.escape(Path(start).name)} -->(.*?)<!-- end -->", text, re.DOTALL)
    assert walk is not None
    named = re.findall(r"^\d+\. `([^`]+)`", walk[1], re.MULTILINE)
    assert named[0] == Path(start).name
    assert len(named) <= most
    assert [name for name in named if not ((PACKAGE / name).is_file() or (ROOT / name).is_file())] == []


def test_the_readme_of_the_package_has_a_line_for_every_file() -> None:
    text = README.read_text("utf-8")
    assert text == with_tree(text), "run python -m tests.project.package_tree"


def test_the_readme_of_the_package_names_every_variable_of_the_tests() -> None:
    texts = [path.read_text("utf-8") for path in python_files(ROOT / "tests")]
    used = {name for text in texts for name in re.findall(r"VRT_[A-Z]+(?:_[A-Z]+)*", text)}
    assert set(re.findall(r"^\| `(VRT_\w+)", README.read_text("utf-8"), re.MULTILINE)) == used


def test_nothing_happens_at_import() -> None:
    """The public names come when they are used: a decoding process, or `--help`, loads neither torch nor Gradio."""
    code = (
        "import sys, vrthinker_core; print(sorted({'torch', 'transformers', 'gradio', 'pydantic', 'cv2', 'av'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
