"""Sessions and the waiting room: runs never mix, files are removed, and nobody keeps a place for ever."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
import time
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.benchmarks.tools.numbered_clips import write_pair
from tests.benchmarks.tools.page_client import ObservedRun, PageClient, PageConfig
from tests.support.threads import run_in_thread
from tests.support.waiting import PATIENCE_S, until
from tests.ui.conftest import Serve
from tests.ui.sessions.test_background_run import finish_at_once, run_until_stopped
from tests.ui.support import handmade_runs
from tests.ui.support.saved_examples import SCRIPT
from vrthinker_core.traces import from_json, to_json
from vrthinker_core.types import Settings, Side, VideoPair
from vrthinker_core.types.events import Event, Finished, StopReason, Trace
from vrthinker_core.ui import waiting_room
from vrthinker_core.ui.app import give_back_memory
from vrthinker_core.ui.background_run import RunJob
from vrthinker_core.ui.page_sessions import Sessions
from vrthinker_core.ui.waiting_room import WaitingRoom

PAIR = VideoPair("A ball pans steadily.", Path("a.mp4"), Path("b.mp4"))


def files(folder: Path) -> list[Path]:
    """Every file below `folder`; folders may be removed meanwhile."""
    return [Path(place, name) for place, _, names in os.walk(folder) for name in names]


def test_ending_a_session_stops_the_judge_and_removes_its_files(tmp_path: Path) -> None:
    sessions = Sessions(tmp_path, run_until_stopped)
    session = sessions.start_run("anna", PAIR, Settings())
    until(lambda: session.run.state.turns)
    session.thumbnails(handmade_runs.thumbnail(16, Side.FIRST))
    assert files(tmp_path)
    sessions.end("anna")
    assert session.run.join(PATIENCE_S)
    until(lambda: not files(tmp_path))
    assert sessions.get("anna") is None
    sessions.end("anna")


def test_a_thumbnail_that_comes_after_the_end_is_not_written(tmp_path: Path) -> None:
    sessions = Sessions(tmp_path, finish_at_once)
    session = sessions.start_run("anna", PAIR, Settings())
    session.thumbnails(handmade_runs.thumbnail(16, Side.FIRST))
    sessions.end("anna")
    until(lambda: not files(tmp_path))
    assert session.thumbnails(handmade_runs.thumbnail(18, Side.FIRST)).src == ""
    assert not files(tmp_path)


def test_closing_stops_every_judge(tmp_path: Path) -> None:
    sessions = Sessions(tmp_path, run_until_stopped, at_once=2)
    started = [sessions.start_run(name, PAIR, Settings()) for name in ("anna", "bert", "cleo")]
    until(lambda: sum(bool(session.run.state.turns) for session in started) == 2)
    sessions.close()
    assert all(session.run.over for session in started)


def test_runs_never_mix(tmp_path: Path) -> None:
    def echo(job: RunJob) -> Generator[Event, None, None]:
        yield handmade_runs.started(prompt=job.pair.prompt)
        yield from list(handmade_runs.three_turns().events())[1:]

    sessions = Sessions(tmp_path, echo, at_once=4)
    names = [f"visitor {number}" for number in range(40)]
    started = [
        sessions.start_run(name, VideoPair(name, Path("a"), Path("b")), Settings())
        for name in names
    ]
    until(lambda: all(session.run.over for session in started))
    assert [
        session.run.state.started.prompt for session in started if session.run.state.started
    ] == names
    assert len({session.name for session in started}) == len(started)


def test_one_slot_means_one_judge_at_a_time(tmp_path: Path) -> None:
    running = threading.Semaphore(1)

    def alone(job: RunJob) -> Generator[Event, None, None]:
        assert running.acquire(blocking=False), "two judges at once"
        yield from finish_at_once(job)
        running.release()

    sessions = Sessions(tmp_path, alone)
    started = [sessions.start_run(str(number), PAIR, Settings()) for number in range(8)]
    until(lambda: all(session.run.over for session in started))
    assert all(
        session.run.state.finished and not session.run.state.finished.fault for session in started
    )


def test_a_thumbnail_is_written_once(tmp_path: Path) -> None:
    session = Sessions(tmp_path, finish_at_once).start_run("anna", PAIR, Settings())
    frame = handmade_runs.thumbnail(16, Side.FIRST)
    found = session.thumbnails(frame)
    (path,) = (tmp_path / "pictures").rglob("*.jpg")
    assert path.read_bytes() == frame.jpeg
    assert found.src == f"frames/{session.name}/{path.name}"
    assert (found.width, found.height) == (96, 96)
    path.unlink()
    assert session.thumbnails(handmade_runs.thumbnail(16, Side.FIRST)) == found
    assert not path.exists()


def test_an_old_session_without_an_unload_event_expires(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sessions = Sessions(tmp_path, finish_at_once)
    long_ago = replace(
        handmade_runs.three_turns(),
        finished=Finished(StopReason.ANSWERED, handmade_runs.WHOLE, seconds=1e6),
    )
    sessions.start_replay("anna", long_ago)
    sessions.start_replay("bert", handmade_runs.three_turns())
    assert sessions.get("anna") is not None, "how long the run once took does not matter"
    monkeypatch.setattr("vrthinker_core.ui.page_sessions.SESSION_SECONDS", -1.0)
    sessions.start_replay("cleo", handmade_runs.three_turns())
    assert (sessions.get("anna"), sessions.get("bert")) == (None, None)
    assert sessions.get("cleo") is not None


def test_a_session_is_kept_for_an_hour_after_it_was_used_last_and_while_its_page_is_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    later = [0.0]
    clock = SimpleNamespace(monotonic=lambda: time.monotonic() + later[0])
    monkeypatch.setattr("vrthinker_core.ui.page_sessions.time", clock)
    sessions = Sessions(tmp_path, run_until_stopped)
    slow = sessions.start_run("slow", PAIR, Settings(), owner="anna")
    for each in ("open", "asks", "unused"):
        sessions.start_replay(each, handmade_runs.three_turns(), owner="anna", kept=each)
    sessions.is_open = {"open"}.__contains__

    def after(seconds: float) -> list[str]:
        later[0] += seconds
        sessions.expire()
        return [
            {slow.kept: "slow"}.get(session.kept, session.kept)
            for session in sessions.runs_of("anna")
        ]

    assert after(3000) == ["slow", "open", "asks", "unused"]
    asks = sessions.get("asks")
    assert after(3000) == ["slow", "open", "asks"]
    assert sessions.find_run(asks.name) is asks
    slow.run.stop()
    assert after(3000) == ["slow", "open", "asks"], "the hour begins when the run is over"
    assert after(1000) == ["open"]
    sessions.is_open = frozenset[str]().__contains__
    assert after(3000) == ["open"], "the hour begins when the page is closed"
    assert after(1000) == []


def test_sessions_beyond_the_maximum_are_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vrthinker_core.ui.page_sessions.MAX_SESSIONS", 3)
    sessions = Sessions(tmp_path, run_until_stopped)
    live = sessions.start_run("live", PAIR, Settings())
    for number in range(9):
        sessions.start_replay(str(number), handmade_runs.three_turns())
    assert sessions.get("live") is live
    assert [name for name in map(str, range(9)) if sessions.get(name)] == ["6", "7", "8"]
    sessions.close()


def large_trace(number: int, megabytes: int) -> Trace:
    """A trace with pictures of that size."""
    trace = handmade_runs.three_turns(prompt=f"stranger {number}")
    jpeg = handmade_runs.jpeg(1, 2, number)
    frames = tuple(
        replace(
            handmade_runs.thumbnail(slot, Side.FIRST), jpeg=jpeg + bytes(2**18 - len(jpeg) - slot)
        )
        for slot in range(4 * megabytes)
    )
    return replace(trace, turns=(replace(trace.turns[0], frames=frames), *trace.turns[1:]))


def test_what_sessions_keep_has_a_budget_and_the_oldest_go_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vrthinker_core.ui.page_sessions.MAX_KEPT_BYTES", 10 * 2**20)
    sessions = Sessions(tmp_path, run_until_stopped)
    live = sessions.start_run("live", PAIR, Settings())
    sessions.start_replay("small", handmade_runs.three_turns())
    for number in range(8):
        sessions.start_replay(str(number), large_trace(number, 3))
    assert sessions.get("live") is live
    assert [name for name in ("small", *map(str, range(8))) if sessions.get(name)] == [
        "5",
        "6",
        "7",
    ]
    sessions.start_replay("one larger than all", large_trace(8, 12))
    assert [name for name in map(str, range(8)) if sessions.get(name)] == []
    assert sessions.get("one larger than all") is not None
    sessions.close()


@pytest.mark.skipif(
    not Path("/proc/self/statm").exists(),
    reason="this machine does not say how much memory a process holds",
)
def test_the_memory_of_traces_that_were_dropped_is_given_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def resident() -> float:
        return (
            int(Path("/proc/self/statm").read_text().split()[1])
            * os.sysconf("SC_PAGE_SIZE")
            / 2**20
        )

    monkeypatch.setattr("vrthinker_core.ui.page_sessions.MAX_KEPT_BYTES", 100 * 2**20)
    sessions, data = Sessions(tmp_path, finish_at_once), to_json(large_trace(0, 24))
    before = resident()
    for number in range(12):
        sessions.start_replay(str(number), from_json(data))
    assert resident() - before < 250
    for number in range(12):
        sessions.end(str(number))
    until(lambda: (gc.collect(), give_back_memory(), resident() - before < 40)[-1])


@pytest.mark.parametrize("jpeg", [b"", b"<svg onload=alert(1)>", b"\xff\xd8\xff"])
def test_a_broken_jpeg_raises_nothing(tmp_path: Path, jpeg: bytes) -> None:
    session = Sessions(tmp_path, finish_at_once).start_run("anna", PAIR, Settings())
    found = session.thumbnails(replace(handmade_runs.thumbnail(16, Side.FIRST), jpeg=jpeg))
    assert (found.width, found.height) == (1, 1)
    assert found.src.endswith(".jpg")


def test_a_run_holds_its_place_until_it_ends() -> None:
    room = WaitingRoom(1)
    assert room.join("anna")
    with room.active("anna"):
        assert not room.join("bert")
    assert room.join("bert")
    assert room.leave("bert"), "still waiting"


def test_leaving_during_the_run_gives_the_place_back() -> None:
    room = WaitingRoom(1)
    assert room.join("anna")
    with room.active("anna"):
        assert not room.leave("anna")
        assert room.join("bert")
    assert not room.join("anna"), "the end of an old run gives back no place but its own"
    assert room.leave("bert")


def test_a_place_taken_anew_outlives_the_old_run() -> None:
    room = WaitingRoom(1)
    assert room.join("anna")
    with room.active("anna"):
        assert room.join("anna")
    assert not room.join("bert")
    assert room.leave("anna")


def test_a_place_that_nobody_takes_up_is_given_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    room = WaitingRoom(3)
    assert all(map(room.join, ("queued", "gone", "lost")))
    monkeypatch.setattr(waiting_room, "CLAIM_SECONDS", -1)
    queued = {"queued"}
    for late in ("late", "later"):
        assert room.join(late, queued.__contains__)
        queued.add(late)
    assert not room.join("last", queued.__contains__)


def test_a_free_judge_takes_a_visitor_though_nobody_may_wait(serve: Serve, tmp_path: Path) -> None:
    server = serve(SCRIPT, "--at-once", "2", "--waiting", "0", protocol="paired", pause=0.02)

    async def three() -> list[ObservedRun]:
        site = await PageConfig.open(server.url)
        visitors = [PageClient(site) for _ in range(3)]
        both = await visitors[0].open_with_clips(write_pair(tmp_path, 0))
        await asyncio.gather(*(visitor.open() for visitor in visitors[1:]))
        seen = await asyncio.gather(
            *(visitor.compare(both, "A block glides.") for visitor in visitors)
        )
        await asyncio.gather(*(visitor.close() for visitor in visitors))
        return seen

    seen = run_in_thread(three())
    assert [sum(run.complete for run in seen), sum(run.busy for run in seen)] == [2, 1]


def test_a_place_is_left_by_its_number_and_no_later_one_with_it() -> None:
    room = WaitingRoom(2)
    first = room.join("anna")
    with room.active("anna") as number:
        assert number == first == room.number("anna")
    assert room.number("anna") == 0
    second = room.join("anna")
    assert second > first
    assert not room.leave("anna", first)
    assert room.number("anna") == second
    assert room.next_number() > second
    assert room.leave("anna", second)
    with room.active("anna") as number:
        assert number > second
        assert room.number("anna") == 0, "who has left has no place"
