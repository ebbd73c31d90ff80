"""Visitors: their runs never mix, and nothing of them stays."""

from __future__ import annotations

import os
import threading
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.ui.sessions.test_background_run import recite, talk, until
from tests.ui.support import handmade_runs
from vrthinker_core.types import Settings, Side, VideoPair
from vrthinker_core.types.events import Event, Finished, StopReason
from vrthinker_core.ui.sessions.background_run import RunJob
from vrthinker_core.ui.sessions.sessions import Sessions

PAIR = VideoPair("A ball pans steadily.", Path("a.mp4"), Path("b.mp4"))


def files(folder: Path) -> list[Path]:
    """Every file below; folders may vanish meanwhile."""
    return [Path(place, name) for place, _, names in os.walk(folder) for name in names]


def test_leaving_stops_the_judge_and_leaves_no_file(tmp_path: Path) -> None:
    visits = Sessions(tmp_path, talk)
    visit = visits.start_run("anna", PAIR, Settings())
    until(lambda: visit.run.state.turns)
    visit.thumbnails(handmade_runs.thumbnail(16, Side.FIRST))
    assert files(tmp_path)
    visits.end("anna")
    assert visit.run.join(5)
    until(lambda: not files(tmp_path))
    assert visits.get("anna") is None
    visits.end("anna")


def test_a_new_run_takes_the_place_of_the_former(tmp_path: Path) -> None:
    visits = Sessions(tmp_path, talk)
    former = visits.start_run("anna", PAIR, Settings())
    latter = visits.start_run("anna", PAIR, Settings())
    assert former.run.join(5)
    until(lambda: latter.run.state.turns)
    assert visits.get("anna") is latter
    visits.end("anna")


def test_closing_stops_every_judge(tmp_path: Path) -> None:
    visits = Sessions(tmp_path, talk, at_once=2)
    begun = [visits.start_run(name, PAIR, Settings()) for name in ("anna", "bert", "cleo")]
    until(lambda: sum(bool(visit.run.state.turns) for visit in begun) == 2)
    visits.close()
    assert all(visit.run.over for visit in begun)


def test_runs_never_mix(tmp_path: Path) -> None:
    def echo(job: RunJob) -> Generator[Event, None, None]:
        yield handmade_runs.started(prompt=job.pair.prompt)
        yield from list(handmade_runs.three_turns().events())[1:]

    visits = Sessions(tmp_path, echo, at_once=4)
    names = [f"visitor {number}" for number in range(40)]
    begun = [visits.start_run(name, VideoPair(name, Path("a"), Path("b")), Settings()) for name in names]
    until(lambda: all(visit.run.over for visit in begun))
    assert [visit.run.state.started.prompt for visit in begun if visit.run.state.started] == names
    assert len({visit.name for visit in begun}) == len(begun)


def test_one_seat_means_one_judge_at_a_time(tmp_path: Path) -> None:
    thinking = threading.Semaphore(1)

    def alone(job: RunJob) -> Generator[Event, None, None]:
        assert thinking.acquire(blocking=False), "two judges at once"
        yield from recite(job)
        thinking.release()

    visits = Sessions(tmp_path, alone)
    begun = [visits.start_run(str(number), PAIR, Settings()) for number in range(8)]
    until(lambda: all(visit.run.over for visit in begun))
    assert all(visit.run.state.finished and not visit.run.state.finished.fault for visit in begun)


def test_a_picture_is_written_once(tmp_path: Path) -> None:
    visit = Sessions(tmp_path, recite).start_run("anna", PAIR, Settings())
    frame = handmade_runs.thumbnail(16, Side.FIRST)
    found = visit.thumbnails(frame)
    (path,) = (tmp_path / "pictures").rglob("*.jpg")
    assert path.read_bytes() == frame.jpeg
    assert found.src == f"frames/{visit.name}/{path.name}"
    assert (found.width, found.height) == (96, 96)
    path.unlink()
    assert visit.thumbnails(handmade_runs.thumbnail(16, Side.FIRST)) == found
    assert not path.exists()


def test_a_visitor_of_whom_no_farewell_came_leaves_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    visits = Sessions(tmp_path, recite)
    long_ago = replace(handmade_runs.three_turns(), finished=Finished(StopReason.ANSWERED, handmade_runs.WHOLE, seconds=1e6))
    visits.start_replay("anna", long_ago)
    visits.start_replay("bert", handmade_runs.three_turns())
    assert visits.get("anna") is not None, "how long the run once took does not matter"
    monkeypatch.setattr("vrthinker_core.ui.sessions.sessions.KEEP_SECONDS", -1.0)
    visits.start_replay("cleo", handmade_runs.three_turns())
    assert (visits.get("anna"), visits.get("bert")) == (None, None)
    assert visits.get("cleo") is not None


def test_visits_never_pile_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vrthinker_core.ui.sessions.sessions.MAX_SESSIONS", 3)
    visits = Sessions(tmp_path, talk)
    live = visits.start_run("live", PAIR, Settings())
    for number in range(9):
        visits.start_replay(str(number), handmade_runs.three_turns())
    assert visits.get("live") is live
    assert [name for name in map(str, range(9)) if visits.get(name)] == ["6", "7", "8"]
    visits.close()


@pytest.mark.parametrize("jpeg", [b"", b"<svg onload=alert(1)>", b"\xff\xd8\xff"])
def test_what_is_no_picture_breaks_nothing(tmp_path: Path, jpeg: bytes) -> None:
    visit = Sessions(tmp_path, recite).start_run("anna", PAIR, Settings())
    found = visit.thumbnails(replace(handmade_runs.thumbnail(16, Side.FIRST), jpeg=jpeg))
    assert (found.width, found.height) == (1, 1)
    assert found.src.endswith(".jpg")
