"""The choice of a judge: what is offered to whom, and whose a judge with a key is."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.datastructures import Headers
from starlette.requests import HTTPConnection

from tests.support.fake_hosts import (
    KEY,
    gemini_host,
    hf_host,
    locked_server,
    ollama,
    openai_host,
    openrouter_host,
    put_at,
)
from tests.support.faulty_server import FaultyServer
from tests.support.waiting import until
from tests.ui.support.inside import VISITORS, Inside, inside
from tests.ui.support.saved_examples import ANSWER
from vrthinker_core.backends import ScriptedBackend
from vrthinker_core.backends.judge_name import JUDGES, JudgeGroup
from vrthinker_core.errors import BackendRefused
from vrthinker_core.ui import words
from vrthinker_core.ui.chooser import GROUPS, JudgeChooser
from vrthinker_core.ui.judges import OWN, JudgeLoader

HERE = {"host": "127.0.0.1:7860", "origin": "http://127.0.0.1:7860"}


class Person:
    """A page, opened with these headers, and what is pressed in its dialog."""

    def __init__(self, here: Inside, judges: JudgeLoader, *groups: JudgeGroup, **told: str) -> None:
        self.chooser = JudgeChooser(here.parts, judges, here.sessions, groups or GROUPS)
        client, name = (told.pop("client", "127.0.0.1"), 1), told.pop("name", "page")
        headers = Headers({**HERE, **told})
        asked = HTTPConnection({"type": "http", "client": client, "headers": headers.raw})
        state = SimpleNamespace(visitor=VISITORS.of(asked))
        self.request: Any = SimpleNamespace(session_hash=name, headers=headers, state=state)
        self.here, self.parts = here, here.parts

    @property
    def session(self) -> Any:
        return self.here.sessions.get(self.request.session_hash)

    def press(self, act: str, name: str = "", **typed: str) -> Any:
        """What the dialog then shows; `judge` is the chosen one, if that changed."""
        event: Any = SimpleNamespace(act=act, id=name, **typed)
        updates = self.chooser.act(event, self.request)
        return {**updates[self.parts.chooser], "judge": updates.get(self.parts.judge)}

    def dialog(self) -> Any:
        """What the dialog shows when it is opened."""
        told = self.chooser.open(SimpleNamespace(), self.request)  # type: ignore[arg-type]
        return told[self.parts.chooser]

    def row(self, title: str) -> Any:
        told = self.dialog()
        rows = [*told["ready"], *told["gpu"], *told["demo"]]
        return next(row for row in rows if row["title"] == title)


def said(told: Any) -> str:
    """What a row answers."""
    return str(told["answer"]["said"])


@pytest.fixture
def judges() -> Iterator[JudgeLoader]:
    openers = {"by hand": partial(ScriptedBackend, [ANSWER], name="by hand")}
    with closing(JudgeLoader(openers, in_thread=False)) as loader:
        yield loader


@pytest.fixture
def here(tmp_path: Path, judges: JudgeLoader) -> Iterator[Inside]:
    with inside(tmp_path, judges) as opened:
        yield opened


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultyServer]:
    """OpenAI's place is taken."""
    with openai_host() as server:
        put_at(monkeypatch, "openai", server.url)
        yield server


def let_run(monkeypatch: pytest.MonkeyPatch, server: FaultyServer) -> None:
    """This server alone runs on this machine."""
    ports, module = (int(server.server_address[1]),), "vrthinker_core.backends.offers."
    monkeypatch.setattr(module + "PORTS", ports)
    monkeypatch.setattr(module + "local_servers.__defaults__", (ports, 5.0, None))
    monkeypatch.setattr(module + "find_local.__defaults__", ("", ports, 5.0))


@pytest.fixture
def servers(monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultyServer]:
    with ollama() as server:
        let_run(monkeypatch, server)
        yield server


def test_the_dialog_opens_no_python_object(here: Inside, judges: JudgeLoader) -> None:
    visitor = Person(here, judges)
    for act in ("choose", "open", "download", "pause", "list", "key", "forget"):
        told = visitor.press(act, "python:os:abort", model="python:os:abort", key=KEY)
        assert (told["judge"], bool(said(told)), judges.names) == (None, True, ("by hand",))


FAR = [{"client": "10.0.0.9"}, {"host": "judge.example"}, {"x-forwarded-for": "10.0.0.9"}]


@pytest.mark.usefixtures("servers")
def test_this_machines_judges_are_offered_on_it_alone(here: Inside, judges: JudgeLoader) -> None:
    near = Person(here, judges)
    found = near.dialog()
    assert [row["title"] for row in found["ready"]] == ["by hand", "qwen2.5vl:7b"]
    assert all(row["id"].startswith("hf:") for row in found["gpu"])
    assert [row["id"] for row in found["demo"]] == ["nano"]
    asked = found["ready"][1]["id"]
    hosted = [each.host.name for each in JUDGES.values() if each.host]
    assert found["near"] == asked
    for headers in FAR:
        far = Person(here, judges, **headers)
        told = far.dialog()
        assert [row["title"] for row in told["ready"]] == ["by hand"]
        assert (told["gpu"], told["demo"]) == ([], [])
        assert [name for _, name in told["hosts"]["list"]] == hosted
        for act in ("open", "download", "pause"):
            for name in (asked, "hf:qunwang13/vrthinker", "server:http://10.0.0.1/v1"):
                assert said(far.press(act, name)) == words.NO_SUCH_JUDGE
    alone = Person(here, judges, "demo").dialog()
    assert (len(alone["ready"]), alone["gpu"], alone["hosts"]) == (1, [], None)
    assert said(near.press("open", "server:http://10.0.0.1/v1#m")) == words.NO_SUCH_JUDGE
    assert judges.names == ("by hand",)


@pytest.mark.usefixtures("servers")
def test_a_server_here_becomes_a_judge_for_everybody(here: Inside, judges: JudgeLoader) -> None:
    visitor = Person(here, judges)
    told = visitor.press("open", "local:qwen2.5vl:7b")
    assert (told["judge"], told["done"]) == ("qwen2.5vl:7b", "qwen2.5vl:7b")
    until(lambda: judges.is_loaded("qwen2.5vl:7b"))
    row = visitor.row("qwen2.5vl:7b")
    assert (row["act"], row["chosen"]) == ("choose", True)
    assert row["facts"] == (words.GENERAL, words.FREE, words.HERE_TOO.format("Ollama"))
    assert judges.device("qwen2.5vl:7b", 1)[0] != judges.device("by hand", 1)[0]
    assert visitor.press("open", "local:qwen2.5vl:7b")["judge"] == "qwen2.5vl:7b"
    assert judges.names == ("by hand", "qwen2.5vl:7b")


def test_a_key_ends_with_its_page(
    here: Inside, judges: JudgeLoader, host: FaultyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    anna, bert = (Person(here, judges, name=name) for name in ("anna", "bert"))
    form = anna.press("list", "openai", key=f" {KEY} ")["hosts"]
    assert (form["kind"], form["held"], form["chosen"]) == ("openai", True, False)
    assert [model for model, *_ in form["models"]] == ["gpt-5-mini", "gpt-4.1", "gpt-5.2"]
    told = anna.press("key", "openai", model="gpt-5.2", key="")
    name = told["judge"]
    assert name.startswith(f"gpt-5.2{OWN}")
    assert (told["title"], said(told)) == ("gpt-5.2", "")
    assert KEY not in repr((told, anna.session, anna.dialog()))
    form = anna.dialog()["hosts"]
    assert (form["chosen"], form["model"]) == (True, "gpt-5.2")
    assert [row["chosen"] for row in anna.dialog()["ready"]] == [False, True]
    assert anna.dialog()["near"] == "by hand"
    monkeypatch.setattr("vrthinker_core.ui.chooser.is_here", lambda _: False)
    assert anna.press("choose", "by hand")["near"] is None, "a host would get the frames unasked"
    anna.press("choose", name)
    assert len(bert.dialog()["ready"]) == 1
    assert judges.get(name).name == "gpt-5.2"
    assert judges.device(name, 1)[0] not in (*judges.names, "local")
    assert name not in judges.names
    assert bert.dialog()["hosts"]["held"] is False
    for pressed in (bert.press("choose", name), bert.press("forget", "openai")):
        assert (pressed["judge"], bool(said(pressed))) == (None, True)
    other, none = (anna.press("key", "openai", model=m, key="") for m in ("gpt-4.1", "gpt-9"))
    assert other["title"] == "gpt-4.1", "with the key that is there"
    assert said(none).startswith("The server has no")
    assert set(host.keys) == {f"Bearer {KEY}"}
    told = anna.press("forget", "openai")
    assert (told["judge"], told["title"]) == ("by hand", "by hand")
    anna.press("key", "openai", model="gpt-5.2", key=KEY)
    name = anna.session.judge
    here.sessions.end("anna")
    gc.collect()
    with pytest.raises(BackendRefused, match="forgotten"):
        judges.get(name)


REFUSED: list[tuple[dict[str, str], str, dict[str, str]]] = [
    ({"key": "sk-“curly”"}, "holds a character", {}),
    ({"key": ""}, words.NO_KEY, {}),
    ({"key": KEY, "model": " "}, words.NO_MODEL, {}),
    ({"key": KEY, "model": "m" * 201}, words.NO_MODEL, {}),
    ({"key": "k" * 1001}, words.NO_KEY, {}),
    ({"key": "sk-wrong-0123456789"}, "does not accept this key", {}),
    ({"key": KEY}, words.NO_KEY_HERE, {"origin": "http://judge.example"}),
    ({"key": KEY}, words.NO_KEY_HERE, {"origin": ""}),
]


@pytest.mark.usefixtures("host")
def test_a_key_that_is_refused_is_not_kept(here: Inside, judges: JudgeLoader) -> None:
    for typed, refusal, headers in REFUSED:
        visitor = Person(here, judges, **headers)
        told = visitor.press("key", "openai", **{"model": "gpt-5.2", **typed})
        assert refusal in said(told)
        assert typed["key"] not in said(told) or not typed["key"]
        assert visitor.session.own == {}
        elsewhere = visitor.press("key", "http://evil.example", **{"model": "m", **typed})
        assert elsewhere["judge"] is None


HOSTS: dict[str, tuple[Any, list[str], bool]] = {
    "openai": (openai_host, ["gpt-5-mini", "gpt-4.1", "gpt-5.2"], False),
    "gemini": (gemini_host, ["models/gemini-3-flash"], False),
    "openrouter": (openrouter_host, ["qwen/qwen3-vl-8b-instruct", "openrouter/auto"], True),
    "hf-inference": (hf_host, ["Qwen/Qwen3-VL-8B-Instruct"], True),
}
"""For each host its fake, the models that see pictures, and whether everybody may list them."""


@pytest.mark.parametrize("kind", HOSTS)
def test_models_are_listed_and_a_key_is_tried_before_a_run(
    kind: str, here: Inside, judges: JudgeLoader, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake, models, is_public = HOSTS[kind]
    visitor = Person(here, judges)
    with fake() as server:
        put_at(monkeypatch, kind, server.url)
        told = visitor.press("list", kind)
        assert [name for name, *_ in told["hosts"]["models"]] == (models if is_public else [])
        assert (said(told), told["hosts"]["held"]) == ("", False)
        if kind != "hf-inference":  # which tells a wrong key from a right one only when it judges
            told = visitor.press("list", kind, key="sk-wrong-0123456789")
            assert "does not accept this key" in said(told)
            assert visitor.session.own == {}
        told = visitor.press("list", kind, key=KEY)
    form = told["hosts"]
    assert ([name for name, *_ in form["models"]], form["model"]) == (models, models[0])
    assert ("$" in form["models"][0][1]) == (kind == "openrouter")


def test_a_server_here_that_wants_a_key_is_told_one_in_the_form(
    here: Inside, judges: JudgeLoader, monkeypatch: pytest.MonkeyPatch
) -> None:
    visitor, far = Person(here, judges), Person(here, judges, **FAR[0])
    with locked_server() as server:
        let_run(monkeypatch, server)
        url = visitor.dialog()["hosts"]["list"][0][0]
        assert visitor.press("list", url)["hosts"]["listed"] is False, "not before it has a key"
        assert url == server.url.removesuffix("/")
        assert url not in dict(far.dialog()["hosts"]["list"])
        assert said(far.press("key", url, model="vlm", key=KEY)) == words.NO_SUCH_JUDGE
        assert said(visitor.press("list", url, key="sk-wrong")) == words.WRONG_KEY
        form = visitor.press("list", url, key=KEY)["hosts"]
        assert ([name for name, *_ in form["models"]], form["held"]) == (["vlm"], True)
        assert visitor.press("key", url, model="vlm", key="")["judge"].startswith(f"vlm{OWN}")
