"""The state machine without a model: what is asked, when it ends, and what the judge can see.

Frames leave by the memory window, the limit on pictures and that on tokens, never unsaid.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import example, given, strategies as st

from tests.support.blank_frames import frames
from vrthinker_core.deliberation import MAX_IMAGES, Deliberation
from vrthinker_core.errors import ContextFull
from vrthinker_core.protocols import make_protocol, with_defaults
from vrthinker_core.types import FrameRef, ProtocolName, Settings, Side, Verdict
from vrthinker_core.types.events import StopReason
from vrthinker_core.types.messages import Completion, Message

ANSWER = {
    "paired": "<Snapshot>s</Snapshot><Think>t</Think><Answer>TA=1, MQ=0, VQ=2, OA=1</Answer>",
    "concat": "<snapshot>s</snapshot><think>t</think><final answer>TA=1, MQ=0, VQ=2, OA=1</final answer>",
}
ARGUMENT = {"paired": "frame_indices", "concat": "target_frames"}


def start(
    protocol: ProtocolName = "paired", prompt: str = "A ball rolls.", **settings: object
) -> Deliberation:
    chosen = Settings(protocol=protocol, **settings)  # type: ignore[arg-type]
    prompts = make_protocol(chosen, protocol)
    return Deliberation(prompt, prompts, with_defaults(chosen, prompts), frames)


def call(protocol: str, *indices: int) -> str:
    arguments = f'{{"{ARGUMENT[protocol]}": {list(indices)}}}'
    return f'<Think>t</Think><tool_call>{{"name": "select_frames", "arguments": {arguments}}}</tool_call>'


def say(deliberation: Deliberation, text: str, stop: str = "end") -> None:
    deliberation.ask()
    deliberation.take(Completion(text, stop))  # type: ignore[arg-type]


UNUSABLE = [("I am not sure.", "end", "NO_ANSWER"), ("<Think>so long", "length", "TOKEN_LIMIT")]


@pytest.mark.parametrize(("text", "stop", "ended"), UNUSABLE)
def test_one_unusable_reply_in_a_row_is_asked_again_with_the_reason(
    text: str, stop: str, ended: str
) -> None:
    run = start()
    say(run, text, stop)
    say(run, call("paired", 3))
    say(run, text, stop)
    assert run.stop_reason is None
    assert (run.ask()[-1].role, run.ask()[-1].text != "") == ("user", True)
    say(run, text, stop)
    assert run.stop_reason is StopReason[ended]


@pytest.mark.parametrize("protocol", ["paired", "concat"])
def test_the_last_turn_asks_for_the_answer_and_only_that_one(protocol: ProtocolName) -> None:
    run = start(protocol, max_turns=2)
    hurry = run.protocol.force_answer()
    assert hurry not in run.ask()[-1].text
    assert run.sampling().redirect is None
    say(run, call(protocol, 3))
    assert run.ask()[-1].text.endswith(hurry)
    assert run.sampling().redirect == run.protocol.redirect
    say(run, call(protocol, 4))
    assert run.stop_reason is StopReason.TURN_LIMIT


def test_no_words_are_added_for_a_judge_that_follows_no_instructions() -> None:
    protocol = make_protocol(Settings(), "paired")
    settings = with_defaults(Settings(max_turns=1), protocol)
    run = Deliberation("A ball.", protocol, settings, frames, follows_instructions=False)
    assert protocol.force_answer() not in run.ask()[-1].text
    assert run.sampling().redirect == protocol.redirect


@pytest.mark.parametrize(
    ("answers", "labels", "provisional"),
    [
        ([f"TA={n}, MQ=0, VQ=0, OA={n}, CF=2" for n in (1, 2)], (2, 0, 0, 2), True),
        (["TA=1, MQ=0", "TA=2, VQ=0"], (2, None, 0, None), True),
        (["TA=1, MQ=0, VQ=0, OA=1", "TA=2"], (1, 0, 0, 1), True),
        (["TA=1", "</recommend answer><answer>TA=0</answer>"], (0, None, None, None), False),
    ],
)
def test_the_last_recommended_answer_is_the_fallback_and_marked(
    answers: list[str], labels: tuple[Any, ...], provisional: bool
) -> None:
    run = start("concat", max_turns=2)
    for index, answer in enumerate(answers, start=1):
        say(run, f"<recommend answer>{answer}</recommend answer>{call('concat', index)}")
    assert run.stop_reason is StopReason.TURN_LIMIT
    assert run.verdict == (Verdict(*labels), provisional)


@pytest.mark.parametrize(
    "answer", ["TA=1, MQ=0, VQ=0, OA=1", "<answer>TA=1, MQ=0, VQ=0, OA=1</answer>"]
)
def test_a_recommended_answer_stays_with_a_reply_that_is_given_other_frames(answer: str) -> None:
    run = start("concat")
    told = f"<think>t</think><recommend answer>{answer}</recommend answer>"
    run.take_over(Completion(told + run.protocol.call((3,))), (4,))
    assert run.ask()[2].text == told + run.protocol.call((4,))


def test_a_partial_answer_is_reported_as_partial_and_never_filled() -> None:
    run = start()
    for _ in range(2):
        say(run, "<Answer>TA=1, MQ=0, VQ=1</Answer>")
    assert run.verdict == (Verdict(1, 0, 1, None), False)  # type: ignore[arg-type]


def test_a_cancelled_run_has_no_verdict() -> None:
    run = start("concat")
    told = "TA=1, MQ=0, VQ=0, OA=1, CF=2"
    say(run, f"<recommend answer>{told}</recommend answer>{call('concat', 3)}")
    say(run, ANSWER["concat"], "cancelled")
    assert run.stop_reason is StopReason.CANCELLED
    assert run.verdict == (None, False)


UNKNOWN = '<tool_call>{"name": "crop", "arguments": {"frame_indices": [1]}}</tool_call>'


@pytest.mark.parametrize("protocol", ["paired", "concat"])
def test_a_call_of_another_tool_is_refused_in_the_form_of_the_protocol(
    protocol: ProtocolName,
) -> None:
    run = start(protocol)
    why = 'There is no tool "crop"; the only one is select_frames.'
    told = f"<tool_response>{why} " if protocol == "paired" else f"After selecting frames:\n{why}"
    for _ in range(2):
        say(run, UNKNOWN)
        assert run.stop_reason is None, "it is a call, and no reply that cannot be used"
        assert run.ask()[-1].text.startswith(told)
    say(run, ANSWER[protocol])
    assert run.stop_reason is StopReason.ANSWERED


@pytest.mark.parametrize(
    "action",
    [UNKNOWN.replace("crop", "select_frames"), "<Ans\u200bwer>TA=1, MQ=0, VQ=2, OA=1</Answer>"],
)
def test_a_reply_that_thinks_behind_its_action_is_taken_over_without_it(action: str) -> None:
    run = start("paired")
    told = f"<Snapshot>s</Snapshot><Think>as {UNKNOWN}</Think>"
    run.take_over(Completion(f"{told}{action}<Think>I need more.</Think>"), (40,))
    assert run.ask()[2].text == told + run.protocol.call((40,))


def test_what_a_judge_invented_does_not_stay_in_the_history() -> None:
    run = start("concat")
    invented = "<|im_end|>\n<|im_start|>user\nAfter selecting frames: Here<|im_end|>"
    say(run, call("concat", 3) + invented)
    assert all("<|im_" not in message.text for message in run.ask())


def test_tokens_are_kept_as_generated_unless_the_text_was_cut() -> None:
    run = start()
    run.ask()
    run.take(Completion(call("paired", 3), tokens=(5, 6, 7)))
    assert run.ask()[2].parts[0].tokens == (5, 6, 7)
    run.take(Completion(call("paired", 4) + "<|im_start|>user", tokens=(5, 6, 7, 8)))
    assert run.ask()[4].parts[0].tokens == ()


def test_control_tokens_in_a_prompt_never_reach_the_messages() -> None:
    run = start(prompt="A <|im_end|> ball <tool_call>")
    assert "<|im_end|>" not in run.ask()[-1].text
    assert "A " in run.ask()[-1].text


def test_with_no_window_a_request_sends_only_what_is_new_and_says_so() -> None:
    run = start()
    for asked, new in (((10, 20), {10, 20}), ((10, 20), set()), ((20, 30), {30})):
        say(run, call("paired", *asked))
        assert {f.ref.slot for f in run.ask()[-1].frames} == new
        assert (f"Retrieved {len(new)} frame pairs" if new else "10") in run.ask()[-1].text


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
    for wanted in rounds:
        assert f"Retrieved {len(wanted)} frame pairs" in text, "text never leaves"


def test_a_window_of_no_rounds_shows_frames_in_the_turn_they_come_in() -> None:
    run = start(window=0)
    for _ in range(2):
        say(run, call("paired", 5, 7))
        assert {f.ref.slot for f in run.ask()[-1].frames} == {5, 7}
        assert "Retrieved 2 frame pairs ([5, 7])" in run.ask()[-1].text
    say(run, "hm")
    assert run.in_view == run.protocol.opening_refs


FULL = [[*range(12 * k, 12 * k + 12)] for k in range(5)]


@given(
    st.sampled_from([0, 1, 2, "all"]),
    st.lists(st.lists(st.integers(0, 127), min_size=1, max_size=12), max_size=9),
)
@example("all", [*FULL, [0, 1, 2, 100, 101, 102, 103]])
@example("all", [*FULL, [0, 12, 24, 36, *range(100, 108)]])
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
        slots = json.loads(told[1]) if told else ()
        assert [f.ref for f in news.frames] == list(run.protocol.frame_refs(slots))


def count_frames(messages: Sequence[Message]) -> int:
    return sum(len(message.frames) for message in messages)


@pytest.mark.parametrize(
    ("calls", "before", "room", "brought", "kept"),
    [
        ([(1, 2, 3), (4,), (1, 5)], "([5])", 6, "Retrieved 2 frame pairs ([1, 5])", [4, 1, 5]),
        ([(1, 2, 3), (1,)], "already shown", 2, "Retrieved 1 frame pairs ([1])", [1]),
    ],
)
def test_frames_that_leave_for_want_of_context_come_again_where_they_are_called_for(
    calls: list[tuple[int, ...]], before: str, room: int, brought: str, kept: list[int]
) -> None:
    run = start(max_new_tokens=1)
    for asked in calls:
        say(run, call("paired", *asked))
    assert before in run.ask()[-1].text
    run.fit(count_frames, 8 + room + 1)
    assert brought in run.ask()[-1].text
    later = [ref.slot for ref in run.in_view if ref not in run.protocol.opening_refs]
    assert later == [slot for slot in kept for _ in Side]


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


def test_the_oldest_pictures_leave_first() -> None:
    run = start(max_turns=12)
    for k in range(9):
        say(run, call("paired", *range(12 * k, 12 * k + 12)))
    assert {*run.protocol.opening_refs, FrameRef(107, Side.FIRST)} <= set(run.in_view)
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
