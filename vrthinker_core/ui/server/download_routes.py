"""The download routes of a run: its frames; once it is over, its trace, its report and a link. Each is made only when requested."""

import asyncio

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from vrthinker_core.traces import to_json
from vrthinker_core.types.events import Trace
from vrthinker_core.ui.history.shared_traces import SharedTraces
from vrthinker_core.ui.history.visitors import owner_of
from vrthinker_core.ui.sessions.exact_frames import ExactFrames, turns_of
from vrthinker_core.ui.sessions.replay import trace_of
from vrthinker_core.ui.sessions.session import Session
from vrthinker_core.ui.sessions.sessions import Sessions
from vrthinker_core.ui.view import words
from vrthinker_core.ui.view.html_report import render_report


class DownloadRoutes:
    """Finds runs by their random names, which only their visitors know."""

    def __init__(self, sessions: Sessions, shared: SharedTraces, exact: ExactFrames) -> None:
        self._sessions = sessions
        self._shared = shared
        self._exact = exact

    def routes(self) -> list[Route]:
        """The paths that the page's links use."""
        return [
            Route("/runs/{name}/trace.json", self.trace),
            Route("/runs/{name}/report.html", self.report),
            Route("/runs/{name}/link", self.link, methods=["POST"]),
            Route("/runs/{name}/turns/{turn}/frames", self.frames),
        ]

    def trace(self, request: Request) -> Response:
        """The trace as JSON."""
        found = self._find(request)
        return (
            _not_found()
            if found is None
            else _file(to_json(found[1]), "trace.json", "application/json")
        )

    def report(self, request: Request) -> Response:
        """The report as one HTML file."""
        found = self._find(request)
        return (
            _not_found()
            if found is None
            else _file(render_report(found[1]).encode(), "report.html", "text/html")
        )

    def link(self, request: Request) -> Response:
        """Keep the trace for `?trace=`, and give the name it is kept under."""
        found = self._find(request)
        if found is None:
            return _not_found()
        session, trace = found
        run, owner = session.kept or session.name, owner_of(request.cookies)
        try:
            return JSONResponse(
                {"trace": session.link or self._shared.add(run, trace, owner, session.files)}
            )
        except OSError:
            return PlainTextResponse(words.NO_ROOM, 507)

    async def frames(self, request: Request) -> Response:
        """Where the frames of a turn are found as the judge saw them, while it runs, too; `order=swapped`: of the second run."""
        session = self._sessions.find_run(str(request.path_params["name"]))
        swapped = request.query_params.get("order") == "swapped"
        numbers = {str(turn.number) for turn in turns_of(session, swapped)} if session else set()
        if session is None or (turn := str(request.path_params["turn"])) not in numbers:
            return _not_found()
        found = self._exact.request(session, int(turn), swapped)
        if found is None:
            return PlainTextResponse(words.MANY_LOOK_CLOSER, 503)
        return JSONResponse(await asyncio.shield(asyncio.wrap_future(found)))

    def _find(self, request: Request) -> tuple[Session, Trace] | None:
        """A run that is over, and its trace."""
        session = self._sessions.find_run(str(request.path_params["name"]))
        trace = trace_of(session.run.state) if session is not None and session.run.over else None
        return None if session is None or trace is None else (session, trace)


def _not_found() -> Response:
    return PlainTextResponse(words.NO_RUN, 404)


def _file(data: bytes, name: str, kind: str) -> Response:
    return Response(
        data,
        media_type=kind,
        headers={"Content-Disposition": f'attachment; filename="vr-thinker-{name}"'},
    )
