"""Runs that are there already, to be learnt from: a teacher's folder, or any folder of traces."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import get_args

from vrthinker_core.errors import BadInput, TraceError, VideoError
from vrthinker_core.protocols.factory import frame_layout
from vrthinker_core.results.layout import EvaluationPair
from vrthinker_core.traces import load
from vrthinker_core.training.data import kind_of, open_pairs, path_of
from vrthinker_core.training.export import run_protocol, trace_videos
from vrthinker_core.training.filters import FilterRefusal, Reason, refusal
from vrthinker_core.training.outcome_file import OUTCOMES, read_job, read_outcomes
from vrthinker_core.training.pair_set import ClipFrames, OpenClips, kept_rollouts
from vrthinker_core.training.rollouts import LabelledPair, Rollout
from vrthinker_core.training.teaching import NotForTraining, TraceFile, known_verdict
from vrthinker_core.training.trace_folder import StoredRollout, is_of, read_traces, to_rollout
from vrthinker_core.types import ProtocolName, Run, VideoPair
from vrthinker_core.types.frames import FrameLayout
from vrthinker_core.types.progress import count

RunEntry = StoredRollout | FilterRefusal


@dataclass(frozen=True, slots=True)
class ReadyRuns:
    """Runs with known labels."""

    name: str  # As they were chosen
    entries: Callable[
        [ExitStack], Iterator[RunEntry]
    ]  # Each run, or why it cannot be read; the stack closes their videos
    held_out: tuple[LabelledPair, ...] = ()  # Pairs whose runs are not learnt from

    def kept(
        self, most: int, say: Callable[[str], None], videos: ExitStack
    ) -> Iterator[StoredRollout]:
        """Those that pass both filters, at most so many; `say` hears how many do, and why the others do not.

        They can be read again until `videos` is closed. Raises BadInput.
        """
        runs, refused = 0, Counter[Reason]()
        for entry in self.entries(videos):
            if runs - refused.total() == most:
                break
            runs += 1
            why = entry if isinstance(entry, FilterRefusal) else self._refusal(entry.rollout)
            if why is None and isinstance(entry, StoredRollout):
                yield entry
            elif why is not None:
                refused[why.reason] += 1
        told = [f"{number:,} not: {reason}" for reason, number in refused.most_common()]
        say(
            "; ".join(
                [f"{runs - refused.total():,} of {count(runs, 'run')} pass the filters", *told]
            )
            + "."
        )

    def _refusal(self, rollout: Rollout) -> FilterRefusal | None:
        if any(_is_readable_of(rollout.run, pair) for pair in self.held_out):
            return FilterRefusal(Reason.HELD_OUT, "Its pair is held out.")
        return refusal(rollout.run, rollout.pair.truth)


def _is_readable_of(run: Run, pair: LabelledPair) -> bool:
    """The run is of the pair; a pair whose videos cannot be read measures nothing."""
    try:
        return is_of(run, pair)
    except VideoError:
        return False


def open_ready_runs(data: str) -> ReadyRuns | None:
    """The runs that `data` names; None where it names pairs alone."""
    kind, _, rest = data.partition(":")
    path = Path(rest if kind == "traces" and rest else data)
    if not path.is_dir():
        return None
    if (path / OUTCOMES).is_file():
        return ReadyRuns(data, partial(_teachers_runs, path))
    return (
        ReadyRuns(data, partial(_traced_runs, path)) if "traces" in (kind, kind_of(path)) else None
    )


def taught_pairs(data: str) -> str:
    """The labelled pairs behind `data`: those that a teacher was given, where it is a teacher's folder. Raises BadInput."""
    return _job_data(Path(data)) if (Path(data) / OUTCOMES).is_file() else data


def _job_data(folder: Path) -> str:
    data = read_job(folder).get("data")
    if not isinstance(data, str) or not data:
        raise BadInput(
            f"{folder} does not say which pairs its teacher was given: give a folder that the command teacher made."
        )
    path = path_of(data)
    if path is not None and not path.exists():
        where = "" if path.is_absolute() else ", or start where the teacher was started"
        raise BadInput(
            f"The runs in {folder} are of the pairs in {path}, and nothing is there: put them back{where}."
        )
    return data


def _teachers_runs(folder: Path, videos: ExitStack) -> Iterator[RunEntry]:
    """The kept runs, over the pairs that the teacher was given, and why the others were not kept."""
    yield from (
        FilterRefusal(Reason(each.reason), each.sentence)
        for each in read_outcomes(folder)
        if not each.kept
    )
    if not (layouts := _taught_layouts(folder)):
        return
    pairs = open_pairs(_job_data(folder), layouts)
    if hasattr(pairs, "close"):
        videos.callback(pairs.close)
    yield from kept_rollouts(folder, pairs, keep_tokens=False)


def _taught_layouts(folder: Path) -> dict[ProtocolName, FrameLayout]:
    """Of the protocols that the pairs of a teacher's folder take in turn, that of pair 0 first."""
    kept = [outcome for outcome in read_outcomes(folder) if outcome.kept]
    most = len(get_args(ProtocolName))
    turns = (
        next((outcome for outcome in kept if outcome.pair % most == turn), None)
        for turn in range(most)
    )
    protocols = [
        run_protocol(load(folder / outcome.file)) for outcome in turns if outcome is not None
    ]
    return {protocol.name: frame_layout(protocol) for protocol in protocols}


def _traced_runs(folder: Path, videos: ExitStack) -> Iterator[RunEntry]:
    """The first run of each trace, over its videos; a person's labels count before the judge's."""
    opened: dict[FrameLayout, OpenClips] = {}
    for number, (_, file) in enumerate(read_traces([folder])):
        if isinstance(file, TraceError):
            continue
        try:
            layout = frame_layout(run_protocol(file.trace))
            clips = (
                opened[layout]
                if layout in opened
                else opened.setdefault(layout, videos.enter_context(OpenClips(layout)))
            )
            yield StoredRollout(
                _traced_rollout(file, clips, number),
                partial(_read_again, file.path, file.pair, clips, number),
            )
        except NotForTraining as error:
            yield FilterRefusal(Reason.STORED, str(error))
        except VideoError as error:
            yield FilterRefusal(Reason.VIDEO, str(error))


def _read_again(path: Path, pair: EvaluationPair | None, clips: OpenClips, number: int) -> Rollout:
    return _traced_rollout(TraceFile(path, load(path), pair), clips, number)


def _traced_rollout(file: TraceFile, clips: OpenClips, number: int) -> Rollout:
    return to_rollout(file.trace, _traced_pair(file, clips, number), keep_tokens=False)


def _traced_pair(file: TraceFile, clips: OpenClips, number: int) -> LabelledPair:
    prompt = file.trace.started.prompt
    first, second = (Path(str(video["path"])) for video in trace_videos(file, file.trace))
    return LabelledPair(
        prompt, known_verdict(file), ClipFrames(VideoPair(prompt, first, second), clips), number
    )
