"""What a run came to: a final verdict, and a whole answer."""

from __future__ import annotations

from dataclasses import replace

import pytest

from vrthinker_core.types import Preference, Run, Settings, StopReason, Verdict
from vrthinker_core.types.events import Finished, Started

WHOLE = Verdict(Preference.FIRST, Preference.TIE, Preference.SECOND, Preference.FIRST)
ANSWERED = Finished(StopReason.ANSWERED, WHOLE)


def ended(finished: Finished | None) -> Run:
    return Run(Started("a ball", "scripted", "paired", Settings(), (None, None)), finished=finished)


def test_an_answer_without_a_missing_label_is_final_and_whole() -> None:
    run = ended(ANSWERED)
    assert (run.final_verdict, run.whole_answer) == (WHOLE, WHOLE)


def test_an_answer_in_which_a_label_is_missing_is_final_but_not_whole() -> None:
    partial = replace(WHOLE, MQ=None)
    run = ended(replace(ANSWERED, verdict=partial))
    assert (run.final_verdict, run.whole_answer) == (partial, None)


@pytest.mark.parametrize("stop", [stop for stop in StopReason if stop is not StopReason.ANSWERED])
def test_a_run_that_did_not_end_with_its_answer_has_no_whole_one(stop: StopReason) -> None:
    run = ended(replace(ANSWERED, stop=stop))
    assert (run.final_verdict, run.whole_answer) == (WHOLE, None)


@pytest.mark.parametrize(
    "finished", [None, replace(ANSWERED, verdict=None), replace(ANSWERED, provisional=True)]
)
def test_a_run_without_an_end_an_answer_or_a_final_one_has_neither(
    finished: Finished | None,
) -> None:
    run = ended(finished)
    assert (run.final_verdict, run.whole_answer) == (None, None)
