"""The same judge for programs: `compare` and `health`, over Gradio's own protocol, plain HTTP, and MCP where it is installed.

A program waits in the same queue as the page's visitors and its runs are kept in the same way, until the call is over.
"""

# No `from __future__ import annotations`: Gradio makes the documentation of the endpoints from the types themselves.

import asyncio
import importlib.metadata
import secrets
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import gradio as gr
from gradio.events import api as endpoint
from gradio.utils import get_upload_folder

from vrthinker_core.errors import BadInput, VrThinkerError
from vrthinker_core.types import Settings, VideoPair
from vrthinker_core.ui.opening import Opening
from vrthinker_core.ui.telling import Told, refused, told
from vrthinker_core.ui.visits import Visit, Visits

LOOK = 0.05
"""Seconds between two looks at a run."""

PULSE = 0.5
"""Seconds between two items at most: Gradio notices only between items that a caller has gone."""

NOT_UPLOADED = "{} is no uploaded file. Upload it first, and name it by the path that the upload gave."


def register(blocks: gr.Blocks, opening: Opening, visits: Visits, at_once: int = 1, concurrency_id: str = "judge") -> None:
    """Offer the endpoints; to be called inside the `with` statement of `blocks`.

    `concurrency_id` is the page's own, so that all wait in one queue for `at_once` judges.
    """
    api = Api(blocks, opening, visits, concurrency_id)
    endpoint(api.compare, api_name="compare", concurrency_limit=at_once, concurrency_id=concurrency_id)
    endpoint(api.health, api_name="health", queue=False)


def has_mcp() -> bool:
    """The endpoints can be MCP tools too, by `launch(mcp_server=True)`: Gradio speaks to the first version of `mcp` only."""
    try:
        return importlib.metadata.version("mcp").startswith("1.")
    except importlib.metadata.PackageNotFoundError:
        return False


class Api:
    """What the endpoints do."""

    def __init__(self, blocks: gr.Blocks, opening: Opening, visits: Visits, concurrency_id: str) -> None:
        self._blocks = blocks
        self._opening = opening
        self._visits = visits
        self._concurrency_id = concurrency_id

    async def compare(self, video1: gr.FileData, video2: gr.FileData, prompt: str) -> AsyncIterator[dict[str, Any]]:
        """Which of two videos follows a prompt better, and why: the judge's turns as they happen.

        Every item is the whole run so far; the last one has `stop`, and `labels` for text alignment (TA), motion quality (MQ),
        visual quality (VQ) and overall (OA): 0 tie, 1 video 1, 2 video 2, null not said. `error` is one sentence when it failed.

        Args:
            video1: The first video, uploaded.
            video2: The second video, uploaded.
            prompt: The text both videos were made from.
        """
        try:
            pair = VideoPair(_text(prompt), _uploaded(video1, "Video 1"), _uploaded(video2, "Video 2"))
        except BadInput as bad:
            yield refused(str(bad))
            return
        caller = f"program {secrets.token_hex(12)}"
        visit = self._visits.begin(caller, pair, Settings())
        try:
            async for item in _followed(visit):
                yield item
        finally:
            self._visits.leave(caller)

    def health(self) -> dict[str, Any]:
        """Whether a judge is there, which one, and how many wait for it."""
        return {**self._judge(), **self._queue(), "version": _version()}

    def _judge(self) -> dict[str, Any]:
        found: dict[str, Any] = {"status": "loading", "judge": "", "protocol": "", "notes": [], "error": ""}
        if not self._opening.done:
            return found
        try:
            opened = self._opening.wait()
        except VrThinkerError as error:
            return found | {"status": "no judge", "error": str(error)}
        backend = opened.backend
        return found | {
            "status": "ready",
            "judge": backend.name,
            "protocol": backend.protocol or "paired",
            "notes": list(opened.notes),
        }

    def _queue(self) -> dict[str, int]:
        """How many are judged and how many wait, visitors of the page included."""
        # Gradio's own figures have no public name.
        queue = self._blocks._queue.event_queue_per_concurrency_id.get(self._concurrency_id)
        return {"judging": queue.current_concurrency if queue else 0, "waiting": len(queue.queue) if queue else 0}


async def _followed(visit: Visit) -> AsyncIterator[Told]:
    """The run so far, whenever a turn has begun or ended, every `PULSE` seconds in between, and once it is over."""
    before: object = None
    looks = 0
    while not visit.run.over:
        state = visit.run.state
        stage = (state.started is not None, len(state.turns), bool(state.turns and state.turns[-1].turn))
        if stage != before or looks * LOOK >= PULSE:
            yield told(state, visit.run.seconds)
            looks = 0
        before = stage
        looks += 1
        await asyncio.sleep(LOOK)
    yield told(visit.run.state, visit.run.seconds)


def _text(prompt: object) -> str:
    if not isinstance(prompt, str):
        raise BadInput("The prompt must be a text.")
    return prompt


def _uploaded(file: object, what: str) -> Path:
    """The path of an uploaded file. Raises BadInput for every other file of this machine, and for what is no file."""
    named = file.get("path") if isinstance(file, dict) else None
    if not isinstance(named, str) or not named or "\0" in named:
        raise BadInput(NOT_UPLOADED.format(what))
    try:
        path, folder = Path(named).resolve(strict=True), Path(get_upload_folder()).resolve()
    except (OSError, RuntimeError):
        raise BadInput(NOT_UPLOADED.format(what)) from None
    if not path.is_relative_to(folder) or not path.is_file():
        raise BadInput(NOT_UPLOADED.format(what))
    return path


def _version() -> str:
    """Of this package, "" where it is not installed."""
    try:
        return importlib.metadata.version("vrthinker")
    except importlib.metadata.PackageNotFoundError:
        return ""
