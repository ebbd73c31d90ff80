"""Ties of a judge that gives scores."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vrthinker_core.errors import BadInput
from vrthinker_core.types import Preference


@dataclass(frozen=True, slots=True)
class TieThreshold:
    """Gaps up to `gap` are ties; `tau` is on the fitted pairs."""

    gap: float
    tau: float


def tie_threshold(gaps: Sequence[float], labels: Sequence[Preference | int]) -> TieThreshold:
    """Fit the threshold with the highest tau; the smallest of several.

    `gaps` are score of video 1 minus score of video 2. Only the distinct gaps are tried, and zero:
    pairs with equal gaps are all ties or none, so the order of the rows means nothing. Fitting row
    by row, as published code does, lets the threshold fall between pairs with the same gap.

    Raises BadInput for lists of different lengths, no pairs, or a gap that is no finite number.
    """
    signed, people = np.asarray(gaps, dtype=np.float64), np.asarray(labels, dtype=np.int64)
    if len(signed) != len(people) or not len(signed) or not np.isfinite(signed).all():
        raise BadInput(
            "A tie threshold is fitted on as many finite gaps as labels, and on at least one."
        )
    distinct, where = np.unique([*np.abs(signed), 0.0], return_inverse=True)
    where = where[:-1]  # the last one is the zero that was added
    preferred = np.where(signed > 0, int(Preference.FIRST), int(Preference.SECOND))
    as_tie = np.bincount(where[people == Preference.TIE], minlength=len(distinct))
    correct = (people == preferred) & (signed != 0)
    as_preference = np.bincount(where[correct], minlength=len(distinct))
    # With the threshold at each distinct gap: right as ties up to it, right as preferences above it
    right = np.cumsum(as_tie) + as_preference.sum() - np.cumsum(as_preference)
    best = int(np.argmax(right))
    return TieThreshold(float(distinct[best]), float(right[best] / len(signed)))
