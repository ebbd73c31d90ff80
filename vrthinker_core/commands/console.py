"""Events of a run as lines in a terminal.

A replay looks like the live run.
"""

import math
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from rich.console import Console
from rich.text import Text

from vrthinker_core.commands.arguments import print_error, progress_line
from vrthinker_core.protocols.label_probabilities import verdict_probabilities
from vrthinker_core.results.result import ROW_FAULT, PairResult
from vrthinker_core.text import printable
from vrthinker_core.types import ClipInfo, Dimension, Side, Thumbnail, Verdict, Vote
from vrthinker_core.types.events import (
    Event,
    Finished,
    FramesShown,
    Opening,
    RunEvent,
    Started,
    StopReason,
    Swapped,
    TextArrived,
    Turn,
    TurnEnded,
    Voted,
)
from vrthinker_core.types.order import OrderEffect, check_order
from vrthinker_core.types.progress import count, ended_after, reading, totals, turn_figures
from vrthinker_core.types.wording import (
    DIMENSION_NAMES,
    LABEL_NAMES,
    NO_RELIABLE_WINNER,
    NOT_SWAP_TESTED,
    OUTSIDE_ADVICE,
    OUTSIDE_SCOPE,
    SIDES_SWAPPED,
    TELLING,
    branch_name,
    frame_time,
    order_unchecked,
    percent,
)

NAMED = 20  # failures that are printed; the table holds all


@dataclass(slots=True)
class ProgressCounts:
    """Counts of results, and their rate."""

    total: int
    done: int = 0  # rows with a result, also from earlier starts
    failed: int = 0
    judged: int = 0  # in this start, with failures of the judge; the base of the rate
    begun: float = field(default_factory=time.monotonic)
    seconds: float = 0.0  # length of this start, once it has ended

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
        return ", ".join([*parts, *([f"{self.failed:,} failed"] if self.failed else [])])


def rate_parts(rate: float, left: float) -> list[str]:
    """Return the rate (per second or seconds each) and time left."""
    return [
        f"{rate:.1f} a second" if rate >= 1 else f"{1 / rate:.1f} s each",
        f"{time_left(left)} left",
    ]


def time_left(seconds: float) -> str:
    """Return a duration as `40 s`, `12 min`, `2 h 20 min`."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours:,} h {minutes} min"
    return f"{minutes} min" if minutes else f"{rest} s"


@contextmanager
def pair_progress(counts: ProgressCounts) -> Iterator[Callable[[PairResult], None]]:
    """Show counts and first failures; yield the function for each result."""
    from rich.progress import BarColumn

    with progress_line("pairs", (BarColumn(), "{task.description}")) as update:
        named = 0

        def add(result: PairResult) -> None:
            nonlocal named
            if failure := counts.add(result):
                named += 1
                print_error(failure if named <= NAMED else "")
                print_error(
                    "Further failures are only counted; the table names each."
                    if named == NAMED
                    else ""
                )
            update(counts.done, counts.total, counts.line, False)

        yield add


# Characters of a column of labels, with probabilities and without.
LABEL_WIDTH, LABEL_WIDTH_ALONE = 18, 12


class ConsoleRenderer:
    """Printer of events.

    Texts of judges and people are printed as plain text, never as markup.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._open_line = False
        self._max_turns: int | None = None
        self._turns: list[Turn] = []
        # Of each verdict so far, as percentages.
        self._probabilities: list[dict[Dimension, str]] = []

    def render(self, events: Iterable[Event]) -> Finished | None:
        """Print all events and return the end of the run.

        If the pair is judged in both orders, returns the end of the first run.
        """
        last: Finished | None = None
        in_swapped, second, vote = False, None, None
        for event in events:
            if isinstance(event, Voted):
                vote = event.vote
            elif isinstance(event, Swapped):
                if not in_swapped:
                    self._line("")
                    self._line(SIDES_SWAPPED, "bold magenta")
                in_swapped = True
                second = self._render(event.event)
            else:
                last = self._render(event)
        if in_swapped:
            self._order(last, second)
        elif last is not None and last.verdict is not None:
            self._line(f"          {NOT_SWAP_TESTED}", "dim")
        if vote is not None:
            self._vote(vote, last.verdict if last else None)
        return last

    def _render(self, event: RunEvent) -> Finished | None:
        match event:
            case Started():
                self._started(event)
            case FramesShown():
                self._frames(event)
            case TextArrived():
                self._write(event.text)
            case TurnEnded():
                self._turn(event.turn)
            case Finished():
                self._finished(event)
                return event
        return None

    def _order(self, first: Finished | None, second: Finished | None) -> None:
        """Print both verdicts side by side and the effect of the swap.

        Labels of both verdicts follow the sides of the first run.
        """
        self._line("")
        check = check_order(first, second)
        if check is None:
            self._line(order_unchecked(second), "bold yellow")
            return
        if check.overall is OrderEffect.FLIPS:
            self._line(NO_RELIABLE_WINNER, "bold yellow")
        width = LABEL_WIDTH if any(self._probabilities) else LABEL_WIDTH_ALONE
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
        """Print a person's vote, and whether it agrees with the judge's labels."""
        self._line("")
        self._line(
            f"Vote of a person{', before they saw the verdict' if vote.blind else ''}", "bold green"
        )
        agrees = {
            dimension: "agrees" if same else "differs"
            for dimension, same in vote.compare(verdict).items()
        }
        for dimension, label in vote.labels:
            self._line(
                f"  {DIMENSION_NAMES[dimension]:<16}{LABEL_NAMES[label]:<12}{agrees.get(dimension, '')}".rstrip()
            )
        if vote.agrees is not None:
            self._line(f"  {'Verdict':<16}{'agrees' if vote.agrees else 'disagrees'}")
        if vote.note:
            self._line(f"Note      {vote.note}")

    def _started(self, started: Started) -> None:
        self._max_turns, self._turns = started.settings.max_turns, []
        self._line(f"Judge     {started.judge}, protocol {started.dialect}", "bold")
        self._line(f"Prompt    {started.prompt}")
        if name := branch_name(started):
            self._line(f"Branch    {name}", "bold")
        for side, clip in zip(Side, started.clips, strict=True):
            if clip is not None:
                self._clip(side, clip)
        for note in started.notes:
            self._line(f"Note      {note}", "yellow")

    def _clip(self, side: Side, clip: ClipInfo) -> None:
        rate = f"{clip.fps:.4g} fps{' (variable)' if clip.variable_rate else ''}"
        self._line(
            f"Video {side:d}   {clip.name}: {clip.frames} frames, {rate}, {clip.width} x {clip.height}, {clip.codec}"
        )
        for note in clip.notes:
            self._line(f"          {note}", "yellow")

    def _frames(self, shown: FramesShown) -> None:
        self._line("")
        if shown.note:
            self._line(f"Note      {shown.note}", "yellow")
            return
        of = f" of {self._max_turns}" if self._max_turns else ""
        self._line(
            f"Turn {shown.turn}{of}{' (asked for the answer now)' if shown.forced else ''}",
            "bold cyan",
        )
        if shown.frames:
            self._line(f"frames    {_frame_list(shown.frames)}", "cyan")
        else:
            self._line(f"told      {shown.told.strip()}", "cyan")

    def _turn(self, turn: Turn) -> None:
        self._end_line()
        self._turns.append(turn)
        if reasoning := turn.completion.reasoning:
            self._line(
                f"aside     {len(reasoning):,} characters of reasoning, kept in the trace", "dim"
            )
        for problem in turn.problems:
            self._line(f"problem   {problem.kind}: {problem.detail}", "yellow")
        ending = filter(None, (turn.cut_short or turn.reply.kind, turn_figures(turn)))
        self._line(f"          {' · '.join(ending)}", "dim")

    def _finished(self, end: Finished) -> None:
        self._line("")
        if end.verdict is not None:
            kind = (
                "Provisional verdict (recommended, never made final)"
                if end.provisional
                else "Verdict"
            )
            self._line(
                kind if end.verdict.whole else "Incomplete verdict",
                "bold green" if end.verdict.whole else "bold yellow",
            )
            known = self._keep_probabilities(end.verdict)
            for dimension, label in end.verdict:
                self._line(
                    f"  {DIMENSION_NAMES[dimension]:<16}{LABEL_NAMES[label]:<10}{known.get(dimension, '')}".rstrip()
                )
        if end.outside_scope:
            self._line(OUTSIDE_SCOPE, "bold yellow")
            self._line(OUTSIDE_ADVICE)
        reason = (
            "answered when asked for the answer"
            if end.forced and end.stop is StopReason.ANSWERED
            else end.stop.value
        )
        took = " · ".join(
            filter(None, [ended_after(len(self._turns), end.seconds), totals(self._turns)])
        )
        self._line(f"Ended     {reason}, {took}", "bold" if end.verdict else "bold red")
        if end.error:
            self._line(f"          {end.error}", "red")
        for note in end.notes:
            self._line(f"Note      {note}", "yellow")

    def _keep_probabilities(self, verdict: Verdict) -> dict[Dimension, str]:
        """Keep and return the probabilities of labels that the judge doubted."""
        labels = dict(verdict)
        told = {
            each: shares[labels[each] or 0]
            for each, shares in verdict_probabilities(self._turns, verdict).items()
        }
        self._probabilities.append(
            {each: percent(share) for each, share in told.items() if share < TELLING}
        )
        return self._probabilities[-1]

    def _line(self, text: str, style: str = "") -> None:
        self._end_line()
        self._console.print(Text(printable(text), style=style), soft_wrap=True)

    def _write(self, text: str) -> None:
        self._console.print(Text(printable(text)), end="", soft_wrap=True)
        self._open_line = not text.endswith("\n")

    def _end_line(self) -> None:
        if self._open_line:
            self._console.print()
            self._open_line = False


def _frame_list(frames: tuple[Thumbnail, ...]) -> str:
    sides = {
        side: [
            f"{frame.number} ({frame_time(frame.seconds)})"
            for frame in frames
            if frame.ref.side is side
        ]
        for side in Side
    }
    return "; ".join(f"video {side:d}: {', '.join(mine)}" for side, mine in sides.items() if mine)


def telling_openings(
    events: Iterable[Event], console: Console, line_seconds: float
) -> Iterator[Event]:
    """Yield all events but `Opening`, which are printed as progress.

    A terminal shows them as one status line; elsewhere a line comes every `line_seconds`.
    """
    status, next_line = console.status(""), -math.inf
    try:
        for event in events:
            if not isinstance(event, Opening):
                status.stop()
                yield event
            elif console.is_terminal:
                status.update(reading(event.shares))
                status.start()
            elif time.monotonic() >= next_line:
                next_line = time.monotonic() + line_seconds
                console.print(reading(event.shares), markup=False, highlight=False, soft_wrap=True)
    finally:
        status.stop()
