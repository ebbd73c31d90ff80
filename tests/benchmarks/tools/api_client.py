"""Programs that call the server's API, over plain HTTP."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tests.benchmarks.tools.http_client import FILE_META, SERVICE_UNAVAILABLE, HttpClient


@dataclass(frozen=True)
class CompareResult:
    """What a program was told of its comparison."""

    seconds: float
    """Seconds from the call until the end, or until the refusal."""
    last_item: dict[str, Any] | None
    """The last item, with the prompt that was asked for; None when the queue was full."""
    prompt: str

    @property
    def busy(self) -> bool:
        """The queue was full."""
        return self.last_item is None

    @property
    def complete(self) -> bool:
        """The caller's own run ended with a verdict that nothing is missing from."""
        last = self.last_item or {}
        return last.get("prompt") == self.prompt and last.get("stop") == "answered" and None not in last["labels"].values()


async def compare(web: HttpClient, paths: Sequence[str], prompt: str) -> CompareResult:
    """A program that calls `compare`, and follows it to its end."""
    began, last = time.perf_counter(), {}
    files = [{"path": path, "meta": FILE_META} for path in paths]
    status, told = await web.post("gradio_api/call/compare", {"data": [*files, prompt]})
    if status == SERVICE_UNAVAILABLE:
        return CompareResult(time.perf_counter() - began, None, prompt)
    async with web.request(f"gradio_api/call/compare/{told['event_id']}") as (_, stream):
        while line := await stream.readline():
            if line.startswith(b"data: ") and (data := json.loads(line[6:])):
                last = data[0]
    return CompareResult(time.perf_counter() - began, last, prompt)
