"""Requests of a server: through gradio_client, as `curl` makes them, and as a browser sends them."""

import http.client
import json
import os
import urllib.request
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from gradio_client import Client

from tests.support.waiting import PATIENCE_S
from tests.ui.conftest import Server

META = {"_type": "gradio.FileData"}


def client(server: Server) -> Client:
    return Client(server.url, verbose=False, analytics_enabled=False)


def ask(
    server: Server, method: str, path: str, body: bytes | list[bytes] = b"", **headers: str
) -> tuple[int, str]:
    """Status and text of the answer to a request that is made by hand."""
    connection = http.client.HTTPConnection(urlsplit(server.url).netloc, timeout=PATIENCE_S)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    with closing(connection):
        connection.request(method, f"/{path}", body, {"Content-Type": "application/json", **named})
        response = connection.getresponse()
        return response.status, response.read().decode()


def post(server: Server, path: str, body: bytes | list[bytes], **headers: str) -> Any:
    """The answer to a request that succeeds."""
    status, text = ask(server, "POST", f"gradio_api/{path}", body, **headers)
    assert status == 200, text
    return json.loads(text)


FORM = "multipart/form-data; boundary=line"
HEAD = b'--line\r\nContent-Disposition: form-data; name="files"; filename="zeros.mp4"\r\n\r\n'
TAIL = b"\r\n--line--\r\n"


def upload(server: Server, clip: Path) -> str:
    """Upload as `curl -F files=@clip.mp4` does. Returns the path that the server gives."""
    head = HEAD.replace(b"zeros.mp4", clip.name.encode())
    (path,) = post(server, "upload", head + clip.read_bytes() + TAIL, Content_Type=FORM)
    return str(path)


def begin(server: Server, *values: object, **headers: str) -> str:
    """Start a call of `compare`. Returns the URL of its events."""
    started = post(server, "call/compare", json.dumps({"data": values}).encode(), **headers)
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
    assert not item["status"].startswith("Ready"), "nothing waits for videos"
    assert words in item["error"]
    assert item["error"].endswith(".")
    assert "\n" not in item["error"]


# -- the page's own events, sent by hand ---------------------------------------------------------


def config(server: Server) -> dict[str, Any]:
    """The page's configuration as a browser gets it: its components and events."""
    return dict(json.loads(ask(server, "GET", "config")[1]))


def join(server: Server, event: int, values: Sequence[object], session_id: str) -> None:
    """Send one of the page's events as a browser does."""
    body = {"fn_index": event, "data": values, "session_hash": session_id}
    post(server, "queue/join", json.dumps(body).encode())


def updates(
    server: Server, event: int, values: Sequence[object], session_id: str
) -> Iterator[dict[str, Any]]:
    """Send one of the page's events; the messages that the page gets, up to its output."""
    join(server, event, values, session_id)
    url = f"{server.url}gradio_api/queue/data?session_hash={session_id}"
    with urllib.request.urlopen(url, timeout=PATIENCE_S) as response:
        for line in response:
            message = json.loads(line.removeprefix(b"data:")) if line.startswith(b"data:") else {}
            yield message
            if message.get("msg") == "process_completed":
                return
    raise AssertionError("the stream ended without an output")


def act(server: Server, event: int, values: Sequence[object], session_id: str = "") -> Any:
    """Send one of the page's events. Returns its output, or its error."""
    *_, last = updates(server, event, values, session_id or uuid.uuid4().hex)
    return last["output"]


def find_event(server: Server, part: str, trigger: str) -> tuple[int, list[dict[str, Any]]]:
    """The number of an event of a component, and the components whose values it takes."""
    page = config(server)
    parts = {each["id"]: each["props"] for each in page["components"]}
    (target,) = (each for each, props in parts.items() if props.get("elem_id") == part)
    found = next(each for each in page["dependencies"] if [target, trigger] in each["targets"])
    return found["id"], [parts[each] for each in found["inputs"]]


def compare_inputs(server: Server) -> tuple[int, list[dict[str, Any]]]:
    """The number of the Compare button's event, and the components whose values it takes."""
    return find_event(server, "go", "click")
