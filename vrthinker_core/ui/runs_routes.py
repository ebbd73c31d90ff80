"""The routes of the list of runs: filter, search, sort, page."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from vrthinker_core.errors import BadInput, TraceError
from vrthinker_core.traces import to_json
from vrthinker_core.ui import words
from vrthinker_core.ui.hidden_view import hide_view, votes_first
from vrthinker_core.ui.html_report import inline_image
from vrthinker_core.ui.listed_run import ListedRun, Trait, row_json, without_labels
from vrthinker_core.ui.listed_runs import ListedRuns
from vrthinker_core.ui.page_json import view_json
from vrthinker_core.ui.run_state import fold_all

PAGE_ROWS = 40
TRAITS = {name: trait.value for name, trait in zip(words.FILTERS, Trait, strict=True)}


@dataclass(frozen=True, slots=True)
class Choice:
    """The rows that a visitor has chosen."""

    only: int = 0  # rows that have all of these traits
    search: str = ""
    sort: str = "row"
    page: int = 1


def read_choice(query: Mapping[str, str]) -> Choice:
    """Read `only` (names with commas), `search`, `sort` and `page`. Raises BadInput."""
    only = 0
    for name in filter(None, query.get("only", "").split(",")):
        if name not in TRAITS:
            raise BadInput(words.UNKNOWN_FILTER.format(repr(name[:40]), ", ".join(TRAITS)))
        only |= TRAITS[name]
    if (sort := query.get("sort") or "row") not in words.SORTS:
        raise BadInput(words.UNKNOWN_SORT.format(repr(sort[:40]), ", ".join(words.SORTS)))
    page = query.get("page") or "1"
    if not (page.isascii() and page.isdigit() and len(page) < 10 and int(page)):
        raise BadInput(words.NO_NUMBER)
    search = " ".join(query.get("search", "")[:200].split())
    return Choice(only, search, sort, int(page))


def select(runs: Sequence[ListedRun], choice: Choice) -> list[ListedRun]:
    """Return the rows that the choice leaves, in its order."""
    wanted = choice.search.casefold()

    def key(run: ListedRun) -> tuple[Any, ...]:
        place = run.row, run.name
        if choice.sort == "disagreement":
            return *(-distance for distance in run.distance), *place
        if choice.sort == "unsure":
            # Probability of the overall label, else the judge's confidence; without either, last
            sure = (run.confidence or 0) / 5 if run.probability is None else run.probability
            return not sure, sure, *place
        return place

    has_all = (run for run in runs if run.traits & choice.only == choice.only)
    return sorted((run for run in has_all if wanted in run.prompt.casefold()), key=key)


def page_json(runs: Sequence[ListedRun], choice: Choice) -> dict[str, Any]:
    """Return a page of the list, at most the last one.

    `counts`: how many rows each filter would leave. `unchecked`: there are verdicts, and none was
    tested with its sides swapped.
    """
    chosen = select(runs, choice)
    pages = max(1, -(-len(chosen) // PAGE_ROWS))
    page = min(choice.page, pages)
    shown = chosen[(page - 1) * PAGE_ROWS : page * PAGE_ROWS]
    return {
        "runs": [row_json(run) for run in shown],
        "total": len(runs),
        "matching": len(chosen),
        "page": page,
        "pages": pages,
        "unchecked": any(run.judge for run in runs) and not any(run.order for run in runs),
        "counts": {each: sum(run.traits & TRAITS[each] > 0 for run in chosen) for each in TRAITS},
    }


def neighbours_json(runs: Sequence[ListedRun], run: ListedRun, choice: Choice) -> dict[str, Any]:
    """Return a row, its place from 1, and its neighbours' names.

    Names are "" at the ends. A choice without `run` counts as the whole list. Rows without a trace
    are skipped: they cannot be opened.
    """
    chosen = select(runs, choice)
    if run.name not in (names := [other.name for other in chosen]):
        chosen = select(runs, Choice(sort=choice.sort))
        names = [other.name for other in chosen]
    place = names.index(run.name) if run.name in names else 0
    before = next((other.name for other in reversed(chosen[:place]) if other.trace), "")
    after = next((other.name for other in chosen[place + 1 :] if other.trace), "")
    told = {"run": row_json(run), "previous": before, "next": after}
    return {**told, "place": place + 1, "matching": len(chosen)}


class RunsRoutes:
    """Serves the operator's list to everybody who can open the page."""

    def __init__(self, runs: ListedRuns) -> None:
        self._runs = runs

    def routes(self) -> list[Route]:
        """Return the paths, all of them read only."""
        answers = {"": self.row, "/trace.json": self.trace, "/view.json": self.view}
        return [
            Route("/evaluation", partial(_answer, self.list_rows)),
            *(Route("/evaluation/{name}" + end, partial(_answer, answers[end])) for end in answers),
        ]

    def list_rows(self, request: Request) -> Response:
        """Read what is new, and return a page of the chosen rows."""
        choice = read_choice(request.query_params)
        whole = self._runs.refresh()
        page, said = page_json(self._runs.runs(), choice), self._runs.said
        if votes_first(request.cookies):
            page["runs"] = [without_labels(row) for row in page["runs"]]
            said = f"{said} {words.LABELS_HIDDEN}".lstrip()
        return _json({**page, "said": said, "reading": not whole})

    def row(self, request: Request) -> Response:
        """Return one row, and its neighbours among the chosen rows."""
        choice = read_choice(request.query_params)
        found = neighbours_json(self._runs.runs(), self._find(request), choice)
        if votes_first(request.cookies):
            found["run"] = without_labels(found["run"])
        return _json(found)

    def trace(self, request: Request) -> Response:
        """Return the trace of one row."""
        trace = self._runs.trace(self._find(request))
        return Response(to_json(trace), media_type="application/json")

    def view(self, request: Request) -> Response:
        """Return one row with its first run, all pictures inside."""
        run = self._find(request)
        trace = self._runs.trace(run)
        # Of the second run only what it says of the verdict
        end = trace.swapped and replace(trace.swapped, turns=())
        trace = replace(trace, swapped=end, vote=None)
        row, view, said = row_json(run), view_json(fold_all(trace.events()), inline_image), ""
        view["order"] = None
        if votes_first(request.cookies):
            row, view, said = without_labels(row), hide_view(view), words.RUN_HIDDEN
        return _json({"run": row, "view": view, "said": said})

    def _find(self, request: Request) -> ListedRun:
        if (run := self._runs.find(str(request.path_params["name"]))) is None:
            raise TraceError(words.NO_SUCH_ROW)
        return run


def _answer(answer: Callable[[Request], Response], request: Request) -> Response:
    try:
        return answer(request)
    except (BadInput, TraceError) as error:
        return PlainTextResponse(str(error), 400 if isinstance(error, BadInput) else 404)


def _json(value: object) -> Response:
    return JSONResponse(value, headers={"Cache-Control": "no-store"})
