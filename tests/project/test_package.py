"""The package: one name for one type, nothing at import, and what a wheel lacks without the files beside it is named."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from vrthinker_core import __about__, open_backend
from vrthinker_core.backends.devices import best_device
from vrthinker_core.errors import BadInput

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "vrthinker_core"


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
    for path in sorted(PACKAGE.rglob("*.py")):
        for name, what in named_types(path):
            names.setdefault(name, set()).add(what)
    assert {name: whats for name, whats in names.items() if len(whats) > 1} == {}


def test_nothing_happens_at_import() -> None:
    """The public names come when they are used: a decoding process, or `--help`, loads neither torch nor Gradio."""
    code = "import sys, vrthinker_core; print(sorted({'torch', 'transformers', 'gradio', 'pydantic', 'cv2', 'av'} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


@pytest.mark.skipif(best_device() != "cpu", reason="torch tells of the GPU")
def test_judges_are_listed_without_torch() -> None:
    code = "import sys; from vrthinker_core.backends.offers import offers; offers([]); print('torch' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "False"


def test_what_a_wheel_lacks_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from vrthinker_core.backends.served_model import recognise
    from vrthinker_core.commands.train_command import resolved_model
    from vrthinker_core.evaluation.html import render_page
    from vrthinker_core.ui.routes import VIEW, joined

    monkeypatch.setattr(__about__, "ASSETS", tmp_path / "assets")
    said = r"assets is missing, and with it .*: use a checkout .* pip install -e"
    for opens in (
        partial(open_backend, "nano"),
        open_backend,
        partial(recognise, {"id": "nano"}, None),
        partial(resolved_model, "nano"),
        partial(render_page, "Report", "", []),
        partial(joined, *VIEW),
    ):
        with pytest.raises(BadInput, match=said):
            opens()
