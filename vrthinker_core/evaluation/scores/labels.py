"""Labels as arrays: a row for each pair that counts, in the order of the pairs' ids, whatever order the results came in."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vrthinker_core.results.result import LEFT_OUT, ROW_FAULT, PairResult
from vrthinker_core.types import Dimension, Preference, Verdict

NOT_SAID = -1  # In place of a label that nobody gave

LabelColumn = NDArray[np.int8]  # 0, 1, 2 or NOT_SAID
Rows = NDArray[np.bool_]
Numbers = NDArray[np.floating[Any]]


@dataclass(frozen=True, slots=True)
class LabelTable:
    """The labels of people and of a judge, row by row. A pair that was not judged, or whose label is missing, has NOT_SAID."""

    results: tuple[PairResult, ...]
    prompts: NDArray[np.int64]
    """Which prompt each row has, counted in alphabetical order."""
    people: dict[Dimension, LabelColumn]
    judge: dict[Dimension, LabelColumn]
    swapped: dict[Dimension, LabelColumn]
    """Of the second order, with the labels of the first."""

    def labelled(self, dimension: Dimension) -> Rows:
        """The rows in which people gave a label."""
        labelled: Rows = self.people[dimension] != NOT_SAID
        return labelled

    @property
    def main(self) -> Dimension:
        """What figures of one dimension are about: overall, or the first dimension with labels where people left that out."""
        known = [dimension for dimension in Dimension if self.labelled(dimension).any()]
        return Dimension.OA if Dimension.OA in known or not known else known[0]


def counts(result: PairResult) -> bool:
    """Whether a result stands in the statistics: all do but broken rows, and rows that were left out."""
    return result.fault not in (ROW_FAULT, LEFT_OUT)


def label_table(results: Iterable[PairResult]) -> LabelTable:
    """The table of all results that count."""
    rows = sorted(
        (result for result in results if counts(result)),
        key=lambda result: (result.pair.id, result.pair.row),
    )
    _, prompts = np.unique(
        np.array([result.pair.prompt for result in rows], dtype=object), return_inverse=True
    )
    return LabelTable(
        tuple(rows),
        prompts.astype(np.int64),
        _columns([result.pair.labels for result in rows]),
        _columns([result.verdict if result.judged else None for result in rows]),
        _columns([result.swapped if result.judged else None for result in rows]),
    )


def decided(labels: LabelColumn) -> Rows:
    """The rows whose label prefers a video."""
    preferred: Rows = labels > Preference.TIE
    return preferred


def _columns(verdicts: Sequence[Verdict | None]) -> dict[Dimension, LabelColumn]:
    return {
        dimension: _column([getattr(verdict, dimension.value, None) for verdict in verdicts])
        for dimension in Dimension
    }


def _column(labels: Sequence[Preference | None]) -> LabelColumn:
    return np.array([NOT_SAID if label is None else int(label) for label in labels], dtype=np.int8)
