"""A long clip while it is being opened: how far that is, and that it can be broken off."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack
from pathlib import Path

import av
import numpy as np
import pytest

from tests.support.waiting import until
from tests.video.support.open_clips import FIRST, PAIRED, SQUARE, opened
from tests.video.support.write_clips import repeated, write
from tests.video.test_decoding_process import run_code
from vrthinker_core.errors import VideoError
from vrthinker_core.types import Side
from vrthinker_core.video import DecoderPool, FramePlan
from vrthinker_core.video.clip import ClipOpening
from vrthinker_core.video.clip_decoder import QUIET_CPU_SECONDS, REPORT_SECONDS, OpeningProgress

PLAN = FramePlan(PAIRED, SQUARE, SQUARE, frozenset(FIRST))


@pytest.fixture(scope="module")
def minutes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ten minutes of 720p: more than can be decoded in a few seconds."""
    folder = tmp_path_factory.mktemp("long")
    return repeated(folder / "minutes.ts", write(folder / "second.mp4", 25, size=(1280, 720)), 600)


def write_noise(path: Path, frames: int) -> Path:
    """A clip with one key frame that takes long to decode for its size."""
    numbers = np.random.default_rng(0)
    pictures = [
        av.VideoFrame.from_ndarray(numbers.integers(0, 255, (180, 160), np.uint8), format="yuv420p")
        for _ in range(4)
    ]
    with av.open(str(path), "w") as container:
        stream = container.add_stream(
            "libx264", rate=24, options={"preset": "ultrafast", "sc_threshold": "0"}
        )
        stream.width, stream.height, stream.pix_fmt, stream.gop_size = 160, 120, "yuv420p", frames
        for index in range(frames):
            pictures[index % 4].pts = index
            container.mux(stream.encode(pictures[index % 4]))
        container.mux(stream.encode())
    return path


def test_a_long_clip_tells_how_much_of_it_has_been_read(tmp_path: Path) -> None:
    clip = repeated(tmp_path / "long.ts", write(tmp_path / "second.mp4", 25, size=(320, 240)), 400)
    opening, told, began = ClipOpening(clip, Side.FIRST, PLAN), [0.0], time.monotonic()
    with ThreadPoolExecutor(1) as executor:
        future = executor.submit(opening.open)
        while not future.done():
            if opening.share != told[-1]:
                told.append(opening.share)
            time.sleep(0.01)
        future.result().close()
    assert len(told) > 1
    assert told == sorted(told)
    assert told[-1] <= 1
    assert len(told) <= 2 + (time.monotonic() - began) / REPORT_SECONDS


def test_a_clip_that_is_found_by_its_timestamps_tells_it_too(tmp_path: Path) -> None:
    """It has one key frame: everything before the last frame that is asked for is decoded."""
    opening = ClipOpening(
        write_noise(tmp_path / "noise.mp4", 4000), Side.FIRST, PLAN, read_mode="seek"
    )
    opening.open().close()
    assert 0.1 < opening.share < 1, "frames were decoded when it was told last"


def test_a_short_clip_tells_nothing(make_clip: Callable[[str], Path]) -> None:
    opening = ClipOpening(make_clip("B-frames"), Side.FIRST, PLAN)
    opening.open().close()
    assert opening.share == 0


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
    assert len(told) <= 10 / REPORT_SECONDS
    assert clock[0] > QUIET_CPU_SECONDS
    progress.finish()
    clock[0] += 10
    before = list(told)
    progress.update("frames", 700, 700)
    assert told == before


def test_an_opening_that_is_broken_off_ends_its_process(minutes: Path) -> None:
    opening = ClipOpening(minutes, Side.FIRST, PLAN)
    with ThreadPoolExecutor(1) as executor:
        future = executor.submit(opening.open)
        until(lambda: opening.share > 0)
        opening.break_off()
        with pytest.raises(VideoError, match="closed"):
            future.result(30)
    assert opening.share < 1


def test_an_opening_that_waits_for_room_can_be_broken_off(make_clip: Callable[[str], Path]) -> None:
    with (
        DecoderPool(max_opening=1) as decoders,
        decoders.opening_slot(),
        ThreadPoolExecutor(1) as executor,
    ):
        opening = ClipOpening(make_clip("B-frames"), Side.FIRST, PLAN, decoders=decoders)
        future = executor.submit(opening.open)
        threading.Event().wait(0.2)
        assert not future.done()
        opening.break_off()
        with pytest.raises(VideoError):
            future.result(30)


def test_opening_waits_for_a_slot_and_an_open_clip_holds_none(
    make_clip: Callable[[str], Path],
) -> None:
    with (
        DecoderPool(max_opening=1) as decoders,
        ThreadPoolExecutor(3) as pool,
        ExitStack() as clips,
    ):
        with decoders.opening_slot():
            opening = [
                pool.submit(opened, make_clip("B-frames"), decoders=decoders) for _ in range(3)
            ]
            assert not wait(opening, 0.5).done
        for clip in (clips.enter_context(future.result(30)) for future in opening):
            assert len(clip.frames([3, 60])) == 2
        with decoders.opening_slot():
            assert len(clip.frames([16])) == 1, "an open clip needs no slot"


def test_a_file_that_cannot_be_opened_frees_its_slot(
    make_clip: Callable[[str], Path], tmp_path: Path
) -> None:
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


FORKED = """
import os
from vrthinker_core.video import DecoderPool

decoders = DecoderPool(max_opening=1)
with decoders.opening_slot():
    if os.fork() == 0:
        with decoders.opening_slot():
            os._exit(7)
    print(os.waitstatus_to_exitcode(os.wait()[1]))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="forks are made elsewhere")
def test_a_fork_does_not_wait_for_the_slots_of_its_parent() -> None:
    """As on ZeroGPU, where each request is served by a fork of the server."""
    run = run_code(FORKED)
    assert run.stdout.split() == ["7"]
