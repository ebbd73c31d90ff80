"""Both orders: labels mapped back, and a word for each pair of labels."""

from __future__ import annotations

from hypothesis import given, strategies as st

from vrthinker_core.types import Preference, StopReason, Verdict
from vrthinker_core.types.events import Finished
from vrthinker_core.types.order import OrderCheck, OrderEffect, check_order, swap_verdict
from vrthinker_core.types.wording import order_unchecked

VERDICTS = st.builds(Verdict, *[st.sampled_from([None, *Preference])] * 4)
TIE, ONE, TWO = Preference.TIE, Preference.FIRST, Preference.SECOND


def ended(verdict: Verdict | None, stop: StopReason = StopReason.ANSWERED) -> Finished:
    return Finished(stop, verdict)


@given(VERDICTS)
def test_a_tie_stays_a_tie_and_what_was_not_said_stays_unsaid(verdict: Verdict) -> None:
    for (_, label), (_, mapped) in zip(verdict, swap_verdict(verdict), strict=True):
        assert mapped is {ONE: TWO, TWO: ONE, TIE: TIE, None: None}[label]


@given(VERDICTS, VERDICTS)
def test_each_pair_of_labels_has_its_word(first: Verdict, second: Verdict) -> None:
    words = {
        (ONE, TWO): "flips",
        (TWO, ONE): "flips",
        (ONE, TIE): "turns into a tie",
        (TWO, TIE): "turns into a tie",
        (TIE, ONE): "no longer a tie",
        (TIE, TWO): "no longer a tie",
        (None, None): "not said",
    }
    check = OrderCheck(first, second)
    assert list(check.effects) == ["TA", "MQ", "VQ", "OA"]
    for dimension, one in first:
        two, effect = dict(second)[dimension], check.effects[dimension.value]
        other = "stable" if one is two else "said in one order only"
        assert effect == words.get((one, two), other)
        assert (dimension in check.flips) == (effect == "flips")
        assert (check[dimension] is OrderEffect.STABLE) == (effect == "stable")


@given(VERDICTS, st.sampled_from(list(StopReason)))
def test_without_a_second_verdict_nothing_is_said_but_the_reason(
    verdict: Verdict, stop: StopReason
) -> None:
    for second in (None, ended(None, stop)):
        assert check_order(ended(verdict), second) is None
        assert check_order(second, ended(verdict)) is None
        line = order_unchecked(second)
        assert line.startswith("Order not checked: ")
        assert line.count(".") == 1
    failed = Finished(StopReason.FAILED, error="The judge stopped before it had answered.")
    assert order_unchecked(failed) == "Order not checked: The judge stopped before it had answered."
