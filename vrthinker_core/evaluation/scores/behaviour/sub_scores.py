"""The overall label against the other three: a judge may contradict itself, and so may people."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from vrthinker_core.evaluation.scores.labels import NOT_SAID, LabelColumn, LabelTable
from vrthinker_core.types import Dimension, Preference
from vrthinker_core.types.comparison import SUB_SCORES


@dataclass(frozen=True, slots=True)
class OverallCheck:
    """Of pairs with all four labels."""

    whose: Literal["judge", "people"]
    pairs: int
    with_sum: (
        float  # OA is the side that more of the three prefer, and a tie where as many prefer each
    )
    majorities: int  # Pairs in which two of the three labels are equal
    with_majority: float | None  # of those, OA is that label
    contradictions: float  # OA prefers a video that none of the three prefers, or is a tie though all three prefer the same one


def overall_checks(table: LabelTable) -> tuple[OverallCheck, ...]:
    """Of the judge, and of people where they gave all four."""
    found = (_check("judge", table.judge), _check("people", table.people))
    return tuple(check for check in found if check is not None)


def _check(
    whose: Literal["judge", "people"], labels: dict[Dimension, LabelColumn]
) -> OverallCheck | None:
    whole = np.all([labels[dimension] != NOT_SAID for dimension in Dimension], axis=0)
    if not whole.any():
        return None
    overall = labels[Dimension.OA][whole]
    votes = np.array(
        [[(labels[d][whole] == label) for label in Preference] for d in SUB_SCORES]
    ).sum(axis=0)  # label × pair
    lead = votes[Preference.FIRST] - votes[Preference.SECOND]
    by_sum = np.where(
        lead > 0,
        int(Preference.FIRST),
        np.where(lead < 0, int(Preference.SECOND), int(Preference.TIE)),
    )
    clear = votes.max(axis=0) >= 2
    by_majority = votes.argmax(axis=0)
    alone = (overall != Preference.TIE) & (votes[overall, np.arange(len(overall))] == 0)
    ignored = (overall == Preference.TIE) & (votes[1:].max(axis=0) == len(SUB_SCORES))
    return OverallCheck(
        whose,
        pairs=len(overall),
        with_sum=float((overall == by_sum).mean()),
        majorities=int(clear.sum()),
        with_majority=float((overall == by_majority)[clear].mean()) if clear.any() else None,
        contradictions=float((alone | ignored).mean()),
    )
