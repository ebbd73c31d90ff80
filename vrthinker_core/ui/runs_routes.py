"""What of the list is shown: filters, a search in the prompts, an order, one page of it. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypedDict

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from vrthinker_core.errors import BadInput, TraceError
from vrthinker_core.traces import to_json
from vrthinker_core.ui import words
from vrthinker_core.ui.hidden_view import hide_view, votes_first
from vrthinker_core.ui.html_report import inline_image
from vrthinker_core.ui.listed_run import ListedRun, RowJson, Trait, row_json, without_labels
from vrthinker_core.ui.listed_runs import ListedRuns
from vrthinker_core.ui.page_json import view_json
from vrthinker_core.ui.run_state import fold_all

PAGE_ROWS = 40
MAX_SEARCH = 200  # characters
TRAITS = {name: trait.value for name, trait in zip(words.FILTERS, Trait, strict=True)}


class PageJson(TypedDict):
    """One page of the list."""

    runs: list[RowJson]
    total: int  # rows of the folder
    matching: int  # rows that the choice leaves
    page: int  # from 1
    pages: int
    unchecked: bool  # there are verdicts, and none was tested with its sides swapped
    counts: dict[str, int]  # of what the choice leaves, how many rows each filter would leave


class NeighboursJson(TypedDict):
    """A row, and where it stands in the list."""

    run: RowJson
    previous: str  # the names of the rows beside it, "" at the ends
    next: str
    place: int  # from 1
    matching: int


@dataclass(frozen=True, slots=True)
class Choice:
    """What a visitor has chosen."""

    only: int = 0  # rows that have all of these traits
    search: str = ""
    sort: str = "row"
    page: int = 1


def read_choice(query: Mapping[str, str]) -> Choice:
    """The choice in the parameters of a request: `only` (names with commas), `search`, `sort`, `page`. Raises BadInput."""
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
    return Choice(only, " ".join(query.get("search", "")[:MAX_SEARCH].split()), sort, int(page))


def select(runs: Sequence[ListedRun], choice: Choice) -> list[ListedRun]:
    """The rows that the choice leaves, in its order."""
    wanted = choice.search.casefold()
    left = [
        run
        for run in runs
        if run.traits & choice.only == choice.only and wanted in run.prompt.casefold()
    ]
    return sorted(left, key=_KEYS[choice.sort])


def page_json(runs: Sequence[ListedRun], choice: Choice) -> PageJson:
    """One page; a number beyond the last page means the last one."""
    chosen = select(runs, choice)
    pages = max(1, -(-len(chosen) // PAGE_ROWS))
    page = min(choice.page, pages)
    shown = chosen[(page - 1) * PAGE_ROWS : page * PAGE_ROWS]
    counts = {name: sum(run.traits & trait > 0 for run in chosen) for name, trait in TRAITS.items()}
    return {
        "runs": [row_json(run) for run in shown],
        "total": len(runs),
        "matching": len(chosen),
        "page": page,
        "pages": pages,
        "unchecked": any(run.judge for run in runs) and not any(run.order for run in runs),
        "counts": counts,
    }


def neighbours_json(runs: Sequence[ListedRun], run: ListedRun, choice: Choice) -> NeighboursJson:
    """The rows before and after `run` as the choice leaves them; in the whole list where the choice leaves `run` out.

    A row without a trace cannot be opened, so it is passed over.
    """
    chosen = select(runs, choice)
    if (place := _place(chosen, run)) is None:
        chosen = select(runs, Choice(sort=choice.sort))
        place = _place(chosen, run) or 0
    before = next((other.name for other in reversed(chosen[:place]) if other.trace), "")
    after = next((other.name for other in chosen[place + 1 :] if other.trace), "")
    return {
        "run": row_json(run),
        "previous": before,
        "next": after,
        "place": place + 1,
        "matching": len(chosen),
    }


def _place(runs: Sequence[ListedRun], run: ListedRun) -> int | None:
    return next((place for place, other in enumerate(runs) if other.name == run.name), None)


def _by_row(run: ListedRun) -> tuple[int, str]:
    return run.row, run.name


def _by_confidence(run: ListedRun) -> tuple[bool, float, int, str]:
    """The probability of the overall label where it is known, else the confidence that the judge said; without either, last."""
    sure = run.probability if run.probability is not None else (run.confidence or 0) / 5
    return not sure, sure, *_by_row(run)


def _by_disagreement(run: ListedRun) -> tuple[int, int, int, str]:
    overall, all_dimensions = run.distance
    return -overall, -all_dimensions, *_by_row(run)


_KEYS = {"row": _by_row, "unsure": _by_confidence, "disagreement": _by_disagreement}


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
            said = f"{said} {words.LABELS_HIDDEN}".lstrip()
        return _json({**page, "said": said, "reading": not whole})

    def row(self, request: Request) -> Response:
        """One row, and the rows beside it as the parameters leave and order them."""
        try:
            choice = read_choice(request.query_params)
        except BadInput as bad:
            return PlainTextResponse(str(bad), 400)
        if (run := self._find(request)) is None:
            return PlainTextResponse(words.NO_SUCH_ROW, 404)
        found = neighbours_json(self._runs.runs(), run, choice)
        return _json(
            {**found, "run": without_labels(found["run"])}
            if votes_first(request.cookies)
            else found
        )

    def trace(self, request: Request) -> Response:
        """The trace of one row."""
        if (run := self._find(request)) is None:
            return PlainTextResponse(words.NO_SUCH_ROW, 404)
        try:
            return Response(to_json(self._runs.trace(run)), media_type="application/json")
        except TraceError as error:
            return PlainTextResponse(str(error), 404)

    def view(self, request: Request) -> Response:
        """One row with its first run as the page draws it beside others, all pictures inside."""
        if (run := self._find(request)) is None:
            return PlainTextResponse(words.NO_SUCH_ROW, 404)
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
                {"run": without_labels(row), "view": hide_view(view), "said": words.RUN_HIDDEN}
            )
        return _json({"run": row, "view": view, "said": ""})

    def _find(self, request: Request) -> ListedRun | None:
        return self._runs.find(str(request.path_params["name"]))


def _json(value: object) -> Response:
    return JSONResponse(value, headers={"Cache-Control": "no-store"})
