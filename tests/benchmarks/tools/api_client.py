"""Programs that call the server's API, over plain HTTP."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tests.benchmarks.tools.http_client import FULL, META, Web


@dataclass(frozen=True)
class Told:
    """What a program was told of its comparison."""

    over: float
    """Seconds from the call until the end, or until the refusal."""
    last: dict[str, Any] | None
    """The last item, with the prompt that was asked for; None when the queue was full."""
    prompt: str

    @property
    def busy(self) -> bool:
        """The queue was full."""
        return self.last is None

    @property
    def whole(self) -> bool:
        """The caller's own run ended with a verdict that nothing is missing from."""
        last = self.last or {}
        return last.get("prompt") == self.prompt and last.get("stop") == "answered" and None not in last["labels"].values()


async def call(web: Web, paths: Sequence[str], prompt: str) -> Told:
    """A program that calls `compare`, and follows it to its end."""
    began, last = time.perf_counter(), {}
    files = [{"path": path, "meta": META} for path in paths]
    status, told = await web.post("gradio_api/call/compare", {"data": [*files, prompt]})
    if status == FULL:
        return Told(time.perf_counter() - began, None, prompt)
    async with web.answer(f"gradio_api/call/compare/{told['event_id']}") as (_, stream):
        while line := await stream.readline():
            if line.startswith(b"data: ") and (data := json.loads(line[6:])):
                last = data[0]
    return Told(time.perf_counter() - began, last, prompt)
