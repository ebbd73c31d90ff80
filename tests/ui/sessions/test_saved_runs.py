"""Saved runs without a browser: replay, shared traces, examples and the waiting room."""

from __future__ import annotations

import json
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.support.waiting import PATIENCE_S, until
from tests.ui.sessions.test_background_run import run_until_stopped
from tests.ui.sessions.test_sessions import files
from tests.ui.support import handmade_runs
from tests.ui.support.saved_examples import PROMPT, write_example
from vrthinker_core.traces import from_json, load, to_json
from vrthinker_core.types import Settings, VideoPair
from vrthinker_core.ui.page_sessions import Sessions
from vrthinker_core.ui.replay import Replay, matching_videos, trace_of
from vrthinker_core.ui.run_state import RunState, fold, fold_all
from vrthinker_core.ui.tiles import Examples, ThumbnailFiles
from vrthinker_core.video.files import file_digest


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("examples")
    write_example(folder / "b-block")
    write_example(folder / "a-block", hue=40)
    (folder / "broken").mkdir()
    (folder / "broken" / "trace.json").write_text("{}")
    return folder


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
    assert len(saved.turns) == 2
    assert from_json(to_json(saved)) == saved
    assert trace_of(RunState()) is None


def test_videos_are_matched_by_their_content(folder: Path, tmp_path: Path) -> None:
    first, second = folder / "a-block" / "first.mp4", folder / "a-block" / "second.mp4"
    trace = load(folder / "a-block" / "trace.json")
    assert matching_videos(trace, [second, tmp_path / "gone.mp4", first]) == (first, second)
    assert matching_videos(trace, [second]) == (None, second)
    assert matching_videos(handmade_runs.three_turns(), [first, second]) == (None, None)
    assert file_digest(tmp_path) == ""


def test_examples_are_sorted_by_name_and_broken_ones_left_out(folder: Path, tmp_path: Path) -> None:
    examples = Examples(folder)
    assert [example.name for example in examples.all] == ["a-block", "b-block"]
    cards = examples.cards(lambda name: ThumbnailFiles(tmp_path / name, f"frames/{name}"))
    assert cards[0]["prompt"] == PROMPT
    assert (cards[0]["row"], cards[0]["title"]) == ("Examples", "A block")
    assert cards[0]["judge"] == "Judge: scripted · 2 turns"
    assert all(
        (tmp_path / src.removeprefix("frames/")).exists()
        for card in cards
        for src in card["pictures"]
    )
    json.dumps(cards)
    assert examples.find("a-block") is examples.all[0]
    assert examples.find("../a-block") is None
    assert Examples(folder / "nothing").all == []


def test_showing_a_saved_run_stops_the_live_one(tmp_path: Path) -> None:
    sessions = Sessions(tmp_path, run_until_stopped)
    live = sessions.start_run("anna", VideoPair("p", Path("a.mp4"), Path("b.mp4")), Settings())
    until(lambda: live.run.state.turns)
    shown = sessions.start_replay("anna", handmade_runs.three_turns())
    assert live.run.join(PATIENCE_S)
    assert sessions.get("anna") is sessions.find_run(shown.name) is shown
    assert sessions.find_run(live.name) is None
    assert shown.is_replay
    assert not live.is_replay
    assert live.files == (Path("a.mp4"), Path("b.mp4"))
    sessions.end("anna")
    until(lambda: not files(tmp_path))


def test_a_replay_needs_no_judge(tmp_path: Path) -> None:
    def fail(job: object) -> Generator[object, None, None]:
        raise AssertionError("a replay needs no judge")

    sessions = Sessions(tmp_path, fail)
    session = sessions.start_replay("anna", handmade_runs.three_turns(), "example")
    assert session.link == "example"
    assert session.files == ()
    sessions.close()
