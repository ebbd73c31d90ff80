"""A served judge's replies: streamed text, counts, reasoning, label probabilities, and the forced answer."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from tests.backends.server.support import (
    GENERAL,
    NANO,
    VLLM,
    ask,
    asked,
    next_turn,
    open_judge,
    opening,
    parts,
)
from tests.support.faulty_server import ANSWER, Handler, delta, refuses, says, serving, usage
from vrthinker_core import (
    Finished,
    Settings,
    VideoPair,
    judge,
    judge_branch,
    judge_many,
    plan_branch,
)
from vrthinker_core.backends import NANO as BUILT_IN
from vrthinker_core.backends.base import GenerationRequest, RemoteBackend
from vrthinker_core.backends.transformers_local import TransformersBackend
from vrthinker_core.errors import BackendFailed, BackendRefused
from vrthinker_core.traces import load
from vrthinker_core.types.events import TurnEnded
from vrthinker_core.types.messages import Completion, Sampling


def test_text_arrives_in_pieces_and_ends_with_a_completion() -> None:
    with serving(says(ANSWER, size=5)) as server:
        pieces, completion = asked(server)
    assert "".join(pieces) == completion.text == ANSWER
    assert list(completion.split()) == pieces
    assert len(pieces) > 5
    assert completion.stop == "end"
    assert (completion.prompt_tokens, completion.new_tokens) == (100, len(pieces))


def test_a_reply_at_its_limit_is_cut() -> None:
    with serving(says("One", finish="length")) as server:
        assert asked(server)[1].stop == "length"
    with (
        serving(says("", delta(reasoning="Let me see"), finish="length")) as server,
        pytest.raises(BackendRefused, match="more tokens a reply"),
    ):
        asked(server)


@pytest.mark.parametrize("field", ["reasoning", "reasoning_content"])
def test_reasoning_is_kept_beside_the_reply_and_never_sent_back(field: str) -> None:
    with serving(says(ANSWER, delta(**{field: "Let me "}), delta(**{field: "see."}))) as server:
        conversation = open_judge(server).open_conversation()
        _, completion = ask(conversation, opening())
        ask(conversation, next_turn(opening(), completion.text, 9))
        conversation.close()
        assert completion.reasoning == "Let me see."
        assert completion.text == ANSWER
        assert "Let me see" not in str(server.bodies[1])
        told = [m["content"] for m in server.bodies[1]["messages"] if m["role"] == "assistant"]
        assert told == [ANSWER]


def test_incomplete_counts_cost_no_reply() -> None:
    broken = [
        {"choices": []},
        {"usage": None},
        {"usage": {}},
        {"usage": {"prompt_tokens": None, "completion_tokens": 3}},
    ]
    nothing_more = {"choices": [{"index": 0, "delta": None, "finish_reason": None}]}
    events = [{**delta(), "choices": [], **more} for more in broken]
    with serving(says(ANSWER, {**delta(), **nothing_more}, *events)) as server:
        _, completion = asked(server)
    assert completion.text == ANSWER
    assert completion.prompt_tokens == 100


# -- label probabilities ------------------------------------------------------------------------------------------------


def token(text: str, *others: tuple[str, float]) -> dict[str, Any]:
    """A piece of a reply with its log probabilities."""
    top = [{"token": other, "logprob": math.log(share), "bytes": None} for other, share in others]
    entry = {"token": text, "logprob": top[0]["logprob"] if top else -1.0, "bytes": None}
    return delta(text, logprobs={"content": [{**entry, "top_logprobs": top}]})


def completion_of(*tokens: dict[str, Any]) -> Completion:
    with serving(says("", *tokens)) as server:
        return asked(server)[1]


def test_the_probability_of_each_label_stands_at_its_digit() -> None:
    digit = token("1", ("1", 0.75), ("2", 0.125), ("0", 0.0625))
    joined = token("=2", ("=2", 0.5), ("=0", 0.25), ("2", 0.125))
    spaced = token(" 0", (" 0", 0.9), ("0", 0.05), (" 1", 0.03))
    start = [token("frame 12"), token(" 1"), token("</Think> <Answer>TA=")]
    completion = completion_of(
        *start, digit, token(", VQ"), joined, token(", MQ:"), spaced, token("</Answer>")
    )
    assert [completion.text[each.offset] for each in completion.label_tokens] == ["1", "2", "0"]
    assert [pytest.approx(each.probabilities) for each in completion.label_tokens] == [
        (0.0625, 0.75, 0.125),
        (0.25, 0.0, 0.5),
        (0.9, 0.03, 0.0),
    ]


def test_tokens_that_do_not_spell_the_text_give_no_probabilities() -> None:
    nine = token("9", ("9", 0.9)) | {}
    nine["choices"][0]["delta"]["content"] = "<Answer>TA=1"
    assert completion_of(nine).label_tokens == ()


@pytest.mark.parametrize("unknown", [None, math.nan])
def test_a_log_probability_that_is_no_number_costs_no_reply_and_counts_as_nothing(
    unknown: float | None,
) -> None:
    digit = token("1", ("1", 0.75), ("2", 0.125))
    digit["choices"][0]["logprobs"]["content"][0]["top_logprobs"][1]["logprob"] = unknown
    unnamed = {"token": None, "logprob": -1.0, "top_logprobs": None}
    nameless = delta("", logprobs={"content": [unnamed]})
    completion = completion_of(nameless, token("<Answer>TA="), digit, token("</Answer>"))
    assert completion.text == "<Answer>TA=1</Answer>"
    (label,) = completion.label_tokens
    assert label.probabilities == pytest.approx((0.0, 0.75, 0.0))


# -- the forced answer --------------------------------------------------------------------------------------------------


FORCED = Sampling(max_new_tokens=100, redirect=("<tool_call>", "<Answer>"))


def counted(text: str, prompt: int, new: int) -> dict[str, Any]:
    return {**delta(text), "usage": usage(prompt, new)["usage"]}


def test_a_forced_answer_goes_on_behind_the_redirect_and_no_token_counts_twice() -> None:
    def first(handler: Handler, _: dict[str, Any]) -> None:
        handler.begin_stream()
        for event in (counted("Well. <tool", 50, 3), counted("_call>", 50, 4)):
            handler.send_event(event)
        handler.wait_until_closed()

    def second(handler: Handler, body: dict[str, Any]) -> None:
        handler.begin_stream()
        answer = counted("TA=1</Answer>", 56, 5)
        for event in (answer, delta(None, "stop"), usage(56, 6), b"[DONE]"):
            handler.send_event(event)

    with serving(first, second, cards=VLLM) as server:
        pieces, completion = asked(server, sampling=FORCED)
    assert "".join(pieces) == completion.text == "Well. <Answer>TA=1</Answer>"
    assert (completion.prompt_tokens, completion.new_tokens) == (50, 6 + 6)
    assert server.bodies[1]["messages"][-1] == {"role": "assistant", "content": "Well. <Answer>"}
    assert server.bodies[1]["continue_final_message"] is True
    assert server.bodies[1]["add_generation_prompt"] is False
    assert server.bodies[1]["max_tokens"] == 96


def test_a_redirect_in_reasoning_is_made_again_once_the_reasoning_is_closed() -> None:
    replies = (
        counted("I might <tool_call>", 50, 4),
        counted("x\n</think>\n<tool_call>", 56, 7),
        counted("TA=1</Answer>", 64, 5),
    )
    with serving(*(says("", reply) for reply in replies), cards=VLLM) as server:
        pieces, completion = asked(server, sampling=FORCED)
    whole = "I might <Answer>x\n</think>\n<Answer>TA=1</Answer>"
    assert "".join(pieces) == completion.text == whole
    assert server.bodies[2]["messages"][-1]["content"] == "I might <Answer>x\n</think>\n<Answer>"
    assert [body["max_tokens"] for body in server.bodies] == [100, 96, 100 - (7 + 56 - 50)]


def test_behind_a_redirect_the_judge_may_close_the_call_that_it_began() -> None:
    begun = says("<Think>t</Think><tool_call>")
    with serving(begun, says("TA=1</tool_call>"), cards=VLLM) as server:
        _, completion = asked(server, sampling=FORCED)
    assert completion.text == "<Think>t</Think><Answer>TA=1</tool_call>"


@pytest.mark.parametrize(
    "text",
    [
        "<Think>no </tool_call> today</Think><Answer>TA=1</Answer>",
        "<Think>no </tool_call> today\n<Answer>TA=1</Answer>",
        f"{ANSWER}</tool_call>",
        "<TOOL_CALL>{}</tool_call>",
        "< tool call>{}</tool_call>",
        "＜tool_call＞{}</tool_call>",
        "<tool_\u200bcall>{}</tool_call>",
    ],
)
def test_a_call_that_is_quoted_or_written_otherwise_has_lost_nothing(text: str) -> None:
    with serving(says(text), cards=GENERAL) as server:
        assert asked(server)[1].text == text


def test_where_a_server_cannot_go_on_the_reply_stays_as_it_is() -> None:
    call = '<tool_call>{"name": "select_frames", "arguments": {"frame_indices": [1]}}</tool_call>'
    with serving(says(call), cards=GENERAL) as server:
        assert asked(server, sampling=FORCED)[1].text == call
    assert len(server.bodies) == 1


def test_the_built_in_judge_on_a_server_is_told_as_little_as_here() -> None:
    """And has its own redirects."""
    with serving(says("</Think>\n<Answer>TA=1</Answer>"), cards=NANO) as server:
        backend = open_judge(server)
    here = TransformersBackend.load(str(BUILT_IN))
    assert backend.protocols == here.protocols
    assert not backend.follows_instructions
    assert any("For real videos choose another judge" in note for note in backend.notes)
    assert backend.server.model.forced_redirects == here.loaded.forced_redirects


# -- whole comparisons --------------------------------------------------------------------------------------------------

CALL = '<Think>More.</Think>\n<tool_call>{"name": "select_frames", "arguments": {"frame_indices": [10, 60]}}</tool_call>'


def test_a_comparison_through_a_server_has_the_same_turns(pair: VideoPair) -> None:
    with serving(says(CALL), says(), cards=VLLM) as server:
        end = list(judge(pair, open_judge(server), Settings()))[-1]
        assert end.error == ""
        assert end.verdict.labels == {"TA": 1, "VQ": 2, "MQ": 0, "OA": 1}
        assert [len(body["messages"]) for body in server.bodies] == [2, 4]


def test_many_conversations_are_in_flight_at_once(pair: VideoPair) -> None:
    """Each request is answered only when all have arrived."""
    arrived: list[int] = []

    def together(handler: Handler, body: dict[str, Any]) -> None:
        arrived.append(1)
        while len(arrived) < 4:
            handler.server.lock.acquire(timeout=0.02) and handler.server.lock.release()
        says()(handler, body)

    with serving(together) as server:
        backend = open_judge(server)
        assert isinstance(backend, RemoteBackend), "no pair waits for another one's reply"
        conversations = [backend.open_conversation() for _ in range(4)]
        closed = backend.open_conversation()
        closed.close()
        requests = [
            GenerationRequest(each, opening(), Sampling()) for each in (closed, *conversations)
        ]
        items = list(backend.stream_batch(requests))
        for conversation in conversations:
            conversation.close()
        done = [n for n, item in items if isinstance(item, Completion) and item.text == ANSWER]
        assert sorted(done) == [1, 2, 3, 4]
        failed = [(n, type(item)) for n, item in items if isinstance(item, Exception)]
        assert failed == [(0, BackendFailed)], "it does not touch the others"
        events = judge_many([pair] * 2, backend, live=2)
        ends = [event for _, event in events if isinstance(event, Finished)]
        assert [end.verdict and end.verdict.whole for end in ends] == [True, True]


def test_a_branch_lets_the_same_frames_leave_as_its_origin(pair: VideoPair, tmp_path: Path) -> None:
    """The server counts the tokens, so a branch goes by what it counted for the origin."""

    def reply(handler: Handler, body: dict[str, Any]) -> None:
        pictures = sum(part["type"] == "image_url" for part in parts(body))
        turn = len(body["messages"]) // 2
        if (length := 800 + 256 * pictures) > 6000:
            said = f"maximum context length is 6000 tokens; {length} in the messages"
            refuses(400, said)(handler, body)
            return
        text = CALL.replace("10, 60", f"{2 * turn + 8}, {2 * turn + 9}") if turn < 5 else ANSWER
        handler.begin_stream()
        for event in (delta(text), delta(None, "stop"), usage(length, 20), b"[DONE]"):
            handler.send_event(event)

    card = {"id": "qunwang13/vrthinker", "owned_by": "someone", "max_model_len": 6000}
    with serving(reply, cards=(card,)) as server:
        backend, trace = open_judge(server), tmp_path / "origin.json"
        end = list(judge(pair, backend, Settings(), trace=trace))[-1]
        assert end.error == ""
        origin = load(trace)
        lengths = {len(turn.in_view) for turn in origin.turns}
        assert len(lengths) < len(origin.turns) == 5, "some have left"
        for turn in range(2, 6):
            events = list(judge_branch(plan_branch(origin, turn), pair, backend))
            ended = [event.turn for event in events if isinstance(event, TurnEnded)]
            assert [each.in_view for each in ended] == [each.in_view for each in origin.turns]


def test_the_tokens_of_a_conversation_are_estimated_from_what_the_server_counted() -> None:
    with serving(cards=VLLM) as server:
        conversation = open_judge(server).open_conversation()
        assert conversation.context_length == 40_000
        assert conversation.count_tokens(opening()) == 0
        ask(conversation, opening())
        assert conversation.count_tokens(opening()) == 100
        assert conversation.count_tokens(next_turn(opening(), ANSWER, 7, 8)) > 100
        conversation.close()
