"""Calls of the API, through gradio_client and through plain HTTP as `curl` makes them."""

import json
import os
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from gradio_client import Client

from tests.support.waiting import PATIENCE_S
from tests.ui.conftest import Server

META = {"_type": "gradio.FileData"}


def client(server: Server) -> Client:
    return Client(server.url, verbose=False, analytics_enabled=False)


def status_of(url: str, **headers: str) -> int:
    try:
        request = urllib.request.Request(url, headers=headers)
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as response:
            return int(response.status)
    except urllib.error.HTTPError as error:
        return error.code


def post(server: Server, path: str, body: bytes, kind: str, **headers: str) -> Any:
    url, told = f"{server.url}gradio_api/{path}", {"Content-Type": kind, **headers}
    request = urllib.request.Request(url, body, told)
    with urllib.request.urlopen(request, timeout=PATIENCE_S) as response:
        return json.loads(response.read())


def upload(server: Server, clip: Path) -> str:
    """Upload as `curl -F files=@clip.mp4` does. Returns the path that the server gives."""
    line, named = uuid.uuid4().hex, f'name="files"; filename="{clip.name}"'
    head = f"--{line}\r\nContent-Disposition: form-data; {named}\r\n\r\n".encode()
    body = head + clip.read_bytes() + f"\r\n--{line}--\r\n".encode()
    (path,) = post(server, "upload", body, f"multipart/form-data; boundary={line}")
    return str(path)


def begin(server: Server, *values: object, **headers: str) -> str:
    """Start a call of `compare`. Returns the URL of its events."""
    body = json.dumps({"data": values}).encode()
    started = post(server, "call/compare", body, "application/json", **headers)
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
    told = messages(begin(server, *values))
    return [data[0] for event, data in told if event in ("generating", "complete") and data]


def file(path: str) -> dict[str, Any]:
    """A file as Gradio's clients name it."""
    return {"path": path, "meta": META}


def uploaded(server: Server, clips: Iterable[Path]) -> list[dict[str, Any]]:
    return [file(upload(server, clip)) for clip in clips]


def files(folder: Path) -> list[Path]:
    """Every file below `folder`; folders may be removed meanwhile."""
    return [Path(place, name) for place, _, names in os.walk(folder) for name in names]


def check_refused(item: dict[str, Any], words: str) -> None:
    """A failed item without labels; its error is one sentence with `words` in it."""
    assert (item["stop"], item["labels"]) == ("failed", None)
    assert words in item["error"]
    assert item["error"].endswith(".")
    assert "\n" not in item["error"]
