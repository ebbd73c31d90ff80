"""Long and heavy clips need no more than a given processor time and memory."""

from __future__ import annotations

import resource
from pathlib import Path

import numpy as np
import pytest

from tests.support.slow import slow
from tests.video.support.open_clips import FIRST, SQUARE, opened
from tests.video.support.write_clips import H264, Picture, numbered_picture, repeated, write, x264

pytestmark = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")


def kilobytes(pid: int | str, field: str) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith(field))


def children_cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def cpu_ticks(pid: int) -> int:
    """Processor time of a process so far, in hundredths of a second."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:13]))


def noisy(count: int, width: int, height: int) -> list[Picture]:
    """Pictures that are work for a decoder."""
    pictures, rng = [], np.random.default_rng(0)
    for index in range(count):
        noise = rng.integers(-12, 13, (height // 4, width // 4, 3)).repeat(4, 0).repeat(4, 1)
        picture = np.clip(numbered_picture(index, width, height) + noise, 0, 255)
        pictures.append(picture.astype(np.uint8))
    return pictures


@pytest.mark.parametrize(
    ("size", "seconds"),
    [((1280, 720), 5), pytest.param((1920, 1080), 20, marks=slow)],
    ids=["720p", "1080p"],
)
def test_a_run_over_a_minute_is_bounded(
    size: tuple[int, int], seconds: int, tmp_path: Path
) -> None:
    """A whole run, 64 of 128 slots: so many seconds of the processor, and 300 MB more than this process took before."""
    how = {"rate": 30, "gop": 250, "options": {**H264, "crf": "28"}}
    part = write(tmp_path / "part.mp4", 10, size=size, pictures=noisy(10, *size), **how)
    minute = repeated(tmp_path / "minute.mp4", part, 180)
    before, baseline = children_cpu_seconds(), kilobytes("self", "VmRSS")
    with opened(minute, opening=SQUARE, decoders=None) as clip:
        frames = list(clip.frames(FIRST))
        for turn in range(5):
            frames += clip.frames(range(turn, 120, 10))
        assert clip.info.frames == 1800
        peak = kilobytes(clip.pid, "VmHWM") + kilobytes("self", "VmRSS") - baseline
    assert len(frames) == 64
    assert children_cpu_seconds() - before <= seconds
    assert peak <= 300_000


def test_a_clip_of_ten_hours_is_bounded(tmp_path: Path) -> None:
    """36,000 seconds, each a key frame: opened and read."""
    part = write(tmp_path / "part.mp4", 20, size=(64, 48), rate=1, gop=20)
    long = repeated(tmp_path / "hours.mp4", part, 1800)
    before = children_cpu_seconds()
    with opened(long, opening=SQUARE, decoders=None) as clip:
        clip.frames(range(128))
        assert clip.info.seconds == 36_000
    assert children_cpu_seconds() - before <= 5


def test_a_clip_with_one_key_frame_is_bounded(tmp_path: Path) -> None:
    """Each of four requests takes no more than a decode of its 2400 frames."""
    how = {"size": (64, 48), "rate": 30, "gop": 100_000, **x264("scenecut=0")}
    path = write(tmp_path / "lonely.mp4", 2400, **how)
    before = children_cpu_seconds()
    for read_mode in ("whole", "seek"):
        with opened(path, opening=SQUARE, read_mode=read_mode, decoders=None) as clip:
            for turn in range(4):
                clip.frames(range(127 - turn, -1, -4))
            assert clip.info.frames == 2400
    assert children_cpu_seconds() - before <= 12


def test_opening_and_all_slots_cost_one_decode(tmp_path: Path) -> None:
    """A short clip is decoded once: reading all slots afterwards takes at most a quarter of that."""
    pictures = noisy(30, 1280, 720)
    path = write(tmp_path / "clip.mp4", 30, size=(1280, 720), pictures=pictures)
    with opened(path, opening=SQUARE) as clip:
        opening = cpu_ticks(clip.pid)
        clip.frames(range(128))
        assert cpu_ticks(clip.pid) - opening <= 0.25 * opening


def test_large_frames_are_held_one_at_a_time(tmp_path: Path) -> None:
    """A frame has 25 MB, and 100 MB are kept: once they are full, a slot more costs no more memory."""
    size = (3840, 2160)
    grey = [np.full((*size[::-1], 3), level, np.uint8) for level in (40, 200)]
    how = {"size": size, "gop": 3, "options": {"preset": "ultrafast"}, "pictures": grey * 6}
    with opened(write(tmp_path / "4k.mp4", 12, **how), first=[0], read_mode="seek") as clip:
        peaks = []
        for frame in clip.stream([0, 20, 40, 60, 80, 100, 120, 127]):
            assert len(frame.rgb) == 3840 * 2160 * 3
            peaks.append(kilobytes(clip.pid, "VmHWM"))
    assert peaks[-1] <= 300_000
    assert peaks[-1] - peaks[5] <= 10_000
