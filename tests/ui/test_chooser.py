"""The choice of a judge: what is offered to whom, and whose a judge with a key is."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.fake_hosts import KEY, ollama, openai_host
from tests.support.faulty_server import FaultyServer
from tests.support.waiting import until
from tests.ui.support.inside import Inside, inside
from tests.ui.support.saved_examples import ANSWER
from vrthinker_core.backends import ScriptedBackend
from vrthinker_core.backends.hosted import HOSTS
from vrthinker_core.errors import BackendRefused
from vrthinker_core.ui import words
from vrthinker_core.ui.chooser import GROUPS, JudgeChooser, JudgeGroup
from vrthinker_core.ui.judges import OWN, JudgeLoader

HERE = {"host": "127.0.0.1:7860", "origin": "http://127.0.0.1:7860"}


class Visitor:
    """A page, opened with these headers, and what is pressed in its dialog."""

    def __init__(self, here: Inside, judges: JudgeLoader, *groups: JudgeGroup, **told: str) -> None:
        self.chooser = JudgeChooser(here.parts, judges, here.sessions, groups or GROUPS)
        client = SimpleNamespace(host=told.pop("client", "127.0.0.1"))
        name, headers = told.pop("name", "page"), {**HERE, **told}
        self.request: Any = SimpleNamespace(session_hash=name, client=client, headers=headers)
        self.here, self.parts = here, here.parts

    @property
    def session(self) -> Any:
        return self.here.sessions.get(self.request.session_hash)

    def press(self, act: str, name: str = "", **typed: str) -> Any:
        """What the dialog then shows; `judge` is the chosen one, if that changed."""
        event: Any = SimpleNamespace(act=act, id=name, **typed)
        updates = self.chooser.act(event, self.request)
        return {**updates[self.parts.chooser], "judge": updates.get(self.parts.judge)}

    def groups(self) -> dict[str, list[Any]]:
        """The rows of each group, by its id."""
        told = self.chooser.open(SimpleNamespace(), self.request)  # type: ignore[arg-type]
        names = words.JUDGE_GROUPS.items()
        titles = {"This server": "local"} | {name: each for each, name in names}
        return {titles[each["title"]]: each["rows"] for each in told[self.parts.chooser]["groups"]}

    def row(self, group: str, title: str) -> Any:
        return next(row for row in self.groups()[group] if row["title"] == title)


@pytest.fixture
def judges() -> Iterator[JudgeLoader]:
    loader = JudgeLoader({"by hand": partial(ScriptedBackend, [ANSWER], name="by hand")})
    loader.wait_all()
    yield loader
    loader.close()


@pytest.fixture
def here(tmp_path: Path, judges: JudgeLoader) -> Iterator[Inside]:
    with inside(tmp_path, judges) as opened:
        yield opened


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultyServer]:
    """OpenAI's place is taken."""
    with openai_host() as server:
        monkeypatch.setitem(HOSTS, "openai", replace(HOSTS["openai"], url=server.url))
        yield server


@pytest.fixture
def servers(monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultyServer]:
    """One server runs on this machine."""
    with ollama() as server:
        ports, place = (int(server.server_address[1]),), "vrthinker_core.backends.discover."
        monkeypatch.setattr(place + "PORTS", ports)
        monkeypatch.setattr(place + "local_servers.__defaults__", (ports, 5.0))
        monkeypatch.setattr(place + "find_local.__defaults__", ("", ports, 5.0))
        yield server


def test_the_dialog_opens_no_python_object(here: Inside, judges: JudgeLoader) -> None:
    visitor = Visitor(here, judges)
    for act in ("choose", "open", "download", "pause", "key", "forget"):
        told = visitor.press(act, "python:os:abort", model="python:os:abort", key=KEY)
        assert (told["judge"], bool(told["said"]), judges.names) == (None, True, ("by hand",))


FAR = [{"client": "10.0.0.9"}, {"host": "judge.example"}, {"x-forwarded-for": "10.0.0.9"}]


@pytest.mark.usefixtures("servers")
def test_this_machines_judges_are_offered_on_it_alone(here: Inside, judges: JudgeLoader) -> None:
    near = Visitor(here, judges)
    found = near.groups()
    assert [*found] == ["demo", "local", "servers", "hosted"]
    assert [row["title"] for row in found["servers"]] == ["qwen2.5vl:7b"]
    assert found["local"][0]["title"] == "by hand"
    assert any(row["id"].startswith("hf:") for row in found["local"])
    asked = found["servers"][0]["id"]
    hosted = [each.name for each in HOSTS.values()]
    for headers in FAR:
        far = Visitor(here, judges, **headers)
        titles = [[row["title"] for row in rows] for rows in far.groups().values()]
        assert titles == [["by hand"], hosted]
        for act in ("open", "download", "pause"):
            for name in (asked, "hf:qunwang13/vrthinker", "server:http://10.0.0.1/v1"):
                assert far.press(act, name)["said"] == words.NO_SUCH_JUDGE
    assert [*Visitor(here, judges, "demo").groups()] == ["demo", "local"]
    assert near.press("open", "server:http://10.0.0.1/v1#m")["said"] == words.NO_SUCH_JUDGE
    assert judges.names == ("by hand",)


@pytest.mark.usefixtures("servers")
def test_a_server_here_becomes_a_judge_for_everybody(here: Inside, judges: JudgeLoader) -> None:
    visitor = Visitor(here, judges)
    told = visitor.press("open", "local:qwen2.5vl:7b")
    assert (told["judge"], told["done"]) == ("qwen2.5vl:7b", 1)
    until(lambda: judges.is_loaded("qwen2.5vl:7b"))
    row = visitor.row("servers", "qwen2.5vl:7b")
    assert (row["act"], row["chosen"]) == ("choose", True)
    facts = words.REAL[True], words.TRAINED[False], "time unknown", words.FREE, words.SEEN_HERE
    assert row["facts"] == facts
    assert judges.device("qwen2.5vl:7b", 1)[0] != judges.device("by hand", 1)[0]
    assert visitor.press("open", "local:qwen2.5vl:7b")["judge"] == "qwen2.5vl:7b"
    assert judges.names == ("by hand", "qwen2.5vl:7b")


def test_a_key_ends_with_its_page(here: Inside, judges: JudgeLoader, host: FaultyServer) -> None:
    anna, bert = (Visitor(here, judges, name=name) for name in ("anna", "bert"))
    told = anna.press("key", "openai", model="gpt-5.2", key=f" {KEY} ")
    name = told["judge"]
    assert name.startswith(f"gpt-5.2{OWN}")
    assert (told["title"], told["said"]) == ("gpt-5.2", "")
    assert KEY not in repr((told, anna.session, anna.groups()))
    judges.seconds["gpt-5.2"] = 12.3
    row = anna.row("hosted", "OpenAI")
    assert row["facts"][2] == "about 12 s a pair here"
    assert (row["chosen"], row["model"]) == (True, "gpt-5.2")
    assert row["facts"][-1] == words.SEEN_BY.format("OpenAI")
    assert judges.get(name).name == "gpt-5.2"
    assert judges.device(name, 1)[0] == name, "it waits in no other judge's line"
    assert name not in judges.names
    assert bert.row("hosted", "OpenAI")["model"] == ""
    for pressed in (bert.press("choose", name), bert.press("forget", "openai")):
        assert (pressed["judge"], bool(pressed["said"])) == (None, True)
    other, none = (anna.press("key", "openai", model=m, key="") for m in ("gpt-4.1", "gpt-9"))
    assert other["title"] == "gpt-4.1", "with the key that is there"
    assert none["said"].startswith("The server has no")
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
    ({"key": "sk-wrong-0123456789"}, "does not accept the key in the field Key", {}),
    ({"key": KEY}, words.NO_KEY_HERE, {"origin": "http://judge.example"}),
    ({"key": KEY}, words.NO_KEY_HERE, {"origin": ""}),
]


@pytest.mark.usefixtures("host")
def test_a_key_that_is_refused_is_not_kept(here: Inside, judges: JudgeLoader) -> None:
    for typed, said, headers in REFUSED:
        visitor = Visitor(here, judges, **headers)
        told = visitor.press("key", "openai", **{"model": "gpt-5.2", **typed})
        assert said in told["said"]
        assert typed["key"] not in told["said"] or not typed["key"]
        assert visitor.session.own == {}
        elsewhere = visitor.press("key", "http://evil.example", **{"model": "m", **typed})
        assert elsewhere["judge"] is None
