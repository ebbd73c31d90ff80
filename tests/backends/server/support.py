"""Judges on the servers of `tests/support/faulty_server.py`, and small conversations for them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import Any

import pytest

from tests.support.blank_frames import frame
from tests.support.faulty_server import Answer, FaultyServer, serving
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


def shown(*slots: int) -> tuple[Frame, ...]:
    return tuple(frame(FrameRef(slot, side)) for slot in slots for side in Side)


def opening(*slots: int, system: str = "You compare videos.") -> list[Message]:
    """A system prompt, then a question with two frames a slot."""
    return [
        Message("system", (Text(system),)),
        Message("user", (*map(Image, shown(*(slots or (1,)))), Text("Which is better?"))),
    ]


def next_turn(messages: Sequence[Message], reply: str, *slots: int) -> list[Message]:
    """The conversation after `reply`, which asked for these slots."""
    return [
        *messages,
        Message("assistant", (GeneratedText(reply),)),
        Message("user", (*map(Image, shown(*slots)), Text("Here."))),
    ]


def ask(
    conversation: Conversation, messages: Sequence[Message], sampling: Sampling | None = None
) -> tuple[list[str], Completion]:
    """The pieces of a reply, and its completion."""
    *pieces, completion = conversation.stream(messages, sampling or Sampling())
    assert isinstance(completion, Completion)
    assert all(isinstance(piece, str) for piece in pieces)
    return pieces, completion  # type: ignore[return-value]


def asked(
    server: FaultyServer, messages: Sequence[Message] = (), sampling: Sampling | None = None
) -> tuple[list[str], Completion]:
    """The same in a conversation of its own, with a judge that has just been opened."""
    conversation = open_judge(server).open_conversation()
    with closing(conversation):
        return ask(conversation, messages or opening(), sampling)


def failure_of(*answers: Answer, cards: Any = GENERAL) -> tuple[Exception, int]:
    """How the judge on a server with these answers fails, and how many requests that takes."""
    with serving(*answers, cards=cards) as server, pytest.raises(JudgeError) as caught:
        asked(server)
    return caught.value, len(server.bodies)


def refused(status: int, data: bytes, **headers: str) -> JudgeError:
    """How it fails where it is answered with this page, or with these headers."""
    error, _ = failure_of(
        lambda handler, _: handler.send_bytes(status, data, "text/html", headers or None)
    )
    return error


def parts(body: dict[str, Any]) -> list[dict[str, Any]]:
    """Every part of every message of a request that is no plain string."""
    return [
        part
        for message in body["messages"]
        if not isinstance(message["content"], str)
        for part in message["content"]
    ]


def carried(body: dict[str, Any]) -> int:
    """How many pictures a request carries, those that it names by their id alone not counted."""
    return sum(
        part["type"] == "image_url" and part["image_url"] is not None for part in parts(body)
    )
