"""The address of a served judge: what is read, what is refused, and that no secret is repeated."""

from __future__ import annotations

import threading

import pytest

from tests.support.faulty_server import serving
from vrthinker_core.backends import open_backend
from vrthinker_core.backends.server.address import (
    ServerAddress,
    api_key,
    display_name,
    model_title,
    parse_address,
)
from vrthinker_core.errors import BackendRefused, BadInput
from vrthinker_core.ui.sessions.judge_loader import judge_openers


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("http://host:8000/v1", ServerAddress("http://host:8000/v1")),
        ("https://host/v1/#org/model:free", ServerAddress("https://host/v1", "org/model:free")),
        (
            "http://[::1]:8000/v1#m?protocol=concat",
            ServerAddress("http://[::1]:8000/v1", "m", "concat"),
        ),
        ("http://host/v1#?protocol=paired", ServerAddress("http://host/v1", "", "paired")),
        ("http://host/v1?protocol=paired", ServerAddress("http://host/v1", "", "paired")),
        (
            "https://[::1]:8000/v1/?protocol=concat",
            ServerAddress("https://[::1]:8000/v1", "", "concat"),
        ),
        ("http://host:8000?", ServerAddress("http://host:8000")),
    ],
)
def test_an_address_is_read(text: str, address: ServerAddress) -> None:
    assert parse_address(text) == address


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
    with pytest.raises(BadInput) as caught:
        open_backend(f"server:{text}")
    assert "hunter2" not in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "hunter2" not in display_name(text)


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


def test_a_mistyped_kind_of_judge_repeats_no_secret() -> None:
    with pytest.raises(BadInput, match="server:URL#MODEL") as caught:
        open_backend("sever:http://someone:hunter2@host/v1")
    assert "hunter2" not in str(caught.value)


def test_the_page_neither_shows_nor_logs_a_password(caplog: pytest.LogCaptureFixture) -> None:
    openers = judge_openers(["server:http://someone:hunter2@host/v1"])
    assert list(openers) == ["host"]
    with pytest.raises(BadInput) as caught:
        openers["host"]()
    assert "hunter2" not in f"{caught.value} {caplog.text}"
    assert "host" in caplog.text


def test_names_show_no_path_of_the_server() -> None:
    assert model_title("/data/models/vrthinker/") == "vrthinker"
    assert (
        display_name("http://host:8000/v1#qunwang13/vrthinker?protocol=paired")
        == "qunwang13/vrthinker"
    )
    assert display_name("http://host:8000/v1") == "host:8000"
    assert display_name("http://host:8000?protocol=paired") == "host:8000"


def test_the_key_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VRTHINKER_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    assert api_key() == ""
    monkeypatch.setenv("OPENAI_API_KEY", "second")
    assert api_key() == "second"
    monkeypatch.setenv("VRTHINKER_API_KEY", " first\n")
    assert api_key() == "first"
    monkeypatch.setenv("VRTHINKER_API_KEY", "\u201chunter2\u201d")
    with pytest.raises(BadInput, match="The key in VRTHINKER_API_KEY") as caught:
        open_backend("server:http://host.invalid/v1#m")
    assert "hunter2" not in str(caught.value)
