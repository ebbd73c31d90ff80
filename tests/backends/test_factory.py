"""Opening a judge: its name, the best one for this machine, a script, a judge of one's own; imports without torch."""

from __future__ import annotations

import json
import logging
import re
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.test_cli import call
from vrthinker_core import VideoPair, compare, open_backend
from vrthinker_core.backends import DEFAULT_CHECKPOINT, default_choice, factory, offers
from vrthinker_core.backends.checkpoint_files import PUBLISHED_PROTOCOLS
from vrthinker_core.backends.judge_name import (
    SERVER_FORM,
    JudgeName,
    judge_title,
    model_title,
    parse_judge,
)
from vrthinker_core.backends.offers import LocalServer
from vrthinker_core.backends.served_model import read_key
from vrthinker_core.errors import BadInput, CheckpointError, explain
from vrthinker_core.ui.judges import judge_openers


class Broken(ModuleType):
    def __getattr__(self, name: str) -> None:
        raise RuntimeError("no such operator")


@pytest.mark.parametrize("module", [None, Broken("checkpoint")], ids=["ImportError", "its own"])
def test_a_torchvision_of_another_torch_is_one_sentence(
    module: ModuleType | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Transformers imports an installed torchvision, and fails with it."""
    monkeypatch.setitem(sys.modules, "vrthinker_core.backends.checkpoint", module)
    monkeypatch.setattr(factory, "find_spec", lambda _: None)
    with pytest.raises((ImportError, RuntimeError)):
        open_backend("nano")
    monkeypatch.setattr(factory, "find_spec", lambda name: name == "torchvision")
    with pytest.raises(CheckpointError, match="pip uninstall torchvision"):
        open_backend("nano")


# -- scripts -------------------------------------------------------------------------------------------------------------

DEEP = "[" * 200_000 + "]" * 200_000
SCRIPTS = {
    "nested deeply": f'{{"reply": {DEEP}}}',
    "a number of 5,000 digits": f'{{"reply": {"9" * 5000}}}',
    "not UTF-8": '{"reply": "\udcff"}',
    "no object": "7",
    "no reply": '{"name": "x"}',
    "an unknown protocol": '{"reply": "x", "protocol": "both"}',
    "a pause that is a text": '{"reply": "x", "pause": "long"}',
    "a negative pause": '{"reply": "x", "pause": -1}',
    "a pause that is no number": '{"reply": "x", "pause": NaN}',
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


def test_a_script_may_hold_every_character_that_ends_a_line_elsewhere(tmp_path: Path) -> None:
    path, reply = tmp_path / "script.jsonl", "one\u2028two\u2029three\x85four\x1cfive"
    line = json.dumps({"reply": reply}, ensure_ascii=False)
    path.write_text(f"\ufeff{line}\n\n", "utf-8")
    assert open_backend(f"scripted:{path}").script == [reply]


# -- the best judge of a machine -----------------------------------------------------------------------------------------

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
    assert DEFAULT_CHECKPOINT in PUBLISHED_PROTOCOLS


def test_what_does_not_run_says_why(machine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_the_command_prints_the_table_and_the_default(machine: Any) -> None:
    machine("cuda", 12)
    status, shown, _ = call("judges")
    *_, last = shown.splitlines()
    assert status == 0
    assert "hf:qunwang13/vrthinker?quantize=4bit" in shown
    assert last.startswith("The default here: --judge ")


# -- a judge of one's own ------------------------------------------------------------------------------------------------

SOURCE = """
import os
from collections.abc import Sequence
from vrthinker_core import Frame, Message, ScriptedBackend

seen: list[Frame] = []

def reply(messages: Sequence[Message]) -> str:
    seen.extend(messages[-1].frames)
    return "<Answer>TA=0, MQ=0, VQ=2, OA=1</Answer>"

judge = ScriptedBackend(reply, name="mine")
broken = ScriptedBackend(lambda messages: messages[9].text, name="broken")

class Made(ScriptedBackend):
    def __init__(self) -> None:
        super().__init__(reply, name="made")

def make() -> ScriptedBackend: return judge
def fail() -> None: os.stat("/no/such/place")
def leave() -> None: raise SystemExit(0)
class Half: name, notes = "half", ()
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The current folder, which has a module; no import outlives it."""
    (tmp_path / "vrt_mine.py").write_text(SOURCE)
    (tmp_path / "vrt_torn.py").write_text("import vrt_absent")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield
    sys.modules.pop("vrt_mine", None)


@pytest.mark.usefixtures("folder")
def test_an_instance_a_class_or_a_function_gives_the_judge() -> None:
    for attribute, name in (("judge", "mine"), ("Made", "made"), ("make", "mine")):
        choice = f"python:vrt_mine:{attribute}"
        assert (open_backend(choice).name, judge_title(choice)) == (name, f"vrt_mine.{attribute}")


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("choice", "says"),
    [
        ("./vrt_mine.py:judge", "Write python:MODULE:ATTRIBUTE"),
        ("vrt_missing:judge", "ModuleNotFoundError: No module named 'vrt_missing'."),
        ("vrt_torn:judge", "ModuleNotFoundError: No module named 'vrt_absent'."),
        ("vrt_mine:jugde", "has no attribute 'jugde'."),
        ("vrt_mine:fail", "FileNotFoundError: No such file or directory."),
        ("vrt_mine:leave", "SystemExit: 0."),
        ("vrt_mine:seen", "is no Backend: it has no name, "),
        ("vrt_mine:Half", "it has no protocols, follows_instructions, scope, open_conversation."),
    ],
)
def test_what_is_no_judge_is_one_sentence_and_its_traceback_is_logged(
    choice: str, says: str, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(BadInput) as caught:
        open_backend(f"python:{choice}")
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)
    unknown = caught.value.__cause__
    logged = [each.exc_info and each.exc_info[1] for each in caplog.records]
    assert logged == [unknown] * bool(unknown)


@pytest.mark.parametrize(
    "secret",
    [
        "/home/anna/my secret dir/x", "'/home/anna/my secret dir/x'", "https://u:pw@host/v1", "C:\\Users\\anna", "sk-123",
        "Bearer abc", "anna@host", "file:///home/anna",
    ],
)  # fmt: skip
def test_no_path_address_or_key_of_an_error_is_shown(secret: str) -> None:
    told = explain("The judge failed", ValueError(f"no way to {secret} from here"))
    assert not re.search("anna|pw|123|abc", told)
    assert told.startswith("The judge failed: ValueError: no way to …")


def test_a_backend_with_wrong_parts_is_refused_before_the_run(pair: VideoPair) -> None:
    right = {"name": "a", "protocols": (), "notes": (), "scope": "any"}
    right |= {"follows_instructions": True}
    for odd in ({"name": 5}, {"notes": "text"}, {"protocols": "paired"}, {"scope": "all"}):
        with pytest.raises(BadInput, match=rf"is no Backend: wrong {next(iter(odd))}\.$"):
            compare(pair, SimpleNamespace(**right | odd))  # type: ignore[arg-type]
    with pytest.raises(BadInput, match="int is no Backend"):
        compare(pair, 5)  # type: ignore[arg-type]


@pytest.mark.usefixtures("folder")
def test_the_command_line_takes_it_and_shows_no_traceback(
    clips: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger(), "handlers", [])  # As in a process of its own
    compare = ["compare", *map(str, clips), "--prompt", "A red ball.", "--json", "--judge"]
    status, labels, _ = call(*compare, "python:vrt_mine:judge")
    assert (status, json.loads(labels)) == (0, {"TA": 0, "MQ": 0, "VQ": 2, "OA": 1})
    teacher = ["teacher", "--data", "drawn:1", "--pairs", "1", "--out", "taught", "--judge"]
    for words, ended in ((compare, 3), (teacher, 2)):
        status, _, said = call(*words, "python:vrt_mine:broken")
        assert (status, "Traceback" in said) == (ended, False)
        assert "The judge failed: IndexError: " in said
    for frame in sys.modules["vrt_mine"].seen:
        assert frame.array.shape == (frame.height, frame.width, 3)
        assert np.array_equal(frame.array, np.asarray(frame.image))


# -- names -------------------------------------------------------------------------------------------------------------


HOST = "http://[::1]:8000/v1"


def refused(text: str) -> str:
    """The sentence that refuses a judge."""
    with pytest.raises(BadInput) as caught:
        open_backend(text)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "judge"),
    [
        ("nano", JudgeName("nano")),
        ("hf:qunwang13/vrthinker", JudgeName("hf", "qunwang13/vrthinker")),
        ("hf:a/b?quantize=4bit&device=cuda:1", JudgeName("hf", "a/b", "", "4bit", "cuda:1")),
        (f"server:{HOST}", JudgeName("server", HOST)),
        (f"server:{HOST}/#org/model:free", JudgeName("server", HOST, "org/model:free")),
        (f"server:{HOST}#?protocol=paired", JudgeName("server", HOST, protocol="paired")),
        (f"server:{HOST}/?protocol=paired", JudgeName("server", HOST, protocol="paired")),
        ("local:qwen2.5vl:7b", JudgeName("local", "qwen2.5vl:7b")),
        ("local?protocol=paired", JudgeName("local", protocol="paired")),
        ("openrouter:qwen/qwen3-vl-8b:free", JudgeName("openrouter", "qwen/qwen3-vl-8b:free")),
        ("scripted:/a?b=c.jsonl", JudgeName("scripted", "/a?b=c.jsonl")),
    ],
)
def test_a_name_is_read_and_written_again(text: str, judge: JudgeName) -> None:
    assert parse_judge(text) == judge
    assert parse_judge(str(judge)) == judge


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "nano"), ("nano:x", "nano"), ("hf", "hf:"), ("hf:", "hf:"), ("gpt-5", "openai:"), ("HF:a/b", "hf:"),
        ("hf:a/b?quantize=2bit", "4bit"), ("hf:a/b?quantise=4bit", "quantize"), ("hf:a/b?device=tpu", "mps"),
        ("hf:a/b?device=cuda&device=cpu", "option"), ("hf:a/b?protocol=paired", "quantize"),
        ("openai:gpt-5?quantize=4bit", "protocol"), ("nano?quantize=4bit", "none"), ("local?protocol=x", "paired"),
    ],
)  # fmt: skip
def test_a_name_that_cannot_be_read_is_one_sentence_that_says_what_to_write(
    text: str, says: str
) -> None:
    assert says in refused(text)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("Nano", "nano"), ("nano:x", "nano"), ("Local", "local"), ("open-router:a/b", "openrouter:a/b"),
        ("openai", "openai:MODEL"), ("gpt-5.2", "openai:gpt-5.2"), ("gemini", "gemini:MODEL"),
        ("qunwang13/vrthinker?quantize=4bit", "hf:qunwang13/vrthinker"), ("HF:a/b", "hf:a/b"),
        ("{folder}", "hf:{folder}"), ("localhost:8000/v1", SERVER_FORM), ("gpt-4o?key=hunter2", "openai:gpt-4o"),
        ("hf: ?device=cpu", "hf:ID_OR_FOLDER"), ("script:a.jsonl", "scripted:a.jsonl"),
    ],
)  # fmt: skip
def test_a_near_miss_is_told_what_was_meant(text: str, meant: str, tmp_path: Path) -> None:
    told = refused(text.format(folder=tmp_path))
    assert told.endswith(f" Did you mean {meant.format(folder=tmp_path)}?")


@pytest.mark.parametrize(
    "text",
    [
        "http://someone:hunter2@host/v1#m", "http://hunter2@host/v1", "http://host/v1?api_key=hunter2#m", "host:8000#m",
        "ftp://host/hunter2", "http://", "http://host:99999/v1", "http://host:x/hunter2", "http://[/v1",
        "http://[::1]x/hunter2", "http://\u2603\u2603.c/hunter2", "http://host/hunter2\0v1", "http://host/v1" + "/hunter2" * 20_000,
        "http://host/v1#m?protocol=hunter2", "http://host/v1#m?key=hunter2", "http://host/v1#m?protocol=paired&key=hunter2",
        "http://host/v1?protocol=hunter2", "http://host/v1?api-version=hunter2", "http://host/v1?protocol=paired&key=hunter2",
        "http://host/v1?api-version=hunter2#m?protocol=paired", "http://host/v1?protocol=hunter2#m",
    ],
)  # fmt: skip
def test_an_address_that_cannot_be_used_is_one_sentence_without_a_secret(text: str) -> None:
    assert "hunter2" not in refused(f"server:{text}")
    assert "hunter2" not in judge_title(f"server:{text}")


@pytest.mark.parametrize("proxy", ["socks5://127.0.0.1:1", "nonsense://hunter2@proxy"])
def test_a_proxy_that_cannot_be_used_is_one_sentence_that_names_its_variable(
    proxy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ALL_PROXY", proxy)
    with pytest.raises(BadInput, match="ALL_PROXY") as caught:
        open_backend("server:http://host.invalid/v1#m")
    assert "hunter2" not in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not [thread for thread in threading.enumerate() if thread.name == "list of models"]


@pytest.mark.parametrize("kind", ["sever:", "", "Openai:", "hunter2 "])
def test_a_mistyped_kind_of_judge_repeats_no_secret(kind: str) -> None:
    told = refused(f"{kind}http://someone:hunter2@host/v1?key=hunter2")
    assert "server:URL#MODEL" in told or "openai:MODEL" in told
    assert "hunter2" not in told


def test_the_page_neither_shows_nor_logs_a_password(caplog: pytest.LogCaptureFixture) -> None:
    openers = judge_openers(["server:http://someone:hunter2@host/v1"])
    assert list(openers) == ["server"]
    with pytest.raises(BadInput) as caught:
        openers["server"]()
    assert "hunter2" not in f"{caught.value} {caplog.text}"
    assert "server" in caplog.text


def test_names_show_no_path_of_the_server() -> None:
    assert model_title("/data/models/vrthinker/") == "vrthinker"
    assert judge_title("server:http://host/v1#a/vrthinker?protocol=paired") == "a/vrthinker"
    assert judge_title("server:http://host:8000?protocol=paired") == "host:8000"


def test_the_key_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VRTHINKER_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    assert not read_key().value
    monkeypatch.setenv("OPENAI_API_KEY", "second")
    assert read_key().value == "second"
    monkeypatch.setenv("VRTHINKER_API_KEY", " first\n")
    assert read_key().value == "first"
    monkeypatch.setenv("VRTHINKER_API_KEY", "\u201chunter2\u201d")
    told = refused("server:http://host.invalid/v1#m")
    assert "The key in VRTHINKER_API_KEY" in told
    assert "hunter2" not in told
