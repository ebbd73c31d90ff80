"""Frames of one colour, for tests that need frames but no video."""

from __future__ import annotations

from collections.abc import Sequence

from vrthinker_core.types import Frame, FrameRef


def frame(ref: FrameRef, width: int = 28, height: int = 28) -> Frame:
    """A frame whose colour follows from its slot and side."""
    colour = bytes((ref.slot % 256, 80 * int(ref.side) % 256, 40))
    key = f"drawn:{ref.slot}:{int(ref.side)}:{width}x{height}"
    return Frame(
        ref,
        ref.slot,
        ref.slot / 24,
        (ref.slot + 1) / 24,
        width,
        height,
        key,
        colour * (width * height),
    )


def frames(refs: Sequence[FrameRef]) -> tuple[Frame, ...]:
    """A frame source for a `Deliberation`."""
    return tuple(frame(ref) for ref in refs)
