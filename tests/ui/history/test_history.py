"""The history: every run of a visitor is kept whole, also one that was left, and nobody sees another's."""

from __future__ import annotations

import time
from collections.abc import Generator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from tests.support.waiting import PATIENCE_S, until
from tests.ui.sessions.test_background_run import finish_at_once, run_until_stopped
from tests.ui.support import handmade_runs
from vrthinker_core.errors import TraceError
from vrthinker_core.types import Preference, Settings, Verdict, VideoPair, Vote
from vrthinker_core.types.events import Branch, Event, Origin, StopReason
from vrthinker_core.ui import hidden_view as votes
from vrthinker_core.ui import visitor_history as module
from vrthinker_core.ui.background_run import JobRunner, RunJob
from vrthinker_core.ui.file_routes import HistoryRoutes
from vrthinker_core.ui.page_sessions import Session, Sessions
from vrthinker_core.ui.run_store import (
    COOKIE,
    RunRecord,
    RunStore,
    VisitorCookieMiddleware,
    owner_of,
)
from vrthinker_core.ui.shared_traces import SharedTraces
from vrthinker_core.ui.visitor_history import History, Keeping

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
    assert copy.kept not in ("", session.kept), "a run that was not theirs becomes one of theirs"
    assert server.history.open(ANNA, copy.kept)[0].vote == VOTE
    assert len(server.history.rows(ANNA)) == 2


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


def test_a_vote_on_a_run_that_goes_on_opens_whenever_the_server_dies(tmp_path: Path) -> None:
    server = Server(tmp_path, run_until_stopped)
    session = server.run()
    until(lambda: session.run.state.turns)
    slots = {frame.ref.slot for turn in session.run.state.turns for frame in turn.frames}
    server.sessions.add_vote("page", session, replace(VOTE, slots=tuple(slots)[:2]))
    until(lambda: server.store.get(session.kept))
    vote = server.store.trace(session.kept).vote
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
    assert server.store.trace(anew.kept).vote == VOTE


def client_of(server: Server, in_frame: bool = False) -> TestClient:
    page = Route("/", lambda _request: PlainTextResponse("the page"))
    app = Starlette(routes=[page, *HistoryRoutes(server.history).routes()])
    app.add_middleware(VisitorCookieMiddleware, in_frame=in_frame)
    return TestClient(app, base_url="https://testserver")


def test_a_visitor_is_known_by_a_cookie_that_the_page_sets(tmp_path: Path) -> None:
    server = Server(tmp_path)
    anna, bert = client_of(server), client_of(server)
    assert "set-cookie" not in anna.get("/history").headers
    told = anna.get("/").headers["set-cookie"]
    bert.get("/")
    assert all(word in told for word in ("HttpOnly", "SameSite=Lax", "Path=/"))
    value = anna.cookies[COOKIE]
    assert anna.get("/").headers["set-cookie"] == told, "it stays the same"
    assert value != bert.cookies[COOKIE]
    session = server.run(owner=owner_of({COOKIE: value}), prompt="Anna's.")
    until(
        lambda: (
            [row["outcome"] for row in anna.get("/history").json()["runs"]]
            == ["Video 1 is better overall"]
        )
    )
    assert bert.get("/history").json()["runs"] == []
    assert bert.delete(f"/history/{session.kept}").json()["runs"] == []
    assert len(anna.get("/history").json()["runs"]) == 1
    everything = b"".join(
        path.read_bytes() for path in (tmp_path / "runs").rglob("*") if path.is_file()
    )
    assert value.encode() not in everything, "only its hash is kept"
    assert anna.delete(f"/history/{session.kept}").json()["runs"] == []
    framed = client_of(server, in_frame=True).get("/").headers["set-cookie"]
    assert all(word in framed for word in ("HttpOnly", "SameSite=None", "Secure", "Partitioned"))


@pytest.mark.parametrize("value", ["", "x", "a" * 42, "a" * 44, "../" * 14 + "a", "é" * 43])
def test_a_cookie_that_we_did_not_set_is_nobodys(value: str) -> None:
    assert owner_of({COOKIE: value}) == ""


def test_with_vote_first_a_verdict_is_listed_only_once_its_visitor_has_voted(
    tmp_path: Path,
) -> None:
    server = Server(tmp_path, run_until_stopped)
    server.run().run.stop()
    until(lambda: server.outcomes() == ["Stopped"])
    name, voted = (server.history.keep(ANNA, trace) for trace in (TRACE, replace(TRACE, vote=VOTE)))
    client = client_of(server)
    client.cookies.update({COOKIE: "a" * 43, votes.COOKIE: votes.ON})
    assert [row["outcome"] for row in client.get("/history").json()["runs"]] == [
        "Video 1 is better overall",
        "Hidden until you vote",
        "Stopped",
    ]
    session = server.sessions.start_replay(
        "page", server.history.open(ANNA, name)[0], owner=ANNA, kept=name
    )
    session.disclosure.begin(True)
    session.disclosure.show()
    shown = {row["name"]: row["outcome"] for row in client.get("/history").json()["runs"]}
    assert shown[name] == shown[voted] == "Video 1 is better overall", (
        "what a page shows is no secret"
    )
    session.disclosure.begin(True)
    server.sessions.add_vote("page", session, VOTE)
    server.sessions.end("page")
    shown = {row["name"]: row["outcome"] for row in client.get("/history").json()["runs"]}
    assert shown[name] == shown[voted] == "Video 1 is better overall"
