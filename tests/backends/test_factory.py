"""Importing the protocols, the factory and the file checks is cheap, and the default checkpoint is a published one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from vrthinker_core.backends import (
    DEFAULT_CHECKPOINT,
    default_choice,
    offers,
    open_backend,
)
from vrthinker_core.backends.checkpoint_files import PUBLISHED_PROTOCOLS
from vrthinker_core.backends.discover import LocalServer
from vrthinker_core.backends.judge_name import parse_judge
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


OLLAMA = LocalServer("Ollama", "http://127.0.0.1:11434/v1", ("qwen2.5vl:7b",))


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes a machine of a device, its free gigabytes, and servers."""

    def make(device: str, free: float, *servers: LocalServer) -> None:
        monkeypatch.setattr(offers, "best_device", lambda: device)
        monkeypatch.setattr(offers, "available_memory", lambda _: int(free * 1e9))
        monkeypatch.setattr(offers, "local_servers", lambda: list(servers))

    return make


@pytest.mark.parametrize(
    ("device", "free", "servers", "choice"),
    [
        ("cuda", 24, (), "hf:qunwang13/vrthinker"),
        ("mps", 24, (OLLAMA,), "hf:qunwang13/vrthinker"),
        ("cuda", 12, (OLLAMA,), "hf:qunwang13/vrthinker?quantize=4bit"),
        ("cuda", 6, (OLLAMA,), "local:qwen2.5vl:7b"),
        ("cpu", 64, (OLLAMA,), "local:qwen2.5vl:7b"),
        ("cpu", 64, (), "nano"),
        ("cuda", 6, (LocalServer("Ollama", "http://127.0.0.1:1/v1", ()),), "nano"),
    ],
)
def test_the_default_is_the_best_that_fits(
    machine: Any, device: str, free: float, servers: tuple[LocalServer, ...], choice: str
) -> None:
    machine(device, free, *servers)
    assert default_choice() == choice


def test_what_does_not_run_says_what_it_lacks(
    machine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine("cuda", 12, OLLAMA)
    monkeypatch.setenv("GEMINI_API_KEY", "key")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    found = {offer.judge: offer for offer in offers.offers([OLLAMA])}
    assert all(parse_judge(name) for name in found)
    assert "12.0 GB are free" in found["hf:qunwang13/vrthinker"].missing
    assert found["hf:qunwang13/vrthinker?quantize=4bit"].missing == ""
    assert (found["local:qwen2.5vl:7b"].missing, found["gemini:MODEL"].missing) == ("", "")
    assert "OPENAI_API_KEY" in found["openai:MODEL"].missing
    assert [offer.judge for offer in found.values() if not offer.real_videos] == ["nano"]


def test_the_command_prints_the_table_and_the_default() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "vrthinker_core", "judges"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "hf:qunwang13/vrthinker?quantize=4bit" in done.stdout
    assert done.stdout.splitlines()[-1].startswith("The default here: --judge ")
