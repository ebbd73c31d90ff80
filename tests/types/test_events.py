"""What a run came to: a final verdict, and a whole answer."""

from __future__ import annotations

import io
from dataclasses import replace
from datetime import UTC, datetime
from itertools import product

import pytest
from hypothesis import given, strategies as st
from rich.console import Console

from tests.ui.support import handmade_runs
from vrthinker_core.commands.terminal import ConsoleRenderer
from vrthinker_core.types import Preference, Run, Settings, StopReason, Verdict, Vote
from vrthinker_core.types.events import (
    Event,
    Finished,
    FramesShown,
    Pace,
    Started,
    TextArrived,
)
from vrthinker_core.types.messages import MAX_DECIDING, MAX_NOTE, Completion
from vrthinker_core.types.wording import totals, turn_figures
from vrthinker_core.words import frame_time, reading

WHOLE = Verdict(Preference.FIRST, Preference.TIE, Preference.SECOND, Preference.FIRST)
PARTIAL = replace(WHOLE, MQ=None)
ANSWERED = Finished(StopReason.ANSWERED, WHOLE)


@pytest.mark.parametrize(
    ("finished", "final", "whole"),
    [
        (ANSWERED, WHOLE, WHOLE),
        (replace(ANSWERED, verdict=PARTIAL), PARTIAL, None),
        *(
            (replace(ANSWERED, stop=stop), WHOLE, None)
            for stop in StopReason
            if stop is not StopReason.ANSWERED
        ),
        (None, None, None),
        (replace(ANSWERED, verdict=None), None, None),
        (replace(ANSWERED, provisional=True), None, None),
    ],
)
def test_an_answer_that_ended_the_run_is_final_and_without_a_missing_label_whole(
    finished: Finished | None, final: Verdict | None, whole: Verdict | None
) -> None:
    run = Run(Started("a ball", "scripted", "paired", Settings(), (None, None)), finished=finished)
    assert (run.final_verdict, run.whole_answer) == (final, whole)


def shown(turn: int, note: str = "") -> FramesShown:
    return FramesShown(turn, "told", (), note=note)


def paced(*events: tuple[float, Event]) -> Pace:
    pace = Pace()
    for seconds, event in events:
        pace = pace.after(event, seconds)
    return pace


def test_nothing_is_told_before_it_is_known() -> None:
    assert Pace().seconds_left(3, 6) is None
    first = paced((1, shown(1)), (2, TextArrived(1, "a")), (2.2, TextArrived(1, "b")))
    assert first.seconds_left(9, 6) is None, "no turn has ended"
    assert paced((1, shown(1)), (9, shown(2))).seconds_left(10, None) is None


def test_a_turn_that_is_tried_once_more_began_once() -> None:
    assert paced((1, shown(1)), (7, shown(1, "tried once more"))).turns == (1,)


@given(st.floats(0.1, 500), st.integers(1, 9), st.integers(1, 12), st.floats(0, 1))
def test_the_seconds_left_are_those_of_the_turns_that_ended(
    each: float, ended: int, turns: int, part: float
) -> None:
    pace = paced(*((2 + each * turn, shown(turn + 1)) for turn in range(ended + 1)))
    now = 2 + each * (ended + part)
    later = max(0, turns - ended - 1) * each
    left = pytest.approx(later + each * (1 - part), rel=1e-6, abs=1e-6)
    assert pace.seconds_left(now, turns) == left
    assert pace.seconds_left(now + 100 * each, turns) == pytest.approx(later), "never below zero"


def test_the_totals_are_those_of_all_turns() -> None:
    turns = handmade_runs.three_turns().turns
    assert totals(turns) == "14 pairs · 936 tokens read, 25 written"
    kept = [replace(each, completion=replace(each.completion, reused_tokens=300)) for each in turns]
    assert totals(kept) == "14 pairs · 36 tokens read, 25 written"
    # What is not known is left out
    assert totals(replace(turn, completion=Completion("x")) for turn in turns) == "14 pairs"
    assert totals(()) == ""


def test_the_figures_of_a_turn_are_its_tokens_and_its_time_on_the_page_and_in_a_terminal() -> None:
    trace = handmade_runs.three_turns()
    measured = Completion("x", prompt_tokens=1_312, reused_tokens=1_000, new_tokens=92, seconds=2.0)
    turn = replace(trace.turns[0], completion=measured)
    figures = "1,312 in (1,000 reused) · 92 out · 2.0 s · 46 tokens a second"
    assert turn_figures(turn) == figures
    # What is not known is left out
    assert turn_figures(replace(turn, completion=Completion("x"))) == ""
    terminal, shown = io.StringIO(), replace(trace, turns=(turn,))
    ConsoleRenderer(Console(width=120, file=terminal)).render(shown.events())
    assert figures in terminal.getvalue()


def test_what_is_being_read_stands_in_words() -> None:
    assert reading((0.439, 1)) == "Reading video 1 · 43 %"
    assert reading((0, 0.5)) == "Reading video 1 · 0 %, video 2 · 50 %"


@pytest.mark.parametrize(
    ("seconds", "written"),
    [(3 / 24, "0.13 s"), (16 / 24, "0.67 s"), (0, "0.00 s"), (1.375, "1.38 s")],
)
def test_half_a_hundredth_is_rounded_up_as_browsers_do(seconds: float, written: str) -> None:
    assert frame_time(seconds) == written


AT = datetime(2026, 11, 22, 9, 30, tzinfo=UTC)
LABELS = st.sampled_from([None, *Preference])
VERDICTS = st.builds(Verdict, TA=LABELS, MQ=LABELS, VQ=LABELS, OA=LABELS)


@given(VERDICTS, VERDICTS)
def test_only_what_both_have_said_is_compared(own: Verdict, judges: Verdict) -> None:
    compared = Vote(AT, own).compare(judges)
    for (dimension, mine), (_, theirs) in zip(own, judges, strict=True):
        assert (dimension in compared) is (mine is not None and theirs is not None)
        assert compared.get(dimension, False) is (mine is not None and mine is theirs)


def test_a_vote_is_empty_without_labels() -> None:
    for labels in product([None, *Preference], repeat=2):
        own = Verdict(TA=labels[0], OA=labels[1])
        assert Vote(AT, own).empty is (own.labels == {})


@pytest.mark.parametrize(
    "changes",
    [
        {"at": datetime(2026, 11, 22, 9, 30)},
        {"at": datetime(1, 1, 1, tzinfo=UTC)},
        {"note": "x" * (MAX_NOTE + 1)},
        {"slots": tuple(range(MAX_DECIDING + 1))},
        {"slots": (16, 16)},
        {"slots": (-1,)},
    ],
    ids=str,
)
def test_what_cannot_be_a_vote_is_refused(changes: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"vote"):
        Vote(**{"at": AT, **changes})  # type: ignore[arg-type]
