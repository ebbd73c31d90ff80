"""What one server keeps, without Gradio, a browser and a judge."""

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from starlette.applications import Starlette
from starlette.responses import HTMLResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from tests.support.waiting import until
from tests.ui.support.inside import RUN, finish_at_once
from vrthinker_core.types import Settings, VideoPair
from vrthinker_core.ui.handlers import Services
from vrthinker_core.ui.history import COOKIE, KEEP_SECONDS, Examples, History, owner_of
from vrthinker_core.ui.queue import JudgeQueue
from vrthinker_core.ui.routes import LinkPreviewMiddleware, Routes
from vrthinker_core.ui.run import JobRunner
from vrthinker_core.ui.runs_tab import ListedRuns
from vrthinker_core.ui.security import VisitorCookieMiddleware
from vrthinker_core.ui.sessions import Sessions, ShownRun
from vrthinker_core.ui.uploads import Uploads

ANNAS, BERTS = "a" * 43, "b" * 43  # their cookies
ANNA, BERT = owner_of({COOKIE: ANNAS}), owner_of({COOKIE: BERTS})


class Site:
    """Another one with the same folder is that server, started again."""

    def __init__(
        self,
        folder: Path,
        run_job: JobRunner = finish_at_once,
        *,
        seconds: float = KEEP_SECONDS,
        examples: Path | None = None,
        runs: ListedRuns | None = None,
        head: str = "",
    ) -> None:
        """`head`: of the page that Gradio would serve."""
        nobody: Any = SimpleNamespace(look=lambda judge: (None, ""))
        self.folder, self._head = folder, head
        self.history = History(folder / "runs", seconds)
        queue = JudgeQueue(place=lambda _: ("local", 4))
        root = folder / f"server {time.time_ns()}"
        self.sessions = Sessions(root, run_job, queue, self.history)
        self.uploads = Uploads(folder / "copies", folder / "uploads" / "fetched")
        told = self.sessions, self.history, Examples(examples or folder / "none"), self.uploads
        self.services = Services(nobody, queue, *told, runs)
        self.routes = Routes(self.services, nobody)

    def run(self, page: str = "page", owner: str = ANNA) -> ShownRun:
        """Let a run begin, which the page then shows."""
        videos = [self.folder / "a.mp4", self.folder / "b.mp4"]
        for path in videos:
            path.write_bytes(path.name.encode())
        session, pair = self.sessions.get(page), VideoPair(RUN.started.prompt, *videos)
        return self.show(page, self.sessions.start_run(session, pair, Settings(), owner=owner))

    def check_order(self, page: str, shown: ShownRun) -> ShownRun:
        """Let the second run begin."""
        session, pair = self.sessions.get(page), VideoPair("", *shown.files)
        return self.show(page, self.sessions.check_order(session, shown, pair, Settings()))

    def show(self, page: str, shown: ShownRun) -> ShownRun:
        """Show a run on that page once its judge has begun."""
        until(lambda: shown.run.begun and shown.run.state.runs[-1].started)
        self.sessions.show(self.sessions.get(page), shown)
        return shown

    def client(self, cookie: str = "", in_frame: bool = False, **cookies: str) -> TestClient:
        """A visitor's browser."""
        home = Route("/", lambda _: HTMLResponse(f"<head>{self._head}<script></script></head>"))
        app = Starlette(routes=[home, *self.routes.routes()])
        app.add_middleware(LinkPreviewMiddleware, routes=self.routes)
        app.add_middleware(VisitorCookieMiddleware, in_frame=in_frame)
        known = {COOKIE: cookie, **cookies} if cookie else cookies
        return TestClient(app, base_url="http://judge.example", cookies=known)

    def listed(self, what: str = "outcome", cookie: str = ANNAS) -> list[Any]:
        """That of each run in a visitor's list, the latest first."""
        return [row[what] for row in self.client(cookie).get("/history").json()["runs"]]
