"""What an evaluation keeps: the result of each pair, and in `run.json` its identity."""

import hashlib
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from vrthinker_core.__about__ import __version__
from vrthinker_core.backends.judge_name import parse_judge
from vrthinker_core.drawn.notes import outside_words
from vrthinker_core.errors import (
    LASTING_FAULTS,
    BadInput,
    data_errors,
    describe,
    os_errors,
    type_adapter,
)
from vrthinker_core.protocols.parser import verdict_probabilities
from vrthinker_core.results.layout import EvaluationPair
from vrthinker_core.storage import LineFile, atomic_path, write_atomically
from vrthinker_core.types import Dimension, Settings, Side, StopReason, Trace, Verdict
from vrthinker_core.types.events import Finished
from vrthinker_core.types.messages import LabelProbabilities
from vrthinker_core.types.order import OrderCheck, order_of

ROW_FAULT = "BrokenRow"  # fault of a pair that was never judged
LEFT_OUT = "LeftOut"  # in place of a fault, if people could not decide
OUTSIDE_FAULT = "OutsideScope"  # fault of a pair that its judge can never judge

# How a ranking treats a pair with one unreadable video.
MissingRule = Literal["loses", "leave-out"]


@dataclass(frozen=True, slots=True)
class PairResult:
    """One line of `results.jsonl`. 1 is the data set's first video, in both orders."""

    pair: EvaluationPair
    judge: str
    stop: StopReason = StopReason.FAILED
    verdict: Verdict | None = None
    provisional: bool = False  # without a final answer, the verdict is the last recommended one
    forced: bool = False
    outside_scope: bool = False  # the judge cannot judge such a pair, which counts as failed
    # CF of the reply with the verdict, 1 (low) to 5 in any wording; None if not given
    confidence: int | None = None
    # Of tie, 1 and 2 for each label of the verdict, if the judge tells them; their sum is at most 1
    probabilities: dict[Dimension, LabelProbabilities] | None = None
    swapped: Verdict | None = None  # of the swapped order, mapped back; None without labels
    turns: int = 0
    frames: int = 0  # shown to the judge, from both videos, in all turns
    prompt_tokens: int = 0  # of all turns, each as sent
    new_tokens: int = 0
    seconds: float = 0.0
    clip_seconds: tuple[float, float] | None = None  # lengths of both videos
    error: str = ""  # cause and what to do
    fault: str = ""  # name of the error, ROW_FAULT for a broken row; "" without an error
    trace: str = ""  # file of the whole run, relative to the folder of the results
    unreadable: tuple[Side, ...] = ()  # missing or undecodable videos, if they caused the failure
    control: bool = False  # the frames after a call were drawn at random: no ordinary result
    left_view: bool | None = None  # frames had left the judge's view; None in earlier versions
    format: Literal["vr-thinker-result/1"] = "vr-thinker-result/1"

    @property
    def judged(self) -> bool:
        """Whether the run ended by itself; else the judge is not assessed."""
        return not self.fault and self.stop not in (StopReason.FAILED, StopReason.CANCELLED)

    @property
    def has_verdict(self) -> bool:
        """Whether the judge gave at least one label."""
        return self.judged and self.verdict is not None and bool(self.verdict.labels)

    @property
    def unreadable_generator(self) -> str:
        """Generator of the unreadable video; "" unless exactly one is unreadable."""
        if len(self.unreadable) != 1:
            return ""
        first = self.unreadable[0] is Side.FIRST
        return self.pair.first_generator if first else self.pair.second_generator

    @property
    def left_out(self) -> bool:
        """Whether the sound row is not judged; this is no failure."""
        return self.fault == LEFT_OUT

    @property
    def is_transient(self) -> bool:
        """Whether the failure may be transient: a server stopped, a process died."""
        lasting = ("", ROW_FAULT, LEFT_OUT, OUTSIDE_FAULT, *LASTING_FAULTS)
        return self.stop is StopReason.CANCELLED or self.fault not in lasting

    @property
    def order(self) -> OrderCheck | None:
        """Comparison of both orders; None unless both have a verdict."""
        if self.verdict is None or self.swapped is None:
            return None
        return OrderCheck(self.verdict, self.swapped)

    @property
    def flips(self) -> tuple[Dimension, ...]:
        """Dimensions without a reliable winner: swapping the sides changed it."""
        return self.order.flips if self.order else ()


def broken_row(pair: EvaluationPair, judge: str) -> PairResult:
    """Return the result of a broken or left-out row."""
    paths = zip(Side, (pair.first, pair.second), strict=True)
    gone = tuple(side for side, path in paths if not path)
    fault = ROW_FAULT if pair.fault else LEFT_OUT
    return PairResult(pair, judge, error=pair.fault or pair.left_out, fault=fault, unreadable=gone)


def failed_result(pair: EvaluationPair, judge: str, error: Exception) -> PairResult:
    """Return the result of a pair that failed before its run began."""
    return PairResult(pair, judge, error=describe(error), fault=type(error).__name__)


def result_of(pair: EvaluationPair, trace: Trace, file: str = "") -> PairResult:
    """Return the result of an ended run with its trace in `file`."""
    end = trace.finished or Finished(StopReason.CANCELLED)
    check = order_of(trace.runs)
    first, second = trace.started.clips
    replies = [turn.reply for turn in trace.turns if turn.reply.verdict == end.verdict]
    done = [turn.completion for turn in trace.turns]
    return PairResult(
        pair,
        trace.started.judge,
        end.stop,
        end.verdict,
        end.provisional,
        end.forced,
        end.outside_scope,
        confidence=replies[-1].confidence if end.verdict and replies else None,
        probabilities=verdict_probabilities(trace.turns, end.verdict) or None,
        swapped=check.second if check else None,
        turns=len(trace.turns),
        frames=sum(len(turn.frames) for turn in trace.turns),
        prompt_tokens=sum(each.prompt_tokens or 0 for each in done),
        new_tokens=sum(each.new_tokens or 0 for each in done),
        seconds=end.seconds,
        clip_seconds=(first.seconds, second.seconds) if first and second else None,
        error=" ".join(outside_words(trace.started)) if end.outside_scope else end.error,
        fault=OUTSIDE_FAULT if end.outside_scope else end.fault,
        trace=file,
        unreadable=end.unreadable,
        control=trace.started.settings.frames == "random",
        left_view=any(trace.left_view),
    )


RESULTS = "results.jsonl"  # in the folder of an evaluation
TRACES = "traces"  # folder beside it
SYNC_SECONDS = 0.5  # between two flushes to the disk, while results come


def to_line(result: PairResult) -> bytes:
    """Return one line of JSON with its newline."""
    return type_adapter(PairResult).dump_json(result) + b"\n"


def read_results(path: Path) -> Iterator[PairResult]:
    """Yield the results of a file, without an incomplete last line. Raises `BadInput`."""
    with os_errors(f"Cannot read {path}"), path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if line.endswith(b"\n"):
                yield read_line(line, f"Line {number} of {path.name}")


def latest_results(path: Path) -> dict[str, PairResult]:
    """Return results by the pair's id; the last line per pair wins. Empty without a file."""
    return {result.pair.id: result for result in read_results(path)} if path.exists() else {}


def final_results(path: Path) -> list[PairResult]:
    """Return the latest results in row order."""
    found = latest_results(path).values()
    return sorted(found, key=lambda result: (result.pair.row, result.pair.id))


def read_line(line: bytes, where: str) -> PairResult:
    """Parse a line; raises `BadInput`, its sentence beginning with `where`."""
    with data_errors(f"{where} is no result of an evaluation"):
        return type_adapter(PairResult).validate_json(line)


class ResultFile(LineFile):
    """Appender of results, which first cuts off an incomplete last line.

    Each line goes to the operating system at once, so it survives a kill of this process. Twice a
    second the file is flushed to the disk, to survive a crash of the machine. Lost results are
    judged again.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._synced_at = time.monotonic()

    def add(self, result: PairResult) -> None:
        """Write one line whole, or raise `OSError` and write none."""
        due = time.monotonic() - self._synced_at >= SYNC_SECONDS
        self.append(to_line(result).removesuffix(b"\n"), sync=due)
        if due:
            self._synced_at = time.monotonic()

    def close(self) -> None:
        """Flush to the disk and close; raises `OSError`."""
        try:
            self.sync()
        finally:
            super().close()


TABLE = "results.parquet"  # beside `results.jsonl`

PAIR_TEXTS = ("id", "prompt", "first", "second", "first_generator", "second_generator")
TEXTS = ("judge", "stop", "error", "fault", "trace")
FLAGS = ("judged", "left_out", "provisional", "forced", "outside_scope")
COUNTS = ("confidence", "turns", "frames", "prompt_tokens", "new_tokens")
# Labels of people, of the judge, and of the judge in the swapped order: a column per dimension.
VERDICTS = ("label", "verdict", "swapped")
OUTCOMES = ("tie", "1", "2")  # with a probability from the judge


def write_table(results: Iterable[PairResult], path: Path) -> None:
    """Write the whole table; raises `OSError`."""
    import pyarrow
    from pyarrow import parquet

    labels = [f"{name}_{dimension.value}" for name in VERDICTS for dimension in Dimension]
    shares = [f"p_{dimension.value}_{outcome}" for dimension in Dimension for outcome in OUTCOMES]
    kinds = {
        "row": pyarrow.int64(),
        **dict.fromkeys((*PAIR_TEXTS, *TEXTS), pyarrow.string()),
        **dict.fromkeys(FLAGS, pyarrow.bool_()),
        **dict.fromkeys(labels, pyarrow.int8()),
        **dict.fromkeys(shares, pyarrow.float64()),
        **dict.fromkeys(COUNTS, pyarrow.int64()),
        **dict.fromkeys(("seconds", "first_seconds", "second_seconds"), pyarrow.float64()),
    }
    schema = pyarrow.schema(list(kinds.items()))
    table = pyarrow.Table.from_pylist([table_row(result) for result in results], schema)
    # An open file, because pyarrow itself opens only UTF-8 names.
    with atomic_path(path) as part, part.open("wb") as file:
        parquet.write_table(table, file)


def table_row(result: PairResult) -> dict[str, Any]:
    """Return a table row; labels are 1, 2, 0 (tie) or None."""
    pair, (first, second) = result.pair, result.clip_seconds or (None, None)
    row: dict[str, Any] = {
        "row": pair.row,
        "seconds": result.seconds,
        "first_seconds": first,
        "second_seconds": second,
        **{name: getattr(pair, name) for name in PAIR_TEXTS},
        **{name: str(getattr(result, name)) for name in TEXTS},
        **{name: getattr(result, name) for name in (*FLAGS, *COUNTS)},
    }
    verdicts = (pair.labels, result.verdict, result.swapped)
    for name, verdict in zip(VERDICTS, verdicts, strict=True):
        for dimension, label in verdict or Verdict():
            row[f"{name}_{dimension.value}"] = label and int(label)
    for dimension in Dimension:
        told = (result.probabilities or {}).get(dimension, (None, None, None))
        for outcome, share in zip(OUTCOMES, told, strict=True):
            row[f"p_{dimension.value}_{outcome}"] = share
    return row


RUN = "run.json"  # beside the results


@dataclass(frozen=True, slots=True)
class RunStart:
    """One start of an evaluation: the first one or a resumed one."""

    at: str  # time in UTC, ISO 8601
    engine: str
    concurrency: int | None  # as a person said it
    limit: int | None
    versions: dict[str, str] = field(default_factory=dict)
    judged: int = 0  # pairs in this start; 0 if it was killed
    seconds: float = 0.0  # that they took together, side by side, with the judge open
    peak_gb: float | None = None  # memory of the judge; None for one that is elsewhere


@dataclass(frozen=True, slots=True)
class EvaluationRun:
    """Data set, judge and settings of an evaluation. Only the starts of a run may differ."""

    dataset: str  # layout of the data set
    path: str  # its place at the start
    pairs: int  # number in the whole data set
    digest: str  # of all pairs and their labels, independent of row order and video folder
    judge: str  # as chosen, with absolute paths
    settings: Settings
    starts: tuple[RunStart, ...] = ()
    format: Literal["vr-thinker-evaluation/1"] = "vr-thinker-evaluation/1"

    def difference(self, other: "EvaluationRun") -> str:
        """Return the difference from another run in words, "" if the same."""
        if (self.dataset, self.digest) != (other.dataset, other.digest):
            same = (self.dataset, self.path) == (other.dataset, other.path)
            before = " as it was before its rows changed" if same else ""
            return f"the data set {self.path} ({self.dataset}, {self.pairs:,} rows){before}"
        # Earlier versions stored relative paths.
        if resolved_judge(self.judge) != resolved_judge(other.judge):
            return f"the judge {self.judge}"
        its = asdict(other.settings)
        others = [
            f"{name} {'left to the protocol' if value is None else value}"
            for name, value in asdict(self.settings).items()
            if value != its[name]
        ]
        return f"the settings {', '.join(others)}" if others else ""


def resolved_judge(choice: str) -> str:
    """Return the judge's name with absolute paths. An unreadable name stays as it is."""
    try:
        return str(parse_judge(choice).absolute())
    except BadInput:
        return choice


def read_run(folder: Path) -> EvaluationRun:
    """Read the evaluation of a folder; raises `BadInput` if there is none."""
    try:
        with data_errors(f"{folder / RUN} describes no evaluation that is known here"):
            return type_adapter(EvaluationRun).validate_json((folder / RUN).read_bytes())
    except OSError:
        raise BadInput(f"{folder} holds no evaluation.") from None


def write_run(folder: Path, run: EvaluationRun) -> None:
    """Write the description into the folder; raises `OSError`."""
    write_atomically(folder / RUN, type_adapter(EvaluationRun).dump_json(run, indent=1) + b"\n")


def pairs_digest(pairs: Iterable[EvaluationPair], *, ordered: bool = False) -> str:
    """Return the digest of the pairs and labels of a data set.

    Independent of the videos' folder, and of the row order unless `ordered`.
    """
    lines = [f"{pair.id} {pair.labels.labels}" for pair in pairs]
    return hashlib.sha256("\n".join(lines if ordered else sorted(lines)).encode()).hexdigest()


def installed_versions() -> dict[str, str]:
    """Return the versions of Python and of packages that affect results."""
    import platform
    from importlib.metadata import PackageNotFoundError, version

    found = {"python": platform.python_version(), "vrthinker": __version__}
    for name in ("torch", "transformers", "av", "openai", "ray"):
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found
