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
    """How a call of `compare` ended."""

    seconds: float
    """From the call until its last item, or until the refusal."""
    last_item: dict[str, Any] | None
    """The last item of the stream; None when the queue was full."""
    prompt: str
    """The prompt that was sent."""

    @property
    def busy(self) -> bool:
        """The queue was full."""
        return self.last_item is None

    @property
    def complete(self) -> bool:
        """The run of this call's own prompt ended with a verdict on every dimension."""
        item = self.last_item or {}
        return (
            item.get("prompt") == self.prompt
            and item.get("stop") == "answered"
            and None not in item["labels"].values()
        )


async def compare(http: HttpClient, paths: Sequence[str], prompt: str) -> CompareResult:
    """Call `compare` with two uploaded files, and read its stream to the end."""
    started, last_item = time.perf_counter(), {}
    files = [{"path": path, "meta": FILE_META} for path in paths]
    status, answer = await http.post("gradio_api/call/compare", {"data": [*files, prompt]})
    if status == SERVICE_UNAVAILABLE:
        return CompareResult(time.perf_counter() - started, None, prompt)
    async with http.request(f"gradio_api/call/compare/{answer['event_id']}") as (_, stream):
        while line := await stream.readline():
            if line.startswith(b"data: ") and (data := json.loads(line[6:])):
                last_item = data[0]
    return CompareResult(time.perf_counter() - started, last_item, prompt)
