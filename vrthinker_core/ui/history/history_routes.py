"""The routes of the list of runs: a visitor's own runs as JSON, and their deletion. Who asks is known by the cookie alone."""

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from vrthinker_core.ui.history.history import History
from vrthinker_core.ui.history.visitors import owner_of
from vrthinker_core.ui.votes.disclosure import votes_first


class HistoryRoutes:
    """What the page's list asks for: once when it is shown, and when a run has begun or ended meanwhile."""

    def __init__(self, history: History) -> None:
        self._history = history

    def routes(self) -> list[Route]:
        """The paths that the list uses."""
        return [
            Route("/history", self.list_runs, methods=["GET"]),
            Route("/history", self.delete_all, methods=["DELETE"]),
            Route("/history/{name}", self.delete, methods=["DELETE"]),
        ]

    def list_runs(self, request: Request) -> Response:
        """The visitor's runs, the latest first, and for how long they are kept."""
        return self._listed(request)

    def delete(self, request: Request) -> Response:
        """Delete one run. Another visitor's is answered like one that does not exist: nothing happens."""
        self._history.delete(owner_of(request.cookies), [str(request.path_params["name"])])
        return self._listed(request)

    def delete_all(self, request: Request) -> Response:
        """Delete all runs of the visitor."""
        self._history.delete(owner_of(request.cookies))
        return self._listed(request)

    def _listed(self, request: Request) -> Response:
        runs = self._history.rows(owner_of(request.cookies), votes_first(request.cookies))
        return JSONResponse(
            {"runs": runs, "help": self._history.help}, headers={"Cache-Control": "no-store"}
        )
