"""python -m tests.benchmarks.video [--quick]

The frames of a full run of six turns (8, then five calls of 12 pairs, so 64 of each video) from a 5 s clip of 1080p (480p with
--quick), in processor seconds, the decoding process's own included: this package, the published way, OpenCV in one pass, plain
PyAV in one pass, and decord and torchcodec where they can be imported. The last line is JSON.
"""

from __future__ import annotations

import argparse
import importlib
import json
import resource
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import av
import cv2
import numpy as np

from tests.benchmarks.tools.published_loop import FIRST, SIDE, read_frames
from tests.video.support.write_clips import H264, write
from vrthinker_core.types import Side
from vrthinker_core.types.geometry import Grid, Sizing
from vrthinker_core.video import open_clip

CALLS = [tuple(1 + 2 * (12 * turn + n) for n in range(12)) for turn in range(5)]


def main() -> None:
    """Run the benchmark."""
    options = _options()
    size = (854, 480) if options.quick else (1920, 1080)
    with tempfile.TemporaryDirectory() as name:
        noise = [_noisy(index, *size) for index in range(10)]
        pictures = [noise[index % 10] for index in range(120)]
        path = write(Path(name) / "clip.mp4", 120, size=size, rate=24, gop=250, options={**H264, "crf": "24"}, pictures=pictures)
        found = {way.__name__.strip("_"): spent for way in _ways() if (spent := _measure(way, path)) is not None}
    for way, spent in found.items():
        print(f"{way:>12}: first four frames {spent['first_s']:.2f} s, whole run {spent['run_s']:.2f} s")
    ours, theirs = found["ours"], found["published"]
    ratios = {key.removesuffix("_s"): round(theirs[key] / ours[key], 2) for key in ours}
    print(json.dumps({"size": size, "processor_seconds": found, "times_less_than_published": ratios}))


def ours(path: Path, calls: Sequence[Sequence[int]]) -> int:
    """This package, a process of its own included."""
    square = Sizing("square", SIDE)
    with open_clip(path, Side.FIRST, Grid(128, "floor"), opening=square, later=square, first=FIRST) as clip:
        return len(clip.frames(FIRST)) + sum(len(clip.frames(call)) for call in calls)


def published(path: Path, calls: Sequence[Sequence[int]]) -> int:
    """Open, seek and read for every frame of a call."""
    return len(read_frames(path, FIRST)) + sum(len(read_frames(path, [slot])) for call in calls for slot in call)


def opencv_pass(path: Path, calls: Sequence[Sequence[int]]) -> int:
    """Every frame once, in order, all 128 slots kept: what is asked later costs nothing."""
    capture = cv2.VideoCapture(str(path))
    kept = 0
    while True:
        good, pixels = capture.read()
        if not good:
            return kept
        cv2.resize(cv2.cvtColor(pixels, cv2.COLOR_BGR2RGB), (SIDE, SIDE), interpolation=cv2.INTER_CUBIC)
        kept += 1


def pyav_pass(path: Path, calls: Sequence[Sequence[int]]) -> int:
    """The same with PyAV, shrunk by swscale."""
    with av.open(str(path)) as container:
        return sum(1 for frame in container.decode(video=0) if frame.to_ndarray(width=SIDE, height=SIDE, format="rgb24").size)


def decord(path: Path, calls: Sequence[Sequence[int]]) -> int:
    """Frames on demand."""
    reader = importlib.import_module("decord").VideoReader(str(path), width=SIDE, height=SIDE, num_threads=1)
    return sum(len(reader.get_batch([slot * len(reader) // 128 for slot in call])) for call in (FIRST, *calls))


def torchcodec(path: Path, calls: Sequence[Sequence[int]]) -> int:
    """Frames on demand, in full size."""
    decoder = importlib.import_module("torchcodec.decoders").VideoDecoder(str(path), num_ffmpeg_threads=1)
    return sum(len(decoder.get_frames_at([slot * len(decoder) // 128 for slot in call])) for call in (FIRST, *calls))


def _ways() -> tuple[Callable[[Path, Sequence[Sequence[int]]], int], ...]:
    return ours, published, opencv_pass, pyav_pass, decord, torchcodec


def _measure(way: Callable[[Path, Sequence[Sequence[int]]], int], path: Path) -> dict[str, float] | None:
    try:
        way(path, ())
        return {"first_s": _spent(way, path, ()), "run_s": _spent(way, path, CALLS)}
    except (ImportError, OSError, RuntimeError):
        return None


def _spent(way: Callable[[Path, Sequence[Sequence[int]]], int], path: Path, calls: Sequence[Sequence[int]]) -> float:
    """Processor seconds of this process and of those it started; each way ends its own before it returns."""
    before = _processor()
    way(path, calls)
    return round(_processor() - before, 3)


def _processor() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


def _noisy(index: int, width: int, height: int) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    """A picture that is work for a decoder: a moving gradient under coarse noise."""
    x, y = np.meshgrid(np.arange(width), np.arange(height))
    picture = np.stack([(x // 8 + 5 * index) % 256, (y // 4 + 7 * index) % 256, (x // 8 + y // 8 + 9 * index) % 256], axis=2)
    noise = np.random.default_rng(index).integers(-12, 13, (height // 4 + 1, width // 4 + 1, 3), np.int16)
    return np.clip(picture + noise.repeat(4, 0).repeat(4, 1)[:height, :width], 0, 255).astype(np.uint8)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    main()
