"""The routes of the list: its rows, page by page, one row with its neighbours, its trace and its view. For page and programs."""

from dataclasses import replace

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from vrthinker_core.errors import BadInput, TraceError
from vrthinker_core.traces import to_json
from vrthinker_core.ui.runs import runs_words
from vrthinker_core.ui.runs.listed_run import ListedRun, row_json, without_labels
from vrthinker_core.ui.runs.listed_runs import ListedRuns
from vrthinker_core.ui.runs.selection import neighbours_json, page_json, read_choice
from vrthinker_core.ui.view.html_report import inline_image
from vrthinker_core.ui.view.page_json import view_json
from vrthinker_core.ui.view.run_state import fold_all
from vrthinker_core.ui.votes.disclosure import votes_first
from vrthinker_core.ui.votes.hidden_view import hide_view


class RunsRoutes:
    """Everybody who can open the page is given the same list: it is the operator's own."""

    def __init__(self, runs: ListedRuns) -> None:
        self._runs = runs

    def routes(self) -> list[Route]:
        """The paths, all of them read only."""
        return [
            Route("/evaluation", self.list_rows),
            Route("/evaluation/{name}", self.row),
            Route("/evaluation/{name}/trace.json", self.trace),
            Route("/evaluation/{name}/view.json", self.view),
        ]

    def list_rows(self, request: Request) -> Response:
        """One page of the rows that the parameters leave; what is new in the folder is read first."""
        try:
            choice = read_choice(request.query_params)
        except BadInput as bad:
            return PlainTextResponse(str(bad), 400)
        whole = self._runs.refresh()
        page, said = page_json(self._runs.runs(), choice), self._runs.said
        if votes_first(request.cookies):
            page = {**page, "runs": [without_labels(row) for row in page["runs"]]}
            said = f"{said} {runs_words.LABELS_HIDDEN}".lstrip()
        return _json({**page, "said": said, "reading": not whole})

    def row(self, request: Request) -> Response:
        """One row, and the rows beside it as the parameters leave and order them."""
        try:
            choice = read_choice(request.query_params)
        except BadInput as bad:
            return PlainTextResponse(str(bad), 400)
        if (run := self._find(request)) is None:
            return PlainTextResponse(runs_words.NO_SUCH_ROW, 404)
        found = neighbours_json(self._runs.runs(), run, choice)
        return _json(
            {**found, "run": without_labels(found["run"])}
            if votes_first(request.cookies)
            else found
        )

    def trace(self, request: Request) -> Response:
        """The trace of one row."""
        if (run := self._find(request)) is None:
            return PlainTextResponse(runs_words.NO_SUCH_ROW, 404)
        try:
            return Response(to_json(self._runs.trace(run)), media_type="application/json")
        except TraceError as error:
            return PlainTextResponse(str(error), 404)

    def view(self, request: Request) -> Response:
        """One row with its first run as the page draws it beside others, all pictures inside."""
        if (run := self._find(request)) is None:
            return PlainTextResponse(runs_words.NO_SUCH_ROW, 404)
        try:
            trace = self._runs.trace(run)
        except TraceError as error:
            return PlainTextResponse(str(error), 404)
        end = trace.swapped and replace(
            trace.swapped, turns=()
        )  # of the second run only what it says of the verdict
        trace = replace(trace, swapped=end, vote=None)
        row, view = row_json(run), view_json(fold_all(trace.events()), inline_image)
        view["order"] = None
        if votes_first(request.cookies):
            return _json(
                {"run": without_labels(row), "view": hide_view(view), "said": runs_words.RUN_HIDDEN}
            )
        return _json({"run": row, "view": view, "said": ""})

    def _find(self, request: Request) -> ListedRun | None:
        return self._runs.find(str(request.path_params["name"]))


def _json(value: object) -> Response:
    return JSONResponse(value, headers={"Cache-Control": "no-store"})
