"""The terminal of every command: options and inputs, progress lines, and runs as text."""

import functools
import inspect
import math
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Annotated, Any, get_type_hints

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TimeRemainingColumn,
)
from rich.text import Text
from typer import Option

from vrthinker_core.backends.judge_name import JUDGE_FORMS
from vrthinker_core.drawn.notes import outside_words
from vrthinker_core.errors import BadInput
from vrthinker_core.protocols.parser import verdict_probabilities
from vrthinker_core.results.result import ROW_FAULT, PairResult
from vrthinker_core.types import Dimension, Side, Verdict, Vote
from vrthinker_core.types.events import (
    Event,
    Finished,
    FramesShown,
    Opening,
    Run,
    RunEvent,
    Started,
    StopReason,
    Swapped,
    TextArrived,
    Trace,
    Turn,
    TurnEnded,
    Voted,
    add_event,
)
from vrthinker_core.types.order import OrderEffect, check_order
from vrthinker_core.types.settings import SETTINGS, Setting, Settings
from vrthinker_core.types.wording import (
    CONTROL,
    DIMENSION_NAMES,
    LABEL_NAMES,
    NO_RELIABLE_WINNER,
    NOT_SWAP_TESTED,
    OTHER_JUDGES,
    SCRIPTED,
    SCRIPTED_HELP,
    SIDES_SWAPPED,
    TELLING,
    branch_name,
    order_unchecked,
    totals,
    turn_figures,
)
from vrthinker_core.words import (
    count,
    ended_after,
    frame_time,
    percent,
    printable,
    rate_parts,
    reading,
)

BAD_INPUT, NO_VERDICT, INTERRUPTED = 2, 3, 130  # Exit status; the last of Ctrl+C
LINE_SECONDS = 5.0  # between two lines of progress

JudgeOption = Annotated[
    str | None, Option(help=f"{JUDGE_FORMS}. (default: the best one here, see `judges`)")
]


def print_error(line: str) -> None:
    """Print one line on standard error, nothing for an empty line."""
    if line:
        print(printable(" ".join(line.split())), file=sys.stderr)


@contextmanager
def progress(what: str) -> Iterator[Callable[[int, int], None]]:
    """Show progress on standard error; yield its function of (done, total)."""
    columns = what, BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with progress_line(what, *columns) as update:
        yield lambda done, total: update(done, total, f"{what}: {done} of {total}", done == total)


@contextmanager
def progress_line(
    first: str, *columns: str | ProgressColumn
) -> Iterator[Callable[[int, int, str, bool], None]]:
    """Show a bar in a terminal, and lines elsewhere.

    The columns are by default a bar and the line, at first `first`. Yields the function of (done,
    total, line, due). Without a terminal, prints a line every few seconds, and every line that is
    due.
    """
    console, columns = Console(stderr=True), columns or (BarColumn(), "{task.description}")
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        task, said = bar.add_task(first, total=None), time.monotonic()

        def update(done: int, total: int, line: str, due: bool) -> None:
            nonlocal said
            bar.update(task, completed=done, total=total, description=line)
            if bar.disable and (due or time.monotonic() - said >= LINE_SECONDS):
                said = time.monotonic()
                print_error(line)

        yield update


@contextmanager
def stop_on_signal() -> Iterator[Callable[[], bool]]:
    """Let Ctrl+C and SIGTERM only ask for an end within the block.

    A second signal forces the end. Yields the function that tells whether a signal came.
    """
    asked = threading.Event()

    def ask(*_: object) -> None:
        if asked.is_set():
            sys.exit(INTERRUPTED)
        asked.set()

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield asked.is_set
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def with_setting_options(command: Callable[..., None]) -> Callable[..., None]:
    """Replace a command's parameter `settings` by an option per row of `SETTINGS`."""

    @functools.wraps(command)
    def with_options(**values: Any) -> None:
        parsed: dict[str, Any] = {}
        for row in SETTINGS:
            try:
                parsed[row.name] = row.parse(values.pop(row.name))
            except BadInput as bad:
                raise BadInput(f"{_flag(row)}: {bad}") from None
        command(settings=Settings(**parsed), **values)

    hints = get_type_hints(command, include_extras=True)
    own = [
        parameter.replace(annotation=hints[name])
        for name, parameter in inspect.signature(command).parameters.items()
        if name != "settings"
    ]
    signature = inspect.Signature([*own, *map(_option, SETTINGS)])
    with_options.__signature__ = signature  # type: ignore[attr-defined]
    with_options.__annotations__ = {
        name: parameter.annotation for name, parameter in signature.parameters.items()
    }
    return with_options


def _option(row: Setting) -> inspect.Parameter:
    default = "the protocol's own" if row.default is None else row.default
    only = f" Only in {row.protocol}." if row.protocol else ""
    text = row.help if row.is_switch else f"{row.help}{only} ({row.range}; default: {default})"
    option = Option(_flag(row), help=text, show_default=False)
    return inspect.Parameter(
        row.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=row.default == "on" if row.is_switch else None,
        annotation=Annotated[bool if row.is_switch else str | None, option],
    )


def _flag(row: Setting) -> str:
    return f"--{row.name.replace('_', '-')}"


@dataclass(slots=True)
class ProgressCounts:
    """Counts of results, and their rate."""

    total: int
    done: int = 0  # rows with a result, also from earlier starts
    failed: int = 0
    judged: int = 0  # in this start, with failures of the judge; the base of the rate
    begun: float = field(default_factory=time.monotonic)
    seconds: float = 0.0  # length of this start, once it has ended
    busy: float = 0.0  # this process's share of one processor meanwhile

    def add(self, result: PairResult) -> str:
        """Count a result; return the sentence of its failure, or ""."""
        self.done += 1
        self.judged += not (result.fault == ROW_FAULT or result.left_out)
        if result.judged or result.left_out:
            return ""
        self.failed += 1
        return f"Row {result.pair.row}: {result.error or result.stop.value}"

    @property
    def line(self) -> str:
        """Progress with rate, time left and failures, in one line."""
        seconds = time.monotonic() - self.begun
        parts = [f"{self.done:,} of {count(self.total, 'pair')}"]
        if self.judged and seconds > 0:
            rate = self.judged / seconds
            parts += rate_parts(rate, (self.total - self.done) / rate)
        if self.failed:
            parts.append(f"{self.failed:,} failed")
        return ", ".join(parts)


@contextmanager
def pair_progress(counts: ProgressCounts) -> Iterator[Callable[[PairResult], None]]:
    """Show counts and the first 20 failures; yield the function for each result."""
    with progress_line("pairs") as update:
        before = counts.failed

        def add(result: PairResult) -> None:
            if failure := counts.add(result):
                named = counts.failed - before
                if named <= 20:
                    print_error(failure)
                if named == 20:
                    print_error("Further failures are only counted; the table names each.")
            update(counts.done, counts.total, counts.line, False)

        yield add


class ConsoleRenderer:
    """Printer of events; texts are printed as plain text, never as markup."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._open_line = False
        # Of each verdict so far, as percentages.
        self._probabilities: list[dict[Dimension, str]] = []

    def render(self, events: Iterable[Event]) -> Finished | None:
        """Print all events; return the end of the (first) run."""
        trace: Trace | None = None
        for event in events:
            if isinstance(event, Swapped) and isinstance(event.event, Started):
                self._line("")
                self._line(SIDES_SWAPPED, "bold magenta")
            if (trace := add_event(trace, event)) and not isinstance(event, Voted):
                self._render(event.event if isinstance(event, Swapped) else event, trace.runs[-1])
        if trace is None:
            return None
        last = trace.finished
        if trace.swapped is not None:
            self._order(last, trace.swapped.finished)
        elif last is not None and last.verdict is not None:
            self._line(f"          {NOT_SWAP_TESTED}", "dim")
        if trace.vote is not None:
            self._vote(trace.vote, last.verdict if last else None)
        return last

    def _render(self, event: RunEvent, run: Run) -> None:
        match event:
            case Started():
                self._started(event)
            case FramesShown():
                self._frames(event, run.started.settings.max_turns)
            case TextArrived():
                self._console.print(Text(printable(event.text)), end="", soft_wrap=True)
                self._open_line = not event.text.endswith("\n")
            case TurnEnded():
                self._turn(event.turn)
            case Finished():
                self._finished(event, run)

    def _order(self, first: Finished | None, second: Finished | None) -> None:
        self._line("")
        check = check_order(first, second)
        if check is None:
            self._line(order_unchecked(second), "bold yellow")
            return
        if check.overall is OrderEffect.FLIPS:
            self._line(NO_RELIABLE_WINNER, "bold yellow")
        width = 18 if any(self._probabilities) else 12  # Of a column, with probabilities or not
        self._line(f"{'Both orders':<18}{'as given':<{width}}{'swapped':<{width}}", "bold green")
        swapped = dict(check.second)
        for dimension, label in check.first:
            both = zip((label, swapped[dimension]), self._probabilities, strict=True)
            labels = "".join(
                f"{LABEL_NAMES[each]:<10}{known.get(dimension, '')}".ljust(width)
                for each, known in both
            )
            self._line(f"  {DIMENSION_NAMES[dimension]:<16}{labels}{check[dimension]}")

    def _vote(self, vote: Vote, verdict: Verdict | None) -> None:
        blind = ", before they saw the verdict" if vote.blind else ""
        self._line("")
        self._line(f"Vote of a person{blind}", "bold green")
        same = vote.compare(verdict)
        for dimension, label in vote.labels:
            agrees = {True: "agrees", False: "differs", None: ""}[same.get(dimension)]
            self._line(
                f"  {DIMENSION_NAMES[dimension]:<16}{LABEL_NAMES[label]:<12}{agrees}".rstrip()
            )
        if vote.agrees is not None:
            self._line(f"  {'Verdict':<16}{'agrees' if vote.agrees else 'disagrees'}")
        if vote.note:
            self._line(f"Note      {vote.note}")

    def _started(self, started: Started) -> None:
        self._line(f"Judge     {started.judge}, protocol {started.dialect}", "bold")
        self._line(f"Prompt    {started.prompt}")
        if name := branch_name(started):
            self._line(f"Branch    {name}", "bold")
        for side, clip in zip(Side, started.clips, strict=True):
            if clip is not None:
                rate = f"{clip.fps:.4g} fps{' (variable)' if clip.variable_rate else ''}"
                size = f"{clip.width} x {clip.height}, {clip.codec}"
                self._line(f"Video {side:d}   {clip.name}: {clip.frames} frames, {rate}, {size}")
                for note in clip.notes:
                    self._line(f"          {note}", "yellow")
        for note in started.notes:
            self._line(f"Note      {note}", "yellow")

    def _frames(self, shown: FramesShown, turns: int | None) -> None:
        self._line("")
        if shown.note:
            self._line(f"Note      {shown.note}", "yellow")
            return
        of = f" of {turns}" if turns else ""
        forced = " (asked for the answer now)" if shown.forced else ""
        self._line(f"Turn {shown.turn}{of}{forced}", "bold cyan")
        lists = []
        for side in Side:
            frames = [frame for frame in shown.frames if frame.ref.side is side]
            numbers = ", ".join(f"{frame.number} ({frame_time(frame.seconds)})" for frame in frames)
            lists += [f"video {side:d}: {numbers}"] if frames else []
        told = f"frames    {'; '.join(lists)}" if lists else f"told      {shown.told.strip()}"
        self._line(told, "cyan")

    def _turn(self, turn: Turn) -> None:
        self._end_line()
        if reasoning := turn.completion.reasoning:
            self._line(
                f"aside     {len(reasoning):,} characters of reasoning, kept in the trace", "dim"
            )
        for problem in turn.problems:
            self._line(f"problem   {problem.kind}: {problem.detail}", "yellow")
        ending = filter(None, (turn.cut_short or turn.reply.kind, turn_figures(turn)))
        self._line(f"          {' · '.join(ending)}", "dim")

    def _finished(self, end: Finished, run: Run) -> None:
        self._line("")
        if end.verdict is not None:
            self._verdict_title(end, end.verdict, run.started.settings)
            shares = verdict_probabilities(run.turns, end.verdict)
            known: dict[Dimension, str] = {}
            for dimension, label in end.verdict:
                share = shares[dimension][label or 0] if dimension in shares else 1.0
                if share < TELLING:
                    known[dimension] = percent(share)
                self._line(
                    f"  {DIMENSION_NAMES[dimension]:<16}{LABEL_NAMES[label]:<10}{known.get(dimension, '')}".rstrip()
                )
            self._probabilities.append(known)
        if end.scripted:
            self._line(f"{SCRIPTED}: {SCRIPTED_HELP}", "bold yellow")
        for line in (*outside_words(run.started), OTHER_JUDGES) if end.outside_scope else ():
            self._line(line, "bold yellow")
        forced = end.forced and end.stop is StopReason.ANSWERED
        reason = "answered when asked for the answer" if forced else end.stop.value
        took = filter(None, [ended_after(len(run.turns), end.seconds), totals(run.turns)])
        self._line(f"Ended     {reason}, {' · '.join(took)}", "bold" if end.verdict else "bold red")
        if end.error:
            self._line(f"          {end.error}", "red")
        for note in end.notes:
            self._line(f"Note      {note}", "yellow")

    def _verdict_title(self, end: Finished, verdict: Verdict, settings: Settings) -> None:
        if not verdict.whole:
            self._line("Incomplete verdict", "bold yellow")
        elif end.provisional:
            self._line("Provisional verdict (recommended, never made final)", "bold green")
        else:
            self._line("Verdict", "bold green")
        if settings.frames == "random":
            self._line(f"  {CONTROL}", "yellow")

    def _line(self, text: str, style: str = "") -> None:
        self._end_line()
        self._console.print(Text(printable(text), style=style), soft_wrap=True)

    def _end_line(self) -> None:
        if self._open_line:
            self._console.print()
            self._open_line = False


def telling_openings(events: Iterable[Event]) -> Iterator[Event]:
    """Yield all events but `Opening`, which are printed as progress.

    A terminal shows them as one status line; elsewhere a line comes now and then.
    """
    console, next_line = Console(stderr=True), -math.inf
    status = console.status("")
    try:
        for event in events:
            if not isinstance(event, Opening):
                status.stop()
                yield event
            elif console.is_terminal:
                status.update(reading(event.shares))
                status.start()
            elif time.monotonic() >= next_line:
                next_line = time.monotonic() + LINE_SECONDS
                console.print(reading(event.shares), markup=False, highlight=False, soft_wrap=True)
    finally:
        status.stop()
