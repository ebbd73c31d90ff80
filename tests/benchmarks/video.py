"""python -m tests.benchmarks.video [--quick]

Processor time for the frames of a six-turn run: this package, the published way, and single passes of OpenCV and PyAV.

The frames are 8, then five calls of 12 pairs, so 64 of each video, from a 5 s clip of 1080p (480p with --quick). Decoding processes
are counted too. The last line is JSON.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import av
import cv2
import numpy as np

from tests.benchmarks.tools import benchmark_parser
from tests.benchmarks.tools.phase_timer import processor_seconds
from tests.benchmarks.tools.published_loop import FIRST, SIDE, read_frames
from tests.video.support.write_clips import H264, write
from vrthinker_core.types import FrameRef, Side
from vrthinker_core.types.frames import Grid, Sizing
from vrthinker_core.video import Clip, FramePlan

CALLS = [tuple(1 + 2 * (12 * turn + n) for n in range(12)) for turn in range(5)]
"""The slots that each call asks for, of both videos."""

Calls = Sequence[Sequence[int]]
Way = Callable[[Path, Calls], int]
"""Reads the first frames of a clip and those of some calls; returns how many."""


def main() -> None:
    """Run the benchmark."""
    quick = benchmark_parser(__doc__, "480p").parse_args().quick
    size = (854, 480) if quick else (1920, 1080)
    with tempfile.TemporaryDirectory() as name:
        pictures = [_noisy_picture(index, *size) for index in range(10)]
        how = {"size": size, "rate": 24, "gop": 250, "options": {**H264, "crf": "24"}}
        path = write(Path(name) / "clip.mp4", 120, pictures=pictures * 12, **how)
        seconds = {way.__name__: _measure(way, path) for way in WAYS}
    ours, theirs = seconds["ours"], seconds["published"]
    ratios = {key.removesuffix("_s"): round(theirs[key] / ours[key], 2) for key in ours}
    result = {"size": size, "processor_seconds": seconds, "times_less_than_published": ratios}
    print(json.dumps(result))


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
    plan = FramePlan(
        Grid(128, "floor"), square, square, tuple(FrameRef(slot, Side.FIRST) for slot in FIRST)
    )
    with Clip(path, Side.FIRST, plan).open() as clip:
        return len(clip.frames(FIRST)) + sum(len(clip.frames(call)) for call in calls)


def published(path: Path, calls: Calls) -> int:
    """Open, seek and read for every frame of a call."""
    slots = [slot for call in calls for slot in call]
    return len(read_frames(path, FIRST)) + sum(len(read_frames(path, [slot])) for slot in slots)


def opencv_pass(path: Path, calls: Calls) -> int:
    """Decode and resize every frame once, in order: what is asked later costs nothing."""
    capture = cv2.VideoCapture(str(path))
    count = 0
    while True:
        read, pixels = capture.read()
        if not read:
            return count
        rgb = cv2.cvtColor(pixels, cv2.COLOR_BGR2RGB)
        cv2.resize(rgb, (SIDE, SIDE), interpolation=cv2.INTER_CUBIC)
        count += 1


def pyav_pass(path: Path, calls: Calls) -> int:
    """The same with PyAV, resized by swscale."""
    with av.open(str(path)) as container:
        how: Any = {"width": SIDE, "height": SIDE, "format": "rgb24"}
        return sum(frame.to_ndarray(**how).size > 0 for frame in container.decode(video=0))


WAYS: tuple[Way, ...] = (ours, published, opencv_pass, pyav_pass)


# -- measuring -----------------------------------------------------------------------------------------------------------


def _measure(way: Way, path: Path) -> dict[str, float]:
    """Seconds for the first frames alone and for all calls, after a run that warms up; each way ends its own children."""
    way(path, ())
    calls: dict[str, Calls] = {"first_s": (), "run_s": CALLS}
    return {name: round(processor_seconds(way, path, each), 3) for name, each in calls.items()}


def _noisy_picture(index: int, width: int, height: int) -> Any:
    """A picture that is work for a decoder: a moving gradient under coarse noise."""
    x, y = np.meshgrid(np.arange(width), np.arange(height))
    levels = (x // 8 + 5 * index, y // 4 + 7 * index, x // 8 + y // 8 + 9 * index)
    coarse = (height // 4 + 1, width // 4 + 1, 3)
    noise = np.random.default_rng(index).integers(-12, 13, coarse, np.int16)
    noise = noise.repeat(4, 0).repeat(4, 1)[:height, :width]
    return np.clip(np.stack(levels, axis=2) % 256 + noise, 0, 255).astype(np.uint8)


if __name__ == "__main__":
    main()
