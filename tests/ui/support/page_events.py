"""The page's own events, sent by hand."""

import json
import urllib.request
import uuid
from collections.abc import Sequence
from typing import Any

from tests.support.waiting import PATIENCE_S
from tests.ui.conftest import Server
from tests.ui.support.api import post


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
    join(server, event, values, session_id := uuid.uuid4().hex)
    url = f"{server.url}gradio_api/queue/data?session_hash={session_id}"
    with urllib.request.urlopen(url, timeout=PATIENCE_S) as response:
        for line in response:
            message = json.loads(line.removeprefix(b"data:")) if line.startswith(b"data:") else {}
            if message.get("msg") == "process_completed":
                return message["output"]
    raise AssertionError("the stream ended without an output")


def comparing(server: Server) -> tuple[int, int]:
    """The number of the Compare button's event, and how many inputs it has."""
    page = config(server)
    (go,) = (each["id"] for each in page["components"] if each["props"].get("elem_id") == "go")
    (found,) = (each for each in page["dependencies"] if [go, "click"] in each["targets"])
    return found["id"], len(found["inputs"])


def compare_inputs(server: Server) -> list[dict[str, Any]]:
    """The components whose values a comparison takes."""
    parts = {part["id"]: part["props"] for part in config(server)["components"]}
    event, _ = comparing(server)
    (inputs,) = (
        found["inputs"] for found in config(server)["dependencies"] if found["id"] == event
    )
    return [parts[part] for part in inputs]
