"""The state machine without a model: what is asked, what is shown, when it ends."""

from __future__ import annotations

import pytest

from tests.support.blank_frames import frames
from vrthinker_core.deliberation import Deliberation
from vrthinker_core.protocols import make_protocol, with_defaults
from vrthinker_core.types import ProtocolName, Settings, Verdict
from vrthinker_core.types.events import StopReason
from vrthinker_core.types.messages import Completion

ANSWER = {
    "paired": "<Snapshot>s</Snapshot><Think>t</Think><Answer>TA=1, MQ=0, VQ=2, OA=1</Answer>",
    "concat": "<snapshot>s</snapshot><think>t</think><final answer>TA=1, MQ=0, VQ=2, OA=1</final answer>",
}
ARGUMENT = {"paired": "frame_indices", "concat": "target_frames"}


def start(protocol: ProtocolName = "paired", **settings: object) -> Deliberation:
    chosen = Settings(protocol=protocol, **settings)  # type: ignore[arg-type]
    prompts = make_protocol(chosen, protocol)
    return Deliberation("A ball rolls.", prompts, with_defaults(chosen, prompts), frames)


def call(protocol: str, *indices: int) -> str:
    arguments = f'{{"{ARGUMENT[protocol]}": {list(indices)}}}'
    return f'<Think>t</Think><tool_call>{{"name": "select_frames", "arguments": {arguments}}}</tool_call>'


def say(deliberation: Deliberation, text: str, stop: str = "end") -> None:
    deliberation.ask()
    deliberation.take(Completion(text, stop))  # type: ignore[arg-type]


@pytest.mark.parametrize("protocol", ["paired", "concat"])
def test_the_frames_named_are_the_frames_sent(protocol: ProtocolName) -> None:
    run = start(protocol)
    first = 1 if protocol == "concat" else 0
    asked = [first + 2, first + 2, 10_000, first + 4, *range(first + 5, first + 30)]
    say(run, call(protocol, *asked))
    news = run.ask()[-1]
    told = run.protocol.frames_per_call
    images_per_index = 2 if protocol == "paired" else 1
    assert len(news.frames) == told * images_per_index
    if protocol == "paired":
        assert f"Retrieved {told} frame pairs" in news.text


def test_one_unusable_reply_is_asked_again_once_with_the_reason() -> None:
    run = start()
    say(run, "I am not sure.")
    assert run.stop_reason is None
    assert run.ask()[-1].role == "user"
    assert run.ask()[-1].text
    say(run, "Still not sure.")
    assert run.stop_reason is StopReason.NO_ANSWER


def test_an_unusable_reply_after_a_usable_one_is_asked_again_too() -> None:
    run = start()
    say(run, "hm")
    say(run, call("paired", 3))
    say(run, "hm")
    assert run.stop_reason is None


def test_a_reply_that_is_cut_twice_ends_by_the_token_limit() -> None:
    run = start()
    say(run, "<Think>so long", "length")
    assert run.stop_reason is None
    say(run, "<Think>so long again", "length")
    assert run.stop_reason is StopReason.TOKEN_LIMIT


@pytest.mark.parametrize("protocol", ["paired", "concat"])
def test_a_call_without_valid_frames_is_refused_in_the_protocols_words(
    protocol: ProtocolName,
) -> None:
    run = start(protocol)
    say(run, call(protocol, 500, 600))
    news = run.ask()[-1].text
    assert run.ask()[-1].frames == ()
    assert ("out of range" in news) if protocol == "concat" else news.startswith("<tool_response>")


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


def test_the_last_recommended_answer_is_the_fallback_and_marked() -> None:
    run = start("concat", max_turns=2)
    for label in (1, 2):
        told = f"TA={label}, MQ=0, VQ=0, OA={label}, CF=2"
        say(run, f"<recommend answer>{told}</recommend answer>{call('concat', label)}")
    assert run.stop_reason is StopReason.TURN_LIMIT
    assert run.verdict == (Verdict(2, 0, 0, 2), True)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("answers", "reported"),
    [
        (["TA=1, MQ=0", "TA=2, VQ=0"], (Verdict(2, None, 0, None), True)),  # type: ignore[arg-type]
        (["TA=1, MQ=0, VQ=0, OA=1", "TA=2"], (Verdict(1, 0, 0, 1), True)),  # type: ignore[arg-type]
        (
            ["TA=1", "</recommend answer><answer>TA=0</answer>"],
            (Verdict(0, None, None, None), False),
        ),  # type: ignore[arg-type]
    ],
)
def test_a_partial_recommended_answer_is_reported_where_there_is_no_better_one(
    answers: list[str], reported: tuple[Verdict, bool]
) -> None:
    run = start("concat", max_turns=2)
    for index, answer in enumerate(answers, start=1):
        say(run, f"<recommend answer>{answer}</recommend answer>{call('concat', index)}")
    assert run.stop_reason is StopReason.TURN_LIMIT
    assert run.verdict == reported


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
    say(run, "<Answer>TA=1, MQ=0, VQ=1</Answer>")
    say(run, "<Answer>TA=1, MQ=0, VQ=1</Answer>")
    verdict, provisional = run.verdict
    assert verdict == Verdict(1, 0, 1, None)  # type: ignore[arg-type]
    assert not verdict.whole
    assert not provisional


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
    spoken = run.ask()[2].parts[0]
    assert spoken.tokens == (5, 6, 7)
    run.take(Completion(call("paired", 4) + "<|im_start|>user", tokens=(5, 6, 7, 8)))
    spoken = run.ask()[4].parts[0]
    assert spoken.tokens == ()


def test_control_tokens_in_a_prompt_never_reach_the_messages() -> None:
    protocol = make_protocol(Settings(), "paired")
    run = Deliberation(
        "A <|im_end|> ball <tool_call>", protocol, with_defaults(Settings(), protocol), frames
    )
    assert "<|im_end|>" not in run.ask()[-1].text
    assert "A " in run.ask()[-1].text
