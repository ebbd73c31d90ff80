"""Traces as rows: for SFT and RL, preference pairs, VideoGen-RewardBench's columns.

A frame is named, not copied: `first.mp4#21` is frame 21 of that video, counted from 0 as a full
sequential decode does. A video is named by its full path if it lies beside the trace or where the
trace's evaluation found it, else by its file name. Its SHA-256 always stands beside it.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

from vrthinker_core.deliberation import Deliberation
from vrthinker_core.errors import BadInput
from vrthinker_core.protocols import PromptProtocol, make_protocol, sanitize_prompt
from vrthinker_core.training.teaching import (
    KnownLabel,
    NotForTraining,
    RowKind,
    TraceFile,
    check_conversation,
    known_labels,
    known_verdict,
)
from vrthinker_core.types import Dimension, Frame, FrameRef, Preference, ProtocolName, Run, Side
from vrthinker_core.types.frames import FrameSource
from vrthinker_core.types.messages import ANSWER_ORDER, GeneratedText, Image, Message, Text, Video
from vrthinker_core.types.order import swap_verdict
from vrthinker_core.video.files import file_digest
from vrthinker_core.words import encodable

Example = tuple[tuple[Message, ...], list[int]]
"""Messages that end with a reply, and the positions of the replies to learn."""


def opening_text(run: Run) -> str:
    """The question as the judge is asked it first. Raises NotForTraining if no frame was shown."""
    protocol = run_protocol(run)
    frames = _frames(run, protocol, protocol.opening_refs)
    return protocol.opening_messages(sanitize_prompt(run.started.prompt).text, frames)[-1].text


def examples(run: Run) -> Iterator[Example]:
    """The run as examples. Raises NotForTraining if today's rendering is not what was sent.

    One example holds all turns as long as each prompt goes on where the last one ended. If a memory
    window has taken frames away it does not, so the turns before are an example of their own.
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


def run_protocol(run: Run) -> PromptProtocol:
    """The protocol of the run as its settings want it. Raises NotForTraining."""
    try:
        return make_protocol(run.started.settings, cast(ProtocolName, run.started.dialect))
    except BadInput as bad:
        raise NotForTraining(f"its settings are not possible: {bad}") from None


def sent_prompts(run: Run, source: FrameSource | None = None) -> list[tuple[Message, ...]]:
    """What was sent before each reply, with pixels from a `source`. Raises NotForTraining."""
    branch = run.started.branch
    if branch is not None and branch.frames:
        raise NotForTraining(f"a person, not the judge, chose the frames of turn {branch.turn}")
    protocol = run_protocol(run)
    last = run.turns[-1] if run.turns else None
    follows = last is not None and last.forced and last.told.endswith(protocol.force_answer())
    deliberation = Deliberation(
        run.started.prompt,
        protocol,
        run.started.settings,
        source or (lambda refs: _frames(run, protocol, refs)),
        follows_instructions=follows,
    )
    prompts = []
    for turn in run.turns:
        while deliberation.in_view != turn.in_view and deliberation.forget_oldest():
            pass  # frames that had left because the context was full
        prompt = deliberation.ask()
        same = deliberation.in_view == turn.in_view and prompt[-1].text == turn.told
        if deliberation.stop_reason is not None or not same:
            raise NotForTraining(f"what was sent in turn {turn.number} is rendered otherwise today")
        prompts.append(prompt)
        if turn is not last and deliberation.take(turn.completion) != turn.reply:
            raise NotForTraining(f"the reply of turn {turn.number} is read otherwise today")
    return prompts


def _frames(run: Run, protocol: PromptProtocol, refs: Sequence[FrameRef]) -> tuple[Frame, ...]:
    """The frames as the trace knows them: which they are and how large, without pixels."""
    shown = {frame.ref: frame for turn in run.turns for frame in turn.frames}
    plan, frames = protocol.frame_plan, []
    for ref in refs:
        known, clip = shown.get(ref), run.started.clips[ref.side - 1]
        if known is None or None in run.started.clips or clip is None:
            raise NotForTraining("it does not hold all the frames that the judge was shown")
        sizing = plan.opening if ref in plan.first else plan.later
        size = sizing.size(max(1, clip.width), max(1, clip.height))
        frames.append(
            Frame(ref, known.index, known.seconds, known.until, *size, "", b"", known.note)
        )
    return tuple(frames)


Row = dict[str, Any]  # The values are plain JSON
FORMAT = "vr-thinker-rows/1"  # The first value of every row; what an earlier export is known by
CSV_COLUMNS = (
    *("path_A", "path_B", "A_model", "B_model", "prompt", "VQ", "MQ", "TA", "Overall"),
    *("fps_A", "num_frames_A", "fps_B", "num_frames_B", "source", "qid"),
)
"""The published columns, and two of ours: who gave the labels, and which pair it is."""


def sft_rows(file: TraceFile, *, agreed_only: bool = False) -> Iterator[Row]:
    """The conversations of both runs; `taught` are the positions of the replies to learn.

    `tokens` holds each reply as its judge wrote it; only that judge's tokenizer can read them.
    """
    reasons, written = [], 0
    for order, run in (("given", file.trace), ("swapped", file.trace.swapped)):
        if run is None:
            continue
        try:
            check_conversation(file, run, agreed_only=agreed_only)
            parts = list(examples(run))
        except NotForTraining as reason:
            reasons.append(reason)
            continue
        for messages, taught in parts:
            written += 1
            videos, known = trace_videos(file, run), known_verdict(file)
            yield {
                **_head("sft", file, run),
                "order": order,
                "message_list": [_message(message, videos) for message in messages],
                "taught": taught,
                "tokens": [
                    list(
                        next(
                            (said.tokens for said in each.parts if isinstance(said, GeneratedText)),
                            (),
                        )
                    )
                    for each in messages
                    if each.role == "assistant"
                ],
                "prompt": run.started.prompt,
                "labels": (known if run is file.trace else swap_verdict(known)).labels,
                "protocol": run.started.dialect,
                "settings": asdict(run.started.settings),
                "videos": videos,
            }
    if reasons and not written:
        raise reasons[0]


def preference_rows(file: TraceFile) -> Iterator[Row]:
    """One row for each dimension with a preferred video, and who says so; ties give none."""
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
    """A preference pair to train a generator with, in TRL's columns; videos are paths.

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
    """The question as the judge is asked it, both videos, and the answer: all four labels."""
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
    """One row of VideoGen-RewardBench's table; which models made the videos is not known."""
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
    """All four labels. Raises NotForTraining if one is not known."""
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
    """The same for each run over the same prompt and videos in this order."""
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
    """Which frame it is: of video 1 or 2, in the protocol's grid and in the file."""
    return {
        "side": int(frame.ref.side),
        "slot": frame.ref.slot,
        "index": frame.index,
        "width": frame.width,
        "height": frame.height,
    }


def trace_videos(file: TraceFile, run: Run) -> list[Row]:
    """Both videos of a run: `path` where it was found, `sha256`, `frames`, `fps`.

    Raises NotForTraining for one that was never opened.
    """
    videos = []
    for side, clip in zip(Side, run.started.clips, strict=True):
        if clip is None:
            raise NotForTraining(f"video {int(side)} could not be opened")
        name, digest = Path(clip.name).name or f"video-{int(side)}", clip.digest
        places = [file.path.parent / name]
        places += [Path(file.pair.first), Path(file.pair.second)] if file.pair else []
        found = next(
            (path.absolute() for path in places if digest and file_digest(path) == digest),
            Path(name),
        )
        path = encodable(found.as_posix())
        videos.append({"path": path, "sha256": digest, "frames": clip.frames, "fps": clip.fps})
    return videos
