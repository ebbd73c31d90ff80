"""Copies for the browser: made only where needed, and every frame with the timestamp that it has in the original."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import psutil
import pytest

from tests.support.slow import slow
from tests.support.waiting import until
from tests.video.support import write_clips
from tests.video.support.hostile_clips import EVEN, stamped
from tests.video.support.open_clips import PAIRED, opened, pixels
from tests.video.support.real_clips import real_clips
from tests.video.support.write_clips import FFV1, MPEG4, repeated, write
from vrthinker_core.errors import NoCopy, VideoError
from vrthinker_core.types.frames import Sizing
from vrthinker_core.video import Limits
from vrthinker_core.video.browser_copies import playable_copy

MakeClip = Callable[[str], Path]

PLAYABLE = ["B-frames", "variable rate", "rotated", "wide pixels", "VP8", "one frame"]
REMUXED = ["fragments", "cut off", "no duration", "two streams"]
LOOKED_AT = ["HEVC", "MPEG-4 in AVI", "10 bit", "transport stream", "4:4:4"]
OTHERS = ["edit list", "animated GIF", "size changes"]
SLOW = ["intra refresh", "raw stream", "MPEG-2 program", "open GOP", "odd size"]
ENCODED = [*LOOKED_AT, *OTHERS, *(pytest.param(name, marks=slow) for name in SLOW)]


@pytest.fixture(scope="module")
def copy_of(make_clip: MakeClip, tmp_path_factory: pytest.TempPathFactory) -> MakeClip:
    """Makes the copy of a kind of clip."""
    folder = tmp_path_factory.mktemp("copies")
    return lambda name: playable_copy(make_clip(name), folder)


def stream(path: Path) -> tuple[str, str | None, int, int]:
    with av.open(str(path)) as container:
        video = container.streams.video[0].codec_context
        return video.name, video.pix_fmt, video.width, video.height


def packets(path: Path) -> list[bytes]:
    with av.open(str(path)) as container:
        return [bytes(packet) for packet in container.demux(video=0) if packet.size]


def frame_times(path: Path) -> list[tuple[int, float, float]]:
    """Index and interval of every slot's frame, as the judge and the page get them."""
    with opened(path, opening=Sizing("square", 28)) as clip:
        frames = clip.frames(range(PAIRED.slots))
        return [(frame.index, frame.seconds, frame.until) for frame in frames]


def assert_same_frame_times(source: Path, copy: Path) -> None:
    """Within a tick of the coarsest time base in use. Only the duration of the last frame, which is estimated, could differ."""
    for original, copied in zip(frame_times(source), frame_times(copy), strict=True):
        assert copied[0] == original[0]
        assert copied[1:] == pytest.approx(original[1:], abs=1 / 10_000)


@pytest.mark.parametrize("name", PLAYABLE)
def test_a_clip_that_browsers_play_is_not_copied(
    name: str, make_clip: MakeClip, tmp_path: Path
) -> None:
    assert playable_copy(make_clip(name), tmp_path) is None
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", REMUXED)
def test_where_only_the_container_is_wrong_the_packets_are_copied(
    name: str, make_clip: MakeClip, copy_of: MakeClip
) -> None:
    source, copy = make_clip(name), copy_of(name)
    assert_same_frame_times(source, copy)
    assert packets(copy) == packets(source)


def test_a_wrong_suffix_is_corrected(make_clip: MakeClip, tmp_path: Path) -> None:
    misnamed = tmp_path / "clip.avi"
    misnamed.write_bytes(make_clip("B-frames").read_bytes())
    assert playable_copy(misnamed, tmp_path / "copies").suffix == ".mp4"


def assert_looks_alike(source: Path, copy: Path) -> None:
    with opened(source) as original, opened(copy) as copied:
        before, after = original.frames([0, 60, 127]), copied.frames([0, 60, 127])
    for one, other in zip(before, after, strict=True):
        assert np.abs(pixels(one).astype(int) - pixels(other)).mean() < 8


@pytest.mark.parametrize("name", ENCODED)
def test_everything_else_is_encoded_anew(name: str, make_clip: MakeClip, copy_of: MakeClip) -> None:
    source, copy = make_clip(name), copy_of(name)
    codec, colours, width, height = stream(copy)
    assert (codec, colours, width % 2, height % 2) == ("h264", "yuv420p", 0, 0)
    assert packets(copy) != packets(source)
    assert_same_frame_times(source, copy)
    if name in LOOKED_AT:
        assert_looks_alike(source, copy)


def test_a_copy_of_a_clip_with_a_wrong_timestamp_has_the_times_that_the_judge_is_told(
    tmp_path: Path,
) -> None:
    even = write(tmp_path / "even.webm", 100, **EVEN["webm"])
    clip = stamped(tmp_path / "clip.webm", even, 55, 1e5)
    assert_same_frame_times(clip, playable_copy(clip, tmp_path / "copies"))


@pytest.mark.parametrize("how", [{}, MPEG4], ids=["copied", "encoded"])
def test_variable_timestamps_are_kept_exactly(how: dict[str, Any], tmp_path: Path) -> None:
    source = write(tmp_path / "uneven.mkv", 40, pts=write_clips.UNEVEN, **how)
    copy = playable_copy(source, tmp_path / "copies")
    with av.open(str(copy)) as container:
        found = [frame.pts * frame.time_base for frame in container.decode(video=0)]
    assert found == [Fraction(stamp, 1000) for stamp in write_clips.UNEVEN]
    assert_same_frame_times(source, copy)


@pytest.mark.parametrize("how", [{}, MPEG4], ids=["copied", "encoded"])
def test_rotation_is_kept(how: dict[str, Any], tmp_path: Path) -> None:
    """Copied packets keep the display matrix; encoded frames are rotated already."""
    upright = write(tmp_path / "upright.mp4", **how)
    source = write_clips.rotated(tmp_path / "turned.mov", upright, 0, 1, -1, 0)
    copy = playable_copy(source, tmp_path / "copies")
    with opened(copy) as copied:
        assert (copied.info.width, copied.info.height) == (64, 96)
    assert_looks_alike(source, copy)


@pytest.mark.parametrize(
    ("how", "copy_size"),
    [
        ({"size": (1600, 200)}, (1280, 160)),
        ({"size": (200, 1600)}, (160, 1280)),
        ({"size": (97, 63)}, (98, 64)),
        ({"size": (2, 2)}, (2, 2)),
        ({**MPEG4, "pixel_aspect": Fraction(4, 3)}, (128, 64)),
    ],
)
def test_encoded_sizes_are_even_and_limited_and_pixels_square(
    how: dict[str, Any], copy_size: tuple[int, int], tmp_path: Path
) -> None:
    source = write(tmp_path / "film.mkv", 2, **FFV1 | how)
    assert stream(playable_copy(source, tmp_path))[2:] == copy_size


def test_a_copy_is_made_once_and_does_not_contain_the_name_of_the_source(
    make_clip: MakeClip, tmp_path: Path
) -> None:
    secret = tmp_path / "secret name.avi"
    secret.write_bytes(make_clip("MPEG-4 in AVI").read_bytes())
    copy = playable_copy(secret, tmp_path / "copies")
    written = copy.stat().st_mtime_ns
    assert playable_copy(make_clip("MPEG-4 in AVI"), tmp_path / "copies") == copy
    assert copy.stat().st_mtime_ns == written
    content = copy.name.encode() + copy.read_bytes()
    assert b"secret" not in content
    assert str(tmp_path).encode() not in content
    assert list(copy.parent.iterdir()) == [copy]


def test_several_threads_make_one_whole_copy(make_clip: MakeClip, tmp_path: Path) -> None:
    with ThreadPoolExecutor(3) as pool:
        found = list(pool.map(lambda _: playable_copy(make_clip("HEVC"), tmp_path), range(3)))
    assert list(tmp_path.iterdir()) * 3 == found
    assert len(packets(found[0])) == 50


def test_what_is_no_video_is_refused_with_a_sentence(tmp_path: Path) -> None:
    (noise := tmp_path / "noise.mp4").write_bytes(b"\0\0\0\x20ftypisom" + bytes(99))
    sound = write_clips.sound_only(tmp_path / "sound.mp4")
    for source in (noise, sound, tmp_path / "missing.mp4"):
        with pytest.raises(VideoError, match=rf"{source.name} .*\.$"):
            playable_copy(source, tmp_path / "copies")
    assert list((tmp_path / "copies").glob("*")) == []


@pytest.fixture(scope="module")
def long_clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two minutes of 720p that must be encoded anew."""
    folder = tmp_path_factory.mktemp("long")
    return repeated(folder / "minutes.ts", write(folder / "second.mp4", 25, size=(1280, 720)), 120)


@pytest.mark.parametrize(
    ("limits", "sentence"),
    [
        (Limits(wall_seconds=1), r": decoding took longer than 1 s and was stopped\.$"),
        (Limits(cpu_seconds=0.5), r" needs more than 0\.5 s of processor time .*\.$"),
        (Limits(memory_bytes=60_000_000), r".*(memory|crashed).*\.$"),
    ],
    ids=["wall", "cpu", "memory"],
)
def test_a_copy_that_passes_a_limit_is_not_made(
    limits: Limits, sentence: str, long_clip: Path, tmp_path: Path
) -> None:
    with pytest.raises(NoCopy, match=rf"^minutes\.ts{sentence}"):
        playable_copy(long_clip, tmp_path / "copies", limits=limits)
    assert list((tmp_path / "copies").iterdir()) == []


def test_a_worker_that_dies_leaves_no_copy(long_clip: Path, tmp_path: Path) -> None:
    before = child_pids()
    with ThreadPoolExecutor(1) as pool:
        copying = pool.submit(playable_copy, long_clip, tmp_path / "copies")
        until(lambda: child_pids() - before)
        os.kill((child_pids() - before).pop(), signal.SIGSEGV)
        assert "SIGSEGV" in str(copying.exception(20))
    assert list((tmp_path / "copies").iterdir()) == []
    assert child_pids() == before


def child_pids() -> set[int]:
    return {child.pid for child in psutil.Process().children()}


def test_in_a_folder_that_cannot_be_written_no_copy_is_kept(
    make_clip: MakeClip, tmp_path: Path
) -> None:
    (tmp_path / "copies").write_text("a file")
    with pytest.raises(NoCopy, match=r"^No playable copy of hevc\.mp4 could be kept: .*\.$"):
        playable_copy(make_clip("HEVC"), tmp_path / "copies")


COPIED = {
    *("ax_iibbibb_editlist_videoonly.mp4", "ax_sample_android_slow_motion.mp4", "mp_circle.gif"),
    *("ax_sample_missing_stsd.mp4", "dc_unordered.mov", "wm_simple_block.webm"),
}


@pytest.mark.parametrize("source", real_clips(COPIED))
def test_real_clips(source: Path, tmp_path: Path) -> None:
    try:
        before = np.array(frame_times(source))
    except VideoError:
        with contextlib.suppress(VideoError, NoCopy):
            assert playable_copy(source, tmp_path) is None
        return
    if (copy := playable_copy(source, tmp_path)) is not None:
        after = np.array(frame_times(copy))
        assert list(after[:, 0]) == list(before[:, 0])
        assert after == pytest.approx(before, abs=1 / 1000)
