"""What the judge can see: frames leave by the memory window, the limit on pictures and that on tokens, never unsaid."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Sequence

import pytest
from hypothesis import example, given, strategies as st

from tests.test_deliberation import call, say, start
from vrthinker_core.deliberation import MAX_IMAGES
from vrthinker_core.errors import ContextFull
from vrthinker_core.types import FrameRef, Side
from vrthinker_core.types.messages import Message


def test_the_same_request_again_sends_nothing_and_says_so() -> None:
    run = start()
    say(run, call("paired", 10, 20))
    assert run.ask()[-1].frames
    say(run, call("paired", 10, 20))
    assert run.ask()[-1].frames == ()
    assert "10" in run.ask()[-1].text


def test_with_no_window_a_new_request_sends_only_what_is_new() -> None:
    run = start()
    say(run, call("paired", 10, 20))
    say(run, call("paired", 20, 30))
    assert {f.ref.slot for f in run.ask()[-1].frames} == {30}
    assert "Retrieved 1 frame pairs ([30])" in run.ask()[-1].text


def test_with_a_window_frames_that_left_may_be_asked_for_again() -> None:
    run = start(window=1)
    say(run, call("paired", 10))
    say(run, call("paired", 10, 30))
    assert {f.ref.slot for f in run.ask()[-1].frames} == {10, 30}, (
        "the new round pushes the old one out, so 10 must come again"
    )


@pytest.mark.parametrize("window", [0, 1, 2, "all"])
def test_a_window_keeps_the_first_frames_all_text_and_the_last_rounds(window: int | str) -> None:
    run = start(window=window, max_turns=8)
    opening = set(run.protocol.opening_refs)
    rounds = [{1, 2}, {3}, {4, 5}, {6}]
    for wanted in rounds:
        say(run, call("paired", *sorted(wanted)))
    # Those that have just come are always in view
    kept = len(rounds) if window == "all" else max(1, int(window))
    slots = set().union(*rounds[len(rounds) - kept :])
    expected = opening | {FrameRef(slot, side) for slot in slots for side in Side}
    assert set(run.in_view) == expected
    text = "".join(message.text for message in run.ask())
    assert all(f"Retrieved {len(wanted)} frame pairs" in text for wanted in rounds), (
        "text never leaves"
    )


def test_a_window_of_no_rounds_shows_frames_in_the_turn_they_come_in() -> None:
    run = start(window=0)
    for _ in range(2):
        say(run, call("paired", 5, 7))
        assert {f.ref.slot for f in run.ask()[-1].frames} == {5, 7}
        assert "Retrieved 2 frame pairs ([5, 7])" in run.ask()[-1].text
    say(run, "hm")
    assert run.in_view == run.protocol.opening_refs


@given(
    st.sampled_from([0, 1, 2, "all"]),
    st.lists(st.lists(st.integers(0, 127), min_size=1, max_size=12), max_size=9),
)
@example("all", [[*range(12 * k, 12 * k + 12)] for k in range(5)] + [[0, 1, 2, 100, 101, 102, 103]])
@example(
    "all", [[*range(12 * k, 12 * k + 12)] for k in range(5)] + [[0, 12, 24, 36, *range(100, 108)]]
)
def test_after_a_call_all_its_frames_are_in_view_and_those_told_are_those_sent(
    window: int | str, calls: list[list[int]]
) -> None:
    run = start(window=window, max_turns=12)
    for asked in calls:
        say(run, call("paired", *asked))
        assert set(run.protocol.frame_refs(asked)) <= set(run.in_view)
        assert len(run.in_view) <= MAX_IMAGES
        news = run.ask()[-1]
        told = re.match(r"<tool_response>Retrieved \d+ frame pairs \((\[.*\])\)", news.text)
        assert [f.ref for f in news.frames] == list(
            run.protocol.frame_refs(json.loads(told[1]) if told else ())
        )


def count_frames(messages: Sequence[Message]) -> int:
    return sum(len(message.frames) for message in messages)


def test_frames_that_leave_for_want_of_context_come_again_where_they_are_called_for() -> None:
    run = start(max_new_tokens=1)
    say(run, call("paired", 1, 2, 3))
    say(run, call("paired", 4))
    say(run, call("paired", 1, 5))
    assert "([5])" in run.ask()[-1].text
    run.fit(count_frames, 8 + 2 + 4 + 1)
    assert "Retrieved 2 frame pairs ([1, 5])" in run.ask()[-1].text
    later = [ref.slot for ref in run.in_view if ref not in run.protocol.opening_refs]
    assert later == [4, 4, 1, 1, 5, 5]


def test_frames_that_are_in_view_alone_and_called_for_again_never_leave_unsaid() -> None:
    run = start(max_new_tokens=1)
    say(run, call("paired", 1, 2, 3))
    say(run, call("paired", 1))
    assert "already shown" in run.ask()[-1].text
    run.fit(count_frames, 8 + 2 + 1)
    assert "Retrieved 1 frame pairs ([1])" in run.ask()[-1].text


def test_where_the_frames_that_have_just_come_do_not_fit_the_context_is_full() -> None:
    run = start(max_new_tokens=1)
    say(run, call("paired", 1, 2, 3))
    told = r"has 14 tokens and the judge reads 13, .* Choose fewer frames per call\.$"
    with pytest.raises(ContextFull, match=told):
        run.fit(count_frames, 13)


def test_messages_only_grow_without_a_window_and_change_with_one() -> None:
    for window, grows in (("all", True), (1, False)):
        run = start(window=window, max_turns=8)
        views = []
        for slot in (1, 2, 3):
            views.append(run.ask())
            say(run, call("paired", slot))
        views.append(run.ask())
        prefixes = [later[: len(sooner)] == sooner for sooner, later in itertools.pairwise(views)]
        assert all(prefixes) is grows


def test_pictures_in_view_are_bounded_and_the_oldest_leave_first() -> None:
    run = start(max_turns=12)
    for k in range(9):
        say(run, call("paired", *range(12 * k, 12 * k + 12)))
    assert len(run.in_view) <= MAX_IMAGES
    assert set(run.protocol.opening_refs) <= set(run.in_view)
    run.ask()
    assert FrameRef(107, Side.FIRST) in run.in_view
    assert FrameRef(0, Side.FIRST) not in run.in_view


def test_forgetting_drops_the_oldest_round_and_ends_with_the_frames_that_have_just_come() -> None:
    run = start()
    say(run, call("paired", 1))
    say(run, call("paired", 2))
    assert run.forget_oldest()
    assert FrameRef(1, Side.FIRST) not in run.in_view
    assert FrameRef(2, Side.FIRST) in run.in_view
    assert not run.forget_oldest()
    say(run, "hm")
    assert run.forget_oldest()
    assert not run.forget_oldest()
    assert run.in_view == run.protocol.opening_refs
