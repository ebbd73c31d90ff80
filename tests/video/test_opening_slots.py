"""Only a few clips are being opened at the same time."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.video.support.open_clips import opened
from tests.video.test_decoding_process import run_code
from vrthinker_core.errors import VideoError
from vrthinker_core.video import DecoderPool


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
