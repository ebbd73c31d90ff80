"""A threshold for ties falls between gaps, never between pairs with the same gap."""

from __future__ import annotations

import random

import pytest

from tests.evaluation.support.made_results import result
from vrthinker_core.errors import BadInput
from vrthinker_core.evaluation.summary import summarize
from vrthinker_core.evaluation.tie_threshold import TieThreshold, tie_threshold

Pair = tuple[float, int]  # Gap, and people's label


def row_by_row(pairs: list[Pair]) -> float:
    """How published code fits ties, in our words: pairs in the order of their gaps, and a threshold that may fall after any row."""
    ordered = sorted(
        pairs, key=lambda pair: abs(pair[0])
    )  # stable: equal gaps keep the order of the rows
    right = [label == (1 if gap > 0 else 2) and gap != 0 for gap, label in ordered]
    best = max(
        sum(label == 0 for _, label in ordered[:cut]) + sum(right[cut:])
        for cut in range(len(pairs) + 1)
    )
    return best / len(pairs)


def discrete(rows: int, skill: float) -> list[Pair]:
    """A judge that says 1, 2 or tie (a gap of 1, -1 or 0), and is right as often as `skill` says."""
    generator = random.Random(4)
    people = generator.choices((0, 1, 2), (0.48, 0.26, 0.26), k=rows)
    said = [
        label
        if generator.random() < skill
        else generator.choice([x for x in (0, 1, 2) if x != label])
        for label in people
    ]
    return [
        ({0: 0.0, 1: 1.0, 2: -1.0}[label], truth) for label, truth in zip(said, people, strict=True)
    ]


@pytest.mark.parametrize("skill", [0.732, 1 / 3])
def test_fitting_row_by_row_moves_with_the_order_and_ours_does_not(skill: float) -> None:
    """The trap: with human ties first, the published fit adds points to a good judge, and more than twenty-five to a coin."""
    rows = discrete(500, skill)
    ties_first, ties_last = (
        sorted(rows, key=lambda pair: (pair[1] == 0) is not first) for first in (True, False)
    )
    assert row_by_row(ties_first) - row_by_row(ties_last) > (0.1 if skill < 0.5 else 0.05)
    assert row_by_row(ties_first) > skill + (0.25 if skill < 0.5 else 0.05)
    fitted = {tie_threshold(*zip(*order, strict=True)) for order in (rows, ties_first, ties_last)}
    assert len(fitted) == 1


def test_our_tau_of_the_same_labels_is_the_plain_share_whatever_the_order() -> None:
    rows = discrete(300, 0.732)
    named = {0.0: "0", 1.0: "1", -1.0: "2"}
    results = [result(n, str(label), named[gap]) for n, (gap, label) in enumerate(rows)]
    plain = sum(named[gap] == str(label) for gap, label in rows) / len(rows)
    for order in (results, sorted(results, key=lambda each: each.pair.labels.OA or 0)):
        assert summarize(order).agreement[0].tau.value == plain


def best_of_all(pairs: list[Pair]) -> float:
    """Every threshold, tried one by one."""

    def score(most: float) -> int:
        return sum(
            label == (0 if abs(gap) <= most else 1 if gap > 0 else 2) for gap, label in pairs
        )

    return max(score(most) for most in {0.0, *(abs(gap) for gap, _ in pairs)}) / len(pairs)


@pytest.mark.parametrize("seed", range(20))
def test_no_other_threshold_is_better(seed: int) -> None:
    generator = random.Random(seed)
    pairs = [(round(generator.gauss(0, 1), 1), generator.choice((0, 1, 2))) for _ in range(40)]
    fitted = tie_threshold([gap for gap, _ in pairs], [label for _, label in pairs])
    assert fitted.tau == pytest.approx(best_of_all(pairs))
    said = [0 if abs(gap) <= fitted.gap else 1 if gap > 0 else 2 for gap, _ in pairs]
    assert sum(
        mine == label for mine, (_, label) in zip(said, pairs, strict=True)
    ) / 40 == pytest.approx(fitted.tau)


def test_the_smallest_of_several_is_taken() -> None:
    assert tie_threshold([0.1, 0.2, -3.0], [0, 0, 2]) == TieThreshold(0.2, 1.0)
    assert tie_threshold([1.0, -1.0], [1, 2]) == TieThreshold(0.0, 1.0)


@pytest.mark.parametrize(("gaps", "labels"), [([], []), ([1.0], [1, 2]), ([float("nan")], [1])])
def test_what_nothing_can_be_fitted_on_is_refused(gaps: list[float], labels: list[int]) -> None:
    with pytest.raises(BadInput, match="fitted"):
        tie_threshold(gaps, labels)
