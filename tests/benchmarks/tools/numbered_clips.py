"""Clips that carry a number in every frame, so that whoever finds a picture knows whose it is."""

from __future__ import annotations

import io
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
from PIL import Image

from tests.ui.support.barcode_clips import BITS, HEIGHT, WIDTH, picture
from vrthinker_core.types.events import Trace

BRIGHT = 128


def clip_numbers(visitor: int) -> tuple[int, int]:
    """The numbers of a visitor's two clips."""
    return 2 * visitor, 2 * visitor + 1


def write_pair(folder: Path, visitor: int) -> tuple[Path, Path]:
    """A visitor's two clips."""
    first, second = (write_numbered_clip(folder / f"{number}.mp4", number) for number in clip_numbers(visitor))
    return first, second


def write_numbered_clip(path: Path, number: int, frames: int = 24) -> Path:
    """A clip in which every frame shows the same number as bars."""
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=Fraction(24), options={"preset": "veryfast", "crf": "20"})
        stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, "yuv420p"
        for _ in range(frames):
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture(number), format="rgb24")))
        container.mux(stream.encode())
    return path


def read_number(jpeg: bytes) -> int | None:
    """The number that a frame of such a clip shows; None for what is no picture."""
    try:
        with Image.open(io.BytesIO(jpeg), formats=("JPEG",)) as found:
            row = np.asarray(found.convert("L"))[found.height // 2]
    except OSError:
        return None
    return sum(2**bit for bit in range(BITS) if row[(2 * bit + 1) * len(row) // (2 * BITS)] > BRIGHT)


def foreign_content(trace: Trace, pictures: Mapping[str, bytes], visitor: int, prompt: str) -> list[str]:
    """What in a trace, or among the pictures that came with it, is not the visitor's own; [] when all is."""
    own = clip_numbers(visitor)
    found = [] if trace.started.prompt == prompt else [f"the prompt {trace.started.prompt!r}"]
    for turn in trace.turns:
        shown = [(own[frame.ref.side - 1], read_number(frame.jpeg)) for frame in turn.frames]
        found += [f"turn {turn.number} shows {what}, not {wanted}" for wanted, what in shown if what != wanted]
    return found + [f"{name} shows {read_number(jpeg)}" for name, jpeg in pictures.items() if read_number(jpeg) not in own]
