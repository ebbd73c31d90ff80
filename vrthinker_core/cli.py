"""The command line: `python -m vrthinker_core COMMAND`.

Exit status: 0 with a verdict (or when a command did its work), 3 without one (or without a row to write), 2 for bad input with one
line on standard error, 130 after Ctrl+C or SIGTERM.
"""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vrthinker_core.commands.arguments import (
    INTERRUPTED,
    LINE_SECONDS,
    JudgeOption,
    print_error,
    progress,
    read_lines,
    read_numbers,
    read_reply,
    stop_on_signal,
    with_setting_options,
)
from vrthinker_core.commands.evaluation_commands import evaluate, report
from vrthinker_core.commands.rank_command import rank
from vrthinker_core.commands.training.teacher_command import teacher
from vrthinker_core.commands.training.train_command import train
from vrthinker_core.errors import (
    BadInput,
    DecoderDied,
    VideoError,
    VideoUnavailable,
    VrThinkerError,
    out_of_files,
)
from vrthinker_core.training.rows.teaching import RowFilter, RowKind
from vrthinker_core.types import ProtocolName, Settings

if TYPE_CHECKING:
    from vrthinker_core.types.events import Event, Finished
    from vrthinker_core.types.messages import Cancelled

app = typer.Typer(
    name="python -m vrthinker_core",
    help="Compare two videos made from one prompt, and see why.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

NO_VERDICT = 3
BAD_INPUT = 2
INPUT_FAULTS = frozenset(
    error.__name__ for error in (BadInput, VideoError, DecoderDied, VideoUnavailable)
)


TraceOption = Annotated[
    Path | None,
    typer.Option(help="Keep the whole run in this file: a new one, or an earlier trace."),
]
JsonOption = Annotated[
    bool, typer.Option("--json", help='Print only {"TA": …, "MQ": …, "VQ": …, "OA": …}.')
]


def main() -> None:
    """Run the command line; every error becomes one line."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(
            errors="backslashreplace"
        )  # A character that the terminal cannot show is no error
    try:
        code = app(standalone_mode=False)
        if sys.stdout is not None:  # as it is where standard output is closed
            sys.stdout.flush()
    except VrThinkerError as error:
        sentence = str(error)
    except BrokenPipeError:
        sys.exit(1)
    except OSError as error:
        os.dup2(
            os.open(os.devnull, os.O_WRONLY), 1
        )  # what is left to be written is not tried again at the end
        sentence = (
            out_of_files(error) or f"The output cannot be written: {error.strerror or error}."
        )
    except Exception as error:
        # Typer carries its own copy of Click, or uses the installed one: usage errors are known by this method alone.
        message = getattr(error, "format_message", None)
        if message is None:
            raise
        sentence = message()
    else:
        sys.exit(code if isinstance(code, int) else 0)
    print_error(sentence)
    sys.exit(BAD_INPUT)


@app.command()
@with_setting_options
def compare(
    video1: Annotated[Path, typer.Argument(help="First video.")],
    video2: Annotated[Path, typer.Argument(help="Second video.")],
    *,
    prompt: Annotated[str, typer.Option(help="The text both videos were made from.")],
    judge: JudgeOption = None,
    trace: TraceOption = None,
    json_only: JsonOption = False,
    settings: Settings,
) -> None:
    """Compare two videos, turn by turn."""
    from vrthinker_core.backends import open_backend
    from vrthinker_core.judge import judge as run_judge
    from vrthinker_core.traces import check_trace_option
    from vrthinker_core.types import VideoPair

    if trace is not None:
        check_trace_option(trace)
    pair, backend = VideoPair(prompt, video1, video2), open_backend(judge)
    with stop_on_signal() as stopped:
        events = run_judge(pair, backend, settings, cancelled=stopped, trace=trace)
        raise typer.Exit(_print_live(events, json_only, stopped))


@app.command()
def branch(
    origin: Annotated[Path, typer.Argument(help="A stored trace: the run to go on from.")],
    video1: Annotated[Path, typer.Argument(help="The first video of that run.")],
    video2: Annotated[Path, typer.Argument(help="The second video of that run.")],
    *,
    turn: Annotated[
        int, typer.Option(help="First turn that is generated anew; those before it are taken over.")
    ],
    frames: Annotated[
        str,
        typer.Option(
            help="Frames to show in that turn, by the judge's numbers, with commas between."
        ),
    ] = "",
    no_tool: Annotated[
        bool, typer.Option("--no-tool", help="Ask for the answer in that turn.")
    ] = False,
    window: Annotated[
        str | None, typer.Option(help="Memory window from that turn on. (default: that of the run)")
    ] = None,
    prompt: Annotated[
        str | None, typer.Option(help="Another prompt, with --turn 1. (default: that of the run)")
    ] = None,
    judge: JudgeOption = None,
    trace: TraceOption = None,
    json_only: JsonOption = False,
) -> None:
    """Go on from a turn of a stored run with something changed."""
    from vrthinker_core.backends import open_backend
    from vrthinker_core.commands.branch_run import read_changes, read_plan
    from vrthinker_core.judge import judge_branch
    from vrthinker_core.types import VideoPair

    changes = read_changes(
        read_numbers("--frames", frames) if frames else (), no_tool, window, prompt
    )
    plan = read_plan(origin, turn, changes, trace)
    pair, backend = VideoPair(plan.prompt, video1, video2), open_backend(judge)
    with stop_on_signal() as stopped:
        events = judge_branch(plan, pair, backend, cancelled=stopped, trace=trace)
        raise typer.Exit(_print_live(events, json_only, stopped))


app.command()(evaluate)
app.command()(report)
app.command()(rank)
app.command()(teacher)
app.command()(train)


@app.command()
def replay(
    file: Annotated[Path, typer.Argument(help="A stored trace.")],
    json_only: Annotated[bool, typer.Option("--json", help="Print only the labels.")] = False,
) -> None:
    """Show a stored trace as it was seen live."""
    from vrthinker_core.traces import load

    raise typer.Exit(_print_run(load(file).events(), json_only))


def _print_live(events: Iterable[Event], json_only: bool, stopped: Cancelled) -> int:
    """Print a run as it goes, up to where it was `stopped`; gives the exit status."""
    from rich.console import Console

    from vrthinker_core.commands.console import telling_openings

    code = _print_run(telling_openings(events, Console(stderr=True), LINE_SECONDS), json_only)
    return INTERRUPTED if stopped() else code


def _print_run(events: Iterable[Event], json_only: bool) -> int:
    """Print a run; gives the exit status."""
    if json_only:
        end = _print_labels(events)
    else:
        from rich.console import Console

        from vrthinker_core.commands.console import ConsoleRenderer

        end = ConsoleRenderer(Console(highlight=False)).render(events)
    if end is None:
        return NO_VERDICT
    if end.fault in INPUT_FAULTS:
        print_error(end.error)
        return BAD_INPUT
    return 0 if end.verdict is not None and end.verdict.whole else NO_VERDICT


def _print_labels(events: Iterable[Event]) -> Finished | None:
    """Print the labels, null if not said, once both videos were opened; with both orders also those of the second run."""
    from vrthinker_core.types import Verdict
    from vrthinker_core.types.events import Finished, Started, Swapped, Voted
    from vrthinker_core.types.order import check_order
    from vrthinker_core.types.wording import OUTSIDE_ADVICE, OUTSIDE_SCOPE, order_unchecked

    end: Finished | None = None
    last: Event | None = None
    opened = False
    for event in events:
        opened = all(event.clips) if isinstance(event, Started) else opened
        last = last if isinstance(event, Voted) else event
        end = event if isinstance(event, Finished) else end
    if end is None:
        print_error("This run did not end: there is no verdict.")
        return None
    lines = [*end.notes, *([end.error] if end.fault not in INPUT_FAULTS else [])]
    if end.outside_scope:
        lines += [OUTSIDE_SCOPE, OUTSIDE_ADVICE]
    elif not end.error and not (end.verdict and end.verdict.whole):
        lines.append(f"There is no {'whole ' if end.verdict else ''}verdict: {end.stop.value}.")
    more: dict[str, object] = {}
    if isinstance(last, Swapped):
        second = last.event if isinstance(last.event, Finished) else None
        check = check_order(end, second)
        more = {"swapped": check and check.second.labels, "order": check and check.effects}
        lines += [order_unchecked(second)] if check is None else []
    if opened and end.fault not in INPUT_FAULTS:
        print(json.dumps({**dict(end.verdict or Verdict()), **more}))
    for line in filter(None, lines):
        print_error(line)
    return end


@app.command()
def frames(
    video: Annotated[Path, typer.Argument(help="A video.")],
    out: Annotated[Path, typer.Option(help="Folder for the PNG files.")],
    protocol: Annotated[ProtocolName, typer.Option(help="Whose slots.")] = "paired",
    slots: Annotated[
        str, typer.Option(help="Slots of this video, 0-based, with commas between.")
    ] = "0",
) -> None:
    """Write the frames a judge would be given for these slots, before resizing, and say which they are."""
    from vrthinker_core.commands.export_frames import export_frames

    with progress("frames") as advance:
        exported = export_frames(video, protocol, read_numbers("--slots", slots), out, advance)
    print(json.dumps(exported, indent=1))


@app.command()
def parse(
    file: Annotated[
        str,
        typer.Argument(help="JSON lines with `reply` and `finish_reason`; - for standard input."),
    ],
    protocol: Annotated[ProtocolName, typer.Option(help="Whose replies.")],
) -> None:
    """Print how each reply is read, one JSON line each."""
    from vrthinker_core.dialects import make_dialect
    from vrthinker_core.dialects.reading.reply import to_expected

    dialect = make_dialect(Settings(), protocol)
    for number, line in read_lines(file).items():
        reply, cut = read_reply(line, number)
        print(json.dumps(to_expected(dialect.parse(reply, cut=cut)), ensure_ascii=False))


@app.command()
def scenes(
    pairs: Annotated[int, typer.Option(help="How many pairs.")],
    out: Annotated[Path, typer.Option(help="Folder for the videos and pairs.csv.")],
    seed: Annotated[int, typer.Option(help="Equal seeds give equal pairs.")] = 0,
    size: Annotated[int, typer.Option(help="Pixels per side.")] = 448,
    second: Annotated[
        bool,
        typer.Option("--second", help="The full world: two things, counts, places, more faults."),
    ] = False,
    photos: Annotated[
        Path | None,
        typer.Option(help="Folder of photographs for the full world. (default: clouds)"),
    ] = None,
) -> None:
    """Write pairs of the drawn world as video files, with their true labels."""
    from dataclasses import replace

    from vrthinker_core.training.drawn_world.video_files import write_pairs
    from vrthinker_core.training.drawn_world.world import FULL, SIMPLE

    with progress("videos") as advance:
        world = replace(FULL, photos=photos) if second or photos is not None else SIMPLE
        table = write_pairs(pairs, seed, out, size, advance, world)
    print(table)


@app.command()
def judges() -> None:
    """List the judges that this machine can run, and what the others need."""
    from vrthinker_core.backends.discover import local_servers
    from vrthinker_core.backends.offers import best_choice, offers

    servers = local_servers()
    rows = [("--judge", "real videos", "how", "needs", "here")]
    for each in offers(servers):
        how = "trained" if each.trained else "told the rules"
        real, here = "yes" if each.real_videos else "no", each.missing or "yes"
        rows.append((each.judge, real, how, each.needs, here))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(map(str.ljust, row, widths)).rstrip())
    print(f"\nThe default here: --judge {best_choice(servers)}")


@app.command()
def examples(
    judge: JudgeOption = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder of the examples. (default: assets/examples)")
    ] = None,
) -> None:
    """Record all examples of the project anew with a judge."""
    from vrthinker_core.__about__ import asset
    from vrthinker_core.backends import open_backend
    from vrthinker_core.commands.record_examples import record_examples

    with progress("examples") as advance:
        for line in record_examples(open_backend(judge), out or asset("examples"), advance):
            print(line)


@app.command()
def export(
    traces: Annotated[list[Path], typer.Argument(help="Stored traces, and folders of them.")],
    to: Annotated[RowKind, typer.Option(help="What the rows are for.")],
    out: Annotated[Path, typer.Option(help="A new file, or an earlier export.")],
    *,
    voted_only: Annotated[
        bool, typer.Option("--voted-only", help="Only runs that a person has voted on or labelled.")
    ] = False,
    agreed_only: Annotated[
        bool, typer.Option("--agreed-only", help="Only runs whose verdict a person agrees with.")
    ] = False,
) -> None:
    """Write training rows from traces; says which traces gave none, and why."""
    from vrthinker_core.commands.export_rows import export_rows

    report = export_rows(traces, to, out, RowFilter(voted_only, agreed_only))
    for line in report.skipped:
        print_error(line)
    print(report.line)
    raise typer.Exit(0 if report.rows else NO_VERDICT)
