"""A run in its thread loses nothing and stops at once; a saved run is the same run."""

import threading
from collections.abc import Generator
from dataclasses import replace
from functools import reduce
from pathlib import Path

import pytest

from tests.support.waiting import PATIENCE_S, until
from tests.ui.conftest import within
from tests.ui.support import handmade_runs
from tests.ui.support.inside import BRANCH, RUN, finish_at_once, run_until_stopped
from vrthinker_core.errors import BackendFailed
from vrthinker_core.traces import from_json, to_json
from vrthinker_core.types import Settings, VideoPair
from vrthinker_core.types.events import (
    Event,
    Finished,
    FramesShown,
    StopReason,
    Swapped,
    TextArrived as Text,
    Trace,
)
from vrthinker_core.types.progress import Pace
from vrthinker_core.ui.queue import JudgeQueue
from vrthinker_core.ui.run import (
    BackgroundRun,
    JobRunner,
    Replay,
    RunJob,
    RunState,
    fold,
    state_of,
    trace_of,
)

PAIR = VideoPair(RUN.started.prompt, Path("a.mp4"), Path("b.mp4"))
Events = Generator[Event, None, None]


@pytest.fixture
def job(tmp_path: Path) -> RunJob:
    return RunJob(PAIR, Settings(), tmp_path / "trace.json", tmp_path / "stop")


def start(
    job: RunJob, run_job: JobRunner, queue: JudgeQueue | None = None, first: RunState | None = None
) -> BackgroundRun:
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
    until(lambda: len(run.state.turns) == 2 and run.state.turns[1].completion.text)
    with within(3):
        run.stop()
    state = run.state
    trace = trace_of(state)
    last = trace.turns[-1]
    assert (last.number, last.told, last.frames) == (2, "more", handmade_runs.pairs([7, 90]))
    assert last.completion.stop == trace.finished.stop == StopReason.CANCELLED
    assert (last.reply.snapshot, last.reply.think) == ("a ball", "it ro")
    assert from_json(to_json(trace)) == trace
    assert state_of(trace) == state
    following = start(job, finish_at_once, queue)
    assert not following.join(0.3)
    assert not following.begun
    let_go.set()
    until(lambda: following.over)
    assert run.state == state, "events after the end change nothing"


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
    assert run.state.finished.stop is StopReason.CANCELLED


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
    run = start(job, run_job, first=None if both else state_of(RUN))
    until(lambda: (run.state.swapped or RunState()).started and (run.over or not fails))
    assert run.over == fails, "a run in both orders is over when the second one is"
    run.stop()
    state = run.state
    assert replace(state, swapped=None) == state_of(RUN)
    assert replace(trace_of(state), swapped=None) == RUN
    end = state.swapped.finished
    assert end.stop is (StopReason.FAILED if fails else StopReason.CANCELLED)
    assert (end.error == "The judge broke.") == (run_job is fail)
    assert (end.error.endswith("."), "secret" in end.error) == (fails, False)
    assert end.fault == {fail: "BackendFailed", fail_badly: "RuntimeError"}.get(run_job, "")


def test_no_second_run_follows_one_without_a_verdict(job: RunJob) -> None:
    unread = replace(RUN, finished=Finished(StopReason.NO_ANSWER))
    run = start(replace(job, settings=Settings(swap="on")), lambda _: (e for e in unread.events()))
    assert run.join(PATIENCE_S)
    assert run.state == state_of(unread)


def test_a_saved_run_replays_as_the_live_one_without_a_turn_that_never_ended() -> None:
    """A trace gives the same state as its events, without its text piece by piece."""
    told = handmade_runs.both_orders(trace=handmade_runs.telling_probabilities("So."))
    for trace in (RUN, told):
        replay = Replay(from_json(to_json(trace)))
        assert replay.state == reduce(fold, trace.events(), RunState())
        assert trace_of(replay.state) == trace
        assert (replay.over, replay.seconds) == (True, 4.6)
    assert trace_of(RunState()) is None
    begun = reduce(fold, list(RUN.events())[:-3], RunState())
    assert trace_of(begun) == Trace(RUN.started, RUN.turns[:2])
    never = fold(state_of(RUN), Swapped(Finished(StopReason.CANCELLED)))
    assert trace_of(never) == RUN, "a second run that never began"


def test_turns_that_are_taken_over_tell_nothing_of_the_time_left() -> None:
    pace = reduce(lambda pace, event: pace.after(event, 0.0), BRANCH.events(), Pace())
    assert pace.seconds_left(5.0, 6) is None
