"""Which pictures slots mean: pure arithmetic on top of the grid."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from vrthinker_core.types.geometry import Grid, Sizing

ReadMode = Literal["auto", "whole", "seek"]
"""How frames are found: by one decode of everything, or by timestamp from the nearest key frame; chosen by the clip's length."""


@dataclass(frozen=True, slots=True)
class FrameRequest:
    """A real frame at a size."""

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

    def request(self, slot: int, total: int) -> FrameRequest:
        """What `slot` means in a clip of `total` frames."""
        return FrameRequest(self.grid.index(slot, total), self.opening if slot in self.first else self.later)

    def by_request(self, slots: Iterable[int], total: int) -> dict[FrameRequest, list[int]]:
        """Each needed picture once, with the slots that it is for."""
        served: dict[FrameRequest, list[int]] = {}
        for slot in slots:
            served.setdefault(self.request(slot, total), []).append(slot)
        return served

    def frame_indices(self, total: int) -> set[int]:
        """Every real frame that any slot means."""
        return {self.grid.index(slot, total) for slot in range(self.grid.slots)}

    def all_requests(self, total: int) -> set[FrameRequest]:
        """Every picture that can ever be asked for."""
        return set(self.by_request(range(self.grid.slots), total))
