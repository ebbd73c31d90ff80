"""Export of traces as rows for SFT, preferences, RL and VideoGen-RewardBench.

A frame is named, not copied: `first.mp4#21` is frame 21 of that video, counted from 0 as a full
sequential decode does. A video is named by its full path if it lies beside the trace or where the
trace's evaluation found it, else by its file name. Its SHA-256 always stands beside it.
"""

import csv
import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Literal

from vrthinker_core.drawn.notes import outside_words
from vrthinker_core.errors import BadInput, os_errors
from vrthinker_core.protocols import sanitize_prompt
from vrthinker_core.storage import atomic_path
from vrthinker_core.training.traces import (
    KnownLabel,
    NotForTraining,
    TraceFile,
    check_control,
    frames_without_pixels,
    known_labels,
    known_verdict,
    read_traces,
    run_protocol,
    sent_prompts,
    trace_videos,
)
from vrthinker_core.types import Dimension, Frame, Preference, Run
from vrthinker_core.types.messages import ANSWER_ORDER, GeneratedText, Image, Message, Text, Video
from vrthinker_core.types.order import swap_verdict
from vrthinker_core.words import count, encodable

RowKind = Literal["sft", "preferences", "dpo", "rl", "videogen-reward"]  # As the command line says
Row = dict[str, Any]  # The values are plain JSON
FORMAT = "vr-thinker-rows/1"  # The first value of every row but those of a CSV
CSV_COLUMNS = (
    *("path_A", "path_B", "A_model", "B_model", "prompt", "VQ", "MQ", "TA", "Overall"),
    *("fps_A", "num_frames_A", "fps_B", "num_frames_B", "source", "qid"),
)
"""The published columns, and two of ours: who gave the labels, and which pair it is."""
BEGINNINGS = (f'{{"format": "{FORMAT} '.encode(), ",".join(CSV_COLUMNS).encode())
"""First bytes of the files that `export` writes."""


@dataclass(slots=True)
class ExportReport:
    """Outcome of an export."""

    out: Path
    rows: int = 0
    used: int = 0  # Traces that gave rows
    skipped: list[str] = field(default_factory=list)  # A line per other trace: file and reason

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
    out = Path(out)
    check_export_path(out)
    report = ExportReport(out)
    rows = _all_rows(places, to, report, voted_only=voted_only, agreed_only=agreed_only)
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
    """Raise `BadInput` unless the path is free or an earlier export."""
    with os_errors(f"Cannot write {encodable(str(path))}"):
        if not path.is_symlink() and not path.exists():
            return
        if not path.is_symlink() and path.is_file():
            with path.open("rb") as file:
                if file.read(max(map(len, BEGINNINGS))).startswith(BEGINNINGS):
                    return
    raise BadInput(f"{encodable(str(path))} exists and is no earlier export: name a new file.")


def _all_rows(
    places: Sequence[Path],
    kind: RowKind,
    report: ExportReport,
    *,
    voted_only: bool,
    agreed_only: bool,
) -> Iterator[Row]:
    def skip(path: Path, reason: Exception, more: str = "") -> None:
        report.skipped.append(encodable(f"{path}: {str(reason).rstrip('.')}.{more}"))

    make = partial(sft_rows, agreed_only=agreed_only) if kind == "sft" else ROWS[kind]
    for file in read_traces(places, report.out, skip):
        before, trace = report.rows, file.trace
        try:
            check_control(trace)
            if voted_only or agreed_only:
                _check_votes(file, agreed_only=agreed_only)
            for row in make(file):
                report.rows += 1
                yield row
        except NotForTraining as reason:
            outside = trace.finished is not None and trace.finished.outside_scope
            skip(file.path, reason, f" {outside_words(trace.started)[0]}" if outside else "")
        report.used += report.rows > before


def _check_votes(file: TraceFile, *, agreed_only: bool) -> None:
    """Raise NotForTraining without a vote, or without the wanted agreement."""
    vote = file.trace.vote
    if not file.people and (vote is None or vote.agrees is None):
        raise NotForTraining("nobody has voted on it")
    if agreed_only and agrees(file, file.trace) is not True:
        raise NotForTraining("the person does not agree with its verdict")


def agrees(file: TraceFile, run: Run) -> bool | None:
    """Return whether people agree with the run's verdict; None if unknown."""
    first, verdict = (each.finished and each.finished.verdict for each in (file.trace, run))
    if run is not file.trace:
        verdict = verdict and swap_verdict(verdict)
    vote, judges = file.trace.vote, dict(verdict or ())
    said = vote.agrees if vote and verdict == first else None
    known = [(judges.get(each), label) for each, label in file.people.items()]
    equal = [own is label for own, label in known if own is not None]
    if said is False or not all(equal):
        return False
    return True if said or equal else None


def sft_rows(file: TraceFile, *, agreed_only: bool = False) -> Iterator[Row]:
    """Yield the conversations of both runs.

    `taught` are the positions of the replies to learn. `tokens` holds each reply as its judge wrote
    it, for that judge's tokenizer alone.
    Raises NotForTraining if neither run can be learnt from.
    """
    reasons, written = list[NotForTraining](), 0
    for order, run in (("given", file.trace), ("swapped", file.trace.swapped)):
        if run is None:
            continue
        try:
            _check_conversation(file, run, agreed_only=agreed_only)
            parts = list(examples(run))
        except NotForTraining as reason:
            reasons.append(reason)
            continue
        videos, known = trace_videos(file, run), known_verdict(file)
        for messages, taught in parts:
            written += 1
            yield {
                **_head("sft", file, run),
                "order": order,
                "message_list": [_message(message, videos) for message in messages],
                "taught": taught,
                "tokens": [_tokens(each) for each in messages if each.role == "assistant"],
                "prompt": run.started.prompt,
                "labels": (known if run is file.trace else swap_verdict(known)).labels,
                "protocol": run.started.dialect,
                "settings": asdict(run.started.settings),
                "videos": videos,
            }
    if reasons and not written:
        raise reasons[0]


def _check_conversation(file: TraceFile, run: Run, *, agreed_only: bool) -> None:
    """Raise NotForTraining unless the run shows how to judge its pair."""
    if run.whole_answer is None:
        raise NotForTraining("it ended without a whole final answer")
    for turn in run.turns:
        if turn.reply.problems or turn.completion.stop != "end":
            raise NotForTraining(f"turn {turn.number} does not keep to the format")
    agreed = agrees(file, run)
    if agreed is False or (agreed_only and agreed is None):
        raise NotForTraining("the person does not agree with its verdict")
    if not known_labels(file):
        raise NotForTraining("no label of its pair is known: all change with the sides swapped")


def examples(run: Run) -> Iterator[tuple[tuple[Message, ...], list[int]]]:
    """Yield messages up to a reply, and the replies to learn.

    One example holds all turns as long as each prompt continues the one before. A prompt that lost
    frames to the memory window starts a new example. Raises NotForTraining as `sent_prompts`.
    """
    prompts, first = sent_prompts(run), 0
    for k, (prompt, turn) in enumerate(zip(prompts, run.turns, strict=True)):
        if k + 1 < len(prompts) and prompts[k + 1][: len(prompt)] == prompt:
            continue
        written = turn.completion.tokens if turn.reply.text == turn.completion.text else ()
        messages = (*prompt, Message("assistant", (GeneratedText(turn.reply.text, written),)))
        replies = [place for place, each in enumerate(messages) if each.role == "assistant"]
        yield messages, replies[first:]
        first = len(replies)


def _tokens(reply: Message) -> list[int]:
    return [
        token for part in reply.parts if isinstance(part, GeneratedText) for token in part.tokens
    ]


def opening_text(run: Run) -> str:
    """Return the judge's first question. Raises NotForTraining if no frame was shown."""
    protocol = run_protocol(run)
    frames = frames_without_pixels(run, protocol, protocol.opening_refs)
    return protocol.opening_messages(sanitize_prompt(run.started.prompt).text, frames)[-1].text


def preference_rows(file: TraceFile) -> Iterator[Row]:
    """Yield a row for each dimension with a preferred video."""
    trace, labels = file.trace, known_labels(file).items()
    decided = {each: known for each, known in labels if known.label is not Preference.TIE}
    if not decided:
        raise NotForTraining("no video is preferred in any dimension")
    videos, vote = trace_videos(file, trace), trace.vote
    for dimension, known in decided.items():
        better, worse = videos if known.label is Preference.FIRST else videos[::-1]
        yield {
            **_head("preferences", file, trace),
            "prompt": trace.started.prompt,
            "dimension": dimension.value,
            "chosen": better,
            "rejected": worse,
            "source": known.source,
            "blind": vote.blind if vote and dict(vote.labels)[dimension] is not None else None,
        }


def dpo_rows(file: TraceFile) -> Iterator[Row]:
    """Yield a preference pair for a generator, in TRL's columns.

    Only the overall label counts: the dimensions may prefer different videos.
    """
    trace, known = file.trace, known_labels(file).get(Dimension.OA)
    if known is None or known.label is Preference.TIE:
        raise NotForTraining("no video is preferred overall")
    videos = trace_videos(file, trace)
    better, worse = videos if known.label is Preference.FIRST else videos[::-1]
    yield {
        **_head("dpo", file, trace),
        "prompt": trace.started.prompt,
        "chosen": better["path"],
        "rejected": worse["path"],
        "chosen_sha256": better["sha256"],
        "rejected_sha256": worse["sha256"],
        "source": known.source,
    }


def rl_rows(file: TraceFile) -> Iterator[Row]:
    """Yield the first question, both videos, and all labels as the answer."""
    trace, labels = file.trace, _whole(file)
    videos = trace_videos(file, trace)
    yield {
        **_head("rl", file, trace),
        "question": opening_text(trace),
        "image": [video["path"] for video in videos],
        "is_video": True,
        "answer": ", ".join(f"{each.value}={int(labels[each].label)}" for each in ANSWER_ORDER),
        "protocol": trace.started.dialect,
        "prompt": trace.started.prompt,
        "source": {each.value: labels[each].source for each in ANSWER_ORDER},
        "videos": videos,
    }


def videogen_reward_rows(file: TraceFile) -> Iterator[Row]:
    """Yield a row of VideoGen-RewardBench's table, without the generators' names."""
    trace = file.trace
    labels, qid = _whole(file), _pair_id(trace)
    row: Row = {"A_model": "", "B_model": "", "prompt": trace.started.prompt, "qid": qid}
    for letter, video in zip("AB", trace_videos(file, trace), strict=True):
        row |= {f"path_{letter}": video["path"], f"fps_{letter}": video["fps"]}
        row[f"num_frames_{letter}"] = video["frames"]
    for dimension, known in labels.items():
        column = "Overall" if dimension is Dimension.OA else dimension.value
        row[column] = ("same", "A", "B")[known.label]
    yield {**row, "source": " and ".join(sorted({known.source for known in labels.values()}))}


ROWS: dict[RowKind, Callable[[TraceFile], Iterator[Row]]] = {
    "sft": sft_rows,
    "preferences": preference_rows,
    "dpo": dpo_rows,
    "rl": rl_rows,
    "videogen-reward": videogen_reward_rows,
}


def _whole(file: TraceFile) -> dict[Dimension, KnownLabel]:
    """Return all four labels. Raises NotForTraining if one is unknown."""
    labels = known_labels(file)
    if missing := [each.value for each in Dimension if each not in labels]:
        raise NotForTraining(f"no label is known for {', '.join(missing)}")
    return labels


def _head(kind: str, file: TraceFile, run: Run) -> Row:
    return {
        "format": f"{FORMAT} {kind}",
        "qid": _pair_id(run),
        "trace": encodable(file.path.as_posix()),
        "judge": run.started.judge,
    }


def _pair_id(run: Run) -> str:
    """Return a name of the prompt and both videos in order."""
    parts = [run.started.prompt, *(clip.digest if clip else "" for clip in run.started.clips)]
    return hashlib.sha256("\n".join(parts).encode("utf-8", "replace")).hexdigest()[:16]


def _message(message: Message, videos: Sequence[Row]) -> Row:
    content: list[Row] = []
    for part in message.parts:
        match part:
            case Text() | GeneratedText():
                content.append({"type": "text", "text": part.text})
            case Image(frame):
                content.append({"type": "image", "image": _named(frame, videos), **_place(frame)})
            case Video(frames):
                names = [_named(frame, videos) for frame in frames]
                places = [_place(frame) for frame in frames]
                content.append({"type": "video", "video": names, "frames": places})
    return {"role": message.role, "content": content}


def _named(frame: Frame, videos: Sequence[Row]) -> str:
    return f"{videos[frame.ref.side - 1]['path']}#{frame.index}"


def _place(frame: Frame) -> Row:
    """Return the frame's video, and its place in grid and file."""
    return {
        "side": int(frame.ref.side),
        "slot": frame.ref.slot,
        "index": frame.index,
        "width": frame.width,
        "height": frame.height,
    }
