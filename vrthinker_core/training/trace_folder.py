"""Traces from files and folders, and their export."""

import csv
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from pathlib import Path

from vrthinker_core.comparison import clips_of
from vrthinker_core.drawn.notes import outside_words
from vrthinker_core.errors import BadInput, TraceError, os_errors
from vrthinker_core.results.layout import EvaluationPair
from vrthinker_core.results.result import RESULTS, read_results
from vrthinker_core.results.trace_files import json_files
from vrthinker_core.storage import atomic_path
from vrthinker_core.traces import load, make_thumbnail
from vrthinker_core.training.export import (
    CSV_COLUMNS,
    FORMAT,
    ROWS,
    Row,
    run_protocol,
    sent_prompts,
    sft_rows,
)
from vrthinker_core.training.outcome_file import OUTCOMES, read_outcomes
from vrthinker_core.training.rollouts import LabelledPair, Rollout
from vrthinker_core.training.teaching import (
    NotForTraining,
    RowFilter,
    RowKind,
    TraceFile,
    check_votes,
)
from vrthinker_core.types import Preference, Run, StopReason, Trace, Verdict
from vrthinker_core.words import count, encodable


@dataclass(frozen=True, slots=True)
class StoredRollout:
    """A rollout, and how to read it again: the frames of all would fit into no memory."""

    rollout: Rollout
    read_again: Callable[[], Rollout] = field(repr=False, compare=False)

    @classmethod
    def read(cls, read: Callable[[], Rollout]) -> "StoredRollout":
        """What `read` gives, now and whenever it is called again."""
        return cls(read(), read)


def is_of(run: Run, pair: LabelledPair) -> bool:
    """The run has the prompt of the pair and, as far as both are known, its videos.

    Raises VideoError.
    """
    # Tables are read without space around a prompt
    if encodable(run.started.prompt).strip() != encodable(pair.prompt).strip():
        return False
    both = zip(run.started.clips, clips_of(pair.source), strict=True)
    return all(own.digest == known.digest for own, known in both if own and known)


def to_trace(rollout: Rollout) -> Trace:
    """The run with the pictures that were new in each turn, as the page opens any other.

    Outside the judge's scope it has no verdict; `to_rollout` reads the labels in its replies again.
    """
    run, protocol = rollout.run, run_protocol(rollout.run)
    turns = []
    for turn, prompt in zip(run.turns, rollout.prompts, strict=True):
        new = prompt[-1].frames
        frames = tuple(make_thumbnail(each, protocol.frame_number(each.ref)) for each in new)
        turns.append(replace(turn, frames=frames))
    end = run.finished
    if end is not None and end.outside_scope:
        end = replace(end, verdict=None, provisional=False)
    return Trace(run.started, tuple(turns), end)


def to_rollout(run: Run, pair: LabelledPair, *, keep_tokens: bool) -> Rollout:
    """The rollout of a stored run, over the frames of its pair.

    `keep_tokens`: the model that is trained wrote it, so its tokens are learnt as they are; the
    text of another model is tokenised anew. Raises NotForTraining if the run is of another pair, or
    today's rendering is not what the trace says was sent.
    """
    if not is_of(run, pair):
        raise NotForTraining(
            "the data hold another pair today where its own one was: give them, and their videos, "
            "as they were"
        )
    if not keep_tokens:  # `redirected` counts them, too
        turns = (
            replace(each, completion=replace(each.completion, tokens=(), redirected=None))
            for each in run.turns
        )
        run = replace(run, turns=tuple(turns))
    end = run.finished
    if end is not None and end.outside_scope:
        provisional = end.stop is not StopReason.ANSWERED
        run = replace(run, finished=replace(end, verdict=run.last_labels, provisional=provisional))
    return Rollout(pair, run, tuple(sent_prompts(run, pair.source)))


def read_traces(
    places: Sequence[Path],
    but: Path | None = None,
    refused: Callable[[Path, TraceError], object] = lambda *_: None,
) -> Iterator[TraceFile]:
    """Every trace; a folder stands for every JSON file below it. `refused` hears why one is none.

    `but` is not read. What else evaluations and trainings keep as JSON in their folders is no trace
    and is not named.
    """
    pairs: dict[Path, EvaluationPair] = {}
    folders: set[Path] = set()
    seen = {but.absolute()} if but else set()
    for place in places:
        files = [(place, True)]  # Else taken for a trace, and reading it says what it is
        with suppress(OSError):
            files = sorted(json_files(place)) if place.is_dir() else files
        for path, named in files:
            absolute = path.absolute()
            if absolute in seen:
                continue
            seen.add(absolute)
            folder = absolute.parent.parent
            if folder not in folders:
                folders.add(folder)
                pairs |= _known_pairs(folder)
            try:
                file = TraceFile(path, load(path), pairs.get(absolute))
            except TraceError as error:
                if named:
                    refused(path, error)
            else:
                yield file


def _known_pairs(folder: Path) -> dict[Path, EvaluationPair]:
    """The pair of each trace of an evaluation or a teacher in this folder, if one is there."""
    pairs: dict[Path, EvaluationPair] = {}
    with suppress(BadInput):
        results = list(read_results(folder / RESULTS)) if (folder / RESULTS).is_file() else []
        pairs |= {folder / each.trace: each.pair for each in results if each.trace}
    with suppress(BadInput):
        outcomes = read_outcomes(folder) if (folder / OUTCOMES).is_file() else []
        for each in outcomes:
            if each.file:
                truth = Verdict(**{name: Preference(label) for name, label in each.truth.items()})
                name, videos = f"{each.pair}-{each.sample}", (each.first, each.second)
                pairs[folder / each.file] = EvaluationPair(name, each.pair + 1, "", *videos, truth)
    return pairs


# First bytes of the files that `export` writes.
BEGINNINGS = (f'{{"format": "{FORMAT} '.encode(), ",".join(CSV_COLUMNS).encode())


@dataclass(slots=True)
class ExportReport:
    """Outcome of an export."""

    out: Path
    rows: int = 0
    used: int = 0  # number of traces that gave rows
    skipped: list[str] = field(default_factory=list)  # a line per other trace: file and reason

    @property
    def line(self) -> str:
        """Summary in one sentence."""
        skipped = f"; {count(len(self.skipped), 'trace')} skipped" if self.skipped else ""
        written = (
            f", written to {encodable(str(self.out))}" if self.rows else "; nothing was written"
        )
        return f"{count(self.rows, 'row')} from {count(self.used, 'trace')}{skipped}{written}."


def export(
    traces: Path | str | Iterable[Path | str],
    to: RowKind,
    out: Path | str,
    *,
    voted_only: bool = False,
    agreed_only: bool = False,
) -> ExportReport:
    """Write training rows of stored traces into one file.

    A folder among the `traces` stands for every JSON file below it. `out` is new or an earlier
    export: a CSV for "videogen-reward", else JSON lines. `voted_only` takes runs that a person
    labelled or judged right or wrong, `agreed_only` those whose verdict a person agrees with.

    Returns the number of `rows`, and in `skipped` a line for each trace that gave none. Without a
    row nothing is written. Raises `BadInput` for an unknown kind `to`, for a missing path, and if
    `out` must not be replaced or cannot be written.
    """
    if to not in ROWS:
        raise BadInput(f"There are no rows {to!r}. Choose one of {', '.join(ROWS)}.")
    places = list(map(Path, [traces] if isinstance(traces, Path | str) else traces))
    for place in places:
        with os_errors(f"Cannot read {place}", " Give a trace, or a folder of traces."):
            place.stat()
    out, chosen = Path(out), RowFilter(voted_only, agreed_only)
    check_export_path(out)
    report = ExportReport(out)
    rows = _all_rows(places, to, chosen, report)
    first = next(rows, None)
    if first is None:
        return report
    with (
        os_errors(f"Cannot write {encodable(str(out))}"),
        atomic_path(out) as part,
        part.open("w", encoding="utf-8", newline="") as file,
    ):
        if to == "videogen-reward":  # the only CSV format; all others are JSON lines
            table = csv.DictWriter(file, CSV_COLUMNS, lineterminator="\n")
            table.writeheader()
            table.writerows(chain([first], rows))
        else:
            for row in chain([first], rows):
                file.write(json.dumps(row, ensure_ascii=False) + "\n")
    return report


def check_export_path(path: Path) -> None:
    """Raise `BadInput` unless the path is free or an earlier export. No link is followed."""
    with os_errors(f"Cannot write {encodable(str(path))}"):
        if not path.is_symlink() and not path.exists():
            return
        if not path.is_symlink() and path.is_file():
            with path.open("rb") as file:
                if file.read(max(map(len, BEGINNINGS))).startswith(BEGINNINGS):
                    return
    raise BadInput(f"{encodable(str(path))} exists and is no earlier export: name a new file.")


def _all_rows(
    places: Sequence[Path], kind: RowKind, chosen: RowFilter, report: ExportReport
) -> Iterator[Row]:
    def skip(path: Path, reason: Exception, more: str = "") -> None:
        report.skipped.append(encodable(f"{path}: {str(reason).rstrip('.')}.{more}"))

    for file in read_traces(places, report.out, skip):
        before, started = report.rows, file.trace.started
        try:
            check_votes(file, chosen)
            sft = partial(sft_rows, agreed_only=chosen.agreed_only)
            for row in (sft if kind == "sft" else ROWS[kind])(file):
                report.rows += 1
                yield row
        except NotForTraining as reason:
            outside = file.trace.finished is not None and file.trace.finished.outside_scope
            skip(file.path, reason, f" {outside_words(started)[0]}" if outside else "")
        report.used += report.rows > before
