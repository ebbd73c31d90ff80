"""A run in its thread, and what sessions keep of runs: all that is seen, bounded, with its page."""

import gc
import os
import threading
import time
from collections.abc import Generator
from dataclasses import replace
from functools import reduce
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.waiting import PATIENCE_S, until
from tests.ui.conftest import within
from tests.ui.support import handmade_runs
from tests.ui.support.api import files
from tests.ui.support.inside import BRANCH, RUN, finish_at_once, make_sessions, run_until_stopped
from vrthinker_core.errors import BackendFailed
from vrthinker_core.system import give_back_memory
from vrthinker_core.traces import from_json, storable, to_json
from vrthinker_core.types import Settings, Side, StopReason, Trace, VideoPair
from vrthinker_core.types.events import (
    Event,
    Finished,
    FramesShown,
    Pace,
    Swapped,
    TextArrived as Text,
    add_event,
)
from vrthinker_core.ui.history import SavedRun
from vrthinker_core.ui.queue import JudgeQueue
from vrthinker_core.ui.run import BackgroundRun, JobRunner, Replay, RunJob
from vrthinker_core.ui.sessions import Sessions, ShownRun
from vrthinker_core.ui.visitors import Visitor

PAIR = VideoPair(RUN.started.prompt, Path("a.mp4"), Path("b.mp4"))
Events = Generator[Event, None, None]


@pytest.fixture
def job(tmp_path: Path) -> RunJob:
    return RunJob(PAIR, Settings(), tmp_path / "trace.json", tmp_path / "stop")


def start(job: RunJob, run_job: JobRunner, queue: Any = None, first: Any = None) -> BackgroundRun:
    run = BackgroundRun(job, run_job, queue or JudgeQueue(), first)
    run.start()
    return run


def test_stop_waits_for_no_judge_and_one_that_hangs_keeps_its_place(job: RunJob) -> None:
    let_go, queue = threading.Event(), JudgeQueue()

    def hang(job: RunJob) -> Events:
        yield from Trace(RUN.started, RUN.turns[:1]).events()
        yield FramesShown(2, "more", handmade_runs.pairs([7, 90]))
        yield Text(2, "<Snapshot>a ball</Snapshot><Think>it ro")
        let_go.wait()
        yield Text(2, "too late")

    run = start(job, hang, queue)
    until(lambda: run.trace and run.trace.open and run.trace.open.text)
    with within(3):
        run.stop()
    trace = run.trace
    last = trace.turns[-1]
    assert (last.number, last.told, last.frames) == (2, "more", handmade_runs.pairs([7, 90]))
    assert last.completion.stop == trace.finished.stop == StopReason.CANCELLED
    assert (last.reply.snapshot, last.reply.think) == ("a ball", "it ro")
    assert from_json(to_json(trace)) == trace
    following = start(job, finish_at_once, queue)
    assert not following.join(0.3)
    assert not following.begun
    let_go.set()
    until(lambda: following.over)
    assert run.trace == trace, "events after the end change nothing"


def test_a_judge_that_ignores_the_stop_file_is_closed(job: RunJob) -> None:
    closed = threading.Event()

    def never_stop(job: RunJob) -> Events:
        try:
            yield handmade_runs.started()
            yield FramesShown(1, "told", handmade_runs.pairs([16]))
            while True:
                yield Text(1, "and ")
        finally:
            closed.set()

    run = start(job, never_stop)
    run.request_stop()
    assert run.join(PATIENCE_S)
    assert closed.is_set()
    assert run.trace.finished.stop is StopReason.CANCELLED


def fail(job: RunJob) -> Events:
    yield handmade_runs.started()
    raise BackendFailed("The judge broke.")


def fail_badly(job: RunJob) -> Events:
    yield handmade_runs.started()
    raise RuntimeError("a secret path")


def hang_in_the_second(job: RunJob) -> Events:
    yield from RUN.events()
    yield Swapped(replace(RUN.started, clips=RUN.started.clips[::-1]))
    until(job.stop_file.exists)


@pytest.mark.parametrize("run_job", [fail, fail_badly, run_until_stopped, hang_in_the_second])
def test_the_end_of_a_second_run_leaves_the_first_whole(job: RunJob, run_job: JobRunner) -> None:
    both, fails = run_job is hang_in_the_second, run_job in (fail, fail_badly)
    job = replace(job, settings=Settings(swap="on" if both else "off"))
    run = start(job, run_job, first=None if both else RUN)
    begun = run_job is run_until_stopped
    until(lambda: ((run.trace and run.trace.swapped) or begun) and (run.over or not fails))
    assert run.over == fails, "a run in both orders is over when the second one is"
    run.stop()
    assert replace(run.trace, swapped=None) == RUN
    end = run.trace.swapped.finished
    assert end.stop is (StopReason.FAILED if fails else StopReason.CANCELLED)
    assert (end.error == "The judge broke.") == (run_job is fail)
    assert (end.error.endswith("."), "secret" in end.error) == (fails, False)
    assert end.fault == {fail: "BackendFailed", fail_badly: "RuntimeError"}.get(run_job, "")


def test_no_second_run_follows_one_without_a_verdict(job: RunJob) -> None:
    unread = replace(RUN, finished=Finished(StopReason.NO_ANSWER))
    run = start(replace(job, settings=Settings(swap="on")), lambda _: (e for e in unread.events()))
    assert run.join(PATIENCE_S)
    assert run.trace == unread


def test_a_saved_run_replays_as_the_live_one_without_a_turn_that_never_ended() -> None:
    """A trace gives the same state as its events, without its text piece by piece."""
    told = handmade_runs.both_orders(trace=handmade_runs.telling_probabilities("So."))
    for trace in (RUN, told):
        replay = Replay(from_json(to_json(trace)))
        assert replay.trace == reduce(add_event, trace.events(), None) == trace
        assert replay.over
    begun = reduce(add_event, list(RUN.events())[:-3], None)
    assert begun.open.shown
    assert storable(begun) == from_json(to_json(begun)) == Trace(RUN.started, RUN.turns[:2])
    never = add_event(RUN, Swapped(Finished(StopReason.CANCELLED)))
    assert never == RUN, "a second run that never began"


def test_turns_that_are_taken_over_tell_nothing_of_the_time_left() -> None:
    pace = reduce(lambda pace, event: pace.after(event, 0.0), BRANCH.events(), Pace())
    assert pace.seconds_left(5.0, 6) is None


# -- sessions ------------------------------------------------------------------------------------

ANNA, BERT = "a" * 64, "b" * 64
MODULE = "vrthinker_core.ui.sessions."
FRAME = handmade_runs.thumbnail(16, Side.FIRST)
Patch = pytest.MonkeyPatch


def waiting(sessions: Sessions, page: str, owner: str = "") -> ShownRun:
    return sessions.start_run(sessions.get(page), PAIR, Settings(), "", Visitor(owner))


def shown(sessions: Sessions, page: str, owner: str = "", run: ShownRun | None = None) -> ShownRun:
    """A run that goes on, or is over, on that page."""
    run = run or waiting(sessions, page, owner)
    until(lambda: run.run.trace and (run.run.trace.turns or run.run.trace.open))
    sessions.show(sessions.get(page), run)
    return run


def replayed(sessions: Sessions, page: str, trace: Trace = RUN, owner: str = "") -> ShownRun:
    session, saved = sessions.get(page), SavedRun(trace, kept=owner and page)
    return sessions.start_replay(session, saved, owner=owner)


@pytest.mark.parametrize("end", ["closed", "another run", "as it waits", "unfollowed"])
def test_a_run_that_no_page_shows_is_stopped_and_its_files_go(tmp_path: Path, end: str) -> None:
    known = end == "another run"  # nobody comes back to the run of a visitor who is not
    sessions = make_sessions(tmp_path, run_until_stopped, after_leaving=0.0 if known else 600.0)
    if end == "as it waits":
        shown(sessions, "before it")
    run = (waiting if end == "as it waits" else shown)(sessions, "page", ANNA if known else "")
    run.thumbnails(FRAME)
    assert set(run.files) <= set(sessions.files()), "nobody else deletes its videos"
    if end == "another run":
        replayed(sessions, "page")
    if end == "unfollowed":
        session = sessions.get("page")
        for followers in (0, 1, 0):
            session.followers = followers
            sessions.drop_unfollowed()
        assert sessions.get("page") is session, "an event follows it, or may yet"
        sessions.drop_unfollowed()
    else:
        sessions.end("page")
    assert run.run.join(PATIENCE_S)
    until(lambda: not [path for path in files(tmp_path) if run.name in path.parts])
    assert sessions.find_run(run.name) is None
    assert run.thumbnails(replace(FRAME, jpeg=b"late")).src == ""
    sessions.close()


def test_a_thumbnail_is_written_once_whatever_its_bytes_are(tmp_path: Path) -> None:
    run = replayed(make_sessions(tmp_path), "page")
    found = run.thumbnails(FRAME)
    (path,) = (tmp_path / "page" / "pictures").rglob("*.jpg")
    assert path.read_bytes() == FRAME.jpeg
    assert found == (f"frames/{run.name}/{path.name}", 1.0)
    path.unlink()
    assert run.thumbnails(replace(FRAME)) == found
    assert not path.exists()
    for jpeg in (b"", b"<svg onload=alert(1)>", b"\xff\xd8\xff"):
        broken, ratio = run.thumbnails(replace(FRAME, jpeg=jpeg))
        assert (broken[-4:], ratio) == (".jpg", 1)


def test_a_run_that_was_left_goes_on_for_a_while_for_its_visitors_pages(tmp_path: Path) -> None:
    sessions = make_sessions(tmp_path, run_until_stopped, after_leaving=0.5)
    run = shown(sessions, "page", ANNA)
    sessions.end("page")
    assert (sessions.runs_of(ANNA), sessions.runs_of(BERT)) == ([run], [])
    for page in ("another", "a third"):
        shown(sessions, page, run=run)
    sessions.end("another")
    time.sleep(0.8)
    assert not run.run.over, "a page shows it"
    sessions.end("a third")
    assert not run.run.over
    until(lambda: run.run.over and sessions.find_run(run.name) is None)


def test_a_left_run_gives_way_to_who_waits(tmp_path: Path, monkeypatch: Patch) -> None:
    sessions = make_sessions(tmp_path, run_until_stopped, at_once=2, after_leaving=600.0)
    left = shown(sessions, "left", ANNA)
    sessions.end("left")
    replayed(sessions, "page", owner=ANNA)
    assert not left.run.over
    following = shown(sessions, "page")  # whose it is, is known from what the page has shown
    assert left.run.join(PATIENCE_S)
    sessions.end("page")
    shown(sessions, "a stranger's")
    assert not following.run.over
    monkeypatch.setattr(MODULE + "GIVE_WAY_SECONDS", 0.2)
    shown(sessions, "another stranger's")
    assert following.run.over
    sessions.close()


def test_a_session_ends_an_hour_after_its_last_use(tmp_path: Path, monkeypatch: Patch) -> None:
    later, opened = [0.0], {"open"}
    clock = SimpleNamespace(monotonic=lambda: time.monotonic() + later[0], time=time.time)
    monkeypatch.setattr(MODULE + "time", clock)
    options: Any = {"after_leaving": 0.0, "is_open": opened.__contains__}
    sessions = make_sessions(tmp_path, run_until_stopped, **options)
    slow = shown(sessions, "slow", ANNA)
    for page in ("open", "used", "unused"):
        replayed(sessions, page, owner=ANNA)

    def after(seconds: float) -> list[str]:
        later[0] += seconds
        sessions.expire()
        return ["slow" if run is slow else run.kept for run in sessions.runs_of(ANNA)]

    assert after(3000) == ["slow", "open", "used", "unused"]
    sessions.get("used")
    assert after(3000) == ["slow", "open", "used"]
    assert after(3000) == ["slow", "open"]
    slow.run.stop()
    opened.clear()
    assert after(1) == []


def large_trace(megabytes: int) -> Trace:
    """A trace with pictures of that size."""
    shown = handmade_runs.pairs(range(2 * megabytes))
    frames = (replace(each, jpeg=each.jpeg.ljust(2**18, b"\0")) for each in shown)
    return replace(RUN, turns=(replace(RUN.turns[0], frames=tuple(frames)), *RUN.turns[1:]))


def test_the_oldest_of_too_much_go_and_no_live_run(tmp_path: Path, monkeypatch: Patch) -> None:
    monkeypatch.setattr(MODULE + "MAX_KEPT_BYTES", 10 * 2**20)
    sessions = make_sessions(tmp_path, run_until_stopped)
    runs = {"live": shown(sessions, "live"), "small": replayed(sessions, "small")}

    def kept() -> str:
        return " ".join(page for page, run in runs.items() if sessions.find_run(run.name))

    runs |= {page: replayed(sessions, page, large_trace(3)) for page in "12345678"}
    assert kept() == "live small 6 7 8"
    runs["large"] = replayed(sessions, "one that is larger than all", large_trace(12))
    assert kept() == "live large"
    queued = []
    for page in "abcdef":  # which keep a run, and it among branches, beside one that waits
        both = [replayed(sessions, page, large_trace(3)) for _ in range(2)]
        runs[page], sessions.get(page).branches = both[1], both
        queued.append(waiting(sessions, page))
    assert kept() == "live f"
    assert [page for page in "abcdef" if sessions.get(page).branches] == ["f"]
    assert not any(run.run.over for run in queued)
    for page in "abcdef":
        sessions.end(page)
    monkeypatch.setattr(MODULE + "MAX_SESSIONS", 3)
    runs |= {page: replayed(sessions, page) for page in "uvwxyz"}
    assert kept() == "live y z"
    assert not runs["live"].run.over
    sessions.close()
    assert runs["live"].run.over, "closing stops every judge"


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="no word of a process's memory")
def test_memory_of_dropped_traces_is_given_back(tmp_path: Path, monkeypatch: Patch) -> None:
    def resident() -> float:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 2**20

    monkeypatch.setattr(MODULE + "MAX_KEPT_BYTES", 60 * 2**20)
    sessions, data = make_sessions(tmp_path), to_json(large_trace(24))
    before = resident()
    for page in map(str, range(4)):
        replayed(sessions, page, from_json(data))
    for page in map(str, range(4)):
        sessions.end(page)
    until(lambda: (gc.collect(), give_back_memory(), resident() - before < 40)[-1])
