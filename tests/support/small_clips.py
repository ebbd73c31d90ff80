"""Small real clips, written with PyAV."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import av
import numpy as np


def write_clip(
    path: Path, frames: int = 48, width: int = 96, height: int = 64, hue: int = 0, fps: int = 24
) -> Path:
    """An H.264 clip with B-frames in which a bright block moves over a field of one colour."""
    with av.open(str(path), "w") as container:
        stream = container.add_stream(
            "libx264", rate=Fraction(fps), options={"preset": "veryfast", "crf": "20"}
        )
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        for index in range(frames):
            picture = np.full((height, width, 3), (40 + hue, 90, 160 - hue), np.uint8)
            left = index * (width - 16) // max(1, frames - 1)
            picture[8:24, left : left + 16] = 240
            for packet in stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")):
                container.mux(packet)
        for packet in stream.encode():
            container.mux(packet)
    return path
