"""Which pictures slots mean: pure arithmetic on top of the grid."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from vrthinker_core.geometry import Grid, Sizing

Reading = Literal["auto", "whole", "seek"]
"""How frames are found: by one decode of everything, or by timestamp from the nearest key frame; chosen by the clip's length."""


@dataclass(frozen=True, slots=True)
class Need:
    """A real frame at a size."""

    index: int
    sizing: Sizing


@dataclass(frozen=True, slots=True)
class Plan:
    """How slots become pictures: the first ones have a size of their own."""

    grid: Grid
    opening: Sizing
    later: Sizing
    first: frozenset[int]

    def need(self, slot: int, total: int) -> Need:
        """What `slot` means in a clip of `total` frames."""
        return Need(self.grid.index(slot, total), self.opening if slot in self.first else self.later)

    def served(self, slots: Iterable[int], total: int) -> dict[Need, list[int]]:
        """Each needed picture once, with the slots that it is for."""
        served: dict[Need, list[int]] = {}
        for slot in slots:
            served.setdefault(self.need(slot, total), []).append(slot)
        return served

    def indices(self, total: int) -> set[int]:
        """Every real frame that any slot means."""
        return {self.grid.index(slot, total) for slot in range(self.grid.slots)}

    def everything(self, total: int) -> set[Need]:
        """Every picture that can ever be asked for."""
        return set(self.served(range(self.grid.slots), total))
