"""A teacher: any judge over pairs with known labels, whose runs are kept to be learnt from.

The folder holds `outcomes.jsonl`, a line for each run, and `traces/`, which `python app.py --runs`
opens. A killed teacher goes on where it stopped.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain, islice, takewhile
from pathlib import Path

from vrthinker_core.backends.base import Backend, RemoteBackend, not_cancelled
from vrthinker_core.backends.scripted import ScriptedBackend
from vrthinker_core.drawn.world import DrawnPair
from vrthinker_core.errors import VideoError, os_errors
from vrthinker_core.storage import write_atomically
from vrthinker_core.traces import to_json
from vrthinker_core.training.config import PartsConfig
from vrthinker_core.training.filters import Outcome, Reason, refusal
from vrthinker_core.training.outcome_file import KEPT, OutcomeFile
from vrthinker_core.training.pair_set import ClipFrames, DrawnFrames, PairSet
from vrthinker_core.training.rollouts import (
    LabelledPair,
    Rollout,
    Unplayable,
    in_order,
    play_each,
)
from vrthinker_core.training.trace_folder import to_trace
from vrthinker_core.types import ProtocolName, Settings
from vrthinker_core.words import encodable

TRACES = "traces"  # Folder beside the outcomes
BackendOfPair = Callable[[int], Backend]  # The judge of a pair: a script knows its pair's truth


@dataclass(frozen=True, slots=True)
class TeacherJob:
    """What a teacher does. Its folder goes on only with the very same."""

    judge: str  # As it was chosen
    data: str  # As the pairs were chosen
    settings: Settings = Settings()
    samples: int = 1  # Runs of each pair
    parts: PartsConfig | None = None  # The pairs are the part of the cold start; None: all
    live: int = 32  # Runs side by side
    keep_all: bool = True  # Traces of runs that do not pass the filters are stored, too


def run_teacher(
    pairs: PairSet,
    numbers: Iterable[int],
    judge: Backend | BackendOfPair,
    job: TeacherJob,
    out: Path,
    stopped: Callable[[], bool] = not_cancelled,
) -> Iterator[Outcome]:
    """Judge the pairs of these numbers; gives what becomes of each run that was not there yet.

    Once it is `stopped`, no pair is begun but the first: however short a sitting is, it comes
    further. Those in hand are played to their end and kept; whoever leaves before loses them.

    Raises BadInput if `out` holds the runs of another job or cannot be written, and what the judge
    raises. A pair whose video cannot be read is an outcome, and is tried again when the teacher is
    called again; one that is too long for the judge is an outcome, too, and is not.
    """
    # What must be the same for a folder to be gone on with
    identity = asdict(job)
    del identity["live"], identity["keep_all"]
    with OutcomeFile(out, identity, TRACES) as file:
        done = {(each.pair, each.sample) for each in file.outcomes if each.reason != Reason.VIDEO}
        samples = range(job.samples)
        missing = (
            number for number in numbers if any((number, each) not in done for each in samples)
        )
        begun = chain(islice(missing, 1), takewhile(lambda _: not stopped(), missing))
        for number, sample, played in _play_pairs(pairs, begun, judge, job):
            if (number, sample) not in done:
                outcome = _store(number, sample, played, pairs.pair(number), job, out)
                file.append(outcome)
                yield outcome


def scripted_teacher(
    pairs: PairSet, write: Callable[[DrawnPair, ProtocolName], Sequence[str]]
) -> BackendOfPair:
    """The teacher of drawn pairs: a script of the replies that `write` gives for each, in order."""

    def of_pair(number: int) -> ScriptedBackend:
        pair = pairs.pair(number)
        assert isinstance(pair.source, DrawnFrames), "a script knows drawn pairs alone"
        protocol = pair.protocol or "paired"
        return ScriptedBackend(write(pair.source.pair, protocol), protocol, "scripted teacher")

    return of_pair


def _play_pairs(
    pairs: PairSet, numbers: Iterator[int], judge: Backend | BackendOfPair, job: TeacherJob
) -> Iterator[tuple[int, int, Rollout | Unplayable]]:
    """Pair, sample and what came of it, as many side by side as the job says.

    At a server each goes at its own pace.
    """
    begun: list[int] = []

    def taken() -> Iterator[LabelledPair]:
        for number in numbers:
            begun.append(number)
            yield pairs.pair(number)

    if callable(judge):
        for number in numbers:
            one = play_each([pairs.pair(number)], judge(number), job.settings, job.samples)
            for sample, result in in_order(one):
                yield number, sample, result
        return
    played = play_each(taken(), judge, job.settings, job.samples, job.live)
    for position, result in played if isinstance(judge, RemoteBackend) else in_order(played):
        yield begun[position // job.samples], position % job.samples, result


def _store(
    number: int,
    sample: int,
    played: Rollout | Unplayable,
    pair: LabelledPair,
    job: TeacherJob,
    out: Path,
) -> Outcome:
    """Pass the run through the filters and keep its trace. Raises BadInput if the disk is full."""
    outcome = Outcome(number, sample, pair.truth.labels)
    if isinstance(pair.source, ClipFrames):
        videos = pair.source.videos
        outcome = replace(outcome, first=str(videos.first), second=str(videos.second))
    if not isinstance(played, Rollout):
        reason = Reason.VIDEO if isinstance(played, VideoError) else Reason.CONTEXT
        return replace(outcome, reason=reason, sentence=encodable(str(played)))
    run = played.run
    written = "\0".join(turn.completion.text for turn in run.turns).encode("utf-8", "replace")
    outcome = replace(
        outcome,
        given=run.final_verdict.labels if run.final_verdict else {},
        replies=hashlib.sha256(written).hexdigest()[:16],
    )
    if refused := refusal(run, pair.truth):
        outcome = replace(outcome, reason=str(refused.reason), sentence=refused.sentence)
        if not job.keep_all:
            return outcome
    outcome = replace(outcome, file=f"{TRACES}/pair-{number:06d}-{sample}.json")
    with os_errors(f"Cannot write to {out}", KEPT):
        write_atomically(out / outcome.file, to_json(to_trace(played)))
    return outcome
