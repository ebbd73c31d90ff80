"""Export of traces as rows for SFT, preferences, RL and VideoGen-RewardBench.

A frame is named, not copied: `first.mp4#21` is frame 21 of that video, counted from 0 as a full
sequential decode does. A video is named by its full path if it lies beside the trace or where the
trace's evaluation found it, else by its file name. Its SHA-256 always stands beside it.
"""

import csv
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, Literal

from vrthinker_core.drawn.notes import outside_words
from vrthinker_core.errors import BadInput, os_errors
from vrthinker_core.results.layout import pair_id
from vrthinker_core.storage import atomic_path
from vrthinker_core.training.filters import refusal
from vrthinker_core.training.traces import (
    NotForTraining,
    TraceFile,
    read_traces,
    run_protocol,
    sent_prompts,
    trace_videos,
)
from vrthinker_core.types import Dimension, Preference, Run
from vrthinker_core.types.messages import ANSWER_ORDER, GeneratedText, Image, Message, Part, Video
from vrthinker_core.words import count, encodable

RowKind = Literal["sft", "preferences", "dpo", "rl", "videogen-reward"]  # As the command line says
Row = dict[str, Any]  # The values are plain JSON
FORMAT = "vr-thinker-rows/1"  # First value of each row, except in a CSV
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
    report, named = ExportReport(Path(out)), encodable(str(out))
    rows = _all_rows(places, to, report, voted_only or agreed_only, agreed_only)
    with os_errors(f"Cannot write {named}"):
        if not _may_replace(report.out):
            raise BadInput(f"{named} exists and is no earlier export: name a new file.")
        if (first := next(rows, None)) is None:
            return report
        with atomic_path(report.out) as part, part.open("w", encoding="utf-8", newline="") as file:
            if to == "videogen-reward":
                table = csv.DictWriter(file, CSV_COLUMNS, "", "ignore", lineterminator="\n")
                table.writeheader()
                table.writerows(chain([first], rows))
            else:
                for row in chain([first], rows):
                    file.write(json.dumps(row, ensure_ascii=False) + "\n")
    return report


def _may_replace(path: Path) -> bool:
    """Return whether the path is free or an earlier export. Raises OSError."""
    if path.is_symlink() or not path.is_file():
        return not os.path.lexists(path)
    with path.open("rb") as file:
        return file.read(max(map(len, BEGINNINGS))).startswith(BEGINNINGS)


def _all_rows(
    places: Sequence[Path], kind: RowKind, report: ExportReport, voted: bool, agreed: bool
) -> Iterator[Row]:
    """Yield the rows of all traces; `report` counts them, and names skipped traces."""

    def skip(path: Path, reason: Exception, more: str = "") -> None:
        report.skipped.append(encodable(f"{path}: {str(reason).rstrip('.')}.{more}"))

    for file in read_traces(places, report.out, skip):
        before, trace, reason = report.rows, file.trace, NotForTraining("no video is preferred")
        try:
            videos = trace_videos(file)
            vote_counts = trace.vote is not None and trace.vote.agrees is not None
            if voted and not file.people and not vote_counts:
                raise NotForTraining("nobody has voted on it")
            if agreed and not agrees(file):
                raise NotForTraining(DISAGREES)
            for row in ROWS[kind](file, videos):
                report.rows += 1
                yield row
        except NotForTraining as error:
            reason = error
        if report.rows > before:
            report.used += 1
        else:
            outside = trace.finished is not None and trace.finished.outside_scope
            skip(file.path, reason, f" {outside_words(trace.started)[0]}" if outside else "")


DISAGREES = "the person does not agree with its verdict"


def agrees(file: TraceFile) -> bool | None:
    """Return whether people agree with the run's verdict; None if unknown."""
    trace, vote = file.trace, file.trace.vote
    given = dict((trace.finished and trace.finished.verdict) or ())
    known = [(given.get(each), label) for each, label in file.people.items()]
    said = [own is label for own, label in known if own is not None]
    if vote and vote.agrees is not None:
        said.append(vote.agrees)
    return all(said) if said else None


def sft_rows(file: TraceFile, videos: Sequence[Row]) -> Iterator[Row]:
    """Yield the conversation of a run that passes the paper's filters.

    A trace's second run, with the sides swapped, is left out, as training does. `taught` are the
    positions of the replies to learn. `tokens` holds each reply as its judge wrote it, for that
    judge's tokenizer alone. Raises NotForTraining.
    """
    run, truth = file.trace, file.known
    if refused := refusal(run, truth):
        raise NotForTraining(refused[1])
    if agrees(file) is False:
        raise NotForTraining(DISAGREES)
    for messages, taught in examples(run):
        parts = (part for each in messages for part in each.parts)
        yield {
            **_head("sft", file),
            "message_list": [
                {"role": each.role, "content": [_content(part, videos) for part in each.parts]}
                for each in messages
            ],
            "taught": taught,
            "tokens": [part.tokens for part in parts if isinstance(part, GeneratedText)],
            "labels": truth.labels,
            "protocol": run.started.dialect,
            "settings": asdict(run.started.settings),
            "videos": videos,
        }


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


def preference_rows(file: TraceFile, videos: Sequence[Row]) -> Iterator[Row]:
    """Yield a row for each dimension with a preferred video."""
    vote = file.trace.vote
    for dimension, label in file.known:
        if label:  # neither unknown nor a tie
            better, worse = videos if label is Preference.FIRST else videos[::-1]
            yield {
                **_head("preferences", file),
                "dimension": dimension.value,
                "chosen": better,
                "rejected": worse,
                "source": file.source(dimension),
                "blind": vote.blind if vote and dict(vote.labels)[dimension] is not None else None,
            }


def dpo_rows(file: TraceFile, videos: Sequence[Row]) -> Iterator[Row]:
    """Yield a preference pair for a generator, in TRL's columns.

    Only the overall label counts: the dimensions may prefer different videos.
    """
    for row in preference_rows(file, videos):
        if row["dimension"] == Dimension.OA:
            named = {name: row[name] for name in ("chosen", "rejected")}
            yield {
                **_head("dpo", file),
                **{name: video["path"] for name, video in named.items()},
                **{f"{name}_sha256": video["sha256"] for name, video in named.items()},
                "source": row["source"],
            }


def rl_rows(file: TraceFile, videos: Sequence[Row]) -> Iterator[Row]:
    """Yield the first question, both videos, and all labels as the answer."""
    trace, labels = file.trace, _whole(file)
    if not trace.turns:
        raise NotForTraining("its judge was asked nothing")
    yield {
        **_head("rl", file),
        "question": trace.turns[0].told.removesuffix(run_protocol(trace).force_answer()),
        "image": [video["path"] for video in videos],
        "is_video": True,
        "answer": ", ".join(f"{each.value}={labels[each.value]}" for each in ANSWER_ORDER),
        "protocol": trace.started.dialect,
        "source": {each.value: file.source(each) for each in ANSWER_ORDER},
        "videos": videos,
    }


def videogen_reward_rows(file: TraceFile, videos: Sequence[Row]) -> Iterator[Row]:
    """Yield a row of VideoGen-RewardBench's table, without the generators' names."""
    labels, row = _whole(file), _head("videogen-reward", file)
    for letter, video in zip("AB", videos, strict=True):
        columns = {"path": "path", "fps": "fps", "num_frames": "frames"}
        row |= {f"{column}_{letter}": video[name] for column, name in columns.items()}
    for name, label in labels.items():
        row["Overall" if name == Dimension.OA else name] = ("same", "A", "B")[label]
    yield {**row, "source": " and ".join(sorted(set(map(file.source, Dimension))))}


ROWS: dict[RowKind, Callable[[TraceFile, Sequence[Row]], Iterator[Row]]] = {
    "sft": sft_rows,
    "preferences": preference_rows,
    "dpo": dpo_rows,
    "rl": rl_rows,
    "videogen-reward": videogen_reward_rows,
}


def _whole(file: TraceFile) -> dict[str, int]:
    """Return all four labels by name. Raises NotForTraining if one is unknown."""
    labels = file.known.labels
    if missing := [each.value for each in Dimension if each not in labels]:
        raise NotForTraining(f"no label is known for {', '.join(missing)}")
    return labels


def _head(kind: RowKind, file: TraceFile) -> Row:
    started = file.trace.started
    first, second = (clip.digest if clip else "" for clip in started.clips)
    return {
        "format": f"{FORMAT} {kind}",
        "qid": pair_id(started.prompt, first, second),
        "trace": encodable(file.path.as_posix()),
        "judge": started.judge,
        "prompt": started.prompt,
    }


def _content(part: Part, videos: Sequence[Row]) -> Row:
    """Return a part of a message, with frames by name and by place in grid and file."""
    if not isinstance(part, Image | Video):
        return {"type": "text", "text": part.text}
    names, places = list[str](), list[Row]()
    for each in (part.frame,) if isinstance(part, Image) else part.frames:
        names.append(f"{videos[each.ref.side - 1]['path']}#{each.index}")
        size = {"index": each.index, "width": each.width, "height": each.height}
        places.append({**asdict(each.ref), **size})
    if isinstance(part, Image):
        return {"type": "image", "image": names[0], **places[0]}
    return {"type": "video", "video": names, "frames": places}
