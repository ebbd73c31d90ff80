"""Shared parts of the commands: arguments, settings, progress, error lines."""

import functools
import inspect
import json
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, get_type_hints

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TimeRemainingColumn,
)
from typer import Option

from vrthinker_core.backends.judge_name import JUDGE_FORMS
from vrthinker_core.errors import BadInput
from vrthinker_core.storage import os_errors
from vrthinker_core.types.settings import SETTINGS, Setting, Settings
from vrthinker_core.words import filled_lines, printable

NOTHING_JUDGED, INTERRUPTED = 3, 130  # Exit status: no pair has a verdict; Ctrl+C
CONCURRENCY = 8  # default number of pairs judged at the same time
LINE_SECONDS = 5.0  # between two lines of progress

JudgeOption = Annotated[
    str | None, Option(help=f"{JUDGE_FORMS}. (default: the best one here, see `judges`)")
]
ResultsOption = Annotated[
    Path, Option(help="Folder for the results: new, or of the run to --resume.")
]
ConcurrencyOption = Annotated[int, Option(help="Pairs judged at the same time.")]
EngineOption = Annotated[str, Option(help="local, or ray[:ADDRESS] for a cluster.")]


def print_error(line: str) -> None:
    """Print one line on standard error, nothing for an empty line."""
    if line:
        print(printable(" ".join(line.split())), file=sys.stderr)


def read_numbers(option: str, text: str) -> tuple[int, ...]:
    """Return the comma-separated whole numbers of `option`; raises `BadInput`."""
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise BadInput(
            f"{option} {text} is no list of numbers. Write for example 0,16,127."
        ) from None


def read_lines(file: str) -> dict[int, str]:
    """Return the nonempty lines by number. "-" is standard input. Raises `BadInput`."""
    try:
        with os_errors(f"Cannot read {file}"):
            text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise BadInput(f"Cannot read {file}: it is no text in UTF-8.") from None
    return filled_lines(text)


def read_reply(line: str, number: int) -> tuple[str, bool]:
    """Return a reply and whether it was cut off; raises `BadInput`."""
    try:
        record = json.loads(line)
        text = "".join(
            unit * count for unit, count in record.get("reply_gen") or [[record["reply"], 1]]
        )
        return text, record.get("finish_reason") == "length"
    except (
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        RecursionError,
        MemoryError,
        OverflowError,
    ):
        raise BadInput(f"Line {number} is no JSON object with a reply.") from None


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
