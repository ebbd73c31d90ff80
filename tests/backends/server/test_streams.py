"""What a stream may look like, and how it may end, without costing the reply or the server's own words."""

from __future__ import annotations

import json
import socket
import struct
import time
from dataclasses import replace
from typing import Any

import pytest

from tests.backends.server.support import QUICK, ask, asked, failure_of, open_judge, opening
from tests.support.faulty_server import (
    ANSWER,
    Answer,
    Handler,
    delta,
    says,
    says_then,
    sends,
    serving,
    usage,
)
from vrthinker_core.errors import (
    BackendFailed,
    BackendRefused,
    ContextFull,
    JudgeError,
    ServerUnavailable,
    TooManyPictures,
)


def ends_whole(handler: Handler) -> None:
    handler.send_event(delta(None, "stop"))


def ends_whole_and_waits(handler: Handler) -> None:
    ends_whole(handler)
    handler.send_event(usage(100, 1))
    handler.wait_until_closed()


def ends_whole_and_drips(handler: Handler) -> None:
    ends_whole(handler)
    handler.keep_alive()


def ends_whole_and_is_reset(handler: Handler) -> None:
    ends_whole(handler)
    time.sleep(0.1)
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    handler.connection.close()


def ends_whole_and_fails(handler: Handler) -> None:
    ends_whole(handler)
    handler.send_event({"error": {"message": "usage is not supported", "code": 400}})


def ends_whole_and_breaks(handler: Handler) -> None:
    ends_whole(handler)
    handler.send_event(b"{oops")


def promises_more(handler: Handler, _: dict[str, Any]) -> None:
    handler.begin_stream({"Content-Length": "100000"})
    handler.send_event(delta(ANSWER))
    ends_whole(handler)


ENDS = {
    "stays open": ends_whole_and_waits,
    "keeps alive": ends_whole_and_drips,
    "reset": ends_whole_and_is_reset,
    "an error": ends_whole_and_fails,
    "a broken line": ends_whole_and_breaks,
}


@pytest.mark.parametrize(
    "answer",
    [*(says_then(ANSWER, end) for end in ENDS.values()), promises_more],
    ids=[*ENDS, "short"],
)
def test_a_whole_reply_is_kept_however_its_connection_ends(answer: Answer) -> None:
    with serving(answer) as server:
        conversation = open_judge(
            server, patience=replace(QUICK, silence=60, counts=0.3)
        ).open_conversation()
        started = time.monotonic()
        assert ask(conversation, opening())[1].text == ANSWER
        assert time.monotonic() - started < 5
        conversation.close()
        assert len(server.bodies) == 1


MESSAGE = {"role": "assistant", "content": ANSWER}
COMPLETION = {
    "object": "chat.completion",
    "choices": [{"index": 0, "message": MESSAGE, "finish_reason": "stop"}],
}
COUNTED = {**COMPLETION, "usage": usage(100, 12)["usage"]}
UNREADABLE = [["1"], [{"token": "1", "top_logprobs": 3}], 5]


def events(*bodies: dict[str, Any]) -> bytes:
    return b"".join(b"data: " + json.dumps(body).encode() + b"\n\n" for body in bodies)


@pytest.mark.parametrize(
    "answer",
    [
        lambda handler, _: handler.send_json(200, COUNTED),
        lambda handler, _: handler.send_json(
            200, {**COUNTED, "choices": [{"index": 0, "message": MESSAGE}]}
        ),
        sends(events(COUNTED)),
        sends(events(delta(ANSWER), delta(None, "stop"), usage(100, 12)), "application/json"),
        sends(events(delta(ANSWER), COUNTED)),
        says(
            "", delta([{"type": "text", "text": ANSWER[:9]}, {"type": "text", "text": ANSWER[9:]}])
        ),
        *(says("", delta(ANSWER, logprobs={"content": content})) for content in UNREADABLE),
    ],
    ids=[
        "no stream",
        "no reason for its end",
        "one event",
        "a stream said to be JSON",
        "a whole message at the end",
        "parts",
        "words",
        "a number",
        "no list",
    ],
)
def test_a_reply_is_read_in_whatever_form_it_comes(answer: Answer) -> None:
    with serving(answer) as server:
        pieces, completion = asked(server)
    assert "".join(pieces) == completion.text == ANSWER
    assert completion.prompt_tokens == 100
    assert completion.label_tokens == ()


NAMED = {"object": "error", "message": "overloaded", "type": "x", "code": 503}
ERRORS = {
    "an error event": b'event: error\ndata: {"message": "overloaded"}\n\n',
    "an error object": events(NAMED),
    "a bare word": events({"error": "overloaded"}),
}


@pytest.mark.parametrize("name", ERRORS)
def test_an_error_in_a_stream_is_told_in_the_words_of_the_server(name: str) -> None:
    error, requests = failure_of(sends(ERRORS[name]))
    assert (type(error), requests) == (ServerUnavailable, QUICK.tries)
    assert "It says: overloaded." in str(error)
    error, requests = failure_of(sends(events(delta("<Think>Well")) + ERRORS[name]))
    assert (type(error), requests) == (BackendFailed, 1)
    assert "It says: overloaded." in str(error)


def test_an_error_in_place_of_a_stream_is_told_in_the_words_of_the_server() -> None:
    body = {"error": {"message": "no pictures here", "code": 400}}
    error, _ = failure_of(lambda handler, _: handler.send_json(200, body))
    assert type(error) is BackendRefused
    assert "It says: no pictures here." in str(error)


def error_event(message: str, **more: str) -> Answer:
    """A refusal as LM Studio sends it: inside a stream, and without a status."""
    return sends(b"event: error\n" + events({"error": {"message": message, **more}}))


@pytest.mark.parametrize(
    ("message", "code", "kind", "words"),
    [
        ("The model is loaded with context length of only 4096 tokens", "", ContextFull, "4096"),
        ("Too much.", "context_length_exceeded", ContextFull, "Too much"),
        ("At most 4 image(s) may be provided in one prompt.", "", TooManyPictures, "4 pictures"),
        ("You exceeded your quota", "insufficient_quota", BackendRefused, "no quota left"),
    ],
)
def test_a_refusal_inside_a_stream_is_known_without_a_status_and_is_asked_once(
    message: str, code: str, kind: type[JudgeError], words: str
) -> None:
    error, requests = failure_of(error_event(message, **({"code": code} if code else {})))
    assert (type(error), requests) == (kind, 1)
    assert words in str(error)


def test_a_field_that_is_refused_inside_a_stream_is_left_out() -> None:
    with serving(error_event("seed is not supported"), says()) as server:
        assert asked(server)[1].text == ANSWER
        assert ["seed" in body for body in server.bodies] == [True, False]


@pytest.mark.parametrize(
    "answer",
    [
        error_event("Rate limit reached: too many tokens a minute", code="rate_limit_exceeded"),
        error_event("The context window could not be read", code="503"),
    ],
    ids=["a rate", "a status"],
)
def test_what_passes_inside_a_stream_is_tried_again_whatever_else_it_speaks_of(
    answer: Answer,
) -> None:
    error, requests = failure_of(answer)
    assert (type(error), requests) == (ServerUnavailable, QUICK.tries)
