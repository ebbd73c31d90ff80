"""The routes of the list of runs: a visitor's own runs as JSON, and their deletion. Who asks is known by the cookie alone."""

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from vrthinker_core.ui.history.history import History
from vrthinker_core.ui.history.visitors import owner_of


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
        return self._listed(owner_of(request.cookies))

    def delete(self, request: Request) -> Response:
        """Delete one run. Another visitor's is answered like one that does not exist: nothing happens."""
        owner = owner_of(request.cookies)
        self._history.delete(owner, [str(request.path_params["name"])])
        return self._listed(owner)

    def delete_all(self, request: Request) -> Response:
        """Delete all runs of the visitor."""
        owner = owner_of(request.cookies)
        self._history.delete(owner)
        return self._listed(owner)

    def _listed(self, owner: str) -> Response:
        runs = self._history.rows(owner)
        return JSONResponse({"runs": runs, "help": self._history.help}, headers={"Cache-Control": "no-store"})
