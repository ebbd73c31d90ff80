"""The reference: one decode of everything, damaged packets skipped, metadata that is not UTF-8 ignored.

No frame is held while the next one is decoded: a decoder shows what is left in its buffers where data is lost.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import av
import numpy as np

from vrthinker_core.video.container import THREADS

Result = TypeVar("Result")


def decode(path: Path) -> list[tuple[int | None, np.ndarray[Any, np.dtype[np.uint8]]]]:
    """(pts, RGB picture) of every frame, not rotated, at its stored size."""
    return map_frames(path, lambda index, frame: (frame.pts, rgb_copy(frame)))


def map_frames(path: Path, look: Callable[[int, av.VideoFrame], Result]) -> list[Result]:
    """What `look` gives for the index and the frame of each; it must keep nothing of the frame."""
    found: list[Result] = []
    try:
        with av.open(str(path), metadata_errors="ignore") as container:
            stream = container.streams.best("video")
            if stream and stream.codec_context:
                stream.codec_context.thread_count = THREADS
            for packet in container.demux(stream) if stream else ():
                try:
                    found += [
                        look(index, frame)
                        for index, frame in enumerate(packet.decode(), len(found))
                    ]
                except av.FFmpegError:
                    continue
    except av.FFmpegError:
        return found
    return found


def rgb_copy(frame: av.VideoFrame) -> np.ndarray[Any, np.dtype[np.uint8]]:
    return np.array(frame.to_ndarray(format="rgb24"), dtype=np.uint8)
