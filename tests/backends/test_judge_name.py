"""The name of a judge: what is read, what is refused, and that no secret is repeated."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from tests.support.faulty_server import serving
from vrthinker_core.backends import open_backend
from vrthinker_core.backends.hosted import read_key
from vrthinker_core.backends.judge_name import (
    SERVER_FORM,
    JudgeName,
    judge_title,
    model_title,
    parse_judge,
)
from vrthinker_core.errors import BackendRefused, BadInput
from vrthinker_core.ui.judges import judge_openers

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
        ("hf:/a/b: c", JudgeName("hf", "/a/b: c")),
        ("hf:a/b?quantize=4bit&device=cuda:1", JudgeName("hf", "a/b", "", "4bit", "cuda:1")),
        (f"server:{HOST}", JudgeName("server", HOST)),
        (f"server:{HOST}/#org/model:free", JudgeName("server", HOST, "org/model:free")),
        (f"server:{HOST}#m?protocol=concat", JudgeName("server", HOST, "m", protocol="concat")),
        (f"server:{HOST}#?protocol=paired", JudgeName("server", HOST, protocol="paired")),
        (f"server:{HOST}/?protocol=paired", JudgeName("server", HOST, protocol="paired")),
        (f"server:{HOST}?", JudgeName("server", HOST)),
        ("local", JudgeName("local")),
        ("local:qwen2.5vl:7b", JudgeName("local", "qwen2.5vl:7b")),
        ("local?protocol=paired", JudgeName("local", protocol="paired")),
        ("openai:gpt-5.2", JudgeName("openai", "gpt-5.2")),
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


def test_a_model_is_named_only_if_the_server_has_several() -> None:
    with serving() as server:
        backend = open_backend(f"server:{server.url}?protocol=paired")
        assert (backend.name, backend.protocols) == ("general", ("paired",))
        server.cards = [{"id": "a"}, {"id": "b"}]
        with pytest.raises(BackendRefused, match="It has a, b: name one"):
            open_backend(f"server:{server.url}?protocol=paired")


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
    for name, title in (
        ("http://host:8000/v1#qunwang13/vrthinker?protocol=paired", "qunwang13/vrthinker"),
        ("http://host:8000/v1", "host:8000"),
        ("http://host:8000?protocol=paired", "host:8000"),
    ):
        assert judge_title(f"server:{name}") == title


def test_the_key_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VRTHINKER_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    assert read_key().value == ""
    monkeypatch.setenv("OPENAI_API_KEY", "second")
    assert read_key().value == "second"
    monkeypatch.setenv("VRTHINKER_API_KEY", " first\n")
    assert read_key().value == "first"
    monkeypatch.setenv("VRTHINKER_API_KEY", "\u201chunter2\u201d")
    told = refused("server:http://host.invalid/v1#m")
    assert "The key in VRTHINKER_API_KEY" in told
    assert "hunter2" not in told
