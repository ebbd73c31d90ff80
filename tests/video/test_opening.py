"""A long clip while it is being opened: how far that is, and that it can be broken off, by itself and in a run."""

from __future__ import annotations

import gc
import json
import re
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.waiting import until
from tests.test_cli import call
from tests.test_judge import ANSWER
from tests.video.support.open_clips import FIRST, PAIRED, SQUARE, opened
from vrthinker_core.backends import ScriptedBackend
from vrthinker_core.errors import VideoError
from vrthinker_core.runner import judge
from vrthinker_core.traces import load
from vrthinker_core.types import FrameRef, Side, VideoPair
from vrthinker_core.types.events import Opening, Started, StopReason
from vrthinker_core.types.frames import ReadMode
from vrthinker_core.ui.view import RunView
from vrthinker_core.video import Clip, DecoderPool, FramePlan, Limits, clip_decoder
from vrthinker_core.video.clip_decoder import ClipDecoder, OpeningProgress
from vrthinker_core.video.limits import CpuBudget

PLAN = FramePlan(PAIRED, SQUARE, SQUARE, tuple(FrameRef(slot, Side.FIRST) for slot in FIRST))
MakeClip = Callable[[str], Path]
Clips = tuple[Path, Path]


@pytest.mark.filterwarnings("ignore:unclosed file")  # a decoder's process ends with it
@pytest.mark.parametrize("read_mode", ["whole", "seek"])
def test_all_parts_of_the_work_are_told(
    read_mode: ReadMode, make_clip: MakeClip, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("REPORT_SECONDS", "QUIET_CPU_SECONDS"):
        monkeypatch.setattr(clip_decoder, name, 0.0)
    told: list[float] = []
    path = make_clip("one key frame")
    budget, progress = CpuBudget(path.name, Limits()), OpeningProgress(told.append)
    ClipDecoder(path, Side.FIRST, PLAN, read_mode, budget, progress)
    gc.collect()
    assert told == sorted(told)
    assert told[0] < 0.1
    assert told[-1] > 0.8
    assert len(set(told)) > 100, "frame after frame"


def test_a_short_clip_tells_nothing(make_clip: MakeClip) -> None:
    clip = Clip(make_clip("B-frames"), Side.FIRST, PLAN)
    clip.open().close()
    assert clip.share == 0


def test_the_share_never_falls_and_is_told_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    monkeypatch.setattr("time.process_time", lambda: clock[0])
    told: list[float] = []
    progress = OpeningProgress(told.append)
    for step in range(1000):
        clock[0] = step / 100
        # The second pass over a clip that announced too many frames
        progress.update("frames", step % 700, 700)
    assert told == sorted(told)
    assert len(told) <= 10 / clip_decoder.REPORT_SECONDS
    assert clock[0] > clip_decoder.QUIET_CPU_SECONDS
    progress.finish()
    clock[0] += 10
    before = list(told)
    progress.update("frames", 700, 700)
    assert told == before


def test_an_opening_that_is_broken_off_ends_its_process(make_clip: MakeClip) -> None:
    clip = Clip(make_clip("endless"), Side.FIRST, PLAN)
    with ThreadPoolExecutor(1) as executor:
        future = executor.submit(clip.open)
        until(lambda: clip.share > 0)
        clip.close()
        with pytest.raises(VideoError, match="closed"):
            future.result(30)
    assert clip.share < 1


def test_an_opening_that_waits_for_room_can_be_broken_off(make_clip: MakeClip) -> None:
    one = DecoderPool(max_opening=1)
    with one as decoders, decoders.opening_slot(), ThreadPoolExecutor(1) as executor:
        clip = Clip(make_clip("B-frames"), Side.FIRST, PLAN, decoders=decoders)
        future = executor.submit(clip.open)
        assert not wait([future], 0.2).done
        clip.close()
        with pytest.raises(VideoError):
            future.result(30)


def test_opening_waits_for_a_slot_and_an_open_clip_holds_none(make_clip: MakeClip) -> None:
    one = DecoderPool(max_opening=1)
    with one as decoders, ThreadPoolExecutor(3) as pool, ExitStack() as clips:
        path = make_clip("B-frames")
        with decoders.opening_slot():
            opening = [pool.submit(opened, path, decoders=decoders) for _ in range(3)]
            assert not wait(opening, 0.5).done
        for clip in (clips.enter_context(future.result(30)) for future in opening):
            assert len(clip.frames([3, 60])) == 2
        with decoders.opening_slot():
            assert len(clip.frames([16])) == 1, "an open clip needs no slot"


def test_a_file_that_cannot_be_opened_frees_its_slot(make_clip: MakeClip, tmp_path: Path) -> None:
    broken = tmp_path / "broken.mp4"
    broken.write_bytes(make_clip("B-frames").read_bytes()[:200])
    with DecoderPool(max_opening=1) as decoders:
        for _ in range(2):
            with pytest.raises(VideoError):
                opened(broken, decoders=decoders)
        with opened(make_clip("B-frames"), decoders=decoders) as clip:
            assert clip.info.frames


def test_both_clips_of_a_pair_open_at_the_same_time_on_any_machine() -> None:
    with DecoderPool() as decoders, decoders.opening_slot():
        second = threading.Thread(target=lambda: decoders.opening_slot().__enter__(), daemon=True)
        second.start()
        second.join(5)
        assert not second.is_alive()


def test_a_run_tells_how_much_of_its_videos_has_been_read(
    make_clip: MakeClip, clips: Clips, tmp_path: Path
) -> None:
    pair, path = VideoPair("p", make_clip("minutes"), clips[1]), tmp_path / "trace.json"
    events = list(judge(pair, ScriptedBackend([ANSWER]), trace=path))
    openings = [event for event in events if isinstance(event, Opening)]
    assert openings
    assert events[: len(openings)] == openings, "before everything else"
    assert isinstance(events[len(openings)], Started)
    first = [event.shares[0] for event in openings]
    assert first == sorted(first)
    assert openings[-1].shares[1] == 1, "the short one is open"
    assert list(load(path).events()) == events[len(openings) :], "no trace keeps them"
    status = RunView(None).status(3.0, opening=openings[-1].shares)
    assert status == f"Reading video 1 · {int(first[-1] * 100)} % · 3.0 s"


def test_a_run_that_is_stopped_while_it_reads_ends_there(
    make_clip: MakeClip, clips: Clips, tmp_path: Path
) -> None:
    told: list[object] = []
    pair, trace = VideoPair("p", clips[0], make_clip("endless")), tmp_path / "trace.json"
    stopped = lambda: bool(told)  # noqa: E731
    for event in judge(pair, ScriptedBackend([ANSWER]), cancelled=stopped, trace=trace):
        told.append(event)
    assert isinstance(told[0], Opening)
    started, finished = told[-2:]
    assert started.clips == (None, None), "it did not wait for them"
    assert (finished.stop, finished.error, finished.verdict) == (StopReason.CANCELLED, "", None)
    assert load(trace).finished == finished


def test_leaving_a_run_while_it_reads_ends_its_processes(make_clip: MakeClip, clips: Clips) -> None:
    events = judge(VideoPair("p", make_clip("endless"), clips[0]), ScriptedBackend([ANSWER]))
    assert isinstance(next(events), Opening)
    began = time.monotonic()
    events.close()
    assert time.monotonic() - began < 15, "the rest of the clip takes longer"


def test_compare_says_it_on_standard_error(
    make_clip: MakeClip, clips: Clips, tmp_path: Path
) -> None:
    script = tmp_path / "script.jsonl"
    script.write_text(json.dumps({"reply": ANSWER}))
    options = ("--prompt", "p", "--judge", f"scripted:{script}", "--json")
    status, printed, told = call("compare", make_clip("minutes"), clips[1], *options)
    assert (status, json.loads(printed)["OA"]) == (0, 1), told
    assert re.match(r"Reading video 1 · \d+ %\n", told)
