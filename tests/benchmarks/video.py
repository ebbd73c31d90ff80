"""python -m tests.benchmarks.video [--quick]

Processor time for the frames of a six-turn run: this package, the published way, and single passes of OpenCV and PyAV.

The frames are 8, then five calls of 12 pairs, so 64 of each video, from a 5 s clip of 1080p (480p with --quick). Decoding processes
are counted too. decord and torchcodec are measured where they can be imported. The last line is JSON.
"""

from __future__ import annotations

import argparse
import importlib
import json
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import av
import cv2
import numpy as np

from tests.benchmarks.tools.phase_timer import processor_seconds
from tests.benchmarks.tools.published_loop import FIRST, SIDE, read_frames
from tests.video.support.write_clips import H264, write
from vrthinker_core.types import Side
from vrthinker_core.types.geometry import Grid, Sizing
from vrthinker_core.video import FramePlan, open_clip

CALLS = [tuple(1 + 2 * (12 * turn + n) for n in range(12)) for turn in range(5)]
"""The slots that each call asks for, of both videos."""

Calls = Sequence[Sequence[int]]
Way = Callable[[Path, Calls], int]
"""Reads the first frames of a clip and those of some calls; returns how many."""


def main() -> None:
    """Run the benchmark."""
    options = _options()
    size = (854, 480) if options.quick else (1920, 1080)
    with tempfile.TemporaryDirectory() as name:
        pictures = [_noisy_picture(index, *size) for index in range(10)]
        path = Path(name) / "clip.mp4"
        write(
            path,
            120,
            size=size,
            rate=24,
            gop=250,
            options={**H264, "crf": "24"},
            pictures=pictures * 12,
        )
        seconds = {
            way.__name__: spent for way in WAYS if (spent := _measure(way, path)) is not None
        }
    for name, spent in seconds.items():
        print(
            f"{name:>12}: first four frames {spent['first_s']:.2f} s, whole run {spent['run_s']:.2f} s"
        )
    ratios = {
        key.removesuffix("_s"): round(seconds["published"][key] / seconds["ours"][key], 2)
        for key in seconds["ours"]
    }
    print(
        json.dumps(
            {"size": size, "processor_seconds": seconds, "times_less_than_published": ratios}
        )
    )


def readme_row(result: dict[str, Any]) -> str:
    """The result in a sentence for the README's table."""
    ratios = result["times_less_than_published"]
    return (
        f"{ratios['run']:.2f} times less processor time than the published way for a whole run over 5 s of {result['size'][1]}p, "
        f"{ratios['first']:.2f} times less for the first four frames alone"
    )


# -- ways ----------------------------------------------------------------------------------------------------------------


def ours(path: Path, calls: Calls) -> int:
    """This package, its decoding process included."""
    square = Sizing("square", SIDE)
    with open_clip(
        path, Side.FIRST, FramePlan(Grid(128, "floor"), square, square, frozenset(FIRST))
    ) as clip:
        return len(clip.frames(FIRST)) + sum(len(clip.frames(call)) for call in calls)


def published(path: Path, calls: Calls) -> int:
    """Open, seek and read for every frame of a call."""
    return len(read_frames(path, FIRST)) + sum(
        len(read_frames(path, [slot])) for call in calls for slot in call
    )


def opencv_pass(path: Path, calls: Calls) -> int:
    """Decode and resize every frame once, in order: what is asked later costs nothing."""
    capture = cv2.VideoCapture(str(path))
    count = 0
    while True:
        read, pixels = capture.read()
        if not read:
            return count
        cv2.resize(
            cv2.cvtColor(pixels, cv2.COLOR_BGR2RGB), (SIDE, SIDE), interpolation=cv2.INTER_CUBIC
        )
        count += 1


def pyav_pass(path: Path, calls: Calls) -> int:
    """The same with PyAV, resized by swscale."""
    with av.open(str(path)) as container:
        return sum(
            1
            for frame in container.decode(video=0)
            if frame.to_ndarray(width=SIDE, height=SIDE, format="rgb24").size
        )


def decord(path: Path, calls: Calls) -> int:
    """Frames on demand."""
    reader = importlib.import_module("decord").VideoReader(
        str(path), width=SIDE, height=SIDE, num_threads=1
    )
    return sum(
        len(reader.get_batch([slot * len(reader) // 128 for slot in call]))
        for call in (FIRST, *calls)
    )


def torchcodec(path: Path, calls: Calls) -> int:
    """Frames on demand, in full size."""
    decoder = importlib.import_module("torchcodec.decoders").VideoDecoder(
        str(path), num_ffmpeg_threads=1
    )
    return sum(
        len(decoder.get_frames_at([slot * len(decoder) // 128 for slot in call]))
        for call in (FIRST, *calls)
    )


WAYS: tuple[Way, ...] = (ours, published, opencv_pass, pyav_pass, decord, torchcodec)


# -- measuring -----------------------------------------------------------------------------------------------------------


def _measure(way: Way, path: Path) -> dict[str, float] | None:
    """Seconds for the first frames alone and for all calls, after a run that warms up; None where the library is missing."""
    try:
        way(path, ())
        return {"first_s": _spent(way, path, ()), "run_s": _spent(way, path, CALLS)}
    except (ImportError, OSError, RuntimeError):
        return None


def _spent(way: Way, path: Path, calls: Calls) -> float:
    """Processor seconds of this process and its children; each way ends its own children before it returns."""
    before = processor_seconds()
    way(path, calls)
    return round(processor_seconds() - before, 3)


def _noisy_picture(
    index: int, width: int, height: int
) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    """A picture that is work for a decoder: a moving gradient under coarse noise."""
    x, y = np.meshgrid(np.arange(width), np.arange(height))
    picture = np.stack(
        [
            (x // 8 + 5 * index) % 256,
            (y // 4 + 7 * index) % 256,
            (x // 8 + y // 8 + 9 * index) % 256,
        ],
        axis=2,
    )
    noise = np.random.default_rng(index).integers(
        -12, 13, (height // 4 + 1, width // 4 + 1, 3), np.int16
    )
    return np.clip(picture + noise.repeat(4, 0).repeat(4, 1)[:height, :width], 0, 255).astype(
        np.uint8
    )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    main()
