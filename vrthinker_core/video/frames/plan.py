"""The plan of a clip: frame and size of each slot."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from vrthinker_core.types.geometry import Grid, Sizing

ReadMode = Literal["auto", "whole", "seek"]
"""Way to find frames: decode the whole clip once, or seek to the nearest key frame.

"auto" chooses by the length of the clip.
"""


@dataclass(frozen=True, slots=True)
class FrameRequest:
    """A frame index and the size at which the frame is sent."""

    index: int
    sizing: Sizing


@dataclass(frozen=True, slots=True)
class FramePlan:
    """Slots of a clip, and the sizes of their sent frames."""

    grid: Grid
    opening: Sizing
    """Size for the slots in `first`."""
    later: Sizing
    """Size for all other slots."""
    first: frozenset[int]
    """Slots that are sent before the judge's first turn."""

    def by_request(self, slots: Iterable[int], total: int) -> dict[FrameRequest, list[int]]:
        """Return each request of `slots` once, with the slots that share it.

        `total` is the number of frames in the clip.
        """
        slots_of: dict[FrameRequest, list[int]] = {}
        for slot in slots:
            request = FrameRequest(
                self.grid.index(slot, total), self.opening if slot in self.first else self.later
            )
            slots_of.setdefault(request, []).append(slot)
        return slots_of

    def frame_indices(self, total: int) -> set[int]:
        """Return the index of every frame that a slot means."""
        return {self.grid.index(slot, total) for slot in range(self.grid.slots)}
