"""Stored traces as training data: known labels, and rollouts with frames."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, cast

from vrthinker_core.comparison import clips_of
from vrthinker_core.deliberation import Deliberation
from vrthinker_core.errors import BadInput, TraceError, os_errors
from vrthinker_core.protocols import PromptProtocol, make_protocol
from vrthinker_core.results.layout import EvaluationPair
from vrthinker_core.results.result import RESULTS, read_results
from vrthinker_core.results.trace_files import add_labels, json_files
from vrthinker_core.storage import write_atomically
from vrthinker_core.traces import load, make_thumbnail, to_json
from vrthinker_core.training.filters import read_outcomes
from vrthinker_core.training.rollouts import LabelledPair, Rollout
from vrthinker_core.training.run_folder import ROLLOUTS
from vrthinker_core.types import Dimension, Preference, ProtocolName, Run, Side, StopReason, Trace
from vrthinker_core.types.frames import Frame, FramePlan, FrameRef, FrameSource
from vrthinker_core.types.messages import Message, Verdict
from vrthinker_core.types.order import OrderEffect, order_of
from vrthinker_core.video.files import file_digest
from vrthinker_core.words import encodable

SHOWN = 2  # Rollouts of one pair that are kept each time


class NotForTraining(Exception):
    """A run that gives no row; `str(error)` says why in a sentence."""


@dataclass(frozen=True, slots=True)
class TraceFile:
    """A trace, its file, and the pair of its evaluation or teacher."""

    path: Path
    trace: Trace
    pair: EvaluationPair | None = None

    @property
    def people(self) -> dict[Dimension, Preference]:
        """The labels of people: of a vote, else of the data set."""
        vote = self.trace.vote
        both = (self.pair.labels if self.pair else (), vote.labels if vote else ())
        return {each: label for labels in both for each, label in labels if label is not None}

    @property
    def known(self) -> Verdict:
        """The labels of vote, data set or judge, in this order.

        The judge's labels need a final answer, no disagreement from a person, and the same label
        with the sides swapped if that was tried.
        """
        trace, known = self.trace, self.people
        if trace.final_verdict and (trace.vote is None or trace.vote.agrees is not False):
            check = order_of(trace.runs)
            for each, label in trace.final_verdict:
                if label is not None and (check is None or check[each] is OrderEffect.STABLE):
                    known.setdefault(each, label)
        return Verdict(**{each.value: label for each, label in known.items()})

    def source(self, dimension: Dimension) -> str:
        """Return who gave a known label."""
        return "person" if dimension in self.people else "judge"


def read_traces(
    places: Sequence[Path],
    but: Path | None = None,
    refused: Callable[[Path, TraceError], object] = lambda *_: None,
) -> Iterator[TraceFile]:
    """Yield the traces of files, and of all JSON files below folders.

    `but` is not read. `refused` hears which file is no trace, and why; it does not hear of other
    files of evaluations and trainings.
    """
    pairs = cache(_known_pairs)
    seen = {but.absolute()} if but else set()
    for place in places:
        files = sorted(json_files(place)) if place.is_dir() else [(place, True)]
        for path, named in files:
            absolute = path.absolute()
            if absolute not in seen:
                seen.add(absolute)
                try:
                    yield TraceFile(path, load(path), pairs(absolute.parent.parent).get(absolute))
                except TraceError as error:
                    if named:
                        refused(path, error)


def _known_pairs(folder: Path) -> dict[Path, EvaluationPair]:
    """Return the pairs of an evaluation's or a teacher's traces."""
    pairs: dict[Path, EvaluationPair] = {}
    with suppress(BadInput):
        for result in read_results(folder / RESULTS):
            pairs[folder / result.trace] = result.pair
    with suppress(BadInput):
        for each in read_outcomes(folder):
            truth = Verdict(**{name: Preference(label) for name, label in each.truth.items()})
            pairs[folder / each.file] = EvaluationPair("", 0, "", each.first, each.second, truth)
    return pairs


def check_control(run: Run) -> None:
    """Raise NotForTraining for a control, whose judge did not choose its frames."""
    if run.started.settings.frames == "random":
        raise NotForTraining("it is a control: frames were drawn at random in place of its own")


def trace_videos(file: TraceFile) -> list[dict[str, Any]]:
    """Return `path`, `sha256`, `frames`, `fps` of both videos of a trace.

    A path is whole if the very file is beside the trace or at its pair's place; else it is the file
    name. Raises NotForTraining for a control, and if a video was never opened.
    """
    check_control(file.trace)
    videos = []
    for side, clip in zip(Side, file.trace.started.clips, strict=True):
        if clip is None:
            raise NotForTraining(f"video {int(side)} could not be opened")
        name, digest = Path(clip.name).name or f"video-{int(side)}", clip.digest
        told = (file.pair.first, file.pair.second) if file.pair else ()
        places = (path.absolute() for path in (file.path.parent / name, *map(Path, told)))
        found = (path for path in places if digest and file_digest(path) == digest)
        path = encodable(next(found, Path(name)).as_posix())
        videos.append({"path": path, "sha256": digest, "frames": clip.frames, "fps": clip.fps})
    return videos


def run_protocol(run: Run) -> PromptProtocol:
    """Return the protocol with the run's settings. Raises NotForTraining."""
    try:
        return make_protocol(run.started.settings, cast(ProtocolName, run.started.dialect))
    except BadInput as bad:
        raise NotForTraining(f"its settings are not possible: {bad}") from None


def sent_prompts(run: Run, source: FrameSource | None = None) -> list[tuple[Message, ...]]:
    """Return what was sent before each reply, with pixels from `source`.

    Raises NotForTraining for a control, and if today's rendering differs from the trace.
    """
    check_control(run)
    if (branch := run.started.branch) and branch.frames:
        raise NotForTraining(f"a person, not the judge, chose the frames of turn {branch.turn}")
    protocol = run_protocol(run)
    plan, last = protocol.frame_plan, run.turns[-1] if run.turns else None
    follows = last is not None and last.forced and last.told.endswith(protocol.force_answer())
    deliberation = Deliberation(
        run.started.prompt,
        protocol,
        run.started.settings,
        source or partial(_stored_frames, run, plan),
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


def _stored_frames(run: Run, plan: FramePlan, refs: Sequence[FrameRef]) -> tuple[Frame, ...]:
    """Return frames as the trace knows them, without pixels. Raises NotForTraining."""
    shown, frames = {frame.ref: frame for turn in run.turns for frame in turn.frames}, []
    for ref in refs:
        known, clip = shown.get(ref), run.started.clips[ref.side - 1]
        if known is None or clip is None:
            raise NotForTraining("it does not hold all the frames that the judge was shown")
        sizing = plan.opening if ref in plan.first else plan.later
        size = sizing.size(max(1, clip.width), max(1, clip.height))
        times = known.seconds, known.until
        frames.append(Frame(ref, known.index, *times, *size, "", b"", known.note))
    return tuple(frames)


@dataclass(frozen=True, slots=True)
class StoredRollout:
    """A rollout, and how to read it again to save memory."""

    rollout: Rollout
    read_again: Callable[[], Rollout] = field(repr=False, compare=False)


def to_rollout(run: Run, pair: LabelledPair, *, keep_tokens: bool) -> Rollout:
    """Return the rollout of a stored run, with its pair's frames.

    `keep_tokens` if the trained model wrote the run: its tokens are learnt as they are. The text of
    another model is tokenised anew. Raises VideoError, and NotForTraining if the run is a control,
    its videos are others or its prompts differ today.
    """
    both = zip(run.started.clips, clips_of(pair.source), strict=True)
    if any(own and known and own.digest != known.digest for own, known in both):
        raise NotForTraining("its videos have changed")
    if not keep_tokens:  # `redirected` counts them, too
        turns = (
            replace(each, completion=replace(each.completion, tokens=(), redirected=None))
            for each in run.turns
        )
        run = replace(run, turns=tuple(turns))
    if (end := run.finished) and end.outside_scope:  # `to_trace` took the verdict away
        provisional = end.stop is not StopReason.ANSWERED
        run = replace(run, finished=replace(end, verdict=run.last_labels, provisional=provisional))
    return Rollout(pair, run, tuple(sent_prompts(run, pair.source)))


def to_trace(rollout: Rollout) -> Trace:
    """Return the run with thumbnails of new frames, for the page.

    A run outside the judge's scope loses its verdict; `to_rollout` reads it from the replies again.
    """
    run, protocol = rollout.run, run_protocol(rollout.run)
    turns = []
    for turn, prompt in zip(run.turns, rollout.prompts, strict=True):
        new = prompt[-1].frames
        frames = tuple(make_thumbnail(each, protocol.frame_number(each.ref)) for each in new)
        turns.append(replace(turn, frames=frames))
    if (end := run.finished) and end.outside_scope:
        end = replace(end, verdict=None, provisional=False)
    return Trace(run.started, tuple(turns), end)


def keep_rollouts(folder: Path, stage: str, step: int, rollouts: Sequence[Rollout]) -> None:
    """Keep rollouts as traces for the page, named by stage and step.

    The judge's name says the step, too; known labels lie beside the traces. Raises BadInput.
    """
    out, begin = folder / ROLLOUTS, f"{stage}-step-{step:05d}-sample"
    named = {f"{begin}-{number}.json": rollout for number, rollout in enumerate(rollouts)}
    with os_errors(f"Cannot write to {out}"):
        out.mkdir(parents=True, exist_ok=True)
        add_labels(out, {name: rollout.pair.truth for name, rollout in named.items()})
        for name, rollout in named.items():
            trace = to_trace(rollout)
            started = replace(trace.started, judge=f"{trace.started.judge}, {stage}, step {step}")
            write_atomically(out / name, to_json(replace(trace, started=started)))
