"""Frames of one colour, for tests that need frames but no video."""

from __future__ import annotations

from collections.abc import Sequence

from vrthinker_core.types import Frame, FrameRef


def frame(ref: FrameRef, width: int = 28, height: int = 28) -> Frame:
    """A frame whose colour follows from its slot and side."""
    slot, key = ref.slot, f"drawn:{ref.slot}:{int(ref.side)}:{width}x{height}"
    rgb = bytes((slot % 256, 80 * int(ref.side) % 256, 40)) * (width * height)
    return Frame(ref, slot, slot / 24, (slot + 1) / 24, width, height, key, rgb)


def frames(refs: Sequence[FrameRef]) -> tuple[Frame, ...]:
    """A frame source for a `Deliberation`."""
    return tuple(frame(ref) for ref in refs)
