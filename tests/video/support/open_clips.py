"""The one way these tests open a clip: everything a test does not care about has a default."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from vrthinker_core.types import Frame, FrameRef, Side
from vrthinker_core.types.frames import Grid, Sizing
from vrthinker_core.video import Clip, DecoderPool, FramePlan

PAIRED = Grid(128, "floor")
CONCAT = Grid(48, "even")
NATIVE = Sizing("native")
SQUARE = Sizing("square", 448)
FIRST = (16, 48, 80, 112)


@cache
def decoder_pool() -> DecoderPool:
    """One fork server for the run of tests: a forked process opens a clip much faster than a fresh one."""
    return DecoderPool()


def opened(
    path: Path,
    *,
    grid: Grid = PAIRED,
    opening: Sizing = NATIVE,
    first: Sequence[int] = FIRST,
    **rest: Any,
) -> Clip:
    """An open clip of side 1; `later` is `opening` unless given. `decoders=None` starts a fresh process for it."""
    rest.setdefault("decoders", decoder_pool())
    side, later = rest.pop("side", Side.FIRST), rest.pop("later", opening)
    plan = FramePlan(grid, opening, later, tuple(FrameRef(slot, side) for slot in first))
    return Clip(path, side, plan, **rest).open()


def pixels(frame: Frame) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """(height, width, 3)."""
    return np.frombuffer(frame.rgb, np.uint8).reshape(frame.height, frame.width, 3)
