"""Checking the order in a session: the second run streams into the state of the first, and nothing of that one is lost."""

from __future__ import annotations

import threading
import time
from collections.abc import Generator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.waiting import PATIENCE_S, until
from tests.ui.sessions.test_background_run import run_until_stopped
from tests.ui.support import handmade_runs
from vrthinker_core.errors import BackendFailed, BadInput
from vrthinker_core.types import Settings, VideoPair
from vrthinker_core.types.events import Event, Finished, StopReason, Swapped
from vrthinker_core.ui.background_run import BackgroundRun, JobRunner, RunJob
from vrthinker_core.ui.exact_frames import ExactFrames
from vrthinker_core.ui.file_routes import DownloadRoutes
from vrthinker_core.ui.page_sessions import Session, Sessions
from vrthinker_core.ui.replay import trace_of
from vrthinker_core.ui.run_state import RunState, fold_all
from vrthinker_core.ui.run_store import RunStore
from vrthinker_core.ui.shared_traces import SharedTraces
from vrthinker_core.video import DecoderPool

FIRST = handmade_runs.three_turns()
PAIR = VideoPair("A ball pans steadily.", Path("a.mp4"), Path("b.mp4"))
BOTH = Settings(swap="on")


def job(folder: Path, settings: Settings = Settings()) -> RunJob:
    return RunJob(PAIR, settings, folder / "trace.json", folder / "stop")


def start(job: RunJob, run_job: JobRunner, first: RunState | None = None) -> BackgroundRun:
    return BackgroundRun(job, run_job, threading.Semaphore(1), first=first)


def finish_at_once(job: RunJob) -> Generator[Event, None, None]:
    yield from FIRST.events()


def fail(job: RunJob) -> Generator[Event, None, None]:
    yield handmade_runs.started()
    raise BackendFailed("The judge broke.")


def check_first_stands(state: RunState) -> None:
    assert replace(state, swapped=None) == fold_all(FIRST.events())


@pytest.mark.parametrize("run_job", [fail, run_until_stopped])
def test_a_failed_or_stopped_second_run_loses_nothing_of_the_first(
    tmp_path: Path, run_job: JobRunner
) -> None:
    run = start(job(tmp_path), run_job, fold_all(FIRST.events()))
    until(lambda: run.over or (run.state.swapped and run.state.swapped.turns))
    state = run.stop()
    check_first_stands(state)
    assert state.swapped.finished.stop in (StopReason.FAILED, StopReason.CANCELLED)
    assert state.swapped.finished.error == ("The judge broke." if run_job is fail else "")
    trace = trace_of(state)
    assert (trace.finished, trace.turns) == (FIRST.finished, FIRST.turns)


def both_orders(job: RunJob) -> Generator[Event, None, None]:
    """A judge that hangs in the second run."""
    yield from FIRST.events()
    yield Swapped(replace(FIRST.started, clips=FIRST.started.clips[::-1]))
    while not job.stop_file.exists():
        time.sleep(0.005)


def test_with_both_orders_the_run_is_over_when_the_second_one_is(tmp_path: Path) -> None:
    run = start(job(tmp_path, BOTH), both_orders)
    until(lambda: run.state.swapped)
    assert not run.over
    state = run.stop()
    check_first_stands(state)
    assert state.swapped.finished.stop is StopReason.CANCELLED


def test_with_both_orders_a_first_run_without_a_verdict_is_the_whole_run(tmp_path: Path) -> None:
    end = Finished(StopReason.NO_ANSWER)

    def unread(job: RunJob) -> Generator[Event, None, None]:
        yield from replace(FIRST, finished=end).events()

    run = start(job(tmp_path, BOTH), unread)
    until(lambda: run.over)
    assert run.join(PATIENCE_S)
    assert (run.state.finished, run.state.swapped) == (end, None)


# -- in a session --------------------------------------------------------------------------------------------------------


@pytest.fixture
def sessions(tmp_path: Path) -> Sessions:
    return Sessions(tmp_path / "all", finish_at_once)


def checked(sessions: Sessions, session: Session) -> Session:
    found = sessions.check_order("visitor", session, PAIR, Settings(swap="on"))
    until(lambda: found.run.over)
    return found


def test_the_run_keeps_its_name_and_its_videos(sessions: Sessions) -> None:
    session = sessions.start_run("visitor", PAIR, Settings())
    until(lambda: session.run.over)
    found = checked(sessions, session)
    assert (found.name, found.files) == (session.name, session.files)
    assert sessions.find_run(session.name) is found
    assert isinstance(found.run, BackgroundRun)
    assert found.run.job.pair == PAIR.swapped()
    assert found.run.job.settings.swap == "off", "the second run is not followed by a third"
    check_first_stands(found.run.state)
    assert found.run.state.swapped == fold_all(FIRST.events())


def test_a_saved_run_can_be_checked_again_and_again(sessions: Sessions) -> None:
    session = sessions.start_replay("visitor", FIRST, "example")
    once = checked(sessions, session)
    twice = checked(sessions, once)
    assert [each.link for each in (session, once, twice)] == ["example", "", ""], (
        "a link leads to the run without the check"
    )
    check_first_stands(twice.run.state)
    with pytest.raises(BadInput):
        sessions.check_order("visitor", once, PAIR, Settings())
    sessions.end("visitor")
    with pytest.raises(BadInput):
        sessions.check_order("visitor", twice, PAIR, Settings())


def test_a_link_made_before_the_check_is_not_given_for_the_run_after_it(
    sessions: Sessions, tmp_path: Path
) -> None:
    shared = SharedTraces(RunStore(tmp_path / "shared"))
    session = sessions.start_replay("visitor", FIRST)

    def link() -> str:
        request = type("Request", (), {"path_params": {"name": session.name}, "cookies": {}})()
        return bytes(routes.link(request).body).decode()

    with DecoderPool() as decoders, closing(ExactFrames(decoders)) as exact:
        routes = DownloadRoutes(sessions, shared, exact)
        before = link()
        assert link() == before
        checked(sessions, session)
        assert link() != before
