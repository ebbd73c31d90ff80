"""Importing the protocols, the factory and the file checks is cheap, and the default checkpoint is a published one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from vrthinker_core.backends import DEFAULT_CHECKPOINT, ScriptedBackend, open_backend
from vrthinker_core.backends.checkpoint_files import PUBLISHED_PROTOCOLS
from vrthinker_core.errors import BadInput

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    "module",
    [
        "backends",
        "backends.base",
        "backends.factory",
        "backends.server_backend",
        "backends.checkpoint_files",
    ],
)
def test_import_does_not_import_torch(module: str) -> None:
    code = f"import sys, vrthinker_core.{module}; print(sorted({{'torch', 'transformers'}} & set(sys.modules)))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_protocol_of_the_default_checkpoint_is_known() -> None:
    assert DEFAULT_CHECKPOINT in PUBLISHED_PROTOCOLS


DEEP = "[" * 200_000 + "]" * 200_000
SCRIPTS = {
    "nested deeply": f'{{"reply": {DEEP}}}',
    "nested deeply beside the reply": f'{{"reply": "x", "more": {DEEP}}}',
    "never closed": '{"reply": ' + "[" * 200_000,
    "a number of 5,000 digits": f'{{"reply": {"9" * 5000}}}',
    "not UTF-8": '{"reply": "\udcff"}',
    "no object": "7",
    "no reply": '{"name": "x"}',
    "an unknown protocol": '{"reply": "x", "protocol": "both"}',
    "a protocol that is a list": '{"reply": "x", "protocol": ["paired"]}',
    "a name that is a number": '{"reply": "x", "name": 7}',
    "a pause that is a text": '{"reply": "x", "pause": "long"}',
    "a negative pause": '{"reply": "x", "pause": -1}',
    "a pause that is no number": '{"reply": "x", "pause": NaN}',
    "an endless pause": '{"reply": "x", "pause": 1e999}',
}


@pytest.mark.parametrize("text", SCRIPTS.values(), ids=SCRIPTS)
def test_script_that_cannot_be_used_is_one_sentence(tmp_path: Path, text: str) -> None:
    path = tmp_path / "script.jsonl"
    path.write_text(text, "utf-8", "surrogateescape")
    with pytest.raises(BadInput) as caught:
        open_backend(f"scripted:{path}")
    assert "script.jsonl" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("end", ["\u2028", "\u2029", "\x85", "\x1c"], ids=ascii)
def test_a_script_may_hold_every_character_that_ends_a_line_elsewhere(
    tmp_path: Path, end: str
) -> None:
    path = tmp_path / "script.jsonl"
    path.write_text(
        f"\ufeff{json.dumps({'reply': 'one' + end + 'two'}, ensure_ascii=False)}\n\n", "utf-8"
    )
    backend = open_backend(f"scripted:{path}")
    assert isinstance(backend, ScriptedBackend)
    assert backend.script == [f"one{end}two"]


def test_a_torchvision_of_another_torch_is_one_sentence(tmp_path: Path) -> None:
    """PyPI's wheel beside torch for processors: importing it fails, and with it every model of transformers."""
    (tmp_path / "torchvision").mkdir()
    (tmp_path / "torchvision" / "__init__.py").write_text("raise RuntimeError('no such operator')")
    about = tmp_path / "torchvision-0.28.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: torchvision\nVersion: 0.28.0\n")
    code = "from vrthinker_core import open_backend; open_backend('nano')"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(tmp_path)])}
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False
    )
    assert "pip uninstall torchvision" in found.stderr
