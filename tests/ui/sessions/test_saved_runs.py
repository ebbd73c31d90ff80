"""Saved runs without a browser: replay, shelf, examples, settings and the waiting room."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.ui.sessions.test_background_run import talk, until
from tests.ui.sessions.test_sessions import files
from tests.ui.support import handmade_runs
from tests.ui.support.saved_examples import PROMPT, write_example
from vrthinker_core.errors import BadInput, TraceError
from vrthinker_core.traces import from_json, load, to_json
from vrthinker_core.types import Settings, VideoPair
from vrthinker_core.types.events import Trace
from vrthinker_core.ui.sessions.replay import Replay, file_digest, matching_videos, trace_of
from vrthinker_core.ui.sessions.sessions import Sessions
from vrthinker_core.ui.sessions.settings_form import parse_settings
from vrthinker_core.ui.sessions.shared_traces import SharedTraces
from vrthinker_core.ui.sessions.waiting_room import WaitingRoom
from vrthinker_core.ui.view.example_cards import Examples
from vrthinker_core.ui.view.page_json import replay_status_line
from vrthinker_core.ui.view.run_state import RunState, fold, fold_all
from vrthinker_core.ui.view.thumbnail_files import ThumbnailFiles


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("examples")
    write_example(place / "b-block")
    write_example(place / "a-block", hue=40)
    (place / "broken").mkdir()
    (place / "broken" / "trace.json").write_text("{}")
    return place


def test_saving_and_replaying_is_the_identity() -> None:
    trace = handmade_runs.three_turns()
    live = fold_all(trace.events())
    saved = trace_of(live)
    assert saved == trace
    replay = Replay(from_json(to_json(trace)))
    assert replay.state == live
    assert replay.over
    assert replay.seconds == 4.6


def test_a_turn_that_never_ended_is_not_saved() -> None:
    events = list(handmade_runs.three_turns().events())
    state = RunState()
    for event in events[:-3]:
        state = fold(state, event)
    saved = trace_of(state)
    assert saved is not None
    assert len(saved.turns) == 2
    assert from_json(to_json(saved)) == saved
    assert trace_of(RunState()) is None


def test_a_replay_says_what_it_is() -> None:
    trace = handmade_runs.three_turns()
    assert replay_status_line(Replay(trace).state) == "Replaying a saved trace. Finished after 3 turns in 4.6 s"
    assert "cut off" in replay_status_line(Replay(replace(trace, finished=None)).state)


def test_videos_are_known_by_their_content(folder: Path, tmp_path: Path) -> None:
    first, second = folder / "a-block" / "first.mp4", folder / "a-block" / "second.mp4"
    trace = load(folder / "a-block" / "trace.json")
    assert matching_videos(trace, [second, tmp_path / "gone.mp4", first]) == (first, second)
    assert matching_videos(trace, [second]) == (None, second)
    assert matching_videos(handmade_runs.three_turns(), [first, second]) == (None, None)
    assert file_digest(tmp_path) == ""


def test_the_shelf_gives_back_what_it_was_given(tmp_path: Path) -> None:
    shelf = SharedTraces(tmp_path)
    trace = handmade_runs.three_turns()
    name = shelf.add("run", trace)
    assert shelf.get(name) == trace
    assert shelf.add("run", trace) == name
    assert shelf.add("another run", trace) != name


@pytest.mark.parametrize("name", ["", "x", "../trace", "0" * 24, "0" * 23 + "G", "..%2f" * 5])
def test_no_other_name_leads_anywhere(tmp_path: Path, name: str) -> None:
    with pytest.raises(TraceError, match="leads nowhere"):
        SharedTraces(tmp_path).get(name)


@pytest.mark.parametrize("bounds", [{"most": 3}, {"most_bytes": 3 * 215_000}])
def test_the_shelf_never_overflows(tmp_path: Path, bounds: dict[str, int]) -> None:
    shelf = SharedTraces(tmp_path, **bounds)
    heavy = Trace(handmade_runs.started(system="x" * 199_000))
    names = [shelf.add(str(number), heavy) for number in range(8)]
    assert {path.stem for path in tmp_path.iterdir()} == set(names[5:])
    assert shelf.get(names[-1]) == heavy
    with pytest.raises(TraceError):
        shelf.get(names[0])


def test_examples_come_in_the_order_of_their_names_and_only_whole_ones(folder: Path, tmp_path: Path) -> None:
    examples = Examples(folder)
    assert [example.name for example in examples.all] == ["a-block", "b-block"]
    cards = examples.cards(lambda name: ThumbnailFiles(tmp_path / name, f"frames/{name}"))
    assert cards[0]["prompt"] == PROMPT
    assert cards[0]["outcome"] == "Video 1 is better overall"
    assert cards[0]["judge"] == "Judge: scripted · 2 turns"
    assert all((tmp_path / src.removeprefix("frames/")).exists() for card in cards for src in card["pictures"])
    json.dumps(cards)
    assert examples.find("a-block") is examples.all[0]
    assert examples.find("../a-block") is None
    assert Examples(folder / "nothing").all == ()


def test_showing_a_saved_run_stops_the_live_one(tmp_path: Path) -> None:
    visits = Sessions(tmp_path, talk)
    live = visits.start_run("anna", VideoPair("p", Path("a.mp4"), Path("b.mp4")), Settings())
    until(lambda: live.run.state.turns)
    shown = visits.start_replay("anna", handmade_runs.three_turns())
    assert live.run.join(5)
    assert visits.get("anna") is visits.find_run(shown.name) is shown
    assert visits.find_run(live.name) is None
    assert shown.is_replay
    assert not live.is_replay
    assert live.files == (Path("a.mp4"), Path("b.mp4"))
    visits.end("anna")
    until(lambda: not files(tmp_path))


def test_the_form_as_settings() -> None:
    assert parse_settings() == Settings()
    assert parse_settings("paired", "all", "3", "4") == Settings(protocol="paired", window="all", max_turns=3, frames_per_call=4)
    assert parse_settings("auto", "0", "own", None) == Settings(window=0)


@given(st.lists(st.one_of(st.none(), st.text(), st.integers(), st.floats(), st.lists(st.text())), min_size=4, max_size=4))
def test_nothing_else_becomes_a_setting(values: list[object]) -> None:
    with contextlib.suppress(BadInput):
        assert parse_settings(*values).protocol in ("auto", "concat", "paired")


def test_the_room_has_so_many_places_and_no_more() -> None:
    room = WaitingRoom(2)
    assert room.join("anna")
    assert room.join("bert")
    assert room.join("anna")
    assert not room.join("cleo")
    assert room.leave("anna")
    assert not room.leave("anna")
    assert room.join("cleo")


def test_nobody_is_left_when_a_replay_leaves(tmp_path: Path) -> None:
    def fail(job: object) -> Generator[object, None, None]:
        raise AssertionError("a replay needs no judge")

    visits = Sessions(tmp_path, fail)  # type: ignore[arg-type]
    visit = visits.start_replay("anna", handmade_runs.three_turns(), "example")
    assert visit.link == "example"
    assert visit.files == ()
    visits.close()
