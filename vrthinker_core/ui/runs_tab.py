"""The tab of `--runs`: the rows of a growing folder in memory, their traces on the disk."""

import hashlib
import os
import re
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path, PurePath
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from vrthinker_core.errors import BadInput, TraceError
from vrthinker_core.results.layout import EvaluationPair
from vrthinker_core.results.result import RESULTS, PairResult, read_line, result_of
from vrthinker_core.results.trace_files import json_files, read_labels
from vrthinker_core.traces import load, to_json
from vrthinker_core.types import Dimension, Preference, StopReason, Verdict
from vrthinker_core.types.events import Trace
from vrthinker_core.types.order import OrderCheck, OrderEffect
from vrthinker_core.types.wording import DEMO_RUN, NO_RELIABLE_WINNER, TELLING
from vrthinker_core.ui import words
from vrthinker_core.ui.history import check_seen, votes_first
from vrthinker_core.ui.view import RunView, hide_verdict, inline_image
from vrthinker_core.words import encodable, one_line

ROW = "row-"  # begins the name of a row in `?trace=NAME`
MAX_PROMPT = 1000  # characters that are kept, and searched
MAX_SENTENCE = 160
MAX_SOURCE = 120  # characters of the generators' names, or of the file's name

# Who votes blind is told no label, and no name
NO_LABELS = {"people": (), "data_set": (), "judge": (), "flips": (), "order": ""}
WITHOUT_LABELS = {**NO_LABELS, "confidence": None, "probability": None, "source": ""}


@dataclass(frozen=True, slots=True, eq=False)
class ListedRun:
    """A run without its trace."""

    name: str  # in the address and in requests: never a path
    row: int
    prompt: str
    told: Mapping[str, Any]  # what the page shows: see `listed_run`; no path of a file
    traits: frozenset[str]  # the names of `words.FILTERS` that it fits
    keys: Mapping[str, tuple[float, ...]]  # by `words.SORTS`, before the row's number
    trace: str = ""  # the trace's file, relative to the folder
    videos: tuple[str, ...] = ()  # as the result names them


def listed_run(result: PairResult, source: str = "", data_set: Verdict | None = None) -> ListedRun:
    """Return the row of a result with people's labels.

    `source`: the trace's own file, else the two generators. `data_set`: labels that nobody gave.
    """
    pair, verdict, flips = result.pair, result.verdict, result.flips
    said = pair.labels, data_set, verdict
    people, known, judge = ([label for _, label in each or ()] for each in said)
    label = verdict.OA if verdict else None
    shares = (result.probabilities or {}).get(Dimension.OA)
    probability = None if label is None or shares is None else shares[label]
    # For each dimension 1 if one of two labels is a tie, 2 if they are opposite
    distances = [
        0 if a is None or b is None or a == b else 1 if Preference.TIE in (a, b) else 2
        for a, b in zip(known or people, judge, strict=False)
    ] or [0]
    unsure = (result.confidence or 5) <= 2 or (probability is not None and probability < 0.6)
    traits = {
        "overall": distances[-1] > 0,
        "any": any(distances),
        "failed": not result.judged or verdict is None,
        "unsure": verdict is not None and unsure,
        "flips": bool(flips),
    }
    name, prompt = row_name(pair.id), one_line(pair.prompt, MAX_PROMPT)
    generators = " · ".join(filter(None, (pair.first_generator, pair.second_generator)))
    # The probability of the overall label, else the judge's confidence; without either, last
    sure = (result.confidence or 0) / 5 if probability is None else probability
    differ = -distances[-1], -sum(distances)
    keys = {"row": (), "unsure": (not sure, sure), "disagreement": differ}
    if probability is not None:
        is_told = probability < TELLING and Dimension.OA not in flips
        probability = round(probability, 3) if is_told else None
    told = {
        "name": name,
        "row": pair.row,
        "prompt": one_line(prompt, 240),
        "source": sys.intern(source or one_line(generators, MAX_SOURCE)),
        "people": people,
        "data_set": known,  # empty if it gives none, or people gave them
        # Empty without a verdict; None where a flip leaves no reliable winner
        "judge": [None if each in flips else label for each, label in verdict or ()],
        "flips": flips,
        "confidence": result.confidence,
        "probability": probability,  # of the overall label; None if sure, or of a flip
        "turns": result.turns,
        "ending": sys.intern(_ending(result)),
        "order": _order(result.order),  # what the order of the videos does to the labels
        "error": one_line(result.error, MAX_SENTENCE),
        "opens": bool(result.trace),
    }
    fits = frozenset(trait for trait, there in traits.items() if there)
    videos = pair.first, pair.second
    return ListedRun(name, pair.row, prompt, told, fits, keys, result.trace, videos)


def unreadable_run(key: str, row: int, reason: str, source: str = "") -> ListedRun:
    """Return the row of a line or file that could not be read."""
    pair = EvaluationPair(key, row, "", "", "")
    run = listed_run(PairResult(pair, "", error=reason), source)
    return replace(run, told={**run.told, "ending": ""})


def row_name(key: str) -> str:
    """Name a row by its pair's id, or a digest of it."""
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", key):
        key = hashlib.sha256(key.encode("utf-8", "replace")).hexdigest()[:16]
    return ROW + key


def row_json(run: ListedRun, hide: bool) -> dict[str, Any]:
    """Return the row for the page; `hide`: without any labels, for who votes first."""
    return {**run.told, **(WITHOUT_LABELS if hide else {})}


def _ending(result: PairResult) -> str:
    if result.outside_scope:
        return DEMO_RUN
    if result.stop is StopReason.FAILED:
        return "not judged" if result.fault and not result.turns else StopReason.FAILED.value
    drawn = ", frames drawn at random" if result.control else ""
    told = result.forced and result.stop is StopReason.ANSWERED
    said = f"{'answered when told to' if told else result.stop.value}{drawn}"
    return f"{said}, last recommended labels" if result.provisional else said


def _order(order: OrderCheck | None) -> str:
    if order is None:
        return ""
    tied = (OrderEffect.BECOMES_TIE, OrderEffect.FROM_TIE)
    ties = [each for each in Dimension if order[each] in tied]
    parts = [NO_RELIABLE_WINNER.rstrip(".")] if Dimension.OA in order.flips else []
    parts += [f"flips when swapped: {', '.join(order.flips)}"] if order.flips else []
    parts += [f"a tie in one order: {', '.join(ties)}"] if ties else []
    return " · ".join(parts) or "stable when swapped"


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
        with suppress(OSError):
            found = (self.folder / RESULTS).stat()
            is_same = self._file in (None, (found.st_dev, found.st_ino))
            return is_same and found.st_size >= self._offset
        return False

    def news(self) -> News:
        """Yield the rows of added whole lines. Raises OSError."""
        with (path := self.folder / RESULTS).open("rb") as file:
            found = os.fstat(file.fileno())
            self._file = found.st_dev, found.st_ino
            file.seek(self._offset)
            for line in file:
                if not line.endswith(b"\n"):
                    break  # the rest of it is still to come
                self._lines += 1
                self._offset += len(line)
                try:
                    run = listed_run(read_line(line, f"Line {self._lines} of {RESULTS}"))
                except BadInput as bad:
                    self._broken += 1
                    if self._broken > MAX_BROKEN:
                        continue
                    run = unreadable_run(f"line {self._lines}", self._lines, str(bad))
                yield run.name, run
        self.said = ""
        if not self._lines:
            self.said = "No pair has been judged yet. Refresh when the evaluation has gone on."
        elif self._broken == self._lines:
            self.said = words.NO_RESULTS.format(encodable(str(path)))
        elif self._broken:
            lines = f"{self._lines:,} lines of {RESULTS}"
            self.said = words.BROKEN_LINES.format(f"{self._broken:,}", lines)


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
        for file in self._read.keys() - found.keys():
            del self._read[file]
            yield row_name(f"trace {file}"), None
        labels_in = cache(read_labels)  # after the traces: labels are written first
        for file, state in found.items():
            if self._read.get(file) == state:
                continue
            path, source, run = self.folder / file, one_line(file, MAX_SOURCE), None
            # With a space, so that the row's name is a digest: a path is no name
            key, row = f"trace {file}", self._rows.get(file, len(self._rows) + 1)
            try:
                trace = load(path)
            except TraceError as error:
                if state[-1]:
                    run = unreadable_run(key, row, str(error), source)
            else:
                labels = trace.vote.labels if trace.vote else Verdict()
                first, second = (clip.name if clip else "" for clip in trace.started.clips)
                pair = EvaluationPair(key, row, trace.started.prompt, first, second, labels)
                known = labels_in(path.parent).get(path.name)
                run = listed_run(result_of(pair, trace, file), source, known)
            if run is not None:
                self._rows[file] = row
            self._read[file] = state
            yield row_name(key), run
        empty = self._rows.keys().isdisjoint(found)
        self.said = words.EMPTY.format(encodable(str(self.folder))) if empty else ""


@dataclass(slots=True)
class ListedRuns:
    """The folder of `--runs`; no path in a request is ever opened."""

    folder: Path
    said: str = ""  # what a person must know of the folder, in one sentence; "" for nothing
    _runs: dict[str, ListedRun] = field(default_factory=dict)
    _reader: ResultLines | TraceFiles | None = None
    _thread: threading.Thread | None = None
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

    def runs(self) -> Sequence[ListedRun]:
        """Return all rows that have been read."""
        with self._lock:
            return list(self._runs.values())

    def find(self, name: str) -> ListedRun | None:
        """Return the row of that name, None if there is none; reads on if it is unknown."""
        if name.startswith(ROW) and name not in self._runs:
            self.refresh()
        return self._runs.get(name)

    def trace(self, run: ListedRun) -> Trace:
        """Load its trace from the disk. Raises TraceError."""
        if not run.trace:
            raise TraceError(run.told["error"] or "This pair has no trace: it was never judged.")
        if ".." in PurePath(run.trace).parts or PurePath(run.trace).is_absolute():
            raise TraceError(words.LEFT_FOLDER)
        path = self.folder / run.trace
        if not path.is_file():
            raise TraceError("The trace of this row is gone.")
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
        began, reader, shown = time.monotonic(), self._reader, encodable(str(self.folder))
        try:
            if not self.folder.is_dir():
                reader = None
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
            self.said = reader.said if reader else words.NO_FOLDER.format(shown)
        except OSError as error:
            reason = error.strerror or type(error).__name__
            self.said = f"{shown} cannot be read: {reason}."
        with self._lock:
            now = time.monotonic()
            self._rest_until = now + min(10.0, 4 * (now - began))  # 4 × as long as it took
            self._thread = None


PAGE_ROWS = 40


@dataclass(frozen=True, slots=True)
class Choice:
    """The rows that a visitor has chosen."""

    only: frozenset[str] = frozenset()  # rows that have all of these traits
    search: str = ""
    sort: str = "row"
    page: int = 1
    hide: bool = False  # labels, from who votes first


def read_choice(query: Mapping[str, str], hide: bool = False) -> Choice:
    """Read `only` (names with commas), `search`, `sort` and `page`. Raises BadInput."""
    only = frozenset(filter(None, query.get("only", "").split(",")))
    sort = query.get("sort") or "row"
    for kind, given, known in (("filter", only, words.FILTERS), ("sorting", {sort}, words.SORTS)):
        if unknown := given - known.keys():
            raise BadInput(words.UNKNOWN.format(kind, repr(min(unknown)[:40]), ", ".join(known)))
    page = query.get("page") or "1"
    if not re.fullmatch("[1-9][0-9]{0,8}", page):
        raise BadInput("A page is a number from 1.")
    search = " ".join(query.get("search", "")[:200].split())
    return Choice(only, search, sort, int(page), hide)


def select(runs: Sequence[ListedRun], choice: Choice) -> list[ListedRun]:
    """Return the rows that the choice leaves, in its order."""
    wanted = choice.search.casefold()
    has_all = (run for run in runs if choice.only <= run.traits)
    chosen = (run for run in has_all if wanted in run.prompt.casefold())
    return sorted(chosen, key=lambda run: (*run.keys[choice.sort], run.row, run.name))


def page_json(runs: Sequence[ListedRun], choice: Choice) -> dict[str, Any]:
    """Return a page of the list, at most the last one.

    `counts`: how many rows each filter would leave. `unchecked`: there are verdicts, and none was
    tested with its sides swapped.
    """
    chosen = select(runs, choice)
    pages = max(1, -(-len(chosen) // PAGE_ROWS))
    page = min(choice.page, pages)
    shown = chosen[(page - 1) * PAGE_ROWS : page * PAGE_ROWS]
    judged, checked = (any(run.told[what] for run in runs) for what in ("judge", "order"))
    return {
        "runs": [row_json(run, choice.hide) for run in shown],
        "total": len(runs),
        "matching": len(chosen),
        "page": page,
        "pages": pages,
        "unchecked": judged and not checked,
        "counts": {each: sum(each in run.traits for run in chosen) for each in words.FILTERS},
    }


def neighbours_json(runs: Sequence[ListedRun], run: ListedRun, choice: Choice) -> dict[str, Any]:
    """Return a row, its place from 1, and its neighbours' names.

    Names are "" at the ends. A choice without `run` counts as the whole list. Rows without a trace
    are skipped: they cannot be opened.
    """
    chosen = select(runs, choice)
    if run not in chosen:
        chosen = select(runs, Choice(sort=choice.sort))
    place = chosen.index(run) if run in chosen else 0  # it may have been judged again just now
    before = next((other.name for other in reversed(chosen[:place]) if other.trace), "")
    after = next((other.name for other in chosen[place + 1 :] if other.trace), "")
    told = {"run": row_json(run, choice.hide), "previous": before, "next": after}
    return {**told, "place": place + 1, "matching": len(chosen)}


def runs_routes(runs: ListedRuns) -> list[Route]:
    """Return the paths of the operator's list: read only, for everybody who can open the page."""
    row = "/evaluation/{name}"
    answers = {row: _row, f"{row}/trace.json": _trace, f"{row}/view.json": _view}
    answers["/evaluation"] = _list_rows
    return [Route(path, partial(answers[path], runs)) for path in answers]


# Of an application with our routes: an error is answered with its sentence
REFUSALS: dict[Any, Any] = {
    BadInput: lambda _, error: PlainTextResponse(str(error), 400),
    TraceError: lambda _, error: PlainTextResponse(str(error), 404),
}


def _list_rows(runs: ListedRuns, request: Request) -> Response:
    """Read what is new, and return a page of the chosen rows."""
    choice = read_choice(request.query_params, votes_first(request.cookies))
    whole = runs.refresh()
    said = f"{runs.said} {words.LABELS_HIDDEN}".lstrip() if choice.hide else runs.said
    return fresh_json({**page_json(runs.runs(), choice), "said": said, "reading": not whole})


def _row(runs: ListedRuns, request: Request) -> Response:
    """Return one row, and its neighbours among the chosen rows."""
    choice = read_choice(request.query_params, votes_first(request.cookies))
    return fresh_json(neighbours_json(runs.runs(), _find(runs, request), choice))


def _trace(runs: ListedRuns, request: Request) -> Response:
    run = _find(runs, request)
    check_seen(votes_first(request.cookies), words.LABELS_HIDDEN)
    return Response(to_json(runs.trace(run)), media_type="application/json")


def _view(runs: ListedRuns, request: Request) -> Response:
    """Return one row with its first run, all pictures inside."""
    run, hide = _find(runs, request), votes_first(request.cookies)
    trace = runs.trace(run)
    end = trace.swapped and replace(trace.swapped, turns=())  # what it says of the verdict
    view = RunView(replace(trace, swapped=end, vote=None)).page(inline_image)
    view["order"] = None
    shown, said = (hide_verdict(view), words.LABELS_HIDDEN) if hide else (view, "")
    return fresh_json({"run": row_json(run, hide), "view": shown, "said": said})


def _find(runs: ListedRuns, request: Request) -> ListedRun:
    if (run := runs.find(str(request.path_params["name"]))) is None:
        raise TraceError("This row is gone. Choose another one.")
    return run


def fresh_json(value: object) -> Response:
    """Return an answer that no browser keeps."""
    return JSONResponse(value, headers={"Cache-Control": "no-store"})
