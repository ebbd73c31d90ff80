"""Clips that show a number in every frame: a frame that reaches the wrong client is recognised by it."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from PIL import Image

from tests.support.small_clips import write_pictures
from tests.ui.support.barcode_clips import BITS, picture
from vrthinker_core.types.events import Trace

WHITE = 128
"""Grey values above it are a white bar."""


def write_pair(folder: Path, client: int) -> tuple[Path, Path]:
    """A client's two clips; every frame shows its clip's number as bars, twice the client's and one more."""
    numbers = 2 * client, 2 * client + 1
    first, second = (write_pictures(folder / f"{n}.mp4", [picture(n)] * 24) for n in numbers)
    return first, second


def read_number(jpeg: bytes) -> int | None:
    """The number that a frame of such a clip shows; None for bytes that are no JPEG."""
    try:
        with Image.open(io.BytesIO(jpeg), formats=("JPEG",)) as image:
            row = np.asarray(image.convert("L"))[image.height // 2]
    except OSError:
        return None
    return sum(2**bit for bit in range(BITS) if row[(2 * bit + 1) * len(row) // (2 * BITS)] > WHITE)


def foreign_content(
    trace: Trace, pictures: Mapping[str, bytes], client: int, prompt: str
) -> list[str]:
    """What in a trace, or among the pictures that were fetched with it, is not the client's own; [] when all is."""
    own = 2 * client, 2 * client + 1
    found = [] if trace.started.prompt == prompt else [f"the prompt {trace.started.prompt!r}"]
    for turn in trace.turns:
        for frame in turn.frames:
            expected, number = own[frame.ref.side - 1], read_number(frame.jpeg)
            if number != expected:
                found.append(f"turn {turn.number} shows {number}, not {expected}")
    numbers = {name: read_number(jpeg) for name, jpeg in pictures.items()}
    return found + [f"{name} shows {n}" for name, n in numbers.items() if n not in own]
