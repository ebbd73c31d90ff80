"""A served judge's replies: streamed text, counts, reasoning, label probabilities, and the forced answer."""

from __future__ import annotations

import json
import math
import socket
import struct
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.backends.server.support import (
    GENERAL,
    NANO,
    QUICK,
    VLLM,
    ask,
    asked,
    failure_of,
    next_turn,
    open_judge,
    opening,
    parts,
    talking,
)
from tests.support.faulty_server import (
    ANSWER,
    Answer,
    Handler,
    delta,
    events,
    refuses,
    says,
    says_then,
    sends,
    serving,
    streams,
    usage,
)
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
from vrthinker_core.errors import BackendFailed, BackendRefused
from vrthinker_core.traces import load
from vrthinker_core.types.events import TurnEnded
from vrthinker_core.types.messages import Completion, Sampling


def test_a_reply_at_its_limit_is_cut() -> None:
    assert asked(says("One", finish="length"))[0].stop == "length"
    error, _ = failure_of(says("", delta(reasoning="Let me see"), finish="length"))
    assert type(error) is BackendRefused
    assert "more tokens a reply" in str(error)


@pytest.mark.parametrize("field", ["reasoning", "reasoning_content"])
def test_reasoning_is_kept_beside_the_reply_and_never_sent_back(field: str) -> None:
    thought = says(ANSWER, delta(**{field: "Let me "}), delta(**{field: "see."}))
    with talking(thought) as (server, conversation):
        completion = ask(conversation)
        ask(conversation, next_turn(opening(), 9))
    assert completion.reasoning == "Let me see."
    assert completion.text == ANSWER
    assert "Let me see" not in str(server.bodies[1])
    told = [m["content"] for m in server.bodies[1]["messages"] if m["role"] == "assistant"]
    assert told == [ANSWER]


def test_a_reply_may_have_64_characters_a_token() -> None:
    assert asked(says("x" * 640), sampling=Sampling(10))[0].text == "x" * 640
    error, _ = failure_of(says("x" * 641), sampling=Sampling(10))
    assert "does not end" in str(error)


def test_incomplete_counts_cost_no_reply() -> None:
    broken = [{"usage": counts} for counts in (None, {}, {"prompt_tokens": None})]
    more = [{**delta(), "choices": [], **each} for each in ({}, *broken)]
    completion, _ = asked(says(ANSWER, {**delta(), "choices": [{"index": 0}]}, *more))
    assert (completion.text, completion.prompt_tokens) == (ANSWER, 100)


# -- how a stream may look and end ---------------------------------------------------------------------------------------


def waits(handler: Handler) -> None:
    handler.send_event(usage(100, 1))
    handler.wait_until_closed()


def is_reset(handler: Handler) -> None:
    time.sleep(0.1)
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    handler.connection.close()


def fails(handler: Handler) -> None:
    handler.send_event({"error": {"message": "usage is not supported", "code": 400}})


def whole_then(end: Callable[[Handler], None]) -> Answer:
    def end_reply(handler: Handler) -> None:
        handler.send_event(delta(None, "stop"))
        end(handler)

    return says_then(ANSWER, end_reply)


def promises_more(handler: Handler, _: dict[str, Any]) -> None:
    handler.begin_stream({"Content-Length": "100000"})
    handler.send_event(delta(ANSWER))
    handler.send_event(delta(None, "stop"))


ENDS = {
    "stays open": whole_then(waits),
    "keeps alive": whole_then(Handler.keep_alive),
    "reset": whole_then(is_reset),
    "an error": whole_then(fails),
    "short": promises_more,
}


@pytest.mark.parametrize("answer", ENDS.values(), ids=ENDS)
def test_a_whole_reply_is_kept_however_its_connection_ends(answer: Answer) -> None:
    patient = replace(QUICK, silence=60, counts=0.3)
    with talking(answer, patience=patient) as (server, conversation):
        started = time.monotonic()
        assert ask(conversation).text == ANSWER
        assert time.monotonic() - started < 5
        assert len(server.bodies) == 1


CHOICE = {"index": 0, "message": {"role": "assistant", "content": ANSWER}}
COUNTED = {"object": "chat.completion", "usage": usage(100, 12)["usage"], "choices": [CHOICE]}
ENDED = {**COUNTED, "choices": [CHOICE | {"finish_reason": "stop"}]}
PARTS = [{"type": "text", "text": ANSWER[:9]}, {"type": "text", "text": ANSWER[9:]}]
STREAM = events(delta(ANSWER), delta(None, "stop"), usage(100, 12))
FORMS: dict[str, Answer] = {
    "no stream": lambda handler, _: handler.send_json(200, ENDED),
    "no reason for its end": lambda handler, _: handler.send_json(200, COUNTED),
    "one event": sends(events(ENDED)),
    "a stream said to be JSON": sends(STREAM, "application/json"),
    "a whole message at the end": sends(events(delta(ANSWER), ENDED)),
    "parts": says("", delta(PARTS)),
    "taken whole by the reasoning parser": says("", delta(reasoning_content=ANSWER)),
    **{
        f"unreadable probabilities {said}": says("", delta(ANSWER, logprobs={"content": said}))
        for said in (["1"], [{"token": "1", "top_logprobs": 3}], 5)
    },
}


@pytest.mark.parametrize("answer", FORMS.values(), ids=FORMS)
def test_a_reply_is_read_in_whatever_form_it_comes(answer: Answer) -> None:
    completion, _ = asked(answer)
    assert (completion.text, completion.prompt_tokens) == (ANSWER, 100)
    assert (completion.reasoning, completion.label_tokens) == ("", ())


# -- label probabilities ------------------------------------------------------------------------------------------------


def token(text: str, *others: tuple[str, float]) -> dict[str, Any]:
    """A piece of a reply with its log probabilities."""
    top = [{"token": other, "logprob": math.log(share), "bytes": None} for other, share in others]
    entry = {"token": text, "logprob": top[0]["logprob"] if top else -1.0, "bytes": None}
    return delta(text, logprobs={"content": [{**entry, "top_logprobs": top}]})


def test_the_probability_of_each_label_stands_at_its_digit() -> None:
    digit = token("1", ("1", 0.75), ("2", 0.125), ("0", 0.0625))
    joined = token("=2", ("=2", 0.5), ("=0", 0.25), ("2", 0.125))
    spaced = token(" 0", (" 0", 0.9), ("0", 0.05), (" 1", 0.03))
    start = [token("frame 12"), token(" 1"), token("</Think> <Answer>TA=")]
    rest = token(", VQ"), joined, token(", MQ:"), spaced, token("</Answer>")
    completion, _ = asked(says("", *start, digit, *rest))
    assert [completion.text[each.offset] for each in completion.label_tokens] == ["1", "2", "0"]
    assert [pytest.approx(each.probabilities) for each in completion.label_tokens] == [
        (0.0625, 0.75, 0.125),
        (0.25, 0.0, 0.5),
        (0.9, 0.03, 0.0),
    ]


def test_tokens_that_do_not_spell_the_text_give_no_probabilities() -> None:
    nine = token("9", ("9", 0.9))
    nine["choices"][0]["delta"]["content"] = "<Answer>TA=1"
    assert asked(says("", nine))[0].label_tokens == ()


@pytest.mark.parametrize("unknown", [None, math.nan])
def test_a_log_probability_that_is_no_number_costs_no_reply_and_counts_as_nothing(
    unknown: float | None,
) -> None:
    digit = token("1", ("1", 0.75), ("2", 0.125))
    digit["choices"][0]["logprobs"]["content"][0]["top_logprobs"][1]["logprob"] = unknown
    unnamed = {"token": None, "logprob": -1.0, "top_logprobs": None}
    nameless = delta("", logprobs={"content": [unnamed]})
    completion, _ = asked(says("", nameless, token("<Answer>TA="), digit, token("</Answer>")))
    assert completion.text == "<Answer>TA=1</Answer>"
    (label,) = completion.label_tokens
    assert label.probabilities == pytest.approx((0.0, 0.75, 0.0))


# -- the forced answer --------------------------------------------------------------------------------------------------


FORCED = Sampling(max_new_tokens=100, redirect=("<tool_call>", "<Answer>"))


def counted(text: str, prompt: int, new: int) -> dict[str, Any]:
    return {**delta(text), "usage": usage(prompt, new)["usage"]}


def test_a_forced_answer_goes_on_behind_the_redirect_and_no_token_counts_twice() -> None:
    def first(handler: Handler, body: dict[str, Any]) -> None:
        streams(counted("At 9. <tool", 50, 3), counted("_call>", 50, 4))(handler, body)
        handler.wait_until_closed()

    answer = counted("TA=", 56, 3), token("1", ("1", 0.75)), counted("</Answer>", 56, 5)
    second = streams(*answer, delta(None, "stop"), usage(56, 6), b"[DONE]")
    completion, bodies = asked(first, second, cards=VLLM, sampling=FORCED)
    assert completion.text == "At 9. <Answer>TA=1</Answer>"
    (label,) = completion.label_tokens
    assert label.probabilities == pytest.approx((0.0, 0.75, 0.0))
    assert (completion.prompt_tokens, completion.new_tokens) == (50, 6 + 6)
    assert bodies[1]["messages"][-1] == {"role": "assistant", "content": "At 9. <Answer>"}
    assert bodies[1]["continue_final_message"] is True
    assert bodies[1]["add_generation_prompt"] is False
    assert bodies[1]["max_tokens"] == 96


def test_a_redirect_in_reasoning_is_made_again_once_the_reasoning_is_closed() -> None:
    replies = (
        counted("I might <tool_call>", 50, 4),
        counted("x\n</think>\n<tool_call>", 56, 7),
        counted("TA=1</Answer>", 64, 5),
    )
    completion, bodies = asked(*(says("", reply) for reply in replies), cards=VLLM, sampling=FORCED)
    assert completion.text == "I might <Answer>x\n</think>\n<Answer>TA=1</Answer>"
    assert bodies[2]["messages"][-1]["content"] == "I might <Answer>x\n</think>\n<Answer>"
    assert [body["max_tokens"] for body in bodies] == [100, 96, 100 - (7 + 56 - 50)]


def test_behind_a_redirect_the_judge_may_close_the_call_that_it_began() -> None:
    begun = says("<Think>t</Think><tool_call>")
    completion, _ = asked(begun, says("TA=1</tool_call>"), cards=VLLM, sampling=FORCED)
    assert completion.text == "<Think>t</Think><Answer>TA=1</tool_call>"


@pytest.mark.parametrize(
    "text",
    [
        "<Think>no </tool_call> today</Think><Answer>TA=1</Answer>",
        "<Think>no </tool_call> today\n<Answer>TA=1</Answer>",
        f"{ANSWER}</tool_call>",
        "＜tool_call＞{}</tool_call>",
        "<TOOL_\u200bcall>{}</tool_call>",
    ],
)
def test_a_call_that_is_quoted_or_written_otherwise_has_lost_nothing(text: str) -> None:
    assert asked(says(text))[0].text == text


def test_a_reply_stays_as_it_is_if_its_server_cannot_go_on() -> None:
    completion, bodies = asked(says(CALL), cards=GENERAL, sampling=FORCED)
    assert (completion.text, len(bodies)) == (CALL, 1)


def test_the_built_in_judge_on_a_server_is_told_as_little_as_here() -> None:
    """And has its own redirects."""
    with serving(cards=NANO) as server:
        backend = open_judge(server)
    marker = json.loads((BUILT_IN / "vrthinker.json").read_text())
    assert backend.protocols == tuple(marker["protocol"])
    assert not backend.follows_instructions
    assert any("For real videos choose another judge" in note for note in backend.notes)
    forced = backend.marker.forced.values()
    assert [list(each) for each in forced] == list(marker["forced"].values())


# -- whole comparisons --------------------------------------------------------------------------------------------------

CALL = '<Think>More.</Think>\n<tool_call>{"name": "select_frames", "arguments": {"frame_indices": [10, 60]}}</tool_call>'


def test_many_conversations_are_in_flight_at_once(pair: VideoPair) -> None:
    """Each request is answered only when all have arrived."""
    arrived: list[int] = []

    def together(handler: Handler, body: dict[str, Any]) -> None:
        arrived.append(1)
        while len(arrived) < 4:
            time.sleep(0.01)
        says()(handler, body)

    with serving(together) as server:
        backend = open_judge(server)
        assert isinstance(backend, RemoteBackend), "no pair waits for another one's reply"
        conversations = [backend.open_conversation() for _ in range(5)]
        conversations[0].close()
        requests = [GenerationRequest(each, opening(), Sampling()) for each in conversations]
        items = list(backend.stream_batch(requests))
        for conversation in conversations:
            conversation.close()
        done = [n for n, item in items if isinstance(item, Completion) and item.text == ANSWER]
        assert sorted(done) == [1, 2, 3, 4]
        failed = [(n, type(item)) for n, item in items if isinstance(item, Exception)]
        assert failed == [(0, BackendFailed)], "it does not touch the others"
        ran = judge_many([pair] * 2, backend, live=2)
        ends = [event for _, event in ran if isinstance(event, Finished)]
        assert [end.verdict and end.verdict.whole for end in ends] == [True, True]


def test_a_branch_lets_the_same_frames_leave_as_its_origin(pair: VideoPair, tmp_path: Path) -> None:
    """The server counts the tokens, so a branch goes by what it counted for the origin."""

    def reply(handler: Handler, body: dict[str, Any]) -> None:
        pictures = sum(part["type"] == "image_url" for part in parts(body))
        turn = len(body["messages"]) // 2
        if (length := 800 + 256 * pictures) > 6000:
            said = f"maximum context length is 6000 tokens; {length} in the messages"
            return refuses(400, said)(handler, body)
        text = CALL.replace("10, 60", f"{2 * turn + 8}, {2 * turn + 9}") if turn < 5 else ANSWER
        return streams(delta(text), delta(None, "stop"), usage(length, 20))(handler, body)

    card = {"id": "qunwang13/vrthinker", "owned_by": "someone", "max_model_len": 6000}
    with serving(reply, cards=(card,)) as server:
        backend, trace = open_judge(server), tmp_path / "origin.json"
        end = list(judge(pair, backend, Settings(), trace=trace))[-1]
        assert end.error == ""
        origin = load(trace)
        lengths = {len(turn.in_view) for turn in origin.turns}
        assert len(lengths) < len(origin.turns) == 5, "some have left"
        for turn in (2, 5):
            branch = judge_branch(plan_branch(origin, turn), pair, backend)
            ended = [event.turn for event in branch if isinstance(event, TurnEnded)]
            assert [each.in_view for each in ended] == [each.in_view for each in origin.turns]


def test_the_tokens_of_a_conversation_are_estimated_from_what_the_server_counted() -> None:
    with talking(cards=VLLM) as (_, conversation):
        assert conversation.context_length == 40_000
        assert conversation.count_tokens(opening()) == 0
        ask(conversation)
        assert conversation.count_tokens(opening()) == 100
        assert conversation.count_tokens(next_turn(opening(), 7, 8)) > 100


def test_done_ends_a_reply_that_names_no_reason() -> None:
    assert asked(streams(delta(ANSWER), b"[DONE]"))[0].text == ANSWER
    with pytest.raises(BackendFailed, match="broke off"):
        asked(streams(delta("<Think>data: [DONE]\n\ndata: [DONE]")))
