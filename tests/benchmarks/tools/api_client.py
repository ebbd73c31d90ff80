"""Programs that call the server's API, over plain HTTP."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tests.benchmarks.tools.http_client import FILE_META, OK, HttpClient
from vrthinker_core.ui import words


@dataclass(frozen=True)
class CompareResult:
    """How a call of `compare` ended."""

    seconds: float
    """From the call until its last item, or until the refusal."""
    last_item: dict[str, Any]
    """The last item of the stream; empty when none came."""
    prompt: str
    """The prompt that was sent."""

    @property
    def busy(self) -> bool:
        """The call was told that too many runs wait."""
        return self.last_item.get("error") == words.BUSY

    @property
    def complete(self) -> bool:
        """The run of this call's own prompt ended with a verdict on every dimension."""
        item = self.last_item
        return (
            item.get("prompt") == self.prompt
            and item.get("stop") == "answered"
            and None not in item["labels"].values()
        )


async def compare(http: HttpClient, paths: Sequence[str], prompt: str) -> CompareResult:
    """Call `compare` with two uploaded files, and read its stream to the end."""
    started, last_item = time.perf_counter(), dict[str, Any]()
    files = [{"path": path, "meta": FILE_META} for path in paths]
    status, answer = await http.post("gradio_api/call/compare", {"data": [*files, prompt]})
    if status != OK:
        last_item = {"error": answer.get("detail")}
        return CompareResult(time.perf_counter() - started, last_item, prompt)
    async with http.request(f"gradio_api/call/compare/{answer['event_id']}") as (_, stream):
        while line := await stream.readline():
            if line.startswith(b"data: ") and (data := json.loads(line[6:])):
                last_item = data[0]
    return CompareResult(time.perf_counter() - started, last_item, prompt)
