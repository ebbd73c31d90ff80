"""Clients of the page without a browser: the same requests in the same order.

A client opens the page, keeps its heartbeat, uploads clips, and triggers the page's own events as its configuration lists them. It
follows the stream of updates, applies their differences, and fetches the pictures that they name. Nothing is drawn, no asset is
fetched, and every request has a connection of its own.
"""

from __future__ import annotations

import asyncio
import json
import re
import secrets
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.benchmarks.tools.http_client import OK, SERVICE_UNAVAILABLE, HttpClient
from vrthinker_core.traces import from_json
from vrthinker_core.types import Dimension
from vrthinker_core.types.events import Trace
from vrthinker_core.ui import words

PICTURE = re.compile(rb'"(frames/[0-9a-f]{24}/[0-9a-f]+\.jpg)"')
CONNECTIONS = 6
"""Pictures that a browser fetches at the same time."""

PageEvent = dict[str, Any]
"""One of the page's events: an entry of `dependencies` in Gradio's configuration."""
Edits = list[tuple[str, list[Any], Any]]
"""What changes in one output: (action, path, value) each."""


# -- the page ------------------------------------------------------------------------------------------------------------


class PageConfig:
    """The page's components and events, as Gradio's `/config` lists them."""

    def __init__(self, http: HttpClient, config: dict[str, Any]) -> None:
        self.http = http
        known = [(each["id"], each["props"]) for each in config["components"]]
        self._component_ids = {props.get("elem_id"): number for number, props in known}
        self._default_values = {number: props.get("value") for number, props in known}
        self.events: list[PageEvent] = config["dependencies"]

    @classmethod
    async def open(cls, url: str) -> PageConfig:
        """Fetch the configuration from the server at `url`."""
        http = HttpClient(url)
        return cls(http, json.loads((await http.get("config"))[1]))

    def event(self, elem_id: str, trigger: str) -> PageEvent:
        """The event with outputs that `trigger` ("click", say) sets off on a component.

        "then" is the event after that one which takes the component's value.
        """
        if trigger == "then":
            component = self._component_ids[elem_id]
            return next(e for e in self.events if component in e["inputs"])
        target = [self._component_ids[elem_id], trigger]
        return next(e for e in self.events if target in e["targets"] and e["outputs"])

    def inputs(self, event: PageEvent, **filled: Any) -> list[Any]:
        """The event's input values: those filled in here by `elem_id`, and the components' defaults."""
        own = {self._component_ids[elem_id]: value for elem_id, value in filled.items()}
        values = {**self._default_values, **own}
        return [values[component] for component in event["inputs"]]

    def output(self, event: PageEvent, data: list[Any], elem_id: str) -> Any:
        """The value that the event gave a component; None when it gave none."""
        if self._component_ids[elem_id] not in event["outputs"]:
            return None
        value = data[event["outputs"].index(self._component_ids[elem_id])]
        return None if isinstance(value, dict) and value.get("__type__") == "update" else value


# -- its clients ---------------------------------------------------------------------------------------------------------


@dataclass
class ObservedRun:
    """What a client saw of one comparison. Times are seconds since Compare was pressed."""

    started: float = field(default_factory=time.perf_counter)
    """When Compare was pressed, on the clock `time.perf_counter`."""
    first_update: float | None = None
    """When the first update of this very run came, whatever it says. A place in the queue is no update."""
    first_frames: float | None = None
    """When the first update came that names frames."""
    seconds: float = 0.0
    """When the run ended, or was refused."""
    status: str = ""
    trace: dict[str, Any] = field(default_factory=dict)
    prompts: set[str] = field(default_factory=set)
    """Every prompt that any update named."""
    pictures: dict[str, bytes] = field(default_factory=dict)
    """Every picture that any update named; empty bytes when the server did not give it."""

    @property
    def busy(self) -> bool:
        """The page said that too many runs wait."""
        return words.BUSY in self.status

    @property
    def complete(self) -> bool:
        """The run ended with a verdict on every dimension."""
        verdict = self.trace.get("verdict") or {"chips": [], "caveats": []}
        return len(verdict["chips"]) == len(Dimension) and not verdict["caveats"]

    @property
    def elapsed(self) -> float:
        """Seconds since Compare was pressed."""
        return time.perf_counter() - self.started


class PageClient:
    """One visitor's page, open until `close`."""

    def __init__(self, config: PageConfig, http: HttpClient | None = None) -> None:
        self._config = config
        self._http = http or config.http
        self._session = secrets.token_hex(6)
        self._heartbeat: asyncio.Task[None] | None = None
        self._fetching: list[asyncio.Task[None]] = []
        self._connections = asyncio.Semaphore(CONNECTIONS)

    async def open(self) -> None:
        """Open the page."""
        await self._http.get("")
        alive = asyncio.Event()
        self._heartbeat = asyncio.create_task(self._keep_heartbeat(alive))
        await alive.wait()
        for event in self._config.events:
            if "load" in (trigger for _, trigger in event["targets"]):
                async for _ in self._queued(event, []):
                    pass

    async def open_with_clips(self, pair: tuple[Path, Path]) -> list[Any]:
        """Open the page and upload two clips; returns the values of both players."""
        await self.open()
        players = zip(("first", "second"), pair, strict=True)
        return [await self.upload(player, clip) for player, clip in players]

    async def close(self) -> None:
        """Close the page."""
        if self._heartbeat is not None:
            self._heartbeat.cancel()
            with suppress(asyncio.CancelledError):
                await self._heartbeat

    async def upload(self, player: str, clip: Path) -> dict[str, Any]:
        """Upload a clip into a player; returns the player's value."""
        value = await self._http.upload(clip)
        await self.trigger(player, "upload", **{player: value})
        return value

    async def trigger(
        self, elem_id: str, trigger: str, event_data: Any = None, **filled: Any
    ) -> list[Any]:
        """Set off an event that queues, with inputs `filled` in by `elem_id`; returns its outputs.

        Raises ValueError when it is refused or fails.
        """
        event = self._config.event(elem_id, trigger)
        answers = self._queued(event, self._config.inputs(event, **filled), event_data)
        told = [(message["success"], outputs) async for message, _, outputs in answers]
        if not told or not told[-1][0]:
            raise ValueError(f"The server refused the event {trigger!r} of {elem_id!r}.")
        return told[-1][1]

    async def join(self, elem_id: str, trigger: str, event_data: Any = None, **filled: Any) -> int:
        """Let an event wait, and collect nothing of it; returns the status."""
        event = self._config.event(elem_id, trigger)
        body = self._body(event, self._config.inputs(event, **filled), event_data)
        return (await self._http.post("gradio_api/queue/join", body))[0]

    async def compare(
        self, files: Sequence[Any], prompt: str, observed: ObservedRun | None = None
    ) -> ObservedRun:
        """Press Compare with both players filled, and follow the run to its end; `observed` is filled in on the way."""
        observed = observed or ObservedRun()
        event = self._config.event("go", "click")
        first, second = files
        inputs = self._config.inputs(event, first=first, second=second, prompt=prompt)
        _, answer = await self._http.post("gradio_api/run/predict", self._body(event, inputs))
        self._note_outputs(observed, event, answer["data"])
        if (self._config.output(event, answer["data"], "buttons") or {}).get("running"):
            follow = self._config.event("buttons", "submit")
            async for _, line, data in self._queued(follow, []):
                if data:
                    self._observe(observed, follow, line, data)
        observed.seconds = observed.elapsed
        await asyncio.gather(*self._fetching)
        return observed

    async def download_trace(self, observed: ObservedRun) -> Trace:
        """The run's trace as the page offers it for download."""
        return from_json((await self._http.get(f"runs/{observed.trace['run']}/trace.json"))[1])

    # -- one update ----------------------------------------------------------------------------------------------------

    def _observe(
        self, observed: ObservedRun, event: PageEvent, line: bytes, data: list[Any]
    ) -> None:
        self._note_outputs(observed, event, data)
        if not observed.trace:
            return  # a place in the queue, or a refusal
        observed.first_update = observed.first_update or observed.elapsed
        named = dict.fromkeys(name.decode() for name in PICTURE.findall(line))
        if names := [name for name in named if name not in observed.pictures]:
            observed.first_frames = observed.first_frames or observed.elapsed
            observed.pictures.update(dict.fromkeys(names, b""))
            self._fetching += [asyncio.create_task(self._fetch(name, observed)) for name in names]

    def _note_outputs(self, observed: ObservedRun, event: PageEvent, data: list[Any]) -> None:
        observed.status = self._config.output(event, data, "status") or observed.status
        observed.trace = self._config.output(event, data, "trace") or observed.trace
        if "prompt" in observed.trace:
            observed.prompts.add(observed.trace["prompt"])

    async def _fetch(self, name: str, observed: ObservedRun) -> None:
        async with self._connections:
            status, data = await self._http.get(name)
            observed.pictures[name] = data if status == OK else b""

    # -- the page's protocol -------------------------------------------------------------------------------------------

    async def _keep_heartbeat(self, alive: asyncio.Event) -> None:
        async with self._http.request(f"gradio_api/heartbeat/{self._session}") as (_, stream):
            while await stream.readline():
                alive.set()

    def _body(self, event: PageEvent, data: list[Any], event_data: Any = None) -> dict[str, Any]:
        asked = {"data": data, "event_data": event_data, "trigger_id": None}
        return {**asked, "fn_index": event["id"], "session_hash": self._session}

    async def _queued(
        self, event: PageEvent, data: list[Any], event_data: Any = None
    ) -> AsyncIterator[tuple[dict[str, Any], bytes, list[Any]]]:
        """Run an event that queues: yields each of its messages, parsed and as it came, with all outputs as they are by then."""
        body = self._body(event, data, event_data)
        status, joined = await self._http.post("gradio_api/queue/join", body)
        if status == SERVICE_UNAVAILABLE:
            return
        outputs: list[Any] = []
        updates = f"gradio_api/queue/data?session_hash={self._session}"
        async with self._http.request(updates) as (_, stream):
            while line := await stream.readline():
                message = json.loads(line[6:]) if line.startswith(b"data: ") else {}
                kind = message.get("msg") if message.get("event_id") == joined["event_id"] else None
                if kind not in ("process_generating", "process_completed"):
                    continue
                new = (message.get("output") or {}).get("data") or []
                if outputs and kind == "process_generating":
                    new = [_apply(value, edits) for value, edits in zip(outputs, new, strict=True)]
                outputs = new
                yield message, line, outputs


# -- differences ---------------------------------------------------------------------------------------------------------


def _apply(value: Any, edits: Edits) -> Any:
    """A JSON value after the edits of a stream; lists and objects are changed in place."""
    root = [value]
    for action, path, new in edits:
        parent: Any = root
        *keys, last = [0, *path]
        for key in keys:
            parent = parent[key]
        if action == "delete":
            del parent[last]
        elif action == "append":
            parent[last] += new
        elif action == "add" and isinstance(parent, list):
            parent.insert(last, new)
        else:
            parent[last] = new
    return root[0]
