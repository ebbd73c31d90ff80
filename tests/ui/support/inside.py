"""The inside of a page without its server: quick runs, sessions, pages whose events are called."""

from __future__ import annotations

import asyncio
import inspect
import os
import time
from collections import defaultdict
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gradio as gr
import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from tests.ui.support import handmade_runs
from vrthinker_core.types import Side
from vrthinker_core.types.events import (
    Branch,
    Event,
    Finished,
    FramesShown,
    Origin,
    StopReason,
    TextArrived as Text,
)
from vrthinker_core.types.settings import SETTINGS
from vrthinker_core.ui.fetch import ANY_ADDRESS
from vrthinker_core.ui.frames import ExactFrames
from vrthinker_core.ui.handlers import Handlers, PlayerHandlers, Services
from vrthinker_core.ui.history import COOKIE, Examples, History
from vrthinker_core.ui.judges import JudgeLoader
from vrthinker_core.ui.layout import PageComponents, default_value
from vrthinker_core.ui.queue import JudgeQueue
from vrthinker_core.ui.routes import Routes
from vrthinker_core.ui.run import JobRunner, RunJob
from vrthinker_core.ui.sessions import Sessions
from vrthinker_core.ui.uploads import Uploads

RUN = handmade_runs.three_turns()
ORIGIN = Origin(RUN.started.prompt, RUN.started.judge, RUN.started.settings)
BRANCH = replace(RUN, started=replace(RUN.started, branch=Branch(ORIGIN, 3, (4, 9))))
Videos = Sequence[Path | None]


def files(folder: Path) -> list[Path]:
    """Every file below `folder`; folders may be removed meanwhile."""
    return [Path(place, name) for place, _, names in os.walk(folder) for name in names]


def finish_at_once(job: RunJob) -> Generator[Event, None, None]:
    """Answers as `RUN` does, also for b.mp4 beside a.mp4."""
    branch, clips = job.plan.branch if job.plan else None, RUN.started.clips
    clips = clips[::-1] if Path(job.pair.first).name == "b.mp4" else clips
    started = replace(RUN.started, prompt=job.pair.prompt, branch=branch, clips=clips)
    yield from replace(RUN, started=started).events()


def run_until_stopped(job: RunJob) -> Generator[Event, None, None]:
    """Writes until the stop file exists."""
    yield handmade_runs.started(job.pair.prompt)
    yield FramesShown(1, "told", handmade_runs.pairs([16]))
    while not job.stop_file.exists():
        yield Text(1, "word ")
        time.sleep(0.005)
    yield Finished(StopReason.CANCELLED, seconds=1)


def make_sessions(
    folder: Path, run_job: JobRunner = finish_at_once, at_once: int = 1, **options: Any
) -> Sessions:
    """Sessions below `folder` with one device for all judges."""
    queue = JudgeQueue(place=lambda _: ("local", at_once))
    return Sessions(folder / "page", run_job, queue, History(folder / "kept"), **options)


class Inside:
    """What one server keeps, below `folder`, and the handlers of its page."""

    def __init__(
        self, folder: Path, judges: JudgeLoader, run_job: JobRunner | None = None, waiting: int = 24
    ) -> None:
        self.queue = JudgeQueue(waiting, partial(judges.device, at_once=1), judges.is_loaded)
        self.history = History(folder / "kept")
        job = run_job or judges.run_job
        self.sessions = Sessions(folder / "page", job, self.queue, self.history)
        uploads = Uploads(folder / "copies", folder / "uploads" / "fetched", ANY_ADDRESS)
        kept = self.sessions, self.history, Examples(folder / "examples")
        services = Services(judges, self.queue, *kept, uploads)
        self.exact = ExactFrames(judges.decoder_pool)
        self.http = TestClient(Starlette(routes=Routes(services, self.exact).routes()))
        self.pool = ThreadPoolExecutor(16)

        async def build() -> PageComponents:  # Gradio builds pages only inside an event loop
            with gr.Blocks(analytics_enabled=False):
                return PageComponents([], judges.names)

        self.parts: Any = self.pool.submit(asyncio.run, build()).result()
        self.on = Handlers(self.parts, services)
        self.players = [PlayerHandlers(self.on, self.parts, uploads, side) for side in Side]


@contextmanager
def inside(folder: Path, *args: Any, **options: Any) -> Iterator[Inside]:
    """The inside of a page, whose runs and threads end with the block."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GRADIO_TEMP_DIR", str(folder / "uploads"))
        opened = Inside(folder, *args, **options)
        try:
            yield opened
        finally:
            opened.sessions.close()
            opened.exact.close()
            opened.pool.shutdown()


class OpenPage:
    """An open page of a visitor; `page["status"]` is what its component `status` shows."""

    def __init__(self, here: Inside, name: str = "page", visitor: str = "", **cookies: str) -> None:
        known = {COOKIE: visitor.ljust(43, "-")} if visitor else {}
        self.request: Any = SimpleNamespace(
            session_hash=name, cookies={**known, **cookies}, query_params={}
        )
        self.here, self.values = here, defaultdict[Any, Any](lambda: None)
        self.followed = 0  # the number of the run that it has followed last

    @property
    def session(self) -> Any:
        return self.here.sessions.get(self.request.session_hash)

    def __getitem__(self, name: str) -> Any:
        return self.values[getattr(self.here.parts, name)]

    def act(self, event: Callable[..., Any], *inputs: Any, **data: Any) -> OpenPage:
        """Call an event, `data` with it, and wait for its end."""
        self.begin(event, *inputs, **data).result()
        return self

    def begin(self, event: Callable[..., Any], *inputs: Any, **data: Any) -> Future[None]:
        """Call an event, which goes on in a thread; follow the run that it begins, as a page does."""

        async def call() -> None:
            takes_data = "event" in inspect.signature(event).parameters
            told = event(*inputs, *([SimpleNamespace(**data)] * takes_data), self.request)
            self.values.update(await told if inspect.isawaitable(told) else told)
            buttons = self["buttons"] or {"number": 0, "running": False}
            if buttons["running"] and buttons["number"] > self.followed:
                self.followed = buttons["number"]
                async for updates in self.here.on.follow(self.request):
                    self.values.update(updates)

        return self.here.pool.submit(asyncio.run, call())

    def form(self, videos: Videos, prompt: str, judge: str = "", **settings: str) -> dict[Any, Any]:
        """What Compare is sent."""
        parts, both = self.here.parts, [path and str(path) for path in videos]
        chosen = {row.name: default_value(row) for row in SETTINGS} | settings
        form = {parts.settings[name]: value for name, value in chosen.items()}
        return {**dict(zip(parts.videos, both, strict=True)), **form} | {
            parts.prompt: prompt,
            parts.judge: judge,
        }

    def compare(
        self, videos: Videos, prompt: str = RUN.started.prompt, **form: str
    ) -> Future[None]:
        """Press Compare."""
        return self.begin(self.here.on.compare, self.form(videos, prompt, **form))

    def stop(self, number: int | None = None) -> OpenPage:
        """Press Stop, or send what an earlier button would."""
        buttons = self["buttons"] if number is None else {"number": number, "running": True}
        return self.act(self.here.on.stop, buttons, "")
