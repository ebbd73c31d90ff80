"""The reference: one decode of everything with PyAV's defaults, damaged packets skipped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import av
import numpy as np


def decode(path: Path) -> list[tuple[int | None, np.ndarray[Any, np.dtype[np.uint8]]]]:
    """(pts, RGB picture) of every frame, not rotated, at its stored size."""
    found = []
    try:
        with av.open(str(path)) as container:
            stream = container.streams.best("video")
            for packet in container.demux(stream) if stream else ():
                try:
                    found += [(frame.pts, frame.to_ndarray(format="rgb24")) for frame in packet.decode()]
                except av.FFmpegError:
                    continue
    except av.FFmpegError:
        return found
    return found
