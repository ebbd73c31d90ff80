"""The pairs in which a judge disagrees with people, the surest first."""

from collections.abc import Iterable
from dataclasses import dataclass

from vrthinker_core.evaluation.agreement import counts
from vrthinker_core.results.result import PairResult
from vrthinker_core.types import Dimension, Preference

MAX_SHOWN = 100  # Pairs in a report; all stand in the results


@dataclass(frozen=True, slots=True)
class Disagreement:
    """A pair whose label is not people's, in the dimension that a report is about."""

    id: str
    row: int
    prompt: str
    people: dict[str, int]
    judge: dict[str, int]  # Of the first order
    flips: tuple[
        Dimension, ...
    ]  # Those of them that swapping the sides changed: no reliable winner
    probability: float | None  # Of the judge's wrong label
    confidence: int | None
    generators: tuple[str, str]
    trace: str


def disagreements(results: Iterable[PairResult], dimension: Dimension) -> list[Disagreement]:
    """All of them. First those whose wrong label was most probable, then by CF; the other video before a tie; then by id."""
    wrong = [result for result in results if _is_wrong(result, dimension)]
    return [
        _disagreement(result, dimension)
        for result in sorted(wrong, key=lambda result: _order(result, dimension))
    ]


def _is_wrong(result: PairResult, dimension: Dimension) -> bool:
    people, judge = _label(result, dimension)
    return (
        counts(result)
        and result.judged
        and people is not None
        and judge is not None
        and people is not judge
    )


def _label(result: PairResult, dimension: Dimension) -> tuple[Preference | None, Preference | None]:
    """People's and the judge's."""
    return getattr(result.pair.labels, dimension.value), getattr(
        result.verdict, dimension.value, None
    )


def _probability(result: PairResult, dimension: Dimension) -> float | None:
    said, known = _label(result, dimension)[1], (result.probabilities or {}).get(dimension)
    return None if known is None or said is None else known[said]


def _order(result: PairResult, dimension: Dimension) -> tuple[float, int, bool, str, int]:
    probability = _probability(result, dimension)
    surest = -1.0 if probability is None else probability
    return (
        -surest,
        -(result.confidence or 0),
        Preference.TIE in _label(result, dimension),
        result.pair.id,
        result.pair.row,
    )


def _disagreement(result: PairResult, dimension: Dimension) -> Disagreement:
    pair = result.pair
    return Disagreement(
        pair.id,
        pair.row,
        pair.prompt,
        pair.labels.labels,
        result.verdict.labels if result.verdict else {},
        result.flips,
        _probability(result, dimension),
        result.confidence,
        (pair.first_generator, pair.second_generator),
        result.trace,
    )
