"""The pairs in which a judge disagrees with people, the surest first."""

from collections.abc import Iterable
from dataclasses import dataclass

from vrthinker_core.results.result import PairResult
from vrthinker_core.types import Dimension, Preference

MAX_SHOWN = 100  # pairs in a report; all are in the results


@dataclass(frozen=True, slots=True)
class Disagreement:
    """A pair whose label in the report's dimension is not people's."""

    id: str
    row: int
    prompt: str
    people: dict[str, int]
    judge: dict[str, int]  # of the first order
    flips: tuple[Dimension, ...]  # labels that swapping the sides changed: no reliable winner
    probability: float | None  # of the judge's wrong label
    confidence: int | None
    generators: tuple[str, str]
    trace: str


def disagreements(results: Iterable[PairResult], dimension: Dimension) -> list[Disagreement]:
    """List disagreements, the surest wrong label first.

    The order is by its probability, then by CF, the other video before a tie, then by id.
    """
    found = []
    for result in results:
        pair, verdict = result.pair, result.verdict
        people = getattr(pair.labels, dimension.value)
        judge = getattr(verdict, dimension.value, None)
        if people is None or judge is None or people is judge:
            continue
        if not verdict or not result.judged:
            continue
        known = (result.probabilities or {}).get(dimension)
        wrong = Disagreement(
            pair.id,
            pair.row,
            pair.prompt,
            pair.labels.labels,
            verdict.labels,
            result.flips,
            None if known is None else known[judge],
            result.confidence,
            (pair.first_generator, pair.second_generator),
            result.trace,
        )
        surest = -1.0 if wrong.probability is None else wrong.probability
        tie = Preference.TIE in (people, judge)
        found.append(((-surest, -(result.confidence or 0), tie, pair.id, pair.row), wrong))
    return [wrong for _, wrong in sorted(found, key=lambda each: each[0])]
