"""How parent and decoding process talk: a length-prefixed JSON header and raw bytes.

JSON on purpose: the process that decodes hostile files must not be able to hand its parent anything that runs.
"""

from __future__ import annotations

import json
import os
import queue
import struct
import sys
import threading
from typing import IO, Any, BinaryIO

_LENGTHS = struct.Struct("<IQ")
_MAX_HEADER_BYTES = 1 << 22
_MAX_PAYLOAD_BYTES = 1 << 29

Header = dict[str, Any]


def send_message(pipe: IO[bytes], header: Header, payload: bytes = b"") -> None:
    """One message, flushed. Raises OSError when the other end is gone."""
    text = json.dumps(header).encode()
    pipe.write(_LENGTHS.pack(len(text), len(payload)))
    pipe.write(text)
    pipe.write(payload)
    pipe.flush()


def receive_message(pipe: IO[bytes]) -> tuple[Header, bytes]:
    """The next message. Raises EOFError when the other end is gone or says what is no message."""
    text_length, payload_length = _LENGTHS.unpack(_exactly(pipe, _LENGTHS.size))
    if text_length > _MAX_HEADER_BYTES or payload_length > _MAX_PAYLOAD_BYTES:
        raise EOFError
    try:
        header = json.loads(_exactly(pipe, text_length))
    except ValueError as garbage:
        raise EOFError from garbage
    if not isinstance(header, dict):
        raise EOFError
    return header, _exactly(pipe, payload_length)


def _exactly(pipe: IO[bytes], length: int) -> bytes:
    data = pipe.read(length)
    if len(data) < length:
        raise EOFError
    return data


# -- the process's own end -----------------------------------------------------------------------------------------------


def claim_stdout() -> BinaryIO:
    """Standard output for the messages alone: whatever a library prints goes where errors go."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return answers


def request_queue() -> queue.SimpleQueue[Header]:
    """What the parent asks; this process ends, also in the middle of its work, when the parent dies or loses interest."""
    asked: queue.SimpleQueue[Header] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(sys.stdin.buffer, asked), daemon=True).start()
    return asked


def _listen(pipe: BinaryIO, asked: queue.SimpleQueue[Header]) -> None:
    while True:
        try:
            asked.put(receive_message(pipe)[0])
        except (EOFError, OSError):
            os._exit(0)
