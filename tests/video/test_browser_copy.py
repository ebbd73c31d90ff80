"""Copies for the browser: made only where needed, and every frame with the timestamp that it has in the original."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest

from tests.video.support.hostile_clips import EVEN, stamped
from tests.video.support.open_clips import PAIRED, REAL_CLIPS, opened, pixels
from tests.video.support.write_clips import repeated, rotated, sound_only, write
from vrthinker_core.errors import NoCopy, VideoError
from vrthinker_core.types.frames import Sizing
from vrthinker_core.video import Limits
from vrthinker_core.video.browser_copies import playable_copy

MakeClip = Callable[[str], Path]

PLAYABLE = [
    "B-frames",
    "one key frame",
    "variable rate",
    "rotated",
    "wide pixels",
    "VP8",
    "one frame",
    "three frames",
]
REMUXED = ["fragments", "cut off", "no duration", "two streams"]
ENCODED = [
    "open GOP",
    "intra refresh",
    "edit list",
    "transport stream",
    "raw stream",
    "animated GIF",
    "MPEG-4 in AVI",
    "MPEG-2 program",
    "HEVC",
    "10 bit",
    "4:4:4",
    "odd size",
    "size changes",
]


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
        return [
            (frame.index, frame.seconds, frame.until) for frame in clip.frames(range(PAIRED.slots))
        ]


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
    name: str, make_clip: MakeClip, tmp_path: Path
) -> None:
    copy = playable_copy(make_clip(name), tmp_path)
    assert_same_frame_times(make_clip(name), copy)
    assert packets(copy) == packets(make_clip(name))


def test_h264_in_matroska_is_remuxed(tmp_path: Path) -> None:
    source = write(
        tmp_path / "film.mkv", 40, pts=[index * 60 + index % 5 * 11 for index in range(40)]
    )
    copy = playable_copy(source, tmp_path / "copies")
    assert_same_frame_times(source, copy)
    assert packets(copy) == packets(source)


@pytest.mark.parametrize("name", ENCODED)
def test_everything_else_is_encoded_anew(name: str, make_clip: MakeClip, tmp_path: Path) -> None:
    copy = playable_copy(make_clip(name), tmp_path)
    codec, colours, width, height = stream(copy)
    assert (codec, colours) == ("h264", "yuv420p")
    assert width % 2 == height % 2 == 0
    assert packets(copy) != packets(make_clip(name))
    assert_same_frame_times(make_clip(name), copy)


@pytest.mark.parametrize("name", ["HEVC", "MPEG-4 in AVI", "10 bit", "transport stream", "4:4:4"])
def test_encoded_frames_look_like_the_original(
    name: str, make_clip: MakeClip, tmp_path: Path
) -> None:
    copy = playable_copy(make_clip(name), tmp_path)
    with opened(make_clip(name)) as original, opened(copy) as copied:
        for before, after in zip(
            original.frames([0, 60, 127]), copied.frames([0, 60, 127]), strict=True
        ):
            assert np.abs(pixels(before).astype(int) - pixels(after)).mean() < 8


@pytest.mark.parametrize("place", [55, 99])
def test_a_copy_of_a_clip_with_a_wrong_timestamp_has_the_times_that_the_judge_is_told(
    place: int, tmp_path: Path
) -> None:
    clip = stamped(
        tmp_path / "clip.webm", write(tmp_path / "even.webm", 100, **EVEN["webm"]), place, 1e5
    )
    assert_same_frame_times(clip, playable_copy(clip, tmp_path / "copies"))


def test_a_wrong_suffix_is_corrected(make_clip: MakeClip, tmp_path: Path) -> None:
    misnamed = tmp_path / "clip.avi"
    misnamed.write_bytes(make_clip("B-frames").read_bytes())
    copy = playable_copy(misnamed, tmp_path / "copies")
    assert copy.suffix == ".mp4"
    assert len(packets(copy)) == 50


def test_variable_timestamps_are_kept_exactly(tmp_path: Path) -> None:
    pts = [index * 60 + index % 5 * 11 for index in range(40)]
    source = write(tmp_path / "uneven.mkv", 40, pts=pts, codec="mpeg4", options={})
    copy = playable_copy(source, tmp_path / "copies")
    with av.open(str(copy)) as container:
        found = [
            frame.pts * frame.time_base
            for frame in container.decode(video=0)
            if frame.pts is not None and frame.time_base
        ]
    assert found == [Fraction(stamp, 1000) for stamp in pts]
    assert_same_frame_times(source, copy)


@pytest.mark.parametrize(("codec", "options"), [("libx264", None), ("mpeg4", {})])
def test_rotation_is_kept(codec: str, options: dict[str, str] | None, tmp_path: Path) -> None:
    """Copied packets keep the display matrix; encoded frames are rotated already."""
    upright = write(tmp_path / "upright.mp4", codec=codec, options=options)
    source = rotated(tmp_path / "turned.mov", upright, 0, 1, -1, 0)
    copy = playable_copy(source, tmp_path / "copies")
    with opened(source) as original, opened(copy) as copied:
        (before,), (after,) = original.frames([60]), copied.frames([60])
    assert (before.width, before.height) == (after.width, after.height) == (64, 96)
    assert np.abs(pixels(before).astype(int) - pixels(after)).mean() < 8


@pytest.mark.parametrize(
    ("size", "copy_size"),
    [
        ((2000, 1000), (1280, 640)),
        ((600, 1600), (480, 1280)),
        ((97, 63), (98, 64)),
        ((2, 2), (2, 2)),
    ],
)
def test_encoded_sizes_are_even_and_limited(
    size: tuple[int, int], copy_size: tuple[int, int], tmp_path: Path
) -> None:
    source = write(tmp_path / "film.mkv", 2, size=size, codec="ffv1", options={})
    assert stream(playable_copy(source, tmp_path))[2:] == copy_size


def test_pixels_that_are_not_square_are_made_square(tmp_path: Path) -> None:
    source = write(tmp_path / "wide.avi", 2, codec="mpeg4", options={}, pixel_aspect=Fraction(4, 3))
    assert stream(playable_copy(source, tmp_path))[2:] == (128, 64)


def test_a_copy_is_made_once_and_does_not_contain_the_name_of_the_source(
    make_clip: MakeClip, tmp_path: Path
) -> None:
    secret = tmp_path / "secret name.avi"
    secret.write_bytes(make_clip("MPEG-4 in AVI").read_bytes())
    copy = playable_copy(secret, tmp_path / "copies")
    written = copy.stat().st_mtime_ns
    assert playable_copy(make_clip("MPEG-4 in AVI"), tmp_path / "copies") == copy
    assert copy.stat().st_mtime_ns == written
    assert "secret" not in copy.name
    content = copy.read_bytes()
    assert b"secret" not in content
    assert str(tmp_path).encode() not in content
    assert [path.name for path in copy.parent.iterdir()] == [copy.name]


def test_several_threads_make_one_whole_copy(make_clip: MakeClip, tmp_path: Path) -> None:
    with ThreadPoolExecutor(3) as pool:
        found = list(pool.map(lambda _: playable_copy(make_clip("HEVC"), tmp_path), range(3)))
    assert list(tmp_path.iterdir()) * 3 == found
    assert len(packets(found[0])) == 50


HOSTILE = {
    "playlist.mp4": b"#EXTM3U\n#EXTINF:1,\nfile:///etc/passwd\n",
    "list.mp4": b"ffconcat version 1.0\nfile /etc/passwd\n",
    "text.mp4": b"just words\n" * 20,
    "noise.mp4": b"\0\0\0\x20ftypisom" + bytes(99),
    "empty.mp4": b"",
    "picture.mp4": b"\x89PNG\r\n\x1a\n" + bytes(99),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_file_that_is_no_video_is_refused_with_a_sentence(name: str, tmp_path: Path) -> None:
    source = tmp_path / name
    source.write_bytes(HOSTILE[name])
    with pytest.raises(VideoError, match=rf"^{name} .*\.$"):
        playable_copy(source, tmp_path / "copies")
    assert list((tmp_path / "copies").glob("*")) == []


def test_a_file_with_audio_only_is_refused(tmp_path: Path) -> None:
    with pytest.raises(VideoError, match=r"^sound\.mp4 holds sound only, no video\.$"):
        playable_copy(sound_only(tmp_path / "sound.mp4"), tmp_path / "copies")


def test_addresses_and_missing_files_are_refused(tmp_path: Path) -> None:
    for source in (Path("http://127.0.0.1/a.mp4"), tmp_path / "missing.mp4", tmp_path):
        with pytest.raises(VideoError):
            playable_copy(source, tmp_path / "copies")


@pytest.fixture(scope="module")
def long_clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two minutes of 720p that must be encoded anew."""
    folder = tmp_path_factory.mktemp("long")
    return repeated(folder / "minutes.ts", write(folder / "second.mp4", 25, size=(1280, 720)), 120)


@pytest.mark.parametrize(
    ("limits", "sentence"),
    [
        (
            Limits(wall_seconds=1.5),
            r"^minutes\.ts: decoding took longer than 1\.5 s and was stopped\.$",
        ),
        (Limits(cpu_seconds=0.5), r"^minutes\.ts needs more than 0\.5 s of processor time"),
        (Limits(memory_bytes=60_000_000), r"^minutes\.ts.*(memory|crashed).*\.$"),
    ],
    ids=["wall", "cpu", "memory"],
)
def test_a_copy_that_passes_a_limit_is_not_made(
    limits: Limits, sentence: str, long_clip: Path, tmp_path: Path
) -> None:
    with pytest.raises(NoCopy, match=sentence):
        playable_copy(long_clip, tmp_path / "copies", limits=limits)
    assert list((tmp_path / "copies").iterdir()) == []


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")
def test_a_worker_that_dies_leaves_no_copy(long_clip: Path, tmp_path: Path) -> None:
    before = child_pids()
    with ThreadPoolExecutor(1) as pool:
        copying = pool.submit(playable_copy, long_clip, tmp_path / "copies")
        while not (started := child_pids() - before):
            pass
        os.kill(started.pop(), signal.SIGSEGV)
        assert "SIGSEGV" in str(copying.exception(20))
    assert list((tmp_path / "copies").iterdir()) == []
    assert child_pids() == before


def child_pids() -> set[int]:
    tasks = Path("/proc/self/task").glob("*/children")
    return {int(pid) for task in tasks for pid in task.read_text().split()}


def test_in_a_folder_that_cannot_be_written_no_copy_is_kept(
    make_clip: MakeClip, tmp_path: Path
) -> None:
    (tmp_path / "copies").write_text("a file")
    with pytest.raises(NoCopy, match=r"^No playable copy of hevc\.mp4 could be kept: .*\.$"):
        playable_copy(make_clip("HEVC"), tmp_path / "copies")


@pytest.mark.parametrize("source", REAL_CLIPS, ids=lambda path: path.name)
def test_real_clips(source: Path, tmp_path: Path) -> None:
    try:
        before = frame_times(source)
    except VideoError:
        with contextlib.suppress(VideoError, NoCopy):
            assert playable_copy(source, tmp_path) is None
        return
    copy = playable_copy(source, tmp_path)
    if copy is not None:
        after = frame_times(copy)
        assert [moment[0] for moment in after] == [moment[0] for moment in before]
        assert np.array(after) == pytest.approx(np.array(before), abs=1 / 1000)
