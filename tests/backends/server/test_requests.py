"""What a served judge is sent, and what is left out where its server refuses it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.backends.server.support import (
    GENERAL,
    VLLM,
    ask,
    asked,
    failure_of,
    open_judge,
    opening,
    parts,
    shown,
)
from tests.support.faulty_server import ANSWER, Handler, refuses, says, serving
from vrthinker_core import Settings, VideoPair, judge
from vrthinker_core.errors import BackendRefused, ContextFull
from vrthinker_core.protocols.base import prompt_text
from vrthinker_core.types.messages import Message, Sampling, Text, Video


def sent_to(cards: Any, model: str = "", system: str = "paired_system") -> dict[str, Any]:
    with serving(cards=cards) as server:
        conversation = open_judge(server, model).open_conversation()
        ask(conversation, opening(system=prompt_text(system)), Sampling(300, 0.5, 7))
        conversation.close()
        return server.bodies[0]


def test_a_request_holds_the_sampling_and_keeps_control_tokens() -> None:
    body = sent_to(VLLM)
    told = [body[name] for name in ("max_tokens", "temperature", "seed", "stream")]
    assert told == [300, 0.5, 7, True]
    assert body["skip_special_tokens"] is body["spaces_between_special_tokens"] is False
    assert body["stream_options"]["include_usage"]
    assert "tools" not in body
    url = parts(body)[0]["image_url"]["url"]
    assert url.startswith("data:image/png;base64,")


def test_a_published_checkpoint_gets_its_prompts_bare_and_others_the_rules_in_words() -> None:
    assert sent_to(VLLM)["messages"][0]["content"] == prompt_text("paired_system")
    for system, own, other in [
        ("paired_system", "frame_indices", "target_frames"),
        ("concat_system", "target_frames", "frame_indices"),
    ]:
        told = sent_to(GENERAL, system=system)["messages"][0]["content"]
        assert told.startswith(prompt_text(system))
        words = told.removeprefix(prompt_text(system))
        assert own in words
        assert other not in words


@pytest.mark.parametrize(
    ("card", "option", "protocol"),
    [
        ({"id": "qunwang13/vr-thinker"}, "", "concat"),
        ({"id": "judge", "root": "/data/VRThinker"}, "", "paired"),
        ({"id": "judge", "root": "qunwang13/vr-thinker"}, "", "concat"),
        ({"id": "/data/qunwang13/vr-thinker"}, "", "concat"),
        ({"id": "someone/vrthinker"}, "", None),
        ({"id": "judge"}, "", None),
        ({"id": "judge", "owned_by": ["vllm"], "max_model_len": True}, "", None),
        ({"id": "judge"}, "?protocol=concat", "concat"),
        ({"id": "gpt-4.1-nano"}, "", None),
    ],
)
def test_the_protocol_follows_from_the_name_or_is_said(
    card: dict[str, Any], option: str, protocol: str | None
) -> None:
    with serving(cards=(card,)) as server:
        backend = open_judge(server, option)
    assert backend.protocols == ((protocol,) if protocol else ())
    assert any("told the protocol's rules" in note for note in backend.notes) == (protocol is None)
    assert backend.follows_instructions
    assert not any("cannot judge whether real footage" in note for note in backend.notes)


def test_a_video_item_is_a_video_for_a_trained_model_on_vllm_and_pictures_elsewhere() -> None:
    frames = shown(1, 2)
    messages = [Message("system", (Text("s"),)), Message("user", (Video(frames), Text("Which?")))]
    kinds = []
    for cards in (VLLM, GENERAL):
        with serving(cards=cards) as server:
            asked(server, messages)
            kinds.append([part["type"] for part in parts(server.bodies[0])])
            if cards is VLLM:
                assert parts(server.bodies[0])[0]["video_url"]["url"].count(",") == len(frames)
    assert kinds == [["video_url", "text"], ["image_url"] * 4 + ["text"]]


def test_a_server_that_refuses_extra_fields_is_sent_them_once() -> None:
    extra = (
        "Unexpected fields in the request: {'skip_special_tokens', 'spaces_between_special_tokens'}"
    )
    logprobs, unnamed = refuses(400, "logprobs is not supported"), refuses(400, "Bad Request")
    temperature = refuses(400, "temperature must be 1")
    with serving(refuses(422, extra), logprobs, unnamed, temperature, says()) as server:
        backend = open_judge(server)
        for _ in range(2):
            conversation = backend.open_conversation()
            assert ask(conversation, opening())[1].text == ANSWER
            conversation.close()
        first, second, third, fourth, *plain = server.bodies
    assert "skip_special_tokens" in first
    assert "skip_special_tokens" not in second
    assert "logprobs" in second
    assert "logprobs" not in third
    assert fourth.keys() == {"model", "messages", "stream", "max_tokens", "temperature"}
    assert len(plain) == 2
    assert all(body.keys() == {"model", "messages", "stream", "max_tokens"} for body in plain)


PLACE = {"loc": ["body", "skip_special_tokens"], "msg": "Not permitted"}
FASTAPI = {"detail": [PLACE | {"type": "extra_forbidden", "input": False}]}
ECHO = {"detail": [PLACE | {"input": {"temperature": 0, "seed": 1}}]}


@pytest.mark.parametrize(
    "body",
    [
        FASTAPI,
        ECHO,
        {"object": "error", "message": FASTAPI, "type": "invalid_request_error"},
        {"error": {"message": "Invalid request", "param": "skip_special_tokens"}},
        {"error": "Invalid request", "fields": ["skip_special_tokens"]},
    ],
    ids=["FastAPI", "FastAPI that repeats the request", "Mistral", "param", "beside the error"],
)
def test_a_refused_field_is_found_wherever_the_answer_names_it_and_costs_no_other(
    body: dict[str, Any],
) -> None:
    with serving(lambda handler, _: handler.send_json(422, body), says()) as server:
        backend = open_judge(server)
        conversation = backend.open_conversation()
        assert ask(conversation, opening())[1].text == ANSWER
        conversation.close()
    first, second = server.bodies
    assert first.keys() - second.keys() == {"skip_special_tokens", "spaces_between_special_tokens"}
    assert not any("temperature" in note for note in backend.notes)


@pytest.mark.parametrize("refused", ["skip_special_tokens", "seed"])
def test_where_a_refusal_names_nothing_only_limit_and_temperature_stay(refused: str) -> None:
    def pick(handler: Handler, body: dict[str, Any]) -> None:
        (refuses(400, "Bad Request") if refused in body else says())(handler, body)

    with serving(pick) as server:
        backend = open_judge(server)
        conversation = backend.open_conversation()
        assert ask(conversation, opening())[1].text == ANSWER
        conversation.close()
    last = server.bodies[-1]
    assert len(server.bodies) == 2
    assert last.keys() == {"model", "messages", "stream", "max_tokens", "temperature"}
    assert not any("temperature" in note for note in backend.notes)


def test_a_refusal_without_a_sentence_is_quoted_as_it_is() -> None:
    detail = {"detail": [{"loc": ["body", "messages"], "msg": "Too odd"}]}
    error, _ = failure_of(lambda handler, _: handler.send_json(422, detail))
    assert type(error) is BackendRefused
    assert "Too odd" in str(error)


@pytest.mark.parametrize(
    "said",
    [
        "This model's maximum context length is 4096 tokens. However, you requested 5048 tokens (3000 in the messages, "
        "2048 in the completion). Please reduce the length of the messages or completion.",
        "Requested token count exceeds the model's maximum context length of 4096 tokens. You requested a total of 5048 tokens: "
        "3000 tokens from the input messages and 2048 tokens for the completion.",
    ],
    ids=["vLLM", "SGLang"],
)
def test_a_reply_that_has_too_little_room_is_asked_for_in_the_room_there_is(said: str) -> None:
    with serving(refuses(400, said), says()) as server:
        _, completion = asked(server, sampling=Sampling(max_new_tokens=2048))
        assert [body["max_tokens"] for body in server.bodies] == [2048, 1096]
    assert completion.text == ANSWER


@pytest.mark.parametrize("contains", ["at least 2049", "2050"])
def test_a_prompt_without_room_for_a_reply_is_not_sent_again_and_again(contains: str) -> None:
    said = (
        "This model's maximum context length is 4096 tokens. However, you requested 2048 output tokens and your prompt contains "
        f"{contains} input tokens."
    )
    with serving(refuses(400, said)) as server, pytest.raises(ContextFull):
        asked(server, sampling=Sampling(max_new_tokens=2048))
    assert len(server.bodies) <= 2


def test_a_run_says_that_its_server_takes_no_temperature(pair: VideoPair) -> None:
    refusal = "Unsupported value: 'temperature' does not support 0 with this model."
    with serving(refuses(400, refusal), says()) as server:
        backend = open_judge(server)
        ends = [list(judge(pair, backend, Settings())) for _ in range(2)]
    for first, *_, last in ends:
        told = [*first.notes, *last.notes]
        assert sum("temperature" in note for note in told) == 1, told
