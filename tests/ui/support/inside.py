"""The inside of a server, without Gradio's: quick runs, sessions, pages whose events are called."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections import defaultdict
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gradio as gr
import pytest
from starlette.applications import Starlette
from starlette.responses import HTMLResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from tests.support.threads import run_in_thread
from tests.support.waiting import until
from tests.ui.support import handmade_runs
from vrthinker_core.types import Settings, Side, StopReason, VideoPair
from vrthinker_core.types.events import (
    Branch,
    Event,
    Finished,
    FramesShown,
    Origin,
    TextArrived as Text,
)
from vrthinker_core.types.settings import PAGE_SETTINGS
from vrthinker_core.ui.fetch import ANY_ADDRESS, PUBLIC_ONLY, FetchPolicy
from vrthinker_core.ui.frames import ExactFrames
from vrthinker_core.ui.handlers import Handlers, PlayerHandlers, Services
from vrthinker_core.ui.history import KEEP_SECONDS, Examples, History
from vrthinker_core.ui.judges import JudgeLoader
from vrthinker_core.ui.layout import PageComponents, default_value
from vrthinker_core.ui.queue import JudgeQueue
from vrthinker_core.ui.routes import LinkPreviewMiddleware, Routes
from vrthinker_core.ui.run import JobRunner, RunJob
from vrthinker_core.ui.runs_tab import REFUSALS, ListedRuns
from vrthinker_core.ui.security import GuardMiddleware
from vrthinker_core.ui.sessions import Sessions, ShownRun
from vrthinker_core.ui.uploads import Uploads
from vrthinker_core.ui.visitors import BYTES, COOKIE, Limit, Visitor, Visitors

RUN = handmade_runs.three_turns()
PROMPT = RUN.started.prompt
ORIGIN = Origin(PROMPT, RUN.started.judge, RUN.started.settings)
BRANCH = replace(RUN, started=replace(RUN.started, branch=Branch(ORIGIN, 3, (4, 9))))
VISITORS = Visitors(b"k" * 32)
ANNAS, BERTS = VISITORS.signed("a" * 43), VISITORS.signed("b" * 43)  # their cookies
ANNA, BERT = (VISITORS.owner_of({COOKIE: cookie}) for cookie in (ANNAS, BERTS))
Videos = Sequence[Path | None]


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


class Site:
    """What one server keeps, below `folder`; another with that folder is it, started again."""

    def __init__(
        self,
        folder: Path,
        run_job: JobRunner = finish_at_once,
        *,
        seconds: float = KEEP_SECONDS,
        examples: Path | None = None,
        runs: ListedRuns | None = None,
        head: str = "",
        judges: JudgeLoader | None = None,
        waiting: int = 24,
        policy: FetchPolicy = PUBLIC_ONLY,
        limit: Limit = BYTES,
    ) -> None:
        """`head`: of the page that Gradio would serve."""
        nobody: Any = SimpleNamespace(look=lambda judge: (None, ""))
        self.folder, self._head = folder, head
        self.history = History(folder / "runs", seconds)
        place = partial(judges.device, at_once=1) if judges else lambda _: ("local", 4)
        self.queue = JudgeQueue(waiting, place, *([judges.is_loaded] if judges else []))
        root = folder / f"server {time.time_ns()}"
        self.sessions = Sessions(root, run_job, self.queue, self.history)
        fetched = folder / "uploads" / "fetched"
        self.uploads = Uploads(folder / "copies", fetched, policy, limit)
        told = self.sessions, self.history, Examples(examples or folder / "examples"), self.uploads
        self.services = Services(judges or nobody, self.queue, *told, runs)
        self.exact: Any = ExactFrames(judges.decoder_pool) if judges else nobody
        self.routes = Routes(self.services, self.exact)

    def run(self, page: str = "page", owner: str = ANNA) -> ShownRun:
        """Let a run begin, which the page then shows."""
        videos = [self.folder / "a.mp4", self.folder / "b.mp4"]
        for path in videos:
            path.write_bytes(path.name.encode())
        session, pair = self.sessions.get(page), VideoPair(PROMPT, *videos)
        return self.show(
            page, self.sessions.start_run(session, pair, Settings(), "", Visitor(owner))
        )

    def check_order(self, page: str, shown: ShownRun) -> ShownRun:
        """Let the second run begin."""
        session, pair = self.sessions.get(page), VideoPair("", *shown.files)
        return self.show(page, self.sessions.check_order(session, shown, pair, Settings()))

    def show(self, page: str, shown: ShownRun) -> ShownRun:
        """Show a run on that page once its judge has begun."""
        until(lambda: shown.run.begun and shown.run.trace)
        self.sessions.show(self.sessions.get(page), shown)
        return shown

    def client(self, cookie: str = "", in_frame: bool = False, **cookies: str) -> TestClient:
        """A visitor's browser."""
        home = Route("/", lambda _: HTMLResponse(f"<head>{self._head}<script></script></head>"))
        app = Starlette(routes=[home, *self.routes.routes()], exception_handlers=REFUSALS)
        app.add_middleware(LinkPreviewMiddleware, routes=self.routes)
        app.add_middleware(GuardMiddleware, VISITORS, ["judge.example"], in_frame=in_frame)
        known = {COOKIE: cookie, **cookies} if cookie else cookies
        return TestClient(app, base_url="http://judge.example", cookies=known)

    def listed(self, what: str = "outcome", cookie: str = ANNAS) -> list[Any]:
        """That of each run in a visitor's list, the latest first."""
        return [row[what] for row in self.client(cookie).get("/history").json()["runs"]]


@cache
def components(judges: tuple[str, ...]) -> PageComponents:
    """The page's components, which are told apart and never change."""

    async def build() -> PageComponents:  # Gradio builds pages only inside an event loop
        with gr.Blocks(analytics_enabled=False):
            return PageComponents([], judges)

    return run_in_thread(build())


class Inside(Site):
    """The same with judges, and the handlers of its page."""

    def __init__(
        self, folder: Path, judges: JudgeLoader, run_job: JobRunner | None = None, waiting: int = 24
    ) -> None:
        told: Any = {"judges": judges, "waiting": waiting, "policy": ANY_ADDRESS}
        super().__init__(folder, run_job or judges.run_job, **told)
        app = Starlette(routes=self.routes.routes(), exception_handlers=REFUSALS)
        self.http = TestClient(app)
        self.pool = ThreadPoolExecutor(16)
        self.parts: Any = components(tuple(judges.names))
        self.on = Handlers(self.parts, self.services)
        self.players = [PlayerHandlers(self.on, side) for side in Side]


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
        cookie = VISITORS.signed(visitor.ljust(43, "-")) if visitor else ""
        state = SimpleNamespace(visitor=Visitor(VISITORS.owner_of({COOKIE: cookie})))
        told: Any = {"session_hash": name, "cookies": cookies, "query_params": {}, "state": state}
        self.request: Any = SimpleNamespace(**told)
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
        chosen = {row.name: default_value(row) for row in PAGE_SETTINGS} | settings
        form = {parts.settings[name]: value for name, value in chosen.items()}
        form |= dict(zip(parts.videos, both, strict=True))
        return {**form, parts.prompt: prompt, parts.judge: judge}

    def compare(self, videos: Videos, prompt: str = PROMPT, **form: str) -> Future[None]:
        """Press Compare."""
        return self.begin(self.here.on.compare, self.form(videos, prompt, **form))

    def stop(self, number: int | None = None) -> OpenPage:
        """Press Stop, or send what an earlier button would."""
        buttons = self["buttons"] if number is None else {"number": number, "running": True}
        return self.act(self.here.on.stop, buttons, "")
