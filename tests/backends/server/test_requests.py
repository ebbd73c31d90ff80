"""What a served judge is sent: each picture once, and no field that its server refuses."""

from __future__ import annotations

import base64
import io
from contextlib import closing
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image as Picture

from tests.backends.server.support import (
    GENERAL,
    VLLM,
    ask,
    asked,
    carried,
    failure_of,
    next_turn,
    open_judge,
    opening,
    parts,
    shown,
    talking,
)
from tests.support.blank_frames import frame
from tests.support.drawn_pairs import drawn_pairs
from tests.support.faulty_server import ANSWER, refuses, says, sends, serving
from tests.support.served_models import transformers_serving
from tests.support.slow import slow
from vrthinker_core import Settings, VideoPair, judge
from vrthinker_core.backends import Backend
from vrthinker_core.backends.judge_name import parse_judge
from vrthinker_core.backends.request_body import FORMATS, PictureCache, PictureFormat
from vrthinker_core.backends.server_backend import ServerBackend
from vrthinker_core.errors import ContextFull
from vrthinker_core.protocols.base import prompt_text
from vrthinker_core.types import FrameRef, Side, Verdict
from vrthinker_core.types.events import add_event
from vrthinker_core.types.messages import Message, Sampling, Text, Video

LEAST = {"model", "messages", "stream", "max_tokens"}


def sent_to(cards: Any, system: str = "paired_system") -> dict[str, Any]:
    messages = opening(system=prompt_text(system))
    return asked(cards=cards, messages=messages, sampling=Sampling(300, 0.5, 7))[1][0]


def test_a_request_holds_the_sampling_and_keeps_control_tokens() -> None:
    body = sent_to(VLLM)
    told = [body[name] for name in ("max_tokens", "temperature", "seed", "stream")]
    assert told == [300, 0.5, 7, True]
    assert body["skip_special_tokens"] is body["spaces_between_special_tokens"] is False
    assert body["stream_options"]["include_usage"]
    assert "tools" not in body


def test_a_published_checkpoint_gets_its_prompts_bare_and_others_the_rules_in_words() -> None:
    assert sent_to(VLLM)["messages"][0]["content"] == prompt_text("paired_system")
    for system, own, other in [
        ("paired_system", "frame_indices", "target_frames"),
        ("concat_system", "target_frames", "frame_indices"),
    ]:
        told = sent_to(GENERAL, system)["messages"][0]["content"]
        assert told.startswith(prompt_text(system))
        words = told.removeprefix(prompt_text(system))
        assert own in words
        assert other not in words


@pytest.mark.parametrize(
    ("card", "option", "protocol"),
    [
        ({"id": "qunwang13/vr-thinker"}, "", "concat"),
        ({"id": "judge", "root": "/data/VRThinker"}, "", "paired"),
        ({"id": "/data/qunwang13/vr-thinker"}, "", "concat"),
        ({"id": "someone/vrthinker"}, "", None),
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
    bodies = [asked(cards=cards, messages=messages)[1][0] for cards in (VLLM, GENERAL)]
    on_vllm, elsewhere = map(parts, bodies)
    assert [part["type"] for part in on_vllm] == ["video_url", "text"]
    assert on_vllm[0]["video_url"]["url"].count(",") == len(frames)
    assert [part["type"] for part in elsewhere] == ["image_url"] * 4 + ["text"]


@pytest.mark.parametrize(
    ("owner", "path", "told", "pairs"),
    [
        ("vllm", "/metrics", b'vllm:num_requests_running{engine="0"} 0\nvllm:num_requests_running{engine="1"} 3', 96),
        ("vllm", "/metrics", b"", 48),
        ("sglang", "/get_server_info", b'{"max_running_requests": 32}', 32),
        ("llamacpp", "/props", b'{"total_slots": 2}', 2),
        ("someone", "/props", b"", 8),
    ],
)  # fmt: skip
def test_a_server_says_how_many_pairs_it_takes(
    owner: str, path: str, told: bytes, pairs: int
) -> None:
    card = {"id": "judge", "owned_by": owner}
    with serving(cards=(card,), routes={path: sends(told, "text/plain")}) as server:
        assert open_judge(server).pairs_in_hand == pairs


# -- pictures ------------------------------------------------------------------------------------------------------------


def test_a_later_turn_carries_only_its_new_pictures() -> None:
    messages = opening(1, 2)
    with talking(cards=VLLM) as (server, conversation):
        ask(conversation, messages)
        ask(conversation, next_turn(messages, 3))
        ask(conversation, next_turn(next_turn(messages, 3)))
    assert carried(server.bodies) == [4, 2, 0]
    named = [
        [part["uuid"] for part in parts(body) if part["type"] == "image_url"]
        for body in server.bodies
    ]
    assert [len(ids) for ids in named] == [4, 6, 6]
    assert named[1][:4] == named[0]
    assert len(set(named[1])) == 6


def test_forgotten_pictures_are_sent_again_and_then_not_again() -> None:
    miss = refuses(400, "Cache miss for image at index 0 but data is not provided.")
    with talking(says(), miss, says(), cards=VLLM) as (server, conversation):
        ask(conversation, opening(1))
        assert ask(conversation, next_turn(opening(1), 3)).text == ANSWER
        ask(conversation, next_turn(next_turn(opening(1), 3)))
    assert carried(server.bodies) == [2, 2, 4, 0]


def test_a_server_that_knows_no_ids_gets_every_picture_each_time() -> None:
    unknown = refuses(400, "Unknown field: uuid")
    for cards, answers in ((GENERAL, [says()]), (VLLM, [unknown, says()])):
        with talking(*answers, cards=cards) as (server, conversation):
            ask(conversation, opening(1))
            ask(conversation, next_turn(opening(1), 3))
        assert carried(server.bodies[-2:]) == [2, 4]
        assert not any("uuid" in part for body in server.bodies[-2:] for part in parts(body))


def test_a_picture_has_the_format_that_its_server_takes() -> None:
    refused = refuses(400, "Unsupported image format")
    found = []
    for cards, answers in ((VLLM, [says()]), (VLLM, [refused, says()]), (GENERAL, [says()])):
        with talking(*answers, cards=cards) as (server, conversation):
            ask(conversation, opening(1))
        urls = [part["image_url"]["url"] for part in parts(server.bodies[-1])[:2]]
        found.append({url.partition(";")[0] for url in urls})
    assert found == [{"data:image/bmp"}, {"data:image/png"}, {"data:image/png"}]


def test_a_reply_that_nobody_reads_along_comes_whole_unless_it_may_be_redirected() -> None:
    with serving(says(), cards=VLLM) as server:
        backend = open_judge(server)
        backend.streams = False
        with closing(backend.open_conversation()) as conversation:
            for sampling in (Sampling(), Sampling(redirect=("<tool_call>", "<Answer>"))):
                assert ask(conversation, opening(1), sampling).text == ANSWER
    assert [body["stream"] for body in server.bodies] == [False, True]


@pytest.mark.parametrize("picture_format", FORMATS)
def test_a_picture_is_the_frame_pixel_for_pixel_and_is_encoded_once_while_there_is_room(
    picture_format: PictureFormat,
) -> None:
    frames = [frame(FrameRef(slot, Side.FIRST), 30, 20) for slot in range(6)]
    size = len(PictureCache().encoded(frames[0], picture_format))
    cache = PictureCache(max_bytes=3 * size + size // 2)
    first = cache.encoded(frames[0], picture_format)
    pixels = np.asarray(Picture.open(io.BytesIO(base64.b64decode(first))))
    assert (pixels.shape, pixels.tobytes()) == ((20, 30, 3), frames[0].rgb)
    assert cache.encoded(frames[0], picture_format) is first
    for each in frames[1:]:
        cache.encoded(each, picture_format)
    assert cache.encoded(frames[0], picture_format) is not first
    assert cache.encoded(frames[0], picture_format) == first
    assert len({cache.picture_id(each) for each in frames}) == 6
    assert PictureCache().picture_id(frames[0]) == cache.picture_id(frames[0])


@pytest.mark.timeout(600)
@slow
def test_replies_are_those_of_this_process(tmp_path: Path, nano: Backend) -> None:
    """Its parser takes every call out of a reply; here it stands in its place again."""
    (pair,) = drawn_pairs(1, 2_000_000_100, tmp_path / "pairs", 112)

    def run(backend: Backend) -> tuple[list[str], Verdict | None]:
        trace = reduce(add_event, judge(pair, backend), None)
        assert not trace.finished.error
        return [turn.completion.text for turn in trace.turns], trace.finished.verdict

    with transformers_serving(tmp_path) as address:
        served = ServerBackend.open(parse_judge(f"server:{address}?protocol=paired"))
        texts, verdict = run(served)
    assert (texts, verdict) == run(nano)
    assert "<tool_call>" in texts[0]
    assert verdict.whole


# -- fields that a server refuses ----------------------------------------------------------------------------------------


def test_a_server_that_refuses_extra_fields_is_sent_them_once() -> None:
    extra = "Unexpected fields: {'skip_special_tokens', 'spaces_between_special_tokens'}"
    logprobs, unnamed = refuses(400, "logprobs is not supported"), refuses(400, "Bad Request")
    temperature = refuses(400, "temperature must be 1")
    with serving(refuses(422, extra), logprobs, unnamed, temperature, says()) as server:
        backend = open_judge(server)
        for _ in range(2):
            with closing(backend.open_conversation()) as conversation:
                assert ask(conversation).text == ANSWER
        first, second, third, fourth, *plain = server.bodies
    assert "skip_special_tokens" in first
    assert "skip_special_tokens" not in second
    assert "logprobs" in second
    assert "logprobs" not in third
    assert fourth.keys() == LEAST | {"temperature"}
    assert len(plain) == 2
    assert all(body.keys() == LEAST for body in plain)


PLACE = {"loc": ["body", "skip_special_tokens"], "msg": "Not permitted"}
FASTAPI = {"detail": [PLACE | {"type": "extra_forbidden", "input": False}]}


@pytest.mark.parametrize(
    "body",
    [
        {"detail": [PLACE | {"input": {"temperature": 0, "seed": 1}}]},
        {"object": "error", "message": FASTAPI, "type": "invalid_request_error"},
        {"error": {"message": "Invalid request", "param": "skip_special_tokens"}},
        {"error": "Invalid request", "fields": ["skip_special_tokens"]},
    ],
    ids=["FastAPI that repeats the request", "Mistral", "param", "beside the error"],
)
def test_a_refused_field_is_found_wherever_the_answer_names_it_and_costs_no_other(
    body: dict[str, Any],
) -> None:
    with serving(lambda handler, _: handler.send_json(422, body), says()) as server:
        backend = open_judge(server)
        with closing(backend.open_conversation()) as conversation:
            assert ask(conversation).text == ANSWER
    first, second = server.bodies
    assert first.keys() - second.keys() == {"skip_special_tokens", "spaces_between_special_tokens"}
    assert not any("temperature" in note for note in backend.notes)


ROOM = {
    "vLLM": "This model's maximum context length is 4096 tokens. However, you requested 5048 tokens (3000 in the messages, "
    "2048 in the completion). Please reduce the length of the messages or completion.",
    "SGLang": "Requested token count exceeds the model's maximum context length of 4096 tokens. You requested a total of 5048 tokens: "
    "3000 tokens from the input messages and 2048 tokens for the completion.",
}


@pytest.mark.parametrize("said", ROOM.values(), ids=ROOM)
def test_a_reply_that_has_too_little_room_is_asked_for_in_the_room_there_is(said: str) -> None:
    completion, bodies = asked(refuses(400, said), says(), sampling=Sampling(max_new_tokens=2048))
    assert [body["max_tokens"] for body in bodies] == [2048, 1096]
    assert completion.text == ANSWER


@pytest.mark.parametrize("contains", ["at least 2049", "2050"])
def test_a_prompt_without_room_for_a_reply_is_not_sent_again_and_again(contains: str) -> None:
    said = (
        "This model's maximum context length is 4096 tokens. However, you requested 2048 output tokens and your prompt contains "
        f"{contains} input tokens."
    )
    error, requests = failure_of(refuses(400, said), sampling=Sampling(max_new_tokens=2048))
    assert type(error) is ContextFull
    assert requests <= 2


def test_a_run_says_that_its_server_takes_no_temperature(pair: VideoPair) -> None:
    refusal = "Unsupported value: 'temperature' does not support 0 with this model."
    with serving(refuses(400, refusal), says()) as server:
        backend = open_judge(server)
        ends = [list(judge(pair, backend, Settings())) for _ in range(2)]
    for first, *_, last in ends:
        told = [*first.notes, *last.notes]
        assert sum("temperature" in note for note in told) == 1, told


def test_a_refused_system_message_goes_in_front_of_the_first_and_stays_there() -> None:
    def answer(handler: Any, body: dict[str, Any]) -> None:
        roles = [message["role"] for message in body["messages"]]
        told = "Prompting with images is incompatible with system messages."
        (refuses(400, told) if "system" in roles else says())(handler, body)

    messages = opening(system="You compare videos.")
    with talking(answer, answer, answer, cards=VLLM) as (server, conversation):
        ask(conversation, messages)
        ask(conversation, next_turn(messages, 3))
    roles = [[message["role"] for message in body["messages"]] for body in server.bodies]
    assert roles == [["system", "user"], ["user"], ["user", "assistant", "user"]]
    front = server.bodies[1]["messages"][0]["content"][0]
    assert front == {"type": "text", "text": "You compare videos.\n\n"}


def test_an_empty_reply_is_never_sent_back_empty() -> None:
    first, *_ = opening()
    messages = [first, Message("assistant", (Text(""),)), Message("user", (Text("Again."),))]
    sent = asked(messages=messages)[1][0]["messages"]
    assert all(message["content"] for message in sent)


@pytest.mark.parametrize(("most", "told"), [(None, "1 to 12"), (5, "1 to 5"), (2, "[10, 30]}")])
def test_a_judge_that_is_told_the_rules_hears_how_many_frames_a_call_takes(
    most: int | None, told: str
) -> None:
    messages = opening(system=prompt_text("paired_system"))
    sampling = Sampling(300, most_frames=most)
    (body, *_) = asked(cards=GENERAL, messages=messages, sampling=sampling)[1]
    assert told in body["messages"][0]["content"]


def test_a_model_of_ollama_needs_no_tag() -> None:
    with serving(cards=({"id": "seeing:latest", "owned_by": "library"},)) as server:
        assert open_judge(server, "seeing").server.model.id == "seeing"
