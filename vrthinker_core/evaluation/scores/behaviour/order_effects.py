"""What the order of the videos does to a judge: position bias, and both orders compared."""

from dataclasses import dataclass

import numpy as np

from vrthinker_core.evaluation.scores.bootstrap import IntervalEstimate, Ratio, estimate_ratios
from vrthinker_core.evaluation.scores.labels import NOT_SAID, LabelTable, decided
from vrthinker_core.types import Dimension, Preference


@dataclass(frozen=True, slots=True)
class PositionBias:
    """How often the judge prefers the video that it is shown first. Without a bias `shown_first` is a half, whatever the videos."""

    dimension: Dimension
    decided: int  # Pairs in which the judge prefers a video, as the data set orders them
    first: IntervalEstimate  # of those, the share that prefers video 1
    people_first: (
        float | None
    )  # The same of people: it differs from a half where the data set puts better videos on one side
    shown_first: IntervalEstimate | None = (
        None  # Over both orders: share of preferences that went to the video that was shown first
    )
    difference: float | None = (
        None  # Share that prefers video 1 when it is shown first, less the share when it is shown second
    )


@dataclass(frozen=True, slots=True)
class SwapConsistency:
    """Pairs with a label in both orders: shares of those whose label stays, turns to the other video, or to a tie or from one."""

    dimension: Dimension
    pairs: int
    stable: IntervalEstimate
    flips: float
    tie_changes: float


def position_bias(table: LabelTable) -> tuple[PositionBias, ...]:
    """Of every dimension in which the judge prefers a video in any pair."""
    dimensions = [dimension for dimension in Dimension if decided(table.judge[dimension]).any()]
    ratios: dict[tuple[Dimension, str], Ratio] = {}
    for dimension in dimensions:
        judge, swapped = table.judge[dimension], table.swapped[dimension]
        both = (judge != NOT_SAID) & (swapped != NOT_SAID)
        to_first = both * (
            (judge == Preference.FIRST).astype(float) + (swapped == Preference.SECOND)
        )
        ratios[dimension, "first"] = (judge == Preference.FIRST, decided(judge))
        ratios[dimension, "shown first"] = (
            to_first,
            both * (decided(judge).astype(float) + decided(swapped)),
        )
        ratios[dimension, "people"] = (
            table.people[dimension] == Preference.FIRST,
            decided(table.people[dimension]),
        )
    estimates = estimate_ratios(ratios, table.prompts)
    return tuple(_position(table, dimension, estimates) for dimension in dimensions)


def _position(
    table: LabelTable,
    dimension: Dimension,
    estimates: dict[tuple[Dimension, str], IntervalEstimate | None],
) -> PositionBias:
    judge, swapped = table.judge[dimension], table.swapped[dimension]
    both = (judge != NOT_SAID) & (swapped != NOT_SAID)
    first, people = estimates[dimension, "first"], estimates[dimension, "people"]
    assert first is not None
    shares = [side[both & decided(side)] == Preference.FIRST for side in (judge, swapped)]
    difference = float(shares[0].mean() - shares[1].mean()) if all(map(len, shares)) else None
    return PositionBias(
        dimension,
        int(decided(judge).sum()),
        first,
        people.value if people else None,
        estimates[dimension, "shown first"],
        difference,
    )


def swap_consistency(table: LabelTable) -> tuple[SwapConsistency, ...]:
    """Of every dimension with a label in both orders of any pair."""
    both = {d: (table.judge[d] != NOT_SAID) & (table.swapped[d] != NOT_SAID) for d in Dimension}
    same = {d: (table.judge[d] == table.swapped[d], both[d]) for d in Dimension if both[d].any()}
    ratios: dict[Dimension, Ratio] = {d: (equal & rows, rows) for d, (equal, rows) in same.items()}
    found = []
    for dimension, stable in estimate_ratios(ratios, table.prompts).items():
        assert stable is not None
        judge, swapped = (side[dimension][both[dimension]] for side in (table.judge, table.swapped))
        flips = decided(judge) & decided(swapped) & (judge != swapped)
        changes = decided(judge) != decided(swapped)
        found.append(
            SwapConsistency(
                dimension, len(judge), stable, float(np.mean(flips)), float(np.mean(changes))
            )
        )
    return tuple(found)
