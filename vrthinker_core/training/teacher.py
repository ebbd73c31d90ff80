"""A teacher: any judge over pairs whose labels are known, through the one `Deliberation`; what it wrote is kept to be learnt from.

The folder holds `outcomes.jsonl`, a line for each run, and `traces/`, which `python app.py --runs` opens. A killed teacher goes on
where it stopped.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from itertools import chain, islice, takewhile
from pathlib import Path
from typing import Any

from vrthinker_core.backends.base import Backend, RemoteBackend, not_cancelled
from vrthinker_core.backends.scripted import ScriptedBackend
from vrthinker_core.batch import as_they_end
from vrthinker_core.drawn.world import DrawnPair
from vrthinker_core.errors import BadInput, VideoError
from vrthinker_core.storage import write_atomically
from vrthinker_core.text import encodable
from vrthinker_core.traces import to_json
from vrthinker_core.training.filters import FilterRefusal, Outcome, Reason, refusal
from vrthinker_core.training.outcome_file import OutcomeFile
from vrthinker_core.training.pair_set import ClipFrames, DrawnPairSet, PairSet
from vrthinker_core.training.rollouts import LabelledPair, Rollout, Unplayable, play_each
from vrthinker_core.training.trace_folder import to_trace
from vrthinker_core.types import ProtocolName, Run, Settings

TRACES = "traces"  # Folder beside the outcomes
SCRIPTED_TEACHER = "scripted teacher"  # Its display name

BackendOfPair = Callable[[int], Backend]
"""The judge of the pair with a number: a script that knows the truth of its pair is another one for each."""

WriteReplies = Callable[[DrawnPair, ProtocolName], Sequence[str]]
"""The replies of a run over a drawn pair, in order."""


@dataclass(frozen=True, slots=True)
class TeacherJob:
    """What a teacher does. Its folder goes on only with the very same."""

    judge: str  # As it was chosen
    data: str  # As the pairs were chosen
    settings: Settings = Settings()
    samples: int = 1  # Runs of each pair
    live: int = 32  # Runs side by side
    keep_all: bool = True  # Traces of runs that do not pass the filters are stored, too

    @property
    def identity(self) -> dict[str, Any]:
        """What must be the same for a folder to be gone on with."""
        return {
            "judge": self.judge,
            "data": self.data,
            "settings": asdict(self.settings),
            "samples": self.samples,
        }


def run_teacher(
    pairs: PairSet,
    numbers: Iterable[int],
    judge: Backend | BackendOfPair,
    job: TeacherJob,
    out: Path,
    stopped: Callable[[], bool] = not_cancelled,
) -> Iterator[Outcome]:
    """Judge the pairs of these numbers; gives what becomes of each run that was not there yet.

    Once it is `stopped`, no pair is begun but the first: however short a sitting is, it comes further. Those in hand are played to
    their end and kept; whoever leaves before loses them.

    Raises BadInput where `out` holds the runs of another job or cannot be written, and what the judge raises. A pair whose video
    cannot be read is an outcome, and is tried again when the teacher is called again; so is one that is too long for the judge,
    which is not.
    """
    with OutcomeFile(out, job.identity, TRACES) as file:
        done = {(each.pair, each.sample) for each in file.outcomes if each.reason != Reason.VIDEO}
        missing = (
            number
            for number in numbers
            if any((number, sample) not in done for sample in range(job.samples))
        )
        begun = chain(islice(missing, 1), takewhile(lambda _: not stopped(), missing))
        for number, sample, played in _play_pairs(pairs, begun, judge, job):
            if (number, sample) not in done:
                outcome = _store(number, sample, played, pairs.pair(number), job, out)
                file.append(outcome)
                yield outcome


def scripted_teacher(pairs: DrawnPairSet, write: WriteReplies) -> BackendOfPair:
    """The teacher of drawn pairs: for each a script that `write` makes from all that is known of it, in the pair's protocol."""

    def of_pair(number: int) -> ScriptedBackend:
        protocol = pairs.protocol(number) or "paired"
        return ScriptedBackend(write(pairs.drawn(number), protocol), protocol, SCRIPTED_TEACHER)

    return of_pair


Played = tuple[int, int, Rollout | Unplayable]  # Pair, sample, and what came of it


def _play_pairs(
    pairs: PairSet, numbers: Iterator[int], judge: Backend | BackendOfPair, job: TeacherJob
) -> Iterator[Played]:
    """As many side by side as the job says. At a server each goes at its own pace, and comes as it ends."""
    many = max(1, job.live // job.samples)
    if isinstance(judge, RemoteBackend):
        with ThreadPoolExecutor(many, "pair") as executor:
            for played in as_they_end(
                lambda number: executor.submit(_play, pairs, [number], judge, job), numbers, many
            ):
                yield from played
    elif callable(judge):
        for number in numbers:
            yield from _play(pairs, [number], judge(number), job)
    else:
        while chunk := list(islice(numbers, many)):
            yield from _play(pairs, chunk, judge, job)


def _play(pairs: PairSet, numbers: Sequence[int], judge: Backend, job: TeacherJob) -> list[Played]:
    played = play_each(
        [pairs.pair(number) for number in numbers], judge, job.settings, job.samples, job.live
    )
    order = [(number, sample) for number in numbers for sample in range(job.samples)]
    return [(number, sample, each) for (number, sample), each in zip(order, played, strict=True)]


def _store(
    number: int,
    sample: int,
    played: Rollout | Unplayable,
    pair: LabelledPair,
    job: TeacherJob,
    out: Path,
) -> Outcome:
    """Pass the run through the filters and keep its trace. Raises BadInput where the disk is full."""
    videos = pair.source.videos if isinstance(pair.source, ClipFrames) else None
    first, second = (str(videos.first), str(videos.second)) if videos else ("", "")
    outcome = Outcome(number, sample, pair.truth.labels, first=first, second=second)
    if not isinstance(played, Rollout):
        reason = Reason.VIDEO if isinstance(played, VideoError) else Reason.CONTEXT
        return replace(outcome, reason=reason, sentence=encodable(str(played)))
    outcome = judged(outcome, played.run, refusal(played.run, pair.truth))
    if not (outcome.kept or job.keep_all):
        return outcome
    outcome = replace(outcome, file=f"{TRACES}/pair-{number:06d}-{sample}.json")
    try:
        write_atomically(out / outcome.file, to_json(to_trace(played)))
    except OSError as error:
        raise BadInput(
            f"Cannot write to {out}: {error.strerror or error}. What is there already is kept."
        ) from None
    return outcome


def judged(outcome: Outcome, run: Run, refused: FilterRefusal | None) -> Outcome:
    """The outcome with what its run says, and whether it is kept."""
    given = run.final_verdict.labels if run.final_verdict else {}
    digest = hashlib.sha256(
        "\0".join(turn.completion.text for turn in run.turns).encode("utf-8", "replace")
    ).hexdigest()[:16]
    why = (str(refused.reason), refused.sentence) if refused else ("", "")
    return replace(outcome, given=given, reason=why[0], sentence=why[1], replies=digest)
