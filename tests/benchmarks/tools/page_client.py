"""Visitors of the page without a browser: the same requests in the same order.

A visitor opens the page, says that it is still there, uploads, and sets off the page's own events as its configuration lists them.
It follows the stream of updates, applies their differences, and fetches the pictures that they name. Nothing is drawn, no asset is
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

from tests.benchmarks.tools.http_client import FILE_META, OK, SERVICE_UNAVAILABLE, HttpClient
from vrthinker_core.traces import from_json
from vrthinker_core.types import Dimension
from vrthinker_core.types.events import Trace
from vrthinker_core.ui.view import words

PICTURE = re.compile(rb'"(frames/[0-9a-f]{24}/[0-9a-f]+\.jpg)"')
SIDE_BY_SIDE = 6
"""Pictures that a browser fetches at once."""

PageEvent = dict[str, Any]
"""One of the page's events, as its configuration describes it."""
Edits = list[tuple[str, list[Any], Any]]


# -- the page ------------------------------------------------------------------------------------------------------------


class PageConfig:
    """What the page does when a part of it is used."""

    def __init__(self, web: HttpClient, config: dict[str, Any]) -> None:
        self.web = web
        self._component_ids = {part["props"].get("elem_id"): part["id"] for part in config["components"]}
        self._default_values = {part["id"]: part["props"].get("value") for part in config["components"]}
        self._events: list[PageEvent] = config["dependencies"]

    @classmethod
    async def open(cls, url: str) -> PageConfig:
        """The page of a server."""
        web = HttpClient(url)
        return cls(web, json.loads((await web.get("config"))[1]))

    def event(self, part: str, what: str) -> PageEvent:
        """What happens when `part` is clicked, say."""
        target = [self._component_ids[part], what]
        return next(act for act in self._events if target in act["targets"] and act["outputs"])

    def load_events(self) -> list[PageEvent]:
        """What happens when the page opens."""
        return [act for act in self._events if any(what == "load" for _, what in act["targets"])]

    def event_after(self, act: PageEvent, well: bool) -> PageEvent | None:
        """What happens after an act that went well, or did not."""
        when = "trigger_only_on_success" if well else "trigger_only_on_failure"
        return next((other for other in self._events if other["trigger_after"] == act["id"] and other[when]), None)

    def inputs(self, act: PageEvent, **filled: Any) -> list[Any]:
        """The act's inputs: what was filled in, and what stood there."""
        given = {self._component_ids[name]: value for name, value in filled.items()}
        return [given.get(part, self._default_values[part]) for part in act["inputs"]]

    def output(self, act: PageEvent, data: list[Any], part: str) -> Any:
        """What the act wrote to a part; None when that was nothing."""
        if self._component_ids[part] not in act["outputs"]:
            return None
        value = data[act["outputs"].index(self._component_ids[part])]
        return None if isinstance(value, dict) and value.get("__type__") == "update" else value


# -- who visits it -------------------------------------------------------------------------------------------------------


@dataclass
class ObservedRun:
    """What a visitor saw of one comparison. Times are seconds since Compare was pressed."""

    started: float = field(default_factory=time.perf_counter)
    first_update: float | None = None
    """The first update of this very run has come, whatever it says. Its place in the queue is no update."""
    first_frames: float | None = None
    """The first frames have come by their names."""
    first_pictures: float | None = None
    """Their pictures have been fetched too."""
    seconds: float = 0.0
    """The run ended, or the visitor was told why there is none."""
    updates: int = 0
    status: str = ""
    trace: dict[str, Any] = field(default_factory=dict)
    prompts: set[str] = field(default_factory=set)
    """Every prompt that any update named."""
    pictures: dict[str, bytes] = field(default_factory=dict)
    """Every picture that any update named; empty when the server did not give it."""

    @property
    def busy(self) -> bool:
        """They were told that there is no place."""
        return words.BUSY in self.status

    @property
    def complete(self) -> bool:
        """The run ended with a verdict that nothing is missing from."""
        verdict = self.trace.get("verdict") or {"chips": [], "caveats": []}
        return len(verdict["chips"]) == len(Dimension) and not verdict["caveats"]

    @property
    def elapsed(self) -> float:
        """Time since Compare was pressed."""
        return time.perf_counter() - self.started


class PageClient:
    """Somebody with the page open."""

    def __init__(self, site: PageConfig) -> None:
        self._site = site
        self._web = site.web
        self._session = secrets.token_hex(6)
        self._alive: asyncio.Task[None] | None = None
        self._fetching: set[asyncio.Task[None]] = set()
        self._sockets = asyncio.Semaphore(SIDE_BY_SIDE)

    async def open(self) -> None:
        """Open the page."""
        await self._web.get("")
        there = asyncio.Event()
        self._alive = asyncio.create_task(self._stay(there))
        await there.wait()
        for act in self._site.load_events():
            async for _ in self._queued(act, []):
                pass

    async def open_with_clips(self, pair: tuple[Path, Path]) -> list[Any]:
        """Open the page and bring two clips; gives the values of both players."""
        await self.open()
        return [await self.upload(player, clip) for player, clip in zip(("first", "second"), pair, strict=True)]

    async def close(self) -> None:
        """Close the page."""
        if self._alive is not None:
            self._alive.cancel()
            with suppress(asyncio.CancelledError):
                await self._alive

    async def upload(self, player: str, clip: Path) -> dict[str, Any]:
        """Upload a clip and put it into a player; gives the player's value."""
        value = {"path": await self._web.upload(clip), "orig_name": clip.name, "meta": FILE_META}
        act = self._site.event(player, "upload")
        async for _ in self._queued(act, self._site.inputs(act, **{player: value})):
            pass
        return value

    async def compare(self, files: Sequence[Any], prompt: str, seen: ObservedRun | None = None) -> ObservedRun:
        """Press Compare with both players filled, and watch until it is over; `seen` is what is filled in on the way."""
        seen = seen or ObservedRun()
        run = await self._at_once(self._site.event("go", "click"), seen)
        if run is not None:
            well, (first, second) = False, files
            asked = self._site.inputs(run, first=first, second=second, prompt=prompt)
            async for message, line, data in self._queued(run, asked):
                well = message["success"]
                if data:
                    self._watch(seen, run, line, data)
            following = self._site.event_after(run, well)
            if following is not None:
                await self._at_once(following, seen)
        seen.seconds = seen.elapsed
        await asyncio.gather(*self._fetching)
        return seen

    async def download_trace(self, seen: ObservedRun) -> Trace:
        """The trace as it is downloaded."""
        return from_json((await self._web.get(f"runs/{seen.trace['run']}/trace.json"))[1])

    # -- one update ----------------------------------------------------------------------------------------------------

    def _watch(self, seen: ObservedRun, run: PageEvent, line: bytes, data: list[Any]) -> None:
        seen.updates += 1
        seen.first_update = seen.first_update or seen.elapsed
        self._note(seen, run, data)
        if new := [name for name in PICTURE.findall(line) if name.decode() not in seen.pictures]:
            seen.first_frames = seen.first_frames or seen.elapsed
            seen.pictures.update((name.decode(), b"") for name in new)
            task = asyncio.create_task(self._fetch(dict.fromkeys(name.decode() for name in new), seen))
            self._fetching.add(task)
            task.add_done_callback(self._fetching.discard)

    def _note(self, seen: ObservedRun, act: PageEvent, data: list[Any]) -> None:
        seen.status = self._site.output(act, data, "status") or seen.status
        seen.trace = self._site.output(act, data, "trace") or seen.trace
        if "prompt" in seen.trace:
            seen.prompts.add(seen.trace["prompt"])

    async def _fetch(self, names: dict[str, None], seen: ObservedRun) -> None:
        await asyncio.gather(*(self._fetch_one(name, seen) for name in names))
        seen.first_pictures = seen.first_pictures or seen.elapsed

    async def _fetch_one(self, name: str, seen: ObservedRun) -> None:
        async with self._sockets:
            status, data = await self._web.get(name)
            seen.pictures[name] = data if status == OK else b""

    # -- the page's protocol -------------------------------------------------------------------------------------------

    async def _stay(self, there: asyncio.Event) -> None:
        async with self._web.request(f"gradio_api/heartbeat/{self._session}") as (_, beats):
            while await beats.readline():
                there.set()

    def _body(self, act: PageEvent, data: list[Any]) -> dict[str, Any]:
        return {"data": data, "fn_index": act["id"], "session_hash": self._session, "event_data": None, "trigger_id": None}

    async def _at_once(self, act: PageEvent, seen: ObservedRun) -> PageEvent | None:
        """An act that waits in no queue, and those that follow it; gives the first one that waits."""
        following: PageEvent | None = act
        while following is not None and not following["queue"]:
            well = True
            if following["backend_fn"]:
                status, told = await self._web.post("gradio_api/run/predict", self._body(following, []))
                well = status == OK
                if well:
                    self._note(seen, following, told["data"])
            else:
                seen.status = following["js"]
            following = self._site.event_after(following, well)
        return following

    async def _queued(self, act: PageEvent, data: list[Any]) -> AsyncIterator[tuple[dict[str, Any], bytes, list[Any]]]:
        """An act that waits in the queue: its messages, parsed and as they came, with the outputs as they stand by then."""
        status, joined = await self._web.post("gradio_api/queue/join", self._body(act, data))
        if status == SERVICE_UNAVAILABLE:
            return
        now: list[Any] = []
        async with self._web.request(f"gradio_api/queue/data?session_hash={self._session}") as (_, stream):
            while line := await stream.readline():
                message = json.loads(line[6:]) if line.startswith(b"data: ") else {}
                if message.get("event_id") != joined["event_id"] or message["msg"] not in (
                    "process_generating",
                    "process_completed",
                ):
                    continue
                told = (message.get("output") or {}).get("data") or []
                now = _changed(now, told) if now and message["msg"] == "process_generating" else told
                yield message, line, now


# -- differences ---------------------------------------------------------------------------------------------------------


def _changed(now: list[Any], edits: list[Edits]) -> list[Any]:
    """Every output after its edits."""
    return [_edited(value, steps) for value, steps in zip(now, edits, strict=True)]


def _edited(value: Any, edits: Edits) -> Any:
    """A JSON value after the edits of a stream, changed in place where it has parts."""
    root = [value]
    for action, path, new in edits:
        place: Any = root
        *way, last = [0, *path]
        for key in way:
            place = place[key]
        if action == "delete":
            del place[last]
        elif action == "append":
            place[last] += new
        elif action == "add" and isinstance(place, list):
            place.insert(last, new)
        else:
            place[last] = new
    return root[0]
