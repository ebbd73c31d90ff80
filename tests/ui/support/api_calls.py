"""Calls of the API, through gradio_client and through plain HTTP as `curl` makes them."""

from __future__ import annotations

import json
import urllib.request
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from gradio_client import Client

from tests.support.waiting import PATIENCE_S
from tests.ui.conftest import Server

PROMPT = "A white block glides to the right."
META = {"_type": "gradio.FileData"}
Clips = tuple[Path, Path]


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


# -- the page's own events -----------------------------------------------------------------------------------------------


def config(server: Server) -> dict[str, Any]:
    """The page's configuration as a browser gets it: its components and events."""
    with urllib.request.urlopen(f"{server.url}config", timeout=PATIENCE_S) as response:
        return dict(json.loads(response.read()))


def join(server: Server, event: int, values: Sequence[object], session_id: str) -> None:
    """Send one of the page's events as a browser does."""
    body = {"fn_index": event, "data": values, "session_hash": session_id}
    post(server, "queue/join", json.dumps(body).encode(), "application/json")


def act(server: Server, event: int, values: Sequence[object]) -> Any:
    """Send one of the page's events. Returns its output, or its error."""
    session_id = uuid.uuid4().hex
    join(server, event, values, session_id)
    with urllib.request.urlopen(
        f"{server.url}gradio_api/queue/data?session_hash={session_id}", timeout=PATIENCE_S
    ) as response:
        for line in response:
            message = json.loads(line.removeprefix(b"data:")) if line.startswith(b"data:") else {}
            if message.get("msg") == "process_completed":
                return message["output"]
    raise AssertionError("the stream ended without an output")


def comparing(server: Server) -> tuple[int, int]:
    """The number of the Compare button's event, and how many inputs it has."""
    page = config(server)
    types = {component["id"]: component["type"] for component in page["components"]}
    (found,) = (
        event
        for event in page["dependencies"]
        if event["queue"]
        and [types[number] for number in event["inputs"]][:3] == ["video", "video", "textbox"]
    )
    return found["id"], len(found["inputs"])
