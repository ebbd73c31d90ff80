"""Messages between a worker process and its parent: a JSON header, then raw bytes, over a `multiprocessing.connection.Connection`.

Never `Connection.recv`, which unpickles: a process that decodes hostile files must not hand its parent anything that runs.
"""

import json
import os
import queue
import sys
import threading
from multiprocessing import connection
from multiprocessing.connection import Connection
from typing import Any

_MAX_HEADER_BYTES = 1 << 22
_MAX_PAYLOAD_BYTES = 1 << 29

Header = dict[str, Any]


def send_message(receiver: Connection, header: Header, payload: bytes | memoryview = b"") -> None:
    """Send one message. Raises OSError when the other end is closed."""
    receiver.send_bytes(json.dumps(header).encode())
    receiver.send_bytes(payload)  # type: ignore[arg-type, unused-ignore]


def receive_message(sender: Connection) -> tuple[Header, bytes]:
    """The next message. Raises EOFError when the other end is closed or sends anything but a message."""
    try:
        header = json.loads(sender.recv_bytes(_MAX_HEADER_BYTES))
        payload = sender.recv_bytes(_MAX_PAYLOAD_BYTES)
    except (OSError, ValueError, RecursionError) as error:
        raise EOFError from error
    if not isinstance(header, dict):
        raise EOFError
    return header, payload


def connect_to_parent(handle: int) -> Connection:
    """The connection that this process inherited under the number `handle`."""
    if sys.platform == "win32":
        return connection.PipeConnection(handle)
    return Connection(handle)


def respond(parent: Connection, header: Header, payload: bytes | memoryview = b"") -> None:
    """Send one message; the process ends when the parent is gone."""
    try:
        send_message(parent, header, payload)
    except OSError:
        os._exit(0)


def request_queue(parent: Connection) -> queue.SimpleQueue[Header]:
    """The parent's requests. The process ends, also in the middle of its work, when the parent dies or closes the connection."""
    requests: queue.SimpleQueue[Header] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(parent, requests), daemon=True).start()
    return requests


def _listen(parent: Connection, requests: queue.SimpleQueue[Header]) -> None:
    while True:
        try:
            requests.put(receive_message(parent)[0])
        except EOFError:
            os._exit(0)
