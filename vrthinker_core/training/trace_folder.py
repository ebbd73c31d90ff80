"""Traces from files and folders, each once, with the pair that an evaluation or a teacher was given."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from vrthinker_core.errors import BadInput, TraceError
from vrthinker_core.protocols import PromptProtocol
from vrthinker_core.results.layout import EvaluationPair
from vrthinker_core.results.result import RESULTS, read_results
from vrthinker_core.results.trace_files import json_files
from vrthinker_core.text import encodable
from vrthinker_core.traces import load
from vrthinker_core.training.export import run_protocol, sent_prompts
from vrthinker_core.training.filters import Outcome
from vrthinker_core.training.outcome_file import OUTCOMES, read_outcomes
from vrthinker_core.training.rollouts import LabelledPair, Rollout, clips_of
from vrthinker_core.training.teaching import NotForTraining, TraceFile
from vrthinker_core.types import Preference, Run, StopReason, Trace, Turn, Verdict
from vrthinker_core.types.messages import Message
from vrthinker_core.video.thumbnails import make_thumbnail


@dataclass(frozen=True, slots=True)
class StoredRollout:
    """A rollout, and how it is had once more: the frames of every one would fit into no memory."""

    rollout: Rollout
    read_again: Callable[[], Rollout] = field(repr=False, compare=False)

    @classmethod
    def read(cls, read: Callable[[], Rollout]) -> "StoredRollout":
        """What `read` gives, now and whenever it is called again."""
        return cls(read(), read)


def is_of(run: Run, pair: LabelledPair) -> bool:
    """The run has the prompt of the pair and, as far as both say what they are, its videos. Raises VideoError."""
    if (
        encodable(run.started.prompt).strip() != encodable(pair.prompt).strip()
    ):  # Tables are read without space around it
        return False
    both = zip(run.started.clips, clips_of(pair.source), strict=True)
    return all(own.digest == known.digest for own, known in both if own and known)


def to_trace(rollout: Rollout) -> Trace:
    """The run with the pictures that were new in each turn, as the product keeps them: the page opens it like any other.

    Outside the judge's scope it has no verdict, as in the product; `to_rollout` reads the labels in its replies again.
    """
    run, protocol = rollout.run, run_protocol(rollout.run)
    turns = [
        _with_pictures(turn, prompt[-1], protocol)
        for turn, prompt in zip(run.turns, rollout.prompts, strict=True)
    ]
    end = run.finished
    if end is not None and end.outside_scope:
        end = replace(end, verdict=None, provisional=False)
    return Trace(run.started, tuple(turns), end)


def to_rollout(run: Run, pair: LabelledPair, *, keep_tokens: bool) -> Rollout:
    """The rollout of a stored run, over the frames of its pair.

    `keep_tokens`: the model that is trained wrote it, so its tokens are learnt as they are; those of another model mean nothing to
    it, and the text is tokenised anew. Raises NotForTraining where the run is of another pair, or today's rendering is not what the
    trace says was sent.
    """
    if not is_of(run, pair):
        raise NotForTraining(
            "the data hold another pair today where its own one was: give them, and their videos, as they were"
        )
    if not keep_tokens:
        run = replace(run, turns=tuple(map(_without_tokens, run.turns)))
    if run.finished is not None and run.finished.outside_scope:
        provisional = run.finished.stop is not StopReason.ANSWERED
        run = replace(
            run, finished=replace(run.finished, verdict=run.last_labels, provisional=provisional)
        )
    return Rollout(pair, run, tuple(sent_prompts(run, pair.source)))


def _without_tokens(turn: Turn) -> Turn:
    return replace(
        turn, completion=replace(turn.completion, tokens=(), redirected=None)
    )  # which counts those tokens


def _with_pictures(turn: Turn, new: Message, protocol: PromptProtocol) -> Turn:
    return replace(
        turn,
        frames=tuple(
            make_thumbnail(frame, protocol.frame_number(frame.ref)) for frame in new.frames
        ),
    )


def read_traces(
    places: Sequence[Path], but: Path | None = None
) -> Iterator[tuple[Path, TraceFile | TraceError]]:
    """Every trace, or why a file is none; a folder stands for every JSON file below it. `but` is not read.

    What else evaluations and trainings keep as JSON in their folders is no trace and is not named.
    """
    pairs: dict[Path, EvaluationPair] = {}
    folders: set[Path] = set()
    for path, named in _files(places, but):
        folder = path.absolute().parent.parent
        if folder not in folders:
            folders.add(folder)
            pairs |= _judged_pairs(folder) | _taught_pairs(folder)
        try:
            yield path, TraceFile(path, load(path), pairs.get(path.absolute()))
        except TraceError as error:
            if named:
                yield path, error


def _files(places: Sequence[Path], but: Path | None) -> Iterator[tuple[Path, bool]]:
    """The files to read, each once, and whether one that is no trace is named."""
    seen = {but.absolute()} if but else set()
    for place in places:
        for path, named in _traces_below(place):
            if path.absolute() not in seen:
                seen.add(path.absolute())
                yield path, named


def _traces_below(place: Path) -> list[tuple[Path, bool]]:
    """The JSON files of a folder; anything else is taken for a trace, and reading it says what it is."""
    try:
        return sorted(json_files(place)) if place.is_dir() else [(place, True)]
    except OSError:
        return [(place, True)]


def _judged_pairs(folder: Path) -> dict[Path, EvaluationPair]:
    """The pair of each trace of an evaluation in this folder; nothing where there is none."""
    try:
        results = list(read_results(folder / RESULTS)) if (folder / RESULTS).is_file() else []
    except BadInput:
        return {}
    return {folder / each.trace: each.pair for each in results if each.trace}


def _taught_pairs(folder: Path) -> dict[Path, EvaluationPair]:
    """The pair of each trace of a teacher in this folder; nothing where there is none."""
    try:
        outcomes = read_outcomes(folder) if (folder / OUTCOMES).is_file() else []
    except BadInput:
        return {}
    return {folder / outcome.file: _taught_pair(outcome) for outcome in outcomes if outcome.file}


def _taught_pair(outcome: Outcome) -> EvaluationPair:
    truth = Verdict(**{name: Preference(label) for name, label in outcome.truth.items()})
    return EvaluationPair(
        f"{outcome.pair}-{outcome.sample}",
        outcome.pair + 1,
        "",
        outcome.first,
        outcome.second,
        truth,
    )
