"""Long and heavy clips need no more than a given processor time and memory."""

from __future__ import annotations

import resource
from pathlib import Path

import numpy as np
import pytest

from tests.video.support.open_clips import FIRST, SQUARE, opened
from tests.video.support.write_clips import H264, Picture, numbered_picture, repeated, write

pytestmark = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")


def kilobytes(pid: int | str, field: str) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith(field))


def children_cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def noisy(index: int, width: int, height: int) -> Picture:
    """A picture that is work for a decoder."""
    noise = np.random.default_rng(index).integers(-12, 13, (height // 4, width // 4, 3), np.int16)
    return np.clip(
        numbered_picture(index, width, height) + noise.repeat(4, 0).repeat(4, 1), 0, 255
    ).astype(np.uint8)


@pytest.fixture(scope="module")
def minute(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """60 s of 1080p at 30 frames per second."""
    folder = tmp_path_factory.mktemp("long")
    pictures = [noisy(index, 1920, 1080) for index in range(10)]
    part = write(
        folder / "part.mp4",
        10,
        size=(1920, 1080),
        rate=30,
        gop=250,
        options={**H264, "crf": "28"},
        pictures=pictures,
    )
    return repeated(folder / "minute.mp4", part, 180)


def test_a_run_over_a_minute_of_1080p_is_bounded(minute: Path) -> None:
    """A whole run, 64 of 128 slots: at most 20 s of processor time, and 300 MB more than this process took before."""
    before, baseline = children_cpu_seconds(), kilobytes("self", "VmRSS")
    with opened(minute, opening=SQUARE) as clip:
        frames = list(clip.frames(FIRST))
        for turn in range(5):
            frames += clip.frames(range(turn, 120, 10))
        assert clip.info.frames == 1800
        peak = kilobytes(clip.pid, "VmHWM") + kilobytes("self", "VmRSS") - baseline
    assert len(frames) == 64
    assert children_cpu_seconds() - before <= 20
    assert peak <= 300_000


def test_a_clip_of_ten_hours_is_bounded(tmp_path: Path) -> None:
    """36,000 seconds, each a key frame: opened and read within the same 20 s."""
    part = write(tmp_path / "part.mp4", 20, size=(64, 48), rate=1, gop=20)
    long = repeated(tmp_path / "hours.mp4", part, 1800)
    before = children_cpu_seconds()
    with opened(long, opening=SQUARE) as clip:
        clip.frames(range(128))
        assert clip.info.seconds == 36_000
    assert children_cpu_seconds() - before <= 20


def test_a_clip_with_one_key_frame_in_5400_is_bounded(tmp_path: Path) -> None:
    path = write(
        tmp_path / "lonely.mp4",
        5400,
        size=(64, 48),
        rate=30,
        gop=100_000,
        options={**H264, "x264-params": "scenecut=0"},
    )
    before = children_cpu_seconds()
    for read_mode in ("whole", "seek"):
        with opened(path, opening=SQUARE, read_mode=read_mode) as clip:
            for turn in range(4):
                clip.frames(range(127 - turn, -1, -4))
            assert clip.info.frames == 5400
    assert children_cpu_seconds() - before <= 40


def test_opening_and_all_slots_cost_one_decode(tmp_path: Path) -> None:
    """A short clip is decoded once: reading all slots afterwards takes at most a quarter of that."""
    pictures = [noisy(index, 1280, 720) for index in range(30)]
    path = write(tmp_path / "clip.mp4", 30, size=(1280, 720), pictures=pictures)
    with opened(path, opening=SQUARE) as clip:
        opening = cpu_ticks(clip.pid)
        clip.frames(range(128))
        assert cpu_ticks(clip.pid) - opening <= 0.25 * opening


def test_frames_in_8k_are_held_one_at_a_time(tmp_path: Path) -> None:
    """A frame has 100 MB, and the decoder needs as much: a slot more costs no more memory."""
    grey = [np.full((4320, 7680, 3), level, np.uint8) for level in (40, 200)]
    path = write(
        tmp_path / "8k.mp4",
        6,
        size=(7680, 4320),
        gop=3,
        options={"preset": "ultrafast"},
        pictures=grey * 3,
    )
    with opened(path, first=[0], read_mode="seek") as clip:
        peaks = []
        for frame in clip.stream([0, 40, 80, 127]):
            assert len(frame.rgb) == 7680 * 4320 * 3
            peaks.append(kilobytes(clip.pid, "VmHWM"))
    assert peaks[-1] <= 450_000
    assert peaks[-1] - peaks[0] <= 120_000


def cpu_ticks(pid: int) -> int:
    """Processor time of a process so far, in hundredths of a second."""
    return sum(
        int(field)
        for field in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    )
