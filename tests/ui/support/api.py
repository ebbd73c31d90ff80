"""Calls of the API, through gradio_client and through plain HTTP as `curl` makes them."""

from __future__ import annotations

import json
import urllib.request
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gradio_client import Client

from tests.support.waiting import PATIENCE_S
from tests.ui.conftest import Clips, Server

META = {"_type": "gradio.FileData"}


def client(server: Server) -> Client:
    return Client(server.url, verbose=False, analytics_enabled=False)


def post(server: Server, path: str, body: bytes, kind: str, **headers: str) -> Any:
    request = urllib.request.Request(
        f"{server.url}gradio_api/{path}", body, {"Content-Type": kind, **headers}
    )
    with urllib.request.urlopen(request, timeout=PATIENCE_S) as response:
        return json.loads(response.read())


def upload(server: Server, clip: Path) -> str:
    """Upload as `curl -F files=@clip.mp4` does. Returns the path that the server gives."""
    boundary = uuid.uuid4().hex
    head = f'--{boundary}\r\nContent-Disposition: form-data; name="files"; filename="{clip.name}"\r\n\r\n'
    body = head.encode() + clip.read_bytes() + f"\r\n--{boundary}--\r\n".encode()
    (path,) = post(server, "upload", body, f"multipart/form-data; boundary={boundary}")
    return str(path)


def begin(server: Server, *values: object, **headers: str) -> str:
    """Start a call of `compare`. Returns the URL of its events."""
    started = post(
        server, "call/compare", json.dumps({"data": values}).encode(), "application/json", **headers
    )
    return f"{server.url}gradio_api/call/compare/{started['event_id']}"


def messages(url: str) -> Iterator[tuple[str, Any]]:
    """(event, data) of a stream as `curl -N` prints it, without heartbeats."""
    event = ""
    with urllib.request.urlopen(url, timeout=PATIENCE_S) as response:
        for line in response:
            name, _, value = line.decode().rstrip("\n").partition(": ")
            if name == "event":
                event = value
            elif name == "data" and event != "heartbeat":
                yield event, json.loads(value)


def answers(server: Server, *values: object) -> list[dict[str, Any]]:
    """The items that a call of `compare` streams."""
    return [
        data[0]
        for event, data in messages(begin(server, *values))
        if event in ("generating", "complete") and data
    ]


def file(path: str) -> dict[str, Any]:
    """A file as Gradio's clients name it."""
    return {"path": path, "meta": META}


def uploaded(server: Server, clips: Clips) -> list[dict[str, Any]]:
    return [file(upload(server, clip)) for clip in clips]


def check_refused(item: dict[str, Any], words: str) -> None:
    """A failed item without labels; its error is one sentence with `words` in it."""
    assert item["stop"] == "failed"
    assert item["labels"] is None
    assert words in item["error"]
    assert item["error"].endswith(".")
    assert "\n" not in item["error"]
