"""What a run says while its videos are being opened, and that it can be stopped then."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from tests.support.waiting import until
from tests.test_cli import compare
from tests.test_judge import ANSWER
from tests.video.support.write_clips import repeated, write
from vrthinker_core.backends import ScriptedBackend
from vrthinker_core.judge import judge
from vrthinker_core.traces import load
from vrthinker_core.types import Settings, VideoPair
from vrthinker_core.types.events import Opening, Started, StopReason
from vrthinker_core.ui.judges import JudgeLoader
from vrthinker_core.ui.queue import JudgeQueue
from vrthinker_core.ui.run import BackgroundRun, RunJob, RunState, fold
from vrthinker_core.ui.view import RunView


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("long")


@pytest.fixture(scope="module")
def long_clip(folder: Path) -> Path:
    """10,000 frames, which take a few seconds."""
    return repeated(folder / "long.ts", write(folder / "small.mp4", 25, size=(320, 240)), 400)


@pytest.fixture(scope="module")
def endless_clip(folder: Path) -> Path:
    """15,000 frames of 720p: more than can be decoded within the limits."""
    return repeated(folder / "endless.ts", write(folder / "large.mp4", 25, size=(1280, 720)), 600)


def test_a_run_tells_how_much_of_its_videos_has_been_read(
    long_clip: Path, clips: tuple[Path, Path], tmp_path: Path
) -> None:
    pair, path = VideoPair("p", long_clip, clips[1]), tmp_path / "trace.json"
    events = list(judge(pair, ScriptedBackend([ANSWER]), trace=path))
    openings = [event for event in events if isinstance(event, Opening)]
    assert openings
    assert events[: len(openings)] == openings, "before everything else"
    assert isinstance(events[len(openings)], Started)
    first = [event.shares[0] for event in openings]
    assert first == sorted(first)
    assert openings[-1].shares[1] == 1, "the short one is open"
    assert list(load(path).events()) == events[len(openings) :], "no trace keeps them"
    view = RunView(fold(RunState(), openings[-1]))
    assert view.status(3.0) == f"Reading video 1 · {int(first[-1] * 100)} % · 3.0 s"


def test_a_run_that_is_stopped_while_it_reads_ends_there(
    endless_clip: Path, clips: tuple[Path, Path], tmp_path: Path
) -> None:
    told: list[object] = []
    events = judge(
        VideoPair("p", clips[0], endless_clip),
        ScriptedBackend([ANSWER]),
        cancelled=lambda: bool(told),
        trace=tmp_path / "trace.json",
    )
    for event in events:
        told.append(event)
    assert isinstance(told[0], Opening)
    started, finished = told[-2:]
    assert started.clips == (None, None), "it did not wait for them"
    assert (finished.stop, finished.error, finished.verdict) == (StopReason.CANCELLED, "", None)
    assert load(tmp_path / "trace.json").finished == finished


def test_leaving_a_run_while_it_reads_ends_its_processes(
    endless_clip: Path, clips: tuple[Path, Path]
) -> None:
    events = judge(VideoPair("p", endless_clip, clips[0]), ScriptedBackend([ANSWER]))
    assert isinstance(next(events), Opening)
    began = time.monotonic()
    events.close()
    assert time.monotonic() - began < 15, (
        "the rest of the clip takes longer than its limit of processor time"
    )


def test_the_page_says_what_is_being_read_and_stop_works_meanwhile(
    endless_clip: Path, clips: tuple[Path, Path], tmp_path: Path
) -> None:
    judges = JudgeLoader({"script": lambda: ScriptedBackend([ANSWER])})
    pair, trace = VideoPair("p", clips[0], endless_clip), tmp_path / "trace.json"
    job = RunJob(pair, Settings(), trace, tmp_path / "stop", "script")
    queue = JudgeQueue()
    run = BackgroundRun(job, judges.run_job, queue)
    try:
        run.start()
        until(lambda: "Reading video 2 · " in RunView(run.state).status(run.seconds, run.pace))
        run.stop()
        state = run.state
        assert state.finished.stop is StopReason.CANCELLED
        assert RunView(state).status(run.seconds).startswith("Stopped before the first turn")
        assert run.join(15), "the judge is free again"
        assert queue.counts() == (0, 0)
    finally:
        judges.close()


def test_compare_says_it_on_standard_error(
    long_clip: Path, clips: tuple[Path, Path], tmp_path: Path
) -> None:
    script = tmp_path / "script.jsonl"
    script.write_text(json.dumps({"reply": ANSWER}))
    done = compare((long_clip, clips[1]), f"scripted:{script}", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"TA": 1, "MQ": 0, "VQ": 2, "OA": 1}
    assert done.stderr.startswith("Reading video 1 · ")
    assert done.stderr.splitlines()[0].endswith(" %")
