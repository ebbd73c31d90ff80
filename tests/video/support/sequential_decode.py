"""python -m tests.video.support.sequential_decode VIDEO

The reference: one decode of everything, damaged packets skipped, metadata that is not UTF-8 ignored.

No frame is held while the next one is decoded: a decoder shows what is left in its buffers where data is lost. As a command it
reads {index: [width, height]} from standard input and prints the number of frames, and a digest of each of these at that size.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import av
import cv2
import numpy as np

from vrthinker_core.video.container import THREADS
from vrthinker_core.video.convert import Pixels

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


def resized(pixels: Pixels, width: int, height: int) -> Pixels:
    """At the size of a clip with pixels that are not square, or whose picture size changes."""
    down, across = pixels.shape[:2]
    if (across, down) == (width, height):
        return pixels
    shrinks = width <= across and height <= down
    return np.asarray(
        cv2.resize(
            pixels, (width, height), interpolation=cv2.INTER_AREA if shrinks else cv2.INTER_CUBIC
        ),
        np.uint8,
    )


def digest(pixels: Pixels) -> str:
    return hashlib.sha256(pixels.tobytes()).hexdigest()


def main() -> None:
    av.logging.set_level(av.logging.PANIC)
    sizes = {int(index): size for index, size in json.load(sys.stdin).items()}
    look = lambda index, frame: (  # noqa: E731
        digest(resized(rgb_copy(frame), *sizes[index])) if index in sizes else ""
    )
    digests = map_frames(Path(sys.argv[1]), look)
    print(
        json.dumps(
            [len(digests), {index: digests[index] for index in sizes if index < len(digests)}]
        )
    )


if __name__ == "__main__":
    main()
