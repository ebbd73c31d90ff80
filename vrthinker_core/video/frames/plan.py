"""Which frame a slot means, and at what size: arithmetic on top of the grid."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from vrthinker_core.types.geometry import Grid, Sizing

ReadMode = Literal["auto", "whole", "seek"]
"""How frames are found: by decoding the whole clip once, or by seeking to the nearest key frame; "auto" chooses by its length."""


@dataclass(frozen=True, slots=True)
class FrameRequest:
    """A frame of the clip and the size it is sent at."""

    index: int
    sizing: Sizing


@dataclass(frozen=True, slots=True)
class FramePlan:
    """Which slots a clip has, and at what size the frame of each is sent."""

    grid: Grid
    opening: Sizing
    """Of the slots in `first`."""
    later: Sizing
    """Of all others."""
    first: frozenset[int]
    """The slots that are sent before the judge's first turn."""

    def by_request(self, slots: Iterable[int], total: int) -> dict[FrameRequest, list[int]]:
        """The frames that `slots` mean in a clip of `total` frames: each request once, with the slots that it is for."""
        slots_of: dict[FrameRequest, list[int]] = {}
        for slot in slots:
            request = FrameRequest(
                self.grid.index(slot, total), self.opening if slot in self.first else self.later
            )
            slots_of.setdefault(request, []).append(slot)
        return slots_of

    def frame_indices(self, total: int) -> set[int]:
        """Every frame that some slot means."""
        return {self.grid.index(slot, total) for slot in range(self.grid.slots)}
