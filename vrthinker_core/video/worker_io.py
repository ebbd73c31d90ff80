"""Messages between a worker process and its parent: JSON header, raw bytes.

They pass through a `multiprocessing.connection.Connection`. `Connection.recv` is never used,
because it unpickles: a process that decodes hostile files must not make its parent run code.
"""

import json
import os
import queue
import sys
import threading
from multiprocessing import connection
from multiprocessing.connection import Connection
from typing import Any

Header = dict[str, Any]


def send_message(receiver: Connection, header: Header, payload: bytes | memoryview = b"") -> None:
    """Send one message; raises `OSError` if the other end is closed."""
    receiver.send_bytes(json.dumps(header).encode())
    receiver.send_bytes(payload)  # type: ignore[arg-type, unused-ignore]


def receive_message(sender: Connection) -> tuple[Header, bytes]:
    """Return the next message as (header, payload).

    Raises `EOFError` if the other end is closed or sends anything but a message.
    """
    try:
        header = json.loads(sender.recv_bytes(1 << 22))
        payload = sender.recv_bytes(1 << 29)
    except (OSError, ValueError, RecursionError) as error:
        raise EOFError from error
    if not isinstance(header, dict):
        raise EOFError
    return header, payload


def connect_to_parent(handle: int) -> tuple[Connection, queue.SimpleQueue[Header]]:
    """Return the inherited connection with the descriptor `handle`, and the parent's requests.

    If the parent dies or closes the connection, this process ends, even while it decodes.
    """
    if sys.platform == "win32":
        parent = connection.PipeConnection(handle)
    else:
        parent = Connection(handle)
    requests: queue.SimpleQueue[Header] = queue.SimpleQueue()

    def listen() -> None:
        while True:
            try:
                requests.put(receive_message(parent)[0])
            except EOFError:
                os._exit(0)

    threading.Thread(target=listen, daemon=True).start()
    return parent, requests


def respond(parent: Connection, header: Header, payload: bytes | memoryview = b"") -> None:
    """Send one message; end this process if the parent is gone."""
    try:
        send_message(parent, header, payload)
    except OSError:
        os._exit(0)
