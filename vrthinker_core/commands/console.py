"""A run in a terminal: events in, lines out. Replay and live run look the same."""

from collections.abc import Iterable

from rich.console import Console
from rich.text import Text

from vrthinker_core.types import ClipInfo, Side, Thumbnail
from vrthinker_core.types.events import Event, Finished, FramesShown, Started, StopReason, TextArrived, Turn, TurnEnded
from vrthinker_core.types.wording import DIMENSION_NAMES, LABEL_NAMES


class ConsoleRenderer:
    """Prints events one after another. What a judge or a person wrote is printed as plain text, never as markup."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._open_line = False

    def render(self, events: Iterable[Event]) -> Finished | None:
        """Print all events; gives the last one."""
        last: Finished | None = None
        for event in events:
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
                    last = event
        return last

    def _started(self, started: Started) -> None:
        self._line(f"Judge     {started.judge}, protocol {started.dialect}", "bold")
        self._line(f"Prompt    {started.prompt}")
        for side, clip in zip(Side, started.clips, strict=True):
            if clip is not None:
                self._clip(side, clip)
        for note in started.notes:
            self._line(f"Note      {note}", "yellow")

    def _clip(self, side: Side, clip: ClipInfo) -> None:
        rate = f"{clip.fps:.4g} fps{' (variable)' if clip.variable_rate else ''}"
        self._line(f"Video {side:d}   {clip.name}: {clip.frames} frames, {rate}, {clip.width} x {clip.height}, {clip.codec}")
        for note in clip.notes:
            self._line(f"          {note}", "yellow")

    def _frames(self, shown: FramesShown) -> None:
        self._line("")
        if shown.note:
            self._line(f"Note      {shown.note}", "yellow")
            return
        self._line(f"Turn {shown.turn}{' (asked for the answer now)' if shown.forced else ''}", "bold cyan")
        if shown.frames:
            self._line(f"frames    {_frame_list(shown.frames)}", "cyan")
        else:
            self._line(f"told      {shown.told.strip()}", "cyan")

    def _turn(self, turn: Turn) -> None:
        self._end_line()
        for problem in turn.reply.problems:
            self._line(f"problem   {problem.kind}: {problem.detail}", "yellow")
        self._line(f"          {_footnote(turn)}", "dim")

    def _finished(self, end: Finished) -> None:
        self._line("")
        if end.verdict is not None:
            kind = "Provisional verdict (recommended, never made final)" if end.provisional else "Verdict"
            self._line(kind if end.verdict.whole else "Incomplete verdict", "bold green" if end.verdict.whole else "bold yellow")
            for dimension, label in end.verdict:
                self._line(f"  {DIMENSION_NAMES[dimension]:<16}{LABEL_NAMES[label]}")
        reason = "answered when asked for the answer" if end.forced and end.stop is StopReason.ANSWERED else end.stop.value
        self._line(f"Ended     {reason}, {end.seconds:.1f} s", "bold" if end.verdict else "bold red")
        if end.error:
            self._line(f"          {end.error}", "red")
        for note in end.notes:
            self._line(f"Note      {note}", "yellow")

    def _line(self, text: str, style: str = "") -> None:
        self._end_line()
        self._console.print(Text(text, style=style), soft_wrap=True)

    def _write(self, text: str) -> None:
        self._console.print(Text(text), end="", soft_wrap=True)
        self._open_line = not text.endswith("\n")

    def _end_line(self) -> None:
        if self._open_line:
            self._console.print()
            self._open_line = False


def _frame_list(frames: tuple[Thumbnail, ...]) -> str:
    sides = {side: [f"{frame.number} ({frame.seconds:.2f} s)" for frame in frames if frame.ref.side is side] for side in Side}
    return "; ".join(f"video {side:d}: {', '.join(mine)}" for side, mine in sides.items() if mine)


def _footnote(turn: Turn) -> str:
    done = turn.completion
    parts = [f"{turn.reply.kind}"]
    if done.prompt_tokens is not None:
        reused = f", {done.reused_tokens} of them kept" if done.reused_tokens else ""
        parts.append(f"{done.prompt_tokens} tokens in{reused}")
    if done.new_tokens is not None:
        parts.append(f"{done.new_tokens} out")
    parts.append(f"{done.seconds:.1f} s")
    return " · ".join(parts)
