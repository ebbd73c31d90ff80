"""Judges on the servers of `tests/support/faulty_server.py`, and small conversations for them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any

import pytest

from tests.support.blank_frames import frame
from tests.support.faulty_server import ANSWER, Answer, FaultyServer, serving
from vrthinker_core.backends.base import Conversation
from vrthinker_core.backends.judge_name import parse_judge
from vrthinker_core.backends.served_model import Patience
from vrthinker_core.backends.server_backend import ServerBackend
from vrthinker_core.errors import JudgeError
from vrthinker_core.types import Frame, FrameRef, Side
from vrthinker_core.types.messages import Completion, GeneratedText, Image, Message, Sampling, Text

QUICK = Patience(connect=5, silence=0.5, tries=3, deadline=8, first_wait=0.01, longest_wait=0.05)

GENERAL = ({"id": "general", "owned_by": "someone"},)
VLLM = ({"id": "qunwang13/vrthinker", "owned_by": "vllm", "max_model_len": 40_000},)
NANO = ({"id": "nano", "owned_by": "vllm", "max_model_len": 4096, "root": "/models/nano"},)


def open_judge(server: FaultyServer, model: str = "", patience: Patience = QUICK) -> ServerBackend:
    return ServerBackend.open(parse_judge(f"server:{server.url}#{model}"), patience=patience)


@contextmanager
def talking(
    *answers: Answer, cards: Any = GENERAL, patience: Patience = QUICK
) -> Iterator[tuple[FaultyServer, Conversation]]:
    """A server with these answers, and a conversation with its judge."""
    with (
        serving(*answers, cards=cards) as server,
        closing(open_judge(server, patience=patience).open_conversation()) as conversation,
    ):
        yield server, conversation


def shown(*slots: int) -> tuple[Frame, ...]:
    return tuple(frame(FrameRef(slot, side)) for slot in slots for side in Side)


def opening(*slots: int, system: str = "You compare videos.") -> list[Message]:
    """A system prompt, then a question with two frames a slot."""
    return [
        Message("system", (Text(system),)),
        Message("user", (*map(Image, shown(*(slots or (1,)))), Text("Which is better?"))),
    ]


def next_turn(messages: Sequence[Message], *slots: int, reply: str = ANSWER) -> list[Message]:
    """The conversation after `reply`, which asked for these slots."""
    return [
        *messages,
        Message("assistant", (GeneratedText(reply),)),
        Message("user", (*map(Image, shown(*slots)), Text("Here."))),
    ]


def ask(
    conversation: Conversation, messages: Sequence[Message] = (), sampling: Sampling | None = None
) -> Completion:
    """A reply; asserts that its pieces arrived one by one and join to its text."""
    *items, completion = conversation.stream(messages or opening(), sampling or Sampling())
    pieces = [each for each in items if isinstance(each, str)]
    assert isinstance(completion, Completion)
    assert list(completion.split()) == pieces
    assert "".join(pieces) == completion.text
    return completion


def asked(
    *answers: Answer,
    cards: Any = GENERAL,
    messages: Sequence[Message] = (),
    sampling: Sampling | None = None,
) -> tuple[Completion, list[dict[str, Any]]]:
    """A reply of the judge on a server with these answers, and the requests that it took."""
    with talking(*answers, cards=cards) as (server, conversation):
        return ask(conversation, messages, sampling), server.bodies


def failure_of(
    *answers: Answer, cards: Any = GENERAL, sampling: Sampling | None = None
) -> tuple[JudgeError, int]:
    """How the judge on a server with these answers fails, and how many requests that takes."""
    with talking(*answers, cards=cards) as (server, conversation):
        with pytest.raises(JudgeError) as caught:
            ask(conversation, sampling=sampling)
        return caught.value, len(server.bodies)


def refused(status: int, data: bytes, **headers: str) -> JudgeError:
    """How it fails when it is answered with this page, or with these headers."""
    error, _ = failure_of(
        lambda handler, _: handler.send_bytes(status, data, "text/html", headers or None)
    )
    return error


def parts(body: dict[str, Any]) -> list[dict[str, Any]]:
    """Every part of every message of a request that is no plain string."""
    contents = [message["content"] for message in body["messages"]]
    return [part for content in contents if not isinstance(content, str) for part in content]


def carried(bodies: Sequence[dict[str, Any]]) -> list[int]:
    """How many pictures each request carries, without those named by their id alone."""
    return [
        sum(part["type"] == "image_url" and part["image_url"] is not None for part in parts(body))
        for body in bodies
    ]
