"""Sentences about a run: its status, its turns, the queue."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.ui.support import handmade_runs
from vrthinker_core.protocols import make_protocol
from vrthinker_core.types import FrameSelection, Problem, ProblemKind, Reply, Settings, Turn
from vrthinker_core.types.events import Finished, FramesShown, StopReason, TextArrived, Trace
from vrthinker_core.types.messages import Completion
from vrthinker_core.types.progress import Pace
from vrthinker_core.ui import words
from vrthinker_core.ui.page_json import replay_status_line, status_line, view_json
from vrthinker_core.ui.replay import end_open_turn
from vrthinker_core.ui.run_state import RunState, fold, fold_all
from vrthinker_core.ui.tiles import ImageSource


def stopped_after(text: str) -> Turn:
    """The turn that `Stop` ends while the judge has written this."""
    state = RunState(handmade_runs.started())
    for event in (FramesShown(1, "told", handmade_runs.pairs([16])), TextArrived(1, text)):
        state = fold(state, event)
    turn = end_open_turn(state).turns[-1].turn
    assert turn is not None
    return turn


@pytest.mark.parametrize(
    "text",
    [
        "",
        "<Think>it ro",
        "<Think>x</Think><tool_call>{",
        "<Think>x</Think><Answer>TA=1, MQ",
        "<Snapshot>a</Snapshot>",
    ],
)
def test_a_turn_that_was_stopped_is_not_blamed_for_it(text: str) -> None:
    turn = stopped_after(text)
    assert words.turn_summary(turn) == "stopped"
    assert words.turn_remarks(turn) == []
    live = replace(
        turn,
        reply=make_protocol(Settings(), "paired").parse(text),
        completion=replace(turn.completion, stop="end"),
    )
    assert words.turn_summary(live) in ("no usable answer or request", "incomplete answer"), (
        "a whole reply of this kind is"
    )
    assert words.turn_remarks(live)


def test_a_stopped_turn_that_had_asked_for_frames_says_so() -> None:
    call = (
        '<tool_call>{"name": "select_frames", "arguments": {"frame_indices": [10, 30]}}</tool_call>'
    )
    assert words.turn_summary(stopped_after(f"<Think>x</Think>{call} and")) == "asked for 2 more"


@pytest.mark.parametrize(
    ("name", "shown"),
    [("VR-Thinker", "VR-Thinker"), ("J" * 80, "J" * 80), ("J" * 2_000_000, "J" * 80 + "…")],
)
def test_the_name_of_a_judge_is_shown_up_to_a_length(name: str, shown: str) -> None:
    state = fold_all(
        replace(
            handmade_runs.three_turns(), started=replace(handmade_runs.started(), judge=name)
        ).events()
    )
    assert view_json(state, lambda _: ImageSource("", 1, 1))["judge"] == f"Judge: {shown}"


def test_a_turn_that_broke_off_says_so() -> None:
    turn = replace(stopped_after("<Think>x"), completion=Completion("<Think>x", "failed"))
    assert words.turn_summary(turn) == "broken off"


def test_no_valid_frames_is_said_of_a_forced_turn_too() -> None:
    detail = "The call names no frame."
    reply = Reply(
        "x", wants=FrameSelection(()), problems=(Problem(ProblemKind.NO_VALID_FRAMES, detail),)
    )
    turn = Turn(2, "told", (), Completion("x"), reply, forced=True)
    assert words.turn_remarks(turn) == ["The judge was asked to answer now.", detail]
    ignored = replace(turn, reply=replace(reply, wants=FrameSelection((), dropped=(140,), asked=1)))
    assert detail not in words.turn_remarks(ignored), "the entries that were ignored say it already"


def test_the_status_of_a_run_says_how_fast_it_goes_and_how_long_it_takes() -> None:
    trace = handmade_runs.three_turns()
    state = fold(
        fold_all(Trace(trace.started, trace.turns[:1]).events()),
        FramesShown(2, "told", trace.turns[1].frames),
    )
    pace = Pace((1.0, 11.0), 12.0, 61)
    assert (
        status_line(state, 11.5, Pace((1.0, 11.0)))
        == "Turn 2 of 6 · looking at 8 new frames · 12 s · at most 50 s left"
    )
    writing = fold(state, TextArrived(2, "a"))
    assert (
        status_line(writing, 15, pace)
        == "Turn 2 of 6 · writing · 20 tokens a second · 15 s · at most 46 s left"
    )


def test_the_end_says_what_the_run_took() -> None:
    trace = handmade_runs.three_turns()
    took = "after 3 turns in 4.6 s · 28 frames · 936 tokens read, 25 written"
    assert status_line(fold_all(trace.events()), 99) == f"Finished {took}"
    assert (
        replay_status_line(fold_all(trace.events())) == f"Replaying a saved trace. Finished {took}"
    )
    cut_off = fold_all(replace(trace, finished=None).events())
    assert "cut off" in replay_status_line(cut_off)
    none = fold(fold(RunState(), trace.started), Finished(StopReason.CANCELLED))
    assert status_line(none, 99) == "Stopped before the first turn"


@pytest.mark.parametrize(
    ("fault", "advice"),
    [("VideoError", f" {words.OTHER_VIDEO}"), ("VideoUnavailable", ""), ("JudgeError", "")],
)
def test_a_run_that_failed_by_its_video_says_what_to_do(fault: str, advice: str) -> None:
    cause = "Video 2: talk.mp4 holds sound only, no video."
    finished = Finished(StopReason.FAILED, error=cause, fault=fault)
    for state in (
        RunState(finished=finished),
        RunState(handmade_runs.started(), finished=finished),
    ):
        assert view_json(state, lambda _: ImageSource("", 1, 1))["ending"] == cause + advice
