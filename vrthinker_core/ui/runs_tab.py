"""The tab of `--runs`: the rows of a growing folder in memory, their traces on the disk."""

import functools
import hashlib
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import IntFlag
from functools import partial
from pathlib import Path, PurePath
from typing import Any, BinaryIO

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from vrthinker_core.errors import BadInput, TraceError
from vrthinker_core.results.layout import EvaluationPair
from vrthinker_core.results.result import RESULTS, PairResult, read_line, result_of
from vrthinker_core.results.trace_files import json_files, read_labels
from vrthinker_core.text import encodable
from vrthinker_core.traces import load, to_json
from vrthinker_core.types import Dimension, Preference, StopReason, Verdict
from vrthinker_core.types.events import Trace
from vrthinker_core.types.order import OrderCheck, OrderEffect
from vrthinker_core.types.wording import DEMO_RUN, TELLING
from vrthinker_core.ui import words
from vrthinker_core.ui.history import votes_first
from vrthinker_core.ui.view import RunView, hide_verdict, inline_image

ROW = "row-"  # begins the name of a row in `?trace=NAME`
MAX_PROMPT = 1000  # characters that are kept, and searched
MAX_SENTENCE = 160
MAX_SOURCE = 120  # characters of the generators' names, or of the file's name

RowLabels = tuple[Preference | None, ...]  # in the order of `Dimension`


class Trait(IntFlag):
    """Filters of the list; rows hold their sum as a plain number."""

    OVERALL = 1
    ANY = 2
    FAILED = 4
    UNSURE = 8
    FLIPS = 16


@dataclass(frozen=True, slots=True)
class ListedRun:
    """A run without its trace."""

    name: str  # in the address and in requests: never a path
    row: int
    prompt: str
    source: str = ""  # the two generators, or the trace's own file
    people: RowLabels = ()
    data_set: RowLabels = ()  # empty if it gives none, or people gave them
    judge: RowLabels = ()  # empty without a verdict; None where a flip leaves no reliable winner
    flips: tuple[Dimension, ...] = ()
    confidence: int | None = None
    probability: float | None = None  # of the overall label
    turns: int = 0
    ending: str = ""
    order: str = ""  # what the order of the videos does to the labels
    error: str = ""
    traits: int = 0
    # Between labels of judge and data set (or people): overall, and of all dimensions
    distance: tuple[int, int] = (0, 0)
    trace: str = ""  # the trace's file, relative to the folder
    videos: tuple[str, ...] = ()  # as the result names them


# The fields that the page is told: no path of a file
LABELS = ("people", "data_set", "judge", "flips")
TOLD = (
    *("name", "row", "prompt", "source", *LABELS, "confidence", "probability"),
    *("turns", "ending", "order", "error"),
)


def listed_run(result: PairResult, source: str = "", data_set: Verdict | None = None) -> ListedRun:
    """Return the row of a result with people's labels; `data_set`: labels that nobody gave."""
    pair, verdict, flips = result.pair, result.verdict, result.flips
    people, judge, known = _labels(pair.labels), _labels(verdict), _labels(data_set)
    reliable = tuple(
        None if each in flips else label for each, label in zip(Dimension, judge, strict=False)
    )
    label = verdict.OA if verdict else None
    told = (result.probabilities or {}).get(Dimension.OA)
    probability = None if label is None or told is None else told[label]
    if probability is not None and not 0 <= probability <= 1:
        probability = None
    # For each dimension 1 if one of two labels is a tie, 2 if they are opposite
    distances = [
        0 if a is None or b is None or a == b else 1 if Preference.TIE in (a, b) else 2
        for a, b in zip(known or people, judge, strict=False)
    ] or [0]
    generators = " · ".join(filter(None, (pair.first_generator, pair.second_generator)))
    unsure = (result.confidence or 5) <= 2 or (probability is not None and probability < 0.6)
    traits = {
        Trait.OVERALL: distances[-1] > 0,
        Trait.ANY: any(distances),
        Trait.FAILED: not result.judged or verdict is None,
        Trait.UNSURE: verdict is not None and unsure,
        Trait.FLIPS: bool(flips),
    }
    return ListedRun(
        row_name(pair.id),
        pair.row,
        one_line(pair.prompt, MAX_PROMPT),
        sys.intern(source or one_line(generators, MAX_SOURCE)),
        people,
        known,
        reliable,
        flips,
        result.confidence,
        probability,
        result.turns,
        sys.intern(_ending(result)),
        _order(result.order),
        one_line(result.error, MAX_SENTENCE),
        sum(trait.value for trait, there in traits.items() if there),
        (distances[-1], sum(distances)),
        result.trace,
        (pair.first, pair.second),
    )


def unreadable_run(key: str, row: int, reason: str, source: str = "") -> ListedRun:
    """Return the row of a line or file that could not be read."""
    error = one_line(reason, MAX_SENTENCE)
    return ListedRun(row_name(key), row, "", source, error=error, traits=Trait.FAILED.value)


def row_name(key: str) -> str:
    """Name a row by its pair's id, or a digest of it."""
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", key):
        key = hashlib.sha256(key.encode("utf-8", "replace")).hexdigest()[:16]
    return ROW + key


def row_json(run: ListedRun) -> dict[str, Any]:
    """Return the row for the page, without probabilities that are sure or of a flip."""
    probability = run.probability
    if probability is not None:
        untold = probability >= TELLING or Dimension.OA in run.flips
        probability = None if untold else round(probability, 3)
    return {
        **{name: getattr(run, name) for name in TOLD},
        **{name: list(getattr(run, name)) for name in LABELS},
        "prompt": one_line(run.prompt, 240),
        "probability": probability,
        "opens": bool(run.trace),
    }


def without_labels(row: dict[str, Any]) -> dict[str, Any]:
    """Return the row without any labels, for who votes first."""
    hidden = {"confidence": None, "probability": None, "order": ""}
    return {**row, **{name: [] for name in LABELS}, **hidden}


def one_line(text: str, most: int) -> str:
    """Return the text in one line of at most `most` characters, all printable."""
    line = encodable(text[: 2 * most])
    if not line.isprintable():
        line = "".join(each if each.isprintable() else " " for each in line)
    line = " ".join(line.split())
    return line if len(line) <= most and len(text) <= 2 * most else f"{line[: most - 1].rstrip()}…"


def _labels(verdict: Verdict | None) -> RowLabels:
    return tuple(label for _, label in verdict) if verdict else ()


def _ending(result: PairResult) -> str:
    if result.outside_scope:
        return DEMO_RUN
    if result.stop is StopReason.FAILED:
        return "not judged" if result.fault and not result.turns else StopReason.FAILED.value
    told = result.forced and result.stop is StopReason.ANSWERED
    said = "answered when told to" if told else result.stop.value
    return f"{said}, last recommended labels" if result.provisional else said


def _order(order: OrderCheck | None) -> str:
    if order is None:
        return ""
    tied = (OrderEffect.BECOMES_TIE, OrderEffect.FROM_TIE)
    ties = [each for each in Dimension if order[each] in tied]
    parts = [f"flips when swapped: {', '.join(order.flips)}"] if order.flips else []
    parts += [f"a tie in one order: {', '.join(ties)}"] if ties else []
    return " · ".join(parts) or "stable when swapped"


MAX_LINE_BYTES = 2**20
MAX_BROKEN = 200  # broken lines shown as rows; with more, the file is something else

# When a file was written (ns), its size, and whether it is a row even if it is no trace
FileState = tuple[int, int, bool]
News = Iterator[tuple[str, ListedRun | None]]  # names of rows, and the rows; None if gone


@dataclass(slots=True)
class ResultLines:
    """Reads `results.jsonl`, whose lines are only ever added."""

    folder: Path
    said: str = ""  # what a person must know of all that was read, "" for nothing
    _file: tuple[int, int] | None = None  # device and number of the file that was read
    _offset: int = 0  # bytes of the whole lines that were read
    _lines: int = 0
    _broken: int = 0

    def fits(self) -> bool:
        """Whether the file is the same, and not shorter; otherwise all is read anew."""
        try:
            found = (self.folder / RESULTS).stat()
        except OSError:
            return self._file is None
        return self._file in (None, (found.st_dev, found.st_ino)) and found.st_size >= self._offset

    def news(self) -> News:
        """Yield the rows of added whole lines. Raises OSError."""
        path = self.folder / RESULTS
        with path.open("rb") as file:
            found = path.stat()
            self._file = found.st_dev, found.st_ino
            file.seek(self._offset)
            while (line := _whole_line(file)) is not None:
                self._lines += 1
                self._offset = file.tell()
                where = f"Line {self._lines} of {RESULTS}"
                try:
                    if not line:
                        raise BadInput(f"{where} is longer than any result.")
                    run = listed_run(read_line(line, where))
                except BadInput as bad:
                    self._broken += 1
                    if self._broken > MAX_BROKEN:
                        continue
                    run = unreadable_run(f"line {self._lines}", self._lines, str(bad))
                yield run.name, run
        if not self._lines:
            self.said = words.NO_RESULT_YET
        elif self._broken == self._lines:
            self.said = words.NO_RESULTS.format(encodable(str(path)))
        else:
            lines = f"{self._lines:,} lines of {RESULTS}"
            broken = words.BROKEN_LINES.format(f"{self._broken:,}", lines)
            self.said = broken if self._broken else ""


def _whole_line(file: BinaryIO) -> bytes | None:
    """Read a line; b"" if too long, None if not whole yet."""
    line = file.readline(MAX_LINE_BYTES)
    if line.endswith(b"\n"):
        return line
    while part := file.readline(MAX_LINE_BYTES):
        if part.endswith(b"\n"):
            return b""
    return None


@dataclass(slots=True)
class TraceFiles:
    """Reads every JSON file below a folder as a trace.

    Its vote has people's labels; labels of the data set stand beside the file. Other JSON files of
    evaluations and training runs are no rows.
    """

    folder: Path
    said: str = ""  # what a person must know of all that was read, "" for nothing
    # Files that were read, by their path below the folder
    _read: dict[str, FileState] = field(default_factory=dict)
    _rows: dict[str, int] = field(default_factory=dict)  # numbers; none is given twice

    def fits(self) -> bool:
        """Whether the folder still has no results; otherwise all is read anew."""
        return not (self.folder / RESULTS).exists()

    def news(self) -> News:
        """Yield the rows of new, changed and deleted files."""
        found: dict[str, FileState] = {}
        for path, named in sorted(json_files(self.folder)):
            with suppress(OSError):  # it has just gone
                status, file = path.stat(), path.relative_to(self.folder).as_posix()
                found[file] = status.st_mtime_ns, status.st_size, named
        for file in [file for file in self._read if file not in found]:
            del self._read[file]
            yield row_name(_key(file)), None
        labels_in = functools.cache(read_labels)  # after the traces: labels are written first
        for file, state in found.items():
            if self._read.get(file) != state:
                run = self._run(file, state[-1], labels_in)
                self._read[file] = state
                yield row_name(_key(file)), run
        empty = self._rows.keys().isdisjoint(found)
        self.said = words.EMPTY.format(encodable(str(self.folder))) if empty else ""

    def _run(
        self, file: str, named: bool, labels_in: Callable[[Path], Mapping[str, Verdict]]
    ) -> ListedRun | None:
        path, source, key = self.folder / file, one_line(file, MAX_SOURCE), _key(file)
        try:
            trace = load(path)
        except TraceError as error:
            return unreadable_run(key, self._row(file), str(error), source) if named else None
        labels = trace.vote.labels if trace.vote else Verdict()
        first, second = (clip.name if clip else "" for clip in trace.started.clips)
        pair = EvaluationPair(key, self._row(file), trace.started.prompt, first, second, labels)
        known = labels_in(path.parent).get(path.name)
        return listed_run(result_of(pair, trace, file), source, known)

    def _row(self, file: str) -> int:
        return self._rows.setdefault(file, len(self._rows) + 1)


def _key(file: str) -> str:
    return f"trace {file}"  # with a space, so that the row's name is a digest: a path is no name


@dataclass(slots=True)
class ListedRuns:
    """The folder of `--runs`; no path in a request is ever opened."""

    folder: Path
    _runs: dict[str, ListedRun] = field(default_factory=dict)
    _reader: ResultLines | TraceFiles | None = None
    _thread: threading.Thread | None = None
    _said: str = ""  # why the folder cannot be read
    _rest_until: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def refresh(self, patience: float = 0.5) -> bool:
        """Read in a thread; return whether it ended within `patience` seconds."""
        with self._lock:
            if self._thread is None and time.monotonic() >= self._rest_until:
                self._thread = threading.Thread(target=self._read, name="read runs", daemon=True)
                self._thread.start()
            thread = self._thread
        if thread is not None:
            thread.join(patience)
        return thread is None or not thread.is_alive()

    @property
    def said(self) -> str:
        """What a person must know of the folder, in one sentence; "" for nothing."""
        return self._said or (self._reader.said if self._reader else "")

    def runs(self) -> Sequence[ListedRun]:
        """Return all rows that have been read."""
        with self._lock:
            return list(self._runs.values())

    def find(self, name: str) -> ListedRun | None:
        """Return the row of that name; None if there is none."""
        with self._lock:
            return self._runs.get(name)

    def find_now(self, name: str) -> ListedRun | None:
        """Like find(), but reads what is new if the row is unknown."""
        if name.startswith(ROW) and self.find(name) is None:
            self.refresh()
        return self.find(name)

    def trace(self, run: ListedRun) -> Trace:
        """Load its trace from the disk. Raises TraceError."""
        if not run.trace:
            raise TraceError(run.error or words.NO_TRACE)
        if ".." in PurePath(run.trace).parts or PurePath(run.trace).is_absolute():
            raise TraceError(words.LEFT_FOLDER)
        path = self.folder / run.trace
        if not path.is_file():
            raise TraceError(words.TRACE_GONE)
        return load(path)

    def videos(self, run: ListedRun) -> list[Path]:
        """Return files that may be its videos; their digests decide.

        A result's path may be relative to where `evaluate` was started, which then is this folder,
        one above it, or where the page was started. A trace holds no path: the name of a clip means
        a file beside the trace, or above it in this folder.
        """
        named = [path for path in run.videos if path]
        places = [Path(), self.folder, *self.folder.parents]
        if not isinstance(self._reader, ResultLines):
            named = [Path(path).name for path in named]
            above = (self.folder / run.trace).parents
            places = [place for place in above if place.is_relative_to(self.folder)]
        paths = dict.fromkeys(place / path for path in named for place in places)
        return [path for path in paths if path.is_file()]

    def _read(self) -> None:
        """Read in the thread, row by row."""
        began, said, reader = time.monotonic(), "", self._reader
        try:
            if not self.folder.is_dir():
                reader, said = None, words.NO_FOLDER.format(encodable(str(self.folder)))
            elif reader is None or not reader.fits():
                evaluated = (self.folder / RESULTS).exists()
                reader = ResultLines(self.folder) if evaluated else TraceFiles(self.folder)
            if reader is not self._reader:
                with self._lock:
                    self._runs.clear()
                    self._reader = reader
            for name, run in reader.news() if reader else ():
                with self._lock:
                    self._runs.pop(name, None)
                    if run is not None:
                        self._runs[name] = run
        except OSError as error:
            reason = error.strerror or type(error).__name__
            said = words.UNREADABLE.format(encodable(str(self.folder)), reason)
        except BadInput as bad:
            said = str(bad)
        self._said = said
        with self._lock:
            now = time.monotonic()
            self._rest_until = now + min(10.0, 4 * (now - began))  # 4 × as long as it took
            self._thread = None


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
        answers = {
            "": self.list_rows,
            "/{name}": self.row,
            "/{name}/trace.json": self.trace,
            "/{name}/view.json": self.view,
        }
        return [Route(f"/evaluation{end}", partial(_answer, answers[end])) for end in answers]

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
        end = trace.swapped and replace(trace.swapped, turns=())  # what it says of the verdict
        trace = replace(trace, swapped=end, vote=None)
        row, view, said = row_json(run), RunView.of(trace).page(inline_image), ""
        view["order"] = None
        if votes_first(request.cookies):
            row, view, said = without_labels(row), hide_verdict(view), words.RUN_HIDDEN
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
