"""How programs speak to the server: through gradio_client, and through plain HTTP as `curl` would."""

from __future__ import annotations

import json
import urllib.request
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from gradio_client import Client

from tests.ui.conftest import Server

PROMPT = "A white block glides to the right."
META = {"_type": "gradio.FileData"}
Clips = tuple[Path, Path]


def client(server: Server) -> Client:
    return Client(server.url, verbose=False, analytics_enabled=False)


def post(server: Server, path: str, body: bytes, kind: str, **headers: str) -> Any:
    request = urllib.request.Request(f"{server.url}gradio_api/{path}", body, {"Content-Type": kind, **headers})
    with urllib.request.urlopen(request, timeout=30) as response:
        return json.loads(response.read())


def upload(server: Server, clip: Path) -> str:
    """What `curl -F files=@clip.mp4` sends."""
    line = uuid.uuid4().hex
    head = f'--{line}\r\nContent-Disposition: form-data; name="files"; filename="{clip.name}"\r\n\r\n'
    body = head.encode() + clip.read_bytes() + f"\r\n--{line}--\r\n".encode()
    (path,) = post(server, "upload", body, f"multipart/form-data; boundary={line}")
    return str(path)


def begin(server: Server, *values: object, **headers: str) -> str:
    answer = post(server, "call/compare", json.dumps({"data": values}).encode(), "application/json", **headers)
    return f"{server.url}gradio_api/call/compare/{answer['event_id']}"


def messages(url: str) -> Iterator[tuple[str, Any]]:
    """(event, data) of a stream, as `curl -N` prints it, without the heartbeats of a long wait."""
    event = ""
    with urllib.request.urlopen(url, timeout=60) as response:
        for line in response:
            name, _, value = line.decode().rstrip("\n").partition(": ")
            if name == "event":
                event = value
            elif name == "data" and event != "heartbeat":
                yield event, json.loads(value)


def answers(server: Server, *values: object) -> list[dict[str, Any]]:
    return [data[0] for event, data in messages(begin(server, *values)) if event in ("generating", "complete") and data]


def file(path: str) -> dict[str, Any]:
    return {"path": path, "meta": META}


def uploaded(server: Server, clips: Clips) -> list[dict[str, Any]]:
    return [file(upload(server, clip)) for clip in clips]


def check_refused(item: dict[str, Any], words: str) -> None:
    assert item["stop"] == "failed"
    assert item["labels"] is None
    assert words in item["error"]
    assert item["error"].endswith(".")
    assert "\n" not in item["error"]


# -- the page's own events -----------------------------------------------------------------------------------------------


def config(server: Server) -> dict[str, Any]:
    """What a browser is told of the page: its components and what happens when they are used."""
    with urllib.request.urlopen(f"{server.url}config", timeout=30) as response:
        return dict(json.loads(response.read()))


def join(server: Server, event: int, values: Sequence[object], visitor: str) -> None:
    """Send one of the page's events by hand, as a browser would."""
    body = {"fn_index": event, "data": values, "session_hash": visitor}
    post(server, "queue/join", json.dumps(body).encode(), "application/json")


def act(server: Server, event: int, values: Sequence[object]) -> Any:
    """What one of the page's events answers: its output, or its error."""
    visitor = uuid.uuid4().hex
    join(server, event, values, visitor)
    with urllib.request.urlopen(f"{server.url}gradio_api/queue/data?session_hash={visitor}", timeout=60) as response:
        for line in response:
            told = json.loads(line.removeprefix(b"data:")) if line.startswith(b"data:") else {}
            if told.get("msg") == "process_completed":
                return told["output"]
    raise AssertionError("no answer came")


def comparing(server: Server) -> tuple[int, int]:
    """The event behind the Compare button, and how many inputs it has."""
    told = config(server)
    kinds = {part["id"]: part["type"] for part in told["components"]}
    (found,) = (
        event for event in told["dependencies"] if [kinds[part] for part in event["inputs"]][:3] == ["video", "video", "textbox"]
    )
    return found["id"], len(found["inputs"])
