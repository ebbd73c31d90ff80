"""The command line: `vrthinker COMMAND`, or `python -m vrthinker_core COMMAND`.

Exit status: 0 with a verdict (or after finished work), 3 without a verdict (or without a row to
write), 2 for bad input with one line on standard error, 130 after Ctrl+C or SIGTERM.
"""

import io
import json
import logging
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NoReturn

from rich.console import Console
from typer import Argument, Exit, Option, Typer

from vrthinker_core.__about__ import __version__, asset
from vrthinker_core.backends import open_backend
from vrthinker_core.branch_plan import Changes, plan_branch
from vrthinker_core.commands.evaluation_commands import evaluate, rank, report
from vrthinker_core.commands.terminal import (
    BAD_INPUT,
    INTERRUPTED,
    NO_VERDICT,
    ConsoleRenderer,
    JudgeOption,
    print_error,
    progress,
    stop_on_signal,
    telling_openings,
    with_setting_options,
)
from vrthinker_core.commands.train_command import teacher, train
from vrthinker_core.drawn.notes import outside_words
from vrthinker_core.errors import (
    BadInput,
    VideoError,
    VrThinkerError,
    fault_names,
    os_errors,
    out_of_files,
)
from vrthinker_core.protocols import make_protocol
from vrthinker_core.protocols.base import check_prompt
from vrthinker_core.protocols.parser import to_expected
from vrthinker_core.runner import judge as run_judge, judge_branch
from vrthinker_core.storage import atomic_path
from vrthinker_core.traces import check_trace_option, load
from vrthinker_core.training.export import RowKind
from vrthinker_core.types import FrameRef, ProtocolName, Settings, Side, Trace, Verdict, VideoPair
from vrthinker_core.types.events import Event, Finished, add_event
from vrthinker_core.types.frames import Sizing
from vrthinker_core.types.order import order_of
from vrthinker_core.types.settings import setting
from vrthinker_core.types.wording import OTHER_JUDGES, SCRIPTED, SCRIPTED_HELP, order_unchecked
from vrthinker_core.video import Clip, DecoderPool, FramePlan
from vrthinker_core.video.files import open_local
from vrthinker_core.video.measure import MeasuredFact, measure
from vrthinker_core.words import filled_lines

app = Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)

INPUT_FAULTS = fault_names(BadInput)

TraceOption = Annotated[
    Path | None, Option(help="File for the trace of the run: new, or an earlier trace to replace.")
]
JsonOption = Annotated[
    bool, Option("--json", help='Print only {"TA": …, "MQ": …, "VQ": …, "OA": …}.')
]


def main() -> None:
    """Run the command line; every error becomes one line."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A character that the terminal cannot show is no error.
        sys.stdout.reconfigure(errors="backslashreplace")
    if not sys.flags.dev_mode:  # `python -X dev` shows the tracebacks behind the sentences
        logging.getLogger("vrthinker_core.errors").addHandler(logging.NullHandler())
    try:
        code = app(standalone_mode=False)
        if sys.stdout is not None:  # None if standard output is closed
            sys.stdout.flush()
    except VrThinkerError as error:
        sentence = str(error)
    except BrokenPipeError:
        sys.exit(1)
    except OSError as error:
        # Python would try to write the rest again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sentence = (
            out_of_files(error) or f"The output cannot be written: {error.strerror or error}."
        )
    except Exception as error:
        # Typer has its own copy of Click or uses the installed one, so usage errors have no common
        # class: only this method marks them.
        message = getattr(error, "format_message", None)
        if message is None:
            raise
        sentence = message().replace("Value error, ", "")  # pydantic's, of a choice
    else:
        sys.exit(code if isinstance(code, int) else 0)
    print_error(sentence)
    sys.exit(BAD_INPUT)


def _print_version(asked: bool) -> None:
    if asked:
        print(f"vrthinker {__version__}")
        raise Exit


@app.callback()
def _options(
    version: Annotated[
        bool, Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Compare two videos made from one prompt, and see why."""


@app.command()
@with_setting_options
def compare(
    video1: Annotated[Path, Argument(help="First video.")],
    video2: Annotated[Path, Argument(help="Second video.")],
    *,
    prompt: Annotated[str, Option(help="Prompt of both videos.")],
    judge: JudgeOption = None,
    trace: TraceOption = None,
    json_only: JsonOption = False,
    measured: Annotated[
        bool,
        Option("--measure", help="Measure freezes, jumps, cuts, blur and brightness steps, too."),
    ] = False,
    settings: Settings,
) -> None:
    """Compare two videos, turn by turn."""
    if trace is not None:
        check_trace_option(trace)
    start = partial(run_judge, settings=settings)
    _run(start, VideoPair(prompt, video1, video2), judge, trace, json_only, measured)


@app.command()
def branch(
    origin: Annotated[Path, Argument(help="Stored trace of the run to branch from.")],
    video1: Annotated[Path, Argument(help="First video of that run.")],
    video2: Annotated[Path, Argument(help="Second video of that run.")],
    *,
    turn: Annotated[int, Option(help="First turn to generate anew; earlier turns are kept.")],
    frames: Annotated[
        str, Option(help="Frames to show in that turn: the judge's numbers, separated by commas.")
    ] = "",
    no_tool: Annotated[bool, Option("--no-tool", help="Ask for the answer in that turn.")] = False,
    window: Annotated[
        str | None, Option(help="Memory window from that turn on. (default: the run's)")
    ] = None,
    prompt: Annotated[
        str | None, Option(help="Another prompt, only with --turn 1. (default: the run's)")
    ] = None,
    judge: JudgeOption = None,
    trace: TraceOption = None,
    json_only: JsonOption = False,
) -> None:
    """Repeat a stored run from one turn on, with a change."""
    numbers = _numbers("--frames", frames) if frames else ()
    chosen: Any = setting("window").parse(window)
    plan = plan_branch(load(origin), turn, Changes(numbers, no_tool, chosen, prompt))
    if trace is not None:
        check_trace_option(trace)
        if trace.exists() and trace.samefile(origin):
            raise BadInput(
                f"{trace} holds the run to branch from and would be lost: name another file with --trace."
            )
    start = partial(judge_branch, plan)
    _run(start, VideoPair(plan.prompt, video1, video2), judge, trace, json_only)


for command in (evaluate, report, rank, teacher, train):
    app.command()(command)


@app.command()
def replay(
    file: Annotated[Path, Argument(help="Stored trace.")],
    json_only: Annotated[bool, Option("--json", help="Print only the labels.")] = False,
) -> None:
    """Show a stored trace like a live run."""
    raise Exit(_print_run(load(file).events(), json_only))


def _run(
    start: Callable[..., Iterator[Event]],
    pair: VideoPair,
    judge: str | None,
    trace: Path | None,
    json_only: bool,
    measured: bool = False,
) -> NoReturn:
    """Check the pair, then print its run live; exits with the status. Raises `BadInput`."""
    check_prompt(pair.prompt)
    for number, video in enumerate((pair.first, pair.second), start=1):
        try:
            open_local(Path(video)).close()
        except VideoError as error:
            raise type(error)(f"Video {number}: {error}") from None
    with DecoderPool() as decoders:
        decoders.preload()  # While the judge opens
        backend = open_backend(judge)
        with stop_on_signal() as stopped:
            facts = None
            if measured:
                try:
                    facts = measure(pair, cancelled=stopped, decoder_pool=decoders).facts
                except VideoError:
                    if stopped():
                        raise Exit(INTERRUPTED) from None
                    raise
            events = start(pair, backend, cancelled=stopped, trace=trace, decoder_pool=decoders)
            code = _print_run(telling_openings(events), json_only, facts)
            raise Exit(INTERRUPTED if stopped() else code)


def _print_run(
    events: Iterable[Event], json_only: bool, facts: Sequence[MeasuredFact] | None = None
) -> int:
    renderer = ConsoleRenderer(Console(highlight=False))
    end = _print_labels(events, facts) if json_only else renderer.render(events)
    if facts is not None and not json_only:
        texts = [fact.text for fact in facts] or ["Nothing that is certain."]
        print("\n".join(["Measured", *(f"  {text}" for text in texts)]))
    if end is None:
        return NO_VERDICT
    if end.fault in INPUT_FAULTS:
        print_error(end.error)
        return BAD_INPUT
    return 0 if end.verdict is not None and end.verdict.whole else NO_VERDICT


def _print_labels(events: Iterable[Event], facts: Sequence[MeasuredFact] | None) -> Finished | None:
    """Print the labels as JSON, missing ones as null; return the end of the run.

    Prints none unless both videos were opened. With both orders, prints the second run's, too.
    """
    trace: Trace | None = None
    for event in events:
        trace = add_event(trace, event)
    if trace is None or (end := trace.finished) is None:
        print_error("This run did not end: there is no verdict.")
        return None
    started, faulty = trace.started, end.fault in INPUT_FAULTS
    lines = [*end.notes, "" if faulty else end.error]
    lines += [f"{SCRIPTED}: {SCRIPTED_HELP}"] if end.scripted else []
    if end.outside_scope:
        lines += [*outside_words(started), OTHER_JUDGES]
    elif not end.error and not (end.verdict and end.verdict.whole):
        lines.append(f"There is no {'whole ' if end.verdict else ''}verdict: {end.stop.value}.")
    labels: dict[str, object] = {**dict(end.verdict or Verdict())}
    if trace.swapped is not None:
        check = order_of(trace.runs)
        labels |= {"swapped": check and check.second.labels, "order": check and check.effects}
        lines.append("" if check else order_unchecked(trace.swapped.finished))
    if facts is not None:
        labels["measured"] = [asdict(fact) for fact in facts]
    if all(started.clips) and not faulty:
        print(json.dumps(labels))
    for line in lines:
        print_error(line)
    return end


def _numbers(option: str, text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise BadInput(
            f"{option} {text} is no list of numbers. Write for example 0,16,127."
        ) from None


@app.command()
def frames(
    video: Annotated[Path, Argument(help="Video.")],
    out: Annotated[Path, Option(help="Folder for the PNG files.")],
    protocol: Annotated[ProtocolName, Option(help="Protocol of the slots.")] = "paired",
    slots: Annotated[str, Option(help="Slots of the video, 0-based, separated by commas.")] = "0",
) -> None:
    """Write a judge's frames of these slots, before resizing, and list them."""
    numbers, grid = _numbers("--slots", slots), make_protocol(Settings(), protocol).grid
    for slot in numbers:
        if not 0 <= slot < grid.slots:
            raise BadInput(
                f"{protocol} has the slots 0 to {grid.slots - 1} of each video; {slot} is none of them."
            )
    native, left, written = Sizing("native"), set(numbers), dict[int, dict[str, object]]()
    plan, total = FramePlan(grid, native, native, (FrameRef(min(numbers), Side.FIRST),)), len(left)
    with progress("frames") as advance, Clip(video, Side.FIRST, plan).open() as clip:
        while left:
            # A clip read by seeking gets one request per slot: a request's limits apply to each
            asked = left if clip.read_mode == "whole" else {min(left)}
            left = left - asked
            for frame in clip.stream(list(asked)):
                path = out / f"slot_{frame.ref.slot:03d}.png"
                with os_errors(f"Cannot write {path.name} into {out}"):
                    out.mkdir(parents=True, exist_ok=True)
                    with atomic_path(path) as part:
                        frame.image.save(part, "PNG")
                written[frame.ref.slot] = {
                    "slot": frame.ref.slot,
                    "index": frame.index,
                    "timestamp": round(frame.seconds, 6),
                    "notes": [frame.note] if frame.note else [],
                    "file": str(path),
                }
                advance(len(written), total)
                del frame  # frees the pixels before the next frame arrives: 100 MB in 8K
        exported = {
            "video": clip.info.name,
            "protocol": protocol,
            "total": clip.info.frames,
            "frames": [written[slot] for slot in numbers],
            "notes": clip.info.notes,
        }
    print(json.dumps(exported, indent=1))


@app.command()
def parse(
    file: Annotated[
        str, Argument(help="JSON lines with `reply` and `finish_reason`; - for standard input.")
    ],
    protocol: Annotated[ProtocolName, Option(help="Protocol of the replies.")],
) -> None:
    """Parse judges' replies, and print one JSON line for each."""
    prompts = make_protocol(Settings(), protocol)
    try:
        with os_errors(f"Cannot read {file}"):
            text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise BadInput(f"Cannot read {file}: it is no text in UTF-8.") from None
    for number, line in filled_lines(text).items():
        try:
            record = json.loads(line)
            parts = record.get("reply_gen") or [[record["reply"], 1]]
            reply = "".join(unit * times for unit, times in parts)
            cut = record.get("finish_reason") == "length"
        except Exception:  # noqa: BLE001 - whatever such a line holds, it is no reply
            raise BadInput(f"Line {number} is no JSON object with a reply.") from None
        print(json.dumps(to_expected(prompts.parse(reply, cut=cut)), ensure_ascii=False))


@app.command()
def scenes(
    pairs: Annotated[int, Option(help="Number of pairs.")],
    out: Annotated[Path, Option(help="Folder for the videos and pairs.csv.")],
    seed: Annotated[int, Option(help="Equal seeds give equal pairs.")] = 0,
    size: Annotated[int, Option(help="Pixels per side.")] = 448,
) -> None:
    """Write drawn pairs as video files, with their true labels."""
    from vrthinker_core.drawn.video_files import write_pairs

    with progress("videos") as advance:
        table = write_pairs(pairs, seed, out, size, advance)
    print(table)


@app.command()
def judges() -> None:
    """List the judges that run here, and what the others need."""
    from vrthinker_core.backends.offers import best_choice, local_servers, offers

    servers = local_servers()
    rows = [("--judge", "real videos", "how", "needs", "here")]
    for each in offers(servers):
        how = "trained" if each.trained else "general model"
        real, here = "yes" if each.real_videos else "no", each.missing or each.slow or "yes"
        rows.append((each.judge, real, how, each.needs, here))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(map(str.ljust, row, widths)).rstrip())
    print(f"\nThe default here: --judge {best_choice(servers)}")


@app.command()
def examples(
    judge: JudgeOption = None,
    out: Annotated[
        Path | None, Option(help="Folder of the examples. (default: assets/examples)")
    ] = None,
) -> None:
    """Record all examples of the page with a judge."""
    from vrthinker_core.commands.record_examples import record_examples

    with progress("examples") as advance:
        for line in record_examples(open_backend(judge), out or asset("examples"), advance):
            print(line)


@app.command()
def export(
    traces: Annotated[list[Path], Argument(help="Stored traces, or folders of traces.")],
    to: Annotated[RowKind, Option(help="Kind of training rows.")],
    out: Annotated[Path, Option(help="New file, or an earlier export to replace.")],
    *,
    voted_only: Annotated[
        bool, Option("--voted-only", help="Only runs with a person's vote or labels.")
    ] = False,
    agreed_only: Annotated[
        bool, Option("--agreed-only", help="Only runs whose verdict a person agrees with.")
    ] = False,
) -> None:
    """Write training rows from traces; name skipped traces and the reasons."""
    from vrthinker_core.training.export import export as export_rows

    report = export_rows(traces, to, out, voted_only=voted_only, agreed_only=agreed_only)
    for line in report.skipped:
        print_error(line)
    print(report.line)
    raise Exit(0 if report.rows else NO_VERDICT)
