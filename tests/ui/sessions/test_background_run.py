"""A run in its thread: no event is lost, it stops at once, and no two judges share a slot."""

from __future__ import annotations

import threading
import time
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.support.waiting import PATIENCE_S, until
from tests.ui.support import handmade_runs
from vrthinker_core.errors import CheckpointError
from vrthinker_core.traces import from_json, to_json
from vrthinker_core.types import Settings, VideoPair
from vrthinker_core.types.events import Event, Finished, FramesShown, StopReason, TextArrived, Trace
from vrthinker_core.ui.background_run import BackgroundRun, JobRunner, RunJob
from vrthinker_core.ui.replay import trace_of
from vrthinker_core.ui.run_state import fold_all


@pytest.fixture
def job(tmp_path: Path) -> RunJob:
    pair = VideoPair("A ball pans steadily.", tmp_path / "a.mp4", tmp_path / "b.mp4")
    return RunJob(pair, Settings(), tmp_path / "trace.json", tmp_path / "stop")


def finish_at_once(job: RunJob) -> Generator[Event, None, None]:
    yield from handmade_runs.three_turns().events()


def run_until_stopped(job: RunJob) -> Generator[Event, None, None]:
    """Writes until the stop file exists."""
    yield handmade_runs.started()
    yield FramesShown(1, "told", handmade_runs.pairs([16]))
    while not job.stop_file.exists():
        yield TextArrived(1, "word ")
        time.sleep(0.005)
    yield Finished(StopReason.CANCELLED, seconds=1)


def start(
    job: RunJob, run_job: JobRunner, judge_slots: threading.Semaphore | None = None
) -> BackgroundRun:
    return BackgroundRun(job, run_job, judge_slots or threading.Semaphore(1))


def test_stop_keeps_everything_and_does_not_wait_for_the_judge(job: RunJob) -> None:
    run = start(job, run_until_stopped)
    until(lambda: run.state.turns and run.state.turns[0].text)
    started_at = time.monotonic()
    state = run.stop()
    assert time.monotonic() - started_at < 3
    assert state.finished == Finished(StopReason.CANCELLED, seconds=1)
    assert state.turns[0].text
    assert run.join(PATIENCE_S)


def test_a_judge_that_hangs_is_given_up_and_keeps_its_slot_until_it_ends(job: RunJob) -> None:
    let_go = threading.Event()

    def hang(job: RunJob) -> Generator[Event, None, None]:
        yield handmade_runs.started()
        let_go.wait()
        yield TextArrived(1, "too late")

    judge_slots = threading.Semaphore(1)
    run = start(job, hang, judge_slots)
    until(lambda: run.state.started)
    started_at = time.monotonic()
    state = run.stop()
    assert time.monotonic() - started_at < 3
    assert state.finished.stop is StopReason.CANCELLED
    next_run = start(job, finish_at_once, judge_slots)
    assert not next_run.join(0.3)
    assert next_run.state.started is None
    let_go.set()
    until(lambda: next_run.over)
    assert run.state == state, "events after the end change nothing"


def test_the_open_turn_of_a_hanging_judge_is_kept_in_the_trace(job: RunJob) -> None:
    let_go = threading.Event()

    def hang(job: RunJob) -> Generator[Event, None, None]:
        yield from Trace(handmade_runs.started(), handmade_runs.three_turns().turns[:1]).events()
        yield FramesShown(2, "more", handmade_runs.pairs([7, 90]))
        yield TextArrived(2, "<Snapshot>a ball</Snapshot><Think>it ro")
        let_go.wait()

    run = start(job, hang)
    until(lambda: len(run.state.turns) == 2 and run.state.turns[1].text)
    trace = trace_of(run.stop())
    let_go.set()
    last = trace.turns[-1]
    assert (last.number, last.told, last.frames) == (2, "more", handmade_runs.pairs([7, 90]))
    assert last.completion.stop == "cancelled"
    assert (last.reply.snapshot, last.reply.think) == ("a ball", "it ro")
    assert from_json(to_json(trace)) == trace
    assert fold_all(trace.events()) == run.state


def test_a_judge_that_ignores_the_stop_file_is_closed(job: RunJob) -> None:
    closed = threading.Event()

    def never_stop(job: RunJob) -> Generator[Event, None, None]:
        try:
            yield handmade_runs.started()
            while True:
                yield TextArrived(1, "and ")
                time.sleep(0.005)
        finally:
            closed.set()

    run = start(job, never_stop)
    run.request_stop()
    assert run.join(PATIENCE_S)
    assert closed.is_set()
    assert run.state.finished.stop is StopReason.CANCELLED


@pytest.mark.parametrize(
    "error", [CheckpointError("No judge. Choose another."), RuntimeError("secret path")]
)
def test_a_judge_that_fails_ends_with_a_sentence(job: RunJob, error: Exception) -> None:
    def fail(job: RunJob) -> Generator[Event, None, None]:
        yield handmade_runs.started()
        raise error

    run = start(job, fail)
    until(lambda: run.over)
    finished = run.state.finished
    assert finished.stop is StopReason.FAILED
    assert finished.fault == type(error).__name__
    assert "secret" not in finished.error
    assert finished.error.endswith(".")


def test_a_run_whose_judge_is_not_loaded_takes_no_slot(job: RunJob) -> None:
    judge_slots, loaded = threading.Semaphore(1), threading.Event()
    waiting = BackgroundRun(job, finish_at_once, judge_slots, lambda _: loaded.is_set())
    assert start(job, finish_at_once, judge_slots).join(PATIENCE_S), (
        "another run has the slot meanwhile"
    )
    assert not waiting.over
    stopped = BackgroundRun(job, finish_at_once, judge_slots, lambda _: False)
    stopped.request_stop()
    assert stopped.join(PATIENCE_S)
    assert stopped.state.started is None
    loaded.set()
    assert waiting.join(PATIENCE_S)
    assert waiting.state == fold_all(handmade_runs.three_turns().events())
