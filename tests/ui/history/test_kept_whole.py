"""What is kept of a run stays whole: after a vote in the middle of it, from several pages, and where the disk was full."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.support.waiting import until
from tests.ui.history.test_history import ANNA, TRACE, VOTE, Server
from tests.ui.sessions.test_background_run import run_until_stopped
from vrthinker_core.types import Settings, VideoPair
from vrthinker_core.types.events import Event
from vrthinker_core.ui.history.run_record import RunRecord
from vrthinker_core.ui.sessions.background_run import RunJob


def test_a_vote_on_a_run_that_goes_on_opens_whenever_the_server_dies(tmp_path: Path) -> None:
    server = Server(tmp_path, run_until_stopped)
    session = server.run()
    until(lambda: session.run.state.turns)
    slots = {frame.ref.slot for turn in session.run.state.turns for frame in turn.frames}
    server.sessions.add_vote("page", session, replace(VOTE, slots=tuple(slots)[:2]))
    until(lambda: server.store.get(session.kept))
    vote = server.store.trace(session.kept).vote
    assert vote is not None
    assert vote.labels == VOTE.labels
    session.run.stop()
    server.close()


def judge_either_order(job: RunJob) -> Generator[Event, None, None]:
    swapped = Path(job.pair.first).name == "b.mp4"
    started = replace(TRACE.started, clips=TRACE.started.clips[::-1]) if swapped else TRACE.started
    yield from replace(TRACE, started=started).events()


def test_pages_that_show_one_run_lose_nothing_of_each_other(tmp_path: Path) -> None:
    server = Server(tmp_path, judge_either_order)
    first = server.run()
    until(lambda: server.outcomes() == ["Video 1 is better overall"])
    trace, videos = server.history.open(ANNA, first.kept)
    second = server.sessions.start_replay(
        "another page", trace, "", (videos[0], videos[1]), ANNA, first.kept
    )
    checked = server.sessions.check_order("page", first, VideoPair("", *first.files), Settings())
    until(lambda: checked.run.over and server.store.trace(first.kept).swapped is not None)
    server.sessions.add_vote("another page", second, VOTE)
    assert server.store.trace(first.kept).swapped is not None
    later = replace(VOTE, at=VOTE.at + timedelta(seconds=5), note="On second thought.")
    server.sessions.add_vote("page", checked, later)
    server.sessions.add_vote("another page", second, VOTE)
    assert server.store.trace(first.kept).vote == later, "the later one counts"


def test_a_disk_that_was_full_when_the_run_began_costs_no_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, calls = Server(tmp_path, run_until_stopped), []
    put = server.store.put

    def put_later(*arguments: Any, **more: Any) -> RunRecord | None:
        calls.append(1)
        if len(calls) == 1:
            raise OSError(28, "No space left on device")
        return put(*arguments, **more)

    monkeypatch.setattr(server.store, "put", put_later)
    session = server.run()
    until(lambda: calls)
    session.run.stop()
    until(lambda: server.outcomes() == ["Stopped"])
    server.store.remove([session.kept])  # it was too old, or too large
    server.sessions.add_vote("page", session, VOTE)
    anew = server.sessions.get("page")
    assert anew is not None
    assert server.store.trace(anew.kept).vote == VOTE
