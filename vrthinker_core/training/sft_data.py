"""Runs that are there already, to be learnt from: a teacher's folder, or any folder of traces."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import get_args

from vrthinker_core.errors import BadInput, VideoError
from vrthinker_core.results.layout import EvaluationPair
from vrthinker_core.traces import load
from vrthinker_core.training.config import PartsConfig
from vrthinker_core.training.data import kind_of, named_sets, open_pairs
from vrthinker_core.training.export import run_protocol, trace_videos
from vrthinker_core.training.filters import FilterRefusal, Reason, refusal
from vrthinker_core.training.outcome_file import OUTCOMES, read_job, read_outcomes
from vrthinker_core.training.pair_set import ClipFrames, OpenClips, kept_rollouts
from vrthinker_core.training.rollouts import LabelledPair, Rollout
from vrthinker_core.training.teaching import NotForTraining, TraceFile, known_verdict
from vrthinker_core.training.trace_folder import StoredRollout, is_of, read_traces, to_rollout
from vrthinker_core.types import ProtocolName, Run, VideoPair
from vrthinker_core.types.frames import FramePlan
from vrthinker_core.words import count

RunEntry = StoredRollout | FilterRefusal  # A run, or why it cannot be read


@dataclass(frozen=True, slots=True)
class SftData:
    """Runs with known labels."""

    entries: Callable[[ExitStack], Iterator[RunEntry]]  # The stack closes their videos
    held_out: tuple[LabelledPair, ...] = ()  # Pairs whose runs are not learnt from

    def kept(
        self, most: int, say: Callable[[str], None], videos: ExitStack
    ) -> Iterator[StoredRollout]:
        """The runs that pass both filters, at most so many; `say` hears why the others do not.

        They can be read again until `videos` is closed. Raises BadInput.
        """
        passed, refused = 0, Counter[Reason]()
        for entry in self.entries(videos):
            if passed == most:
                break
            if isinstance(entry, FilterRefusal):
                refused[entry.reason] += 1
            elif self._is_held_out(entry.rollout.run):
                refused[Reason.HELD_OUT] += 1
            elif why := refusal(entry.rollout.run, entry.rollout.pair.truth):
                refused[why.reason] += 1
            else:
                passed += 1
                yield entry
        told = [f"{passed:,} of {count(passed + refused.total(), 'run')} pass the filters"]
        told += [f"{number:,} not: {reason}" for reason, number in refused.most_common()]
        say("; ".join(told) + ".")

    def _is_held_out(self, run: Run) -> bool:
        for pair in self.held_out:
            with suppress(VideoError):  # a pair whose videos cannot be read measures nothing
                if is_of(run, pair):
                    return True
        return False


def open_ready_runs(data: str) -> SftData | None:
    """The runs that `data` names; None if it names pairs alone."""
    kind, _, rest = data.partition(":")
    path = Path(rest if kind == "traces" and rest else data)
    if not path.is_dir():
        return None
    if (path / OUTCOMES).is_file():
        return SftData(partial(_teachers_runs, path))
    traced = "traces" in (kind, kind_of(path))
    return SftData(partial(_traced_runs, path)) if traced else None


def taught_pairs(data: str) -> str:
    """The pairs that the teacher whose folder `data` is was given, else `data`. Raises BadInput."""
    folder = Path(data)
    if not (folder / OUTCOMES).is_file():
        return data
    given = read_job(folder).get("data")
    if not isinstance(given, str) or not given:
        raise BadInput(
            f"{folder} does not say which pairs its teacher was given: give a folder that the "
            "command teacher made."
        )
    for path in (each.path for each in named_sets(given)):
        if path is not None and not path.exists():
            raise BadInput(
                f"The runs in {folder} are of the pairs in {path}, and nothing is there: put them "
                "back."
            )
    return given


def _teachers_runs(folder: Path, videos: ExitStack) -> Iterator[RunEntry]:
    """The kept runs, over the pairs of the teacher, and why the others were not kept."""
    outcomes = read_outcomes(folder)
    for each in outcomes:
        if not each.kept:
            yield FilterRefusal(Reason(each.reason), each.sentence)
    # Pairs take protocols in turn, so one run of each turn tells them all
    most, files = len(get_args(ProtocolName)), dict[int, str]()
    for each in outcomes:
        if each.kept:
            files.setdefault(each.pair % most, each.file)
    protocols = [run_protocol(load(folder / files[turn])) for turn in sorted(files)]
    if not protocols:
        return
    plans = {protocol.name: protocol.frame_plan for protocol in protocols}
    whole = videos.enter_context(open_pairs(taught_pairs(str(folder)), plans))
    parts = read_job(folder).get("parts")
    pairs = whole.part("cold-start", PartsConfig(**parts)) if parts else whole
    yield from kept_rollouts(folder, pairs, keep_tokens=False)


def _traced_runs(folder: Path, videos: ExitStack) -> Iterator[RunEntry]:
    """The first run of each trace, over its videos; a person's labels count before the judge's."""
    opened: dict[FramePlan, OpenClips] = {}
    for number, file in enumerate(read_traces([folder])):
        try:
            plan = run_protocol(file.trace).frame_plan
            if plan not in opened:
                opened[plan] = videos.enter_context(OpenClips(plan))
            place = file.path, file.pair, opened[plan], number
            yield StoredRollout.read(partial(_traced_rollout, *place))
        except NotForTraining as error:
            yield FilterRefusal(Reason.STORED, str(error))
        except VideoError as error:
            yield FilterRefusal(Reason.VIDEO, str(error))


def _traced_rollout(
    path: Path, known: EvaluationPair | None, clips: OpenClips, number: int
) -> Rollout:
    file = TraceFile(path, load(path), known)
    prompt = file.trace.started.prompt
    first, second = (Path(str(video["path"])) for video in trace_videos(file, file.trace))
    source = ClipFrames(VideoPair(prompt, first, second), clips)
    pair = LabelledPair(prompt, known_verdict(file), source, number)
    return to_rollout(file.trace, pair, keep_tokens=False)
