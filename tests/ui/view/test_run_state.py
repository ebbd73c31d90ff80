"""The fold: how the text was cut into pieces does not matter, and events that come before a run change nothing."""

from __future__ import annotations

from tests.ui.support import handmade_runs
from vrthinker_core.types.events import TextArrived, TurnEnded
from vrthinker_core.ui.view.run_state import RunState, fold, fold_all, join_text


def test_how_the_text_is_split_into_pieces_does_not_matter() -> None:
    events = list(handmade_runs.three_turns().events())
    state = RunState()
    for event in events:
        state = fold(state, event)
    assert state == fold_all(events)
    assert sum(isinstance(event, TextArrived) for event in join_text(events)) == 3


def test_events_before_the_start_change_nothing() -> None:
    assert fold(RunState(), TextArrived(1, "x")) == RunState()
    turn = handmade_runs.three_turns().turns[0]
    assert fold(RunState(), TurnEnded(turn)) == RunState()
