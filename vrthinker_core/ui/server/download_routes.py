"""What of a run can be taken home: its trace, its report, and a link. Nothing is made before somebody asks for it."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from vrthinker_core.traces import to_json
from vrthinker_core.types.events import Trace
from vrthinker_core.ui.sessions.replay import trace_of
from vrthinker_core.ui.sessions.sessions import Sessions
from vrthinker_core.ui.sessions.shared_traces import SharedTraces
from vrthinker_core.ui.view import words
from vrthinker_core.ui.view.html_report import render_report

RUNS_URL = "runs"


class DownloadRoutes:
    """Answers for runs by their names, which only their visitor knows."""

    def __init__(self, visits: Sessions, shelf: SharedTraces) -> None:
        self._visits = visits
        self._shelf = shelf

    def routes(self) -> list[Route]:
        """Where the page finds them."""
        return [
            Route(f"/{RUNS_URL}/{{name}}/trace.json", self.trace),
            Route(f"/{RUNS_URL}/{{name}}/report.html", self.report),
            Route(f"/{RUNS_URL}/{{name}}/link", self.link, methods=["POST"]),
        ]

    def trace(self, request: Request) -> Response:
        """The trace as JSON."""
        found = self._find(request)
        return _not_found() if found is None else _file(to_json(found), "trace.json", "application/json")

    def report(self, request: Request) -> Response:
        """The report as one HTML file."""
        found = self._find(request)
        return _not_found() if found is None else _file(render_report(found).encode(), "report.html", "text/html")

    def link(self, request: Request) -> Response:
        """Keep the trace, and tell its name."""
        found = self._find(request)
        if found is None:
            return _not_found()
        name = str(request.path_params["name"])
        visit = self._visits.find_run(name)
        try:
            return JSONResponse({"trace": (visit.link if visit else "") or self._shelf.add(name, found)})
        except OSError:
            return PlainTextResponse(words.NO_ROOM, 507)

    def _find(self, request: Request) -> Trace | None:
        visit = self._visits.find_run(str(request.path_params["name"]))
        return trace_of(visit.run.state) if visit is not None and visit.run.over else None


def _not_found() -> Response:
    return PlainTextResponse(words.NO_RUN, 404)


def _file(data: bytes, name: str, kind: str) -> Response:
    return Response(data, media_type=kind, headers={"Content-Disposition": f'attachment; filename="vr-thinker-{name}"'})
