"""The history: every run of a visitor is kept, also one that was left, and nobody sees another's."""

from __future__ import annotations

import time
from collections.abc import Generator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.support.waiting import PATIENCE_S, until
from tests.ui.sessions.test_background_run import finish_at_once, run_until_stopped
from tests.ui.support import handmade_runs
from vrthinker_core.errors import TraceError
from vrthinker_core.types import Preference, Settings, Verdict, VideoPair, Vote
from vrthinker_core.types.events import Branch, Event, Origin, StopReason
from vrthinker_core.ui.history import history as module
from vrthinker_core.ui.history.history import History, Keeping
from vrthinker_core.ui.history.run_store import RunStore
from vrthinker_core.ui.history.shared_traces import SharedTraces
from vrthinker_core.ui.history.visitors import COOKIE, owner_of
from vrthinker_core.ui.sessions.background_run import JobRunner, RunJob
from vrthinker_core.ui.sessions.session import Session
from vrthinker_core.ui.sessions.sessions import Sessions

TRACE = handmade_runs.three_turns()
VOTE = Vote(
    datetime(2026, 11, 22, tzinfo=UTC), Verdict(OA=Preference.SECOND), note="It is sharper."
)
ANNA, BERT = owner_of({COOKIE: "a" * 43}), owner_of({COOKIE: "b" * 43})


class Server:
    """What a server keeps, in `folder`; another one with the same folder is that server started again."""

    def __init__(
        self,
        folder: Path,
        run_job: JobRunner = finish_at_once,
        keeping: Keeping | None = None,
        at_once: int = 4,
    ) -> None:
        self.folder = folder
        self.store = RunStore(folder / "runs")
        self.sessions = Sessions(folder / str(time.time_ns()), run_job, at_once)
        self.history = History(self.store, self.sessions, keeping or Keeping())

    def run(
        self, page: str = "page", owner: str = ANNA, prompt: str = "A ball pans steadily."
    ) -> Session:
        videos = [self.folder / "a.mp4", self.folder / "b.mp4"]
        for path in videos:
            path.write_bytes(path.name.encode())
        return self.sessions.start_run(page, VideoPair(prompt, *videos), Settings(), owner=owner)

    def outcomes(self, owner: str = ANNA) -> list[str]:
        return [row["outcome"] for row in self.history.rows(owner)]

    def close(self) -> None:
        self.sessions.close()
        self.history.close()


def test_every_run_of_a_visit_is_listed_and_opens_after_a_restart(tmp_path: Path) -> None:
    server = Server(tmp_path)
    first = server.run(prompt="First.")
    until(lambda: server.outcomes() == ["Video 1 is better overall"])
    server.run()
    until(lambda: server.outcomes() == ["Video 1 is better overall"] * 2)
    server.sessions.end("page")
    server.close()
    again = Server(tmp_path)
    rows = again.history.rows(ANNA)
    assert [row["name"] for row in rows][-1] == first.kept, "the latest stands first"
    assert all(row["over"] and row["judge"] == "Judge: by hand" for row in rows)
    trace, videos = again.history.open(ANNA, first.kept)
    assert trace == handmade_runs.three_turns()
    assert sorted(path.read_bytes() for path in videos) == [b"a.mp4", b"b.mp4"]


def test_nobody_sees_opens_or_deletes_the_run_of_another(tmp_path: Path) -> None:
    server = Server(tmp_path)
    name = server.run().kept
    until(lambda: server.outcomes() == ["Video 1 is better overall"])
    for other in (BERT, ""):
        assert server.history.rows(other) == []
        assert server.history.videos(other, handmade_runs.three_turns()) == []
        with pytest.raises(TraceError) as refused:
            server.history.open(other, name)
        with pytest.raises(TraceError) as unknown:
            server.history.open(other, "0" * 24)
        assert str(refused.value) == str(unknown.value)
        server.history.delete(other, [name])
        server.history.delete(other)
    assert [row["name"] for row in server.history.rows(ANNA)] == [name]
    server.history.delete(ANNA)
    assert server.history.rows(ANNA) == []


def test_the_list_tells_a_branch_from_its_origin_while_it_goes_on_and_after_a_restart(
    tmp_path: Path,
) -> None:
    origin = Origin(TRACE.started.prompt, TRACE.started.judge, TRACE.started.settings)
    started = replace(TRACE.started, branch=Branch(origin, 2, frames=(16, 48)))

    def branch(job: RunJob) -> Generator[Event, None, None]:
        yield started
        until(job.stop_file.exists)

    server = Server(tmp_path, branch)
    server.history.keep(ANNA, TRACE, ())
    session = server.run()
    branches = ["From turn 2, with frames 16, 48", ""]
    until(lambda: [row["branch"] for row in server.history.rows(ANNA)] == branches)
    session.run.stop()
    server.close()
    assert [row["branch"] for row in Server(tmp_path).history.rows(ANNA)] == branches


def test_a_vote_is_kept_with_the_run(tmp_path: Path) -> None:
    server = Server(tmp_path)
    session = server.run()
    until(lambda: server.outcomes() == ["Video 1 is better overall"])
    server.sessions.add_vote("page", session, VOTE)
    assert server.history.open(ANNA, session.kept)[0].vote == VOTE
    shared = server.sessions.start_replay(
        "another page", handmade_runs.three_turns(), "a-link", owner=ANNA
    )
    server.sessions.add_vote("another page", shared, VOTE)
    copy = server.sessions.get("another page")
    assert copy is not None
    assert copy.kept not in ("", session.kept), "a run that was not theirs becomes one of theirs"
    assert server.history.open(ANNA, copy.kept)[0].vote == VOTE
    assert len(server.history.rows(ANNA)) == 2


def test_a_verdict_that_waits_for_a_vote_stands_in_no_list(tmp_path: Path) -> None:
    server = Server(tmp_path)
    session = server.run()
    session.disclosure.begin(hidden=True)
    until(lambda: server.outcomes() == ["Hidden until you vote"])
    server.sessions.add_vote("page", session, VOTE)
    assert server.outcomes() == ["Video 1 is better overall"]


def test_a_check_that_is_left_goes_on_also_where_another_page_shows_its_run(tmp_path: Path) -> None:
    server = Server(tmp_path, run_until_stopped, Keeping(after_leaving=60))
    session = server.run()
    until(lambda: session.run.state.turns)
    session.run.stop()
    until(lambda: session.run.over)
    server.sessions.attach("another page", session)
    checked = server.sessions.check_order(
        "another page", session, VideoPair("", *session.files), Settings()
    )
    server.sessions.end("another page")
    assert server.history.live(ANNA, session.kept) is checked
    assert server.sessions.seconds_left(checked) > 0
    checked.run.stop()
    until(lambda: server.history.live(ANNA, session.kept) is None)
    assert server.sessions.get("page") is session
    assert session.thumbnails.add(b"a picture", ".jpg"), "the files of the run are still there"


def test_a_run_that_is_left_goes_on_and_the_same_visitor_finds_it(tmp_path: Path) -> None:
    server = Server(tmp_path, run_until_stopped, Keeping(after_leaving=60))
    session = server.run()
    until(lambda: session.run.state.turns)
    server.sessions.end("page")  # the page was reloaded
    assert not session.run.over
    assert server.outcomes() == ["Goes on"]
    assert server.history.live(BERT, session.kept) is None
    found = server.history.live(ANNA, session.kept)
    assert found is session
    server.sessions.attach("another page", found)
    server.sessions.attach("a third page", found)
    server.sessions.end("another page")
    assert server.sessions.seconds_left(session) == 0
    assert server.sessions.get("a third page") is session
    assert not session.run.over
    session.run.stop()
    until(lambda: server.outcomes() == ["Stopped"])
    server.close()


def test_a_run_that_nobody_comes_back_to_is_stopped_and_kept(tmp_path: Path) -> None:
    server = Server(tmp_path, run_until_stopped, Keeping(after_leaving=0.3))
    session = server.run()
    until(lambda: session.run.state.turns)
    time.sleep(0.6)
    assert not session.run.over, "it is still shown"
    server.sessions.end("page")
    until(lambda: session.run.over)
    until(lambda: server.outcomes() == ["Stopped"])
    until(lambda: server.sessions.find_run(session.name) is None)
    trace, _ = server.history.open(ANNA, session.kept)
    assert trace.finished is not None
    assert trace.finished.stop is StopReason.CANCELLED


def test_a_run_that_was_left_gives_way_to_one_that_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "GIVE_WAY_SECONDS", 0.1)
    server = Server(tmp_path, run_until_stopped, Keeping(after_leaving=600), at_once=1)
    left = server.run("anna")
    until(lambda: left.run.state.turns)
    server.sessions.end("anna")
    waiting = server.run("bert", BERT)
    until(lambda: waiting.run.state.turns)
    assert left.run.over
    server.close()


def test_the_next_comparison_of_a_visitor_stops_the_one_they_left(tmp_path: Path) -> None:
    server = Server(tmp_path, run_until_stopped, Keeping(after_leaving=600))
    left = server.run()
    until(lambda: left.run.state.turns)
    server.sessions.start_replay(
        "page", handmade_runs.three_turns(), owner=ANNA
    )  # an example was opened
    assert not left.run.over
    server.run("page", owner="")  # whose it is, is known from what the page has shown
    until(lambda: left.run.over)
    until(lambda: server.outcomes() == ["Goes on", "Stopped"])
    server.close()


def test_what_a_killed_server_had_of_a_run_is_kept(tmp_path: Path) -> None:
    def two_turns_and_no_end(job: RunJob) -> Generator[Event, None, None]:
        events = list(handmade_runs.three_turns().events())
        ends = [
            number for number, event in enumerate(events) if type(event).__name__ == "TurnEnded"
        ]
        yield from events[: ends[1] + 1]
        while not job.stop_file.exists():
            time.sleep(0.01)

    server = Server(tmp_path, two_turns_and_no_end)
    session = server.run()
    until(
        lambda: server.store.get(session.kept) and len(server.store.trace(session.kept).turns) == 2
    )
    after_kill = Server(tmp_path)  # nothing told the first one to end
    assert after_kill.outcomes() == ["Cut off before it ended"]
    trace, videos = after_kill.history.open(ANNA, session.kept)
    assert trace.turns == handmade_runs.three_turns().turns[:2]
    assert len(videos) == 2
    server.close()


def test_deleting_ends_a_run_that_goes_on_and_the_links_to_it(tmp_path: Path) -> None:
    server = Server(tmp_path, run_until_stopped)
    shared = SharedTraces(server.store)
    session = server.run()
    until(lambda: server.store.get(session.kept))
    link = shared.add(session.kept, handmade_runs.three_turns(), ANNA)
    server.history.delete(ANNA, [session.kept])
    until(lambda: session.run.over)
    server.close()
    assert server.history.rows(ANNA) == []
    assert not shared.has(link)
    assert server.store.records() == {}


def test_a_visitor_keeps_a_bounded_number_of_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_LISTED", 3)
    server = Server(tmp_path)
    kept = [server.history.keep(ANNA, handmade_runs.three_turns()) for _ in range(5)]
    server.history.keep(BERT, handmade_runs.three_turns())
    assert [row["name"] for row in server.history.rows(ANNA)] == kept[:1:-1]
    assert len(server.history.rows(BERT)) == 1


def test_a_server_that_keeps_nothing_keeps_nothing(tmp_path: Path) -> None:
    server = Server(tmp_path, run_until_stopped, Keeping(seconds=0))
    session = server.run()
    until(lambda: session.run.state.turns)
    session.run.stop()
    checked = server.sessions.check_order(
        "page", session, VideoPair("", Path("a.mp4"), Path("b.mp4")), Settings()
    )
    assert (session.kept, checked.kept) == ("", ""), "no address names a run that is not kept"
    server.sessions.end("page")
    assert session.run.join(PATIENCE_S)
    assert server.history.rows(ANNA) == []
    assert server.history.keep(ANNA, handmade_runs.three_turns()) == ""
    assert server.store.records() == {}
    assert "keeps no runs" in server.history.help
