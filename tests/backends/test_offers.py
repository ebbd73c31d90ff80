"""What runs on a machine is listed, with what the rest needs; the default is the best that fits."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from vrthinker_core.backends import default_choice, offers
from vrthinker_core.backends.discover import LocalServer
from vrthinker_core.backends.judge_name import parse_judge

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
