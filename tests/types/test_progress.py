"""The pace of a run, and what it took in all."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from tests.ui.support import handmade_runs
from vrthinker_core.commands.console import ConsoleRenderer
from vrthinker_core.types.events import Event, FramesShown, TextArrived
from vrthinker_core.types.messages import Completion
from vrthinker_core.types.progress import Pace, reading, totals, turn_figures
from vrthinker_core.types.wording import frame_time


def shown(turn: int, note: str = "") -> FramesShown:
    return FramesShown(turn, "told", (), note=note)


def paced(*events: tuple[float, Event]) -> Pace:
    pace = Pace()
    for seconds, event in events:
        pace = pace.after(event, seconds)
    return pace


def test_nothing_is_told_before_it_is_known() -> None:
    assert Pace().seconds_left(3, 6) is None
    assert Pace().tokens_a_second(3) is None
    first = paced((1, shown(1)), (2, TextArrived(1, "a")), (2.2, TextArrived(1, "b")))
    assert first.seconds_left(9, 6) is None, "no turn has ended"
    assert first.tokens_a_second(2.5) is None, "half a second of text tells no speed"
    assert paced((1, shown(1)), (9, shown(2))).seconds_left(10, None) is None


def test_a_judge_that_writes_evenly_has_its_speed() -> None:
    text = [(2 + step / 20, TextArrived(1, "word ")) for step in range(101)]
    pace = paced((1, shown(1)), *text)
    assert pace.tokens_a_second(7) == pytest.approx(20)
    assert paced((1, shown(1)), *text, (7, shown(2))).tokens_a_second(8) is None, (
        "each turn has its own"
    )
    again = paced((1, shown(1)), *text, (7, shown(1, "tried once more")))
    assert (again.turns, again.pieces) == ((1,), 0)


@given(st.floats(0.1, 500), st.integers(1, 9), st.integers(1, 12), st.floats(0, 1))
def test_the_seconds_left_are_those_of_the_turns_that_ended(
    each: float, ended: int, turns: int, part: float
) -> None:
    pace = paced(*((2 + each * turn, shown(turn + 1)) for turn in range(ended + 1)))
    now = 2 + each * (ended + part)
    left = pace.seconds_left(now, turns)
    assert left == pytest.approx(
        max(0, turns - ended - 1) * each + each * (1 - part), rel=1e-6, abs=1e-6
    )
    assert pace.seconds_left(now + 100 * each, turns) == pytest.approx(
        max(0, turns - ended - 1) * each
    ), "never below zero"


def test_the_totals_are_those_of_all_turns() -> None:
    turns = handmade_runs.three_turns().turns
    assert totals(turns) == "28 frames · 936 tokens read, 25 written"
    half_kept = [
        replace(turn, completion=replace(turn.completion, reused_tokens=300)) for turn in turns
    ]
    assert totals(half_kept) == "28 frames · 36 tokens read, 25 written"
    assert totals(replace(turn, completion=Completion("x")) for turn in turns) == "28 frames", (
        "what is not known is left out"
    )
    assert totals(()) == ""


def test_the_figures_of_a_turn_are_its_tokens_and_its_time_on_the_page_and_in_a_terminal() -> None:
    trace = handmade_runs.three_turns()
    measured = Completion("x", prompt_tokens=1_312, reused_tokens=1_000, new_tokens=92, seconds=2.0)
    turn = replace(trace.turns[0], completion=measured)
    figures = "1,312 in (1,000 reused) · 92 out · 2.0 s · 46 tokens a second"
    assert turn_figures(turn) == figures
    assert turn_figures(replace(turn, completion=Completion("x"))) == "", (
        "what is not known is left out"
    )
    terminal = io.StringIO()
    ConsoleRenderer(Console(width=120, file=terminal)).render(
        replace(trace, turns=(turn,)).events()
    )
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
