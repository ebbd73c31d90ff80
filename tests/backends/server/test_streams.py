"""What a stream may look like, and how it may end, without costing the reply or the server's own words."""

from __future__ import annotations

import socket
import struct
import time
from dataclasses import replace
from typing import Any

import pytest

from tests.backends.server.support import QUICK, ask, open_judge, opening
from tests.support.faulty_server import ANSWER, Answer, Handler, delta, says_then, serving, usage


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


def promises_more(handler: Handler, _: dict[str, Any]) -> None:
    handler.begin_stream({"Content-Length": "100000"})
    handler.send_event(delta(ANSWER))
    ends_whole(handler)


@pytest.mark.parametrize(
    "answer",
    [*(says_then(ANSWER, end) for end in (ends_whole_and_waits, ends_whole_and_drips, ends_whole_and_is_reset)), promises_more],
    ids=["stays open", "keeps alive", "reset", "short"],
)
def test_a_whole_reply_is_kept_however_its_connection_ends(answer: Answer) -> None:
    with serving(answer) as server:
        conversation = open_judge(server, patience=replace(QUICK, silence=60, counts=0.3)).open_conversation()
        started = time.monotonic()
        assert ask(conversation, opening())[1].text == ANSWER
        assert time.monotonic() - started < 5
        conversation.close()
        assert len(server.bodies) == 1
