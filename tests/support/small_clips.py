"""Small real clips, written with PyAV."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tests.video.support.write_clips import Picture, write


def write_clip(
    path: Path, frames: int = 48, width: int = 96, height: int = 64, hue: int = 0, fps: int = 24
) -> Path:
    """An H.264 clip with B-frames in which a bright block moves over a field of one colour."""
    pictures = np.full((frames, height, width, 3), (40 + hue, 90, 160 - hue), np.uint8)
    for index, picture in enumerate(pictures):
        left = index * (width - 16) // max(1, frames - 1)
        picture[8:24, left : left + 16] = 240
    return write_pictures(path, list(pictures), fps)


def write_pictures(path: Path, pictures: Sequence[Picture], fps: int = 24) -> Path:
    """An H.264 clip of these pictures."""
    height, width, _ = pictures[0].shape
    how = {"size": (width, height), "rate": fps, "gop": 250}
    options = {"preset": "veryfast", "crf": "20"}
    return write(path, len(pictures), pictures=pictures, options=options, **how)
