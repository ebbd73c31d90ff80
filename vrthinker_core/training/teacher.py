"""A teacher: a judge whose runs over labelled pairs teach another judge.

Its folder holds `outcomes.jsonl`, a line for each run, and `traces/`, which `python app.py --runs`
opens. A killed teacher continues where it stopped.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from itertools import chain, islice, takewhile
from pathlib import Path
from typing import Any

from vrthinker_core.backends.base import Backend, RemoteBackend, not_cancelled
from vrthinker_core.backends.scripted import ScriptedBackend
from vrthinker_core.drawn.world import DrawnPair
from vrthinker_core.errors import BadInput, VideoError, os_errors, type_adapter
from vrthinker_core.storage import LineFile, remove_parts, whole_lines, write_atomically
from vrthinker_core.traces import to_json
from vrthinker_core.training.config import PartsConfig
from vrthinker_core.training.filters import OUTCOMES, Outcome, Reason, read_outcomes, refusal
from vrthinker_core.training.pair_set import ClipFrames, DrawnFrames, PairSet
from vrthinker_core.training.rollouts import LabelledPair, Rollout, Unplayable, in_order, play_each
from vrthinker_core.training.traces import to_trace
from vrthinker_core.types import ProtocolName, Settings, Verdict
from vrthinker_core.words import encodable

FORMAT = "vr-thinker-outcomes/1"
TRACES = "traces"  # Folder beside the outcomes
KEPT = " The runs before are kept."
BackendOfPair = Callable[[LabelledPair], Backend]  # A script knows its pair's truth


@dataclass(frozen=True, slots=True)
class Teacher:
    """A judge, its pairs, and how it plays them."""

    name: str  # As it was chosen
    open: Callable[[], Backend | BackendOfPair]  # Called when it plays: a model takes memory
    pairs: PairSet
    data: str = ""  # As the pairs were chosen
    settings: Settings = Settings()
    samples: int = 1  # Runs of each pair
    parts: PartsConfig | None = None  # The pairs are the part of the cold start; None: all
    live: int = 32  # Runs side by side
    keep_all: bool = True  # Store the traces of refused runs, too


def run_teacher(
    teacher: Teacher, numbers: Iterable[int], out: Path, stopped: Callable[[], bool] = not_cancelled
) -> Iterator[Outcome]:
    """Play these pairs into `out`; yield the outcome of each new run.

    After `stopped` only the first pair begins, so that each call makes progress. Runs that have
    begun are played to their end and kept, unless the caller leaves before. The next call tries an
    unreadable video again, but no pair that is too long. Raises BadInput if `out` holds the runs of
    another teacher or cannot be written, and what the judge raises.
    """
    _prepare(out, teacher)
    with LineFile(out / OUTCOMES) as lines:
        done = {
            (each.pair, each.sample) for each in read_outcomes(out) if each.reason != Reason.VIDEO
        }
        samples = range(teacher.samples)
        missing = (
            number for number in numbers if any((number, each) not in done for each in samples)
        )
        for first in islice(missing, 1):
            begun = chain([first], takewhile(lambda _: not stopped(), missing))
            for number, sample, played in _play(teacher, begun):
                if (number, sample) not in done:
                    outcome = _store(number, sample, played, teacher, out)
                    with os_errors(f"Cannot write {out / OUTCOMES}", KEPT):
                        lines.append(type_adapter(Outcome).dump_json(outcome))
                    yield outcome


def _prepare(out: Path, teacher: Teacher) -> None:
    """Make the folder of this very teacher, or raise BadInput."""
    path, parts = out / OUTCOMES, teacher.parts and asdict(teacher.parts)
    of_teacher = {"judge": teacher.name, "data": teacher.data, "samples": teacher.samples}
    of_teacher |= {"settings": asdict(teacher.settings), "parts": parts}
    line = json.dumps({"format": FORMAT, **of_teacher})
    with os_errors(f"Cannot write to {out}"):
        out.mkdir(parents=True, exist_ok=True)
        if not path.exists() and any(out.iterdir()):
            raise BadInput(f"{out} holds other files: name a new folder with --out.")
        (out / TRACES).mkdir(exist_ok=True)
        remove_parts(out / TRACES)
        with LineFile(path) as lines:
            if lines.empty:
                lines.append(line.encode())
    before, now = read_identity(out), json.loads(line)
    if changed := " and ".join(name for name in now if before.get(name) != now[name]):
        raise BadInput(
            f"{out} holds runs with another value of {changed}: name a new folder with --out."
        )


def read_identity(folder: Path) -> dict[str, Any]:
    """Return the first line's judge, data, settings and samples. Raises BadInput."""
    head: Any = None
    with os_errors(f"Cannot read {folder / OUTCOMES}"), suppress(ValueError, IndexError):
        head = json.loads(whole_lines(folder / OUTCOMES)[0])
    if not isinstance(head, dict) or head.get("format") != FORMAT:
        raise BadInput(f"{folder / OUTCOMES} holds no outcomes: name a new folder with --out.")
    return head


def scripted_teacher(write: Callable[[DrawnPair, ProtocolName], Sequence[str]]) -> BackendOfPair:
    """Return a teacher that replies to drawn pairs as `write` says."""

    def of_pair(pair: LabelledPair) -> ScriptedBackend:
        assert isinstance(pair.source, DrawnFrames), "a script knows drawn pairs alone"
        protocol = pair.protocol or "paired"
        return ScriptedBackend(write(pair.source.pair, protocol), protocol, "scripted teacher")

    return of_pair


def _play(
    teacher: Teacher, numbers: Iterator[int]
) -> Iterator[tuple[int, int, Rollout | Unplayable]]:
    """Yield pair, sample and rollout; a server's runs as they end."""
    judge, samples, begun = teacher.open(), teacher.samples, list[int]()
    if callable(judge):
        for number in numbers:
            pair = teacher.pairs.pair(number)
            for sample, result in in_order(
                play_each([pair], judge(pair), teacher.settings, samples)
            ):
                yield number, sample, result
        return

    def taken() -> Iterator[LabelledPair]:
        for number in numbers:
            begun.append(number)
            yield teacher.pairs.pair(number)

    played = play_each(taken(), judge, teacher.settings, samples, teacher.live)
    for position, result in played if isinstance(judge, RemoteBackend) else in_order(played):
        yield begun[position // samples], position % samples, result


def _store(
    number: int, sample: int, played: Rollout | Unplayable, teacher: Teacher, out: Path
) -> Outcome:
    """Filter the run and keep its trace. Raises BadInput."""
    pair = teacher.pairs.pair(number)
    outcome = Outcome(number, sample, pair.truth.labels)
    if isinstance(pair.source, ClipFrames):
        videos = pair.source.videos
        outcome = replace(outcome, first=str(videos.first), second=str(videos.second))
    if not isinstance(played, Rollout):
        reason = Reason.VIDEO if isinstance(played, VideoError) else Reason.CONTEXT
        return replace(outcome, reason=reason, sentence=encodable(str(played)))
    run = played.run
    written = "\0".join(turn.completion.text for turn in run.turns).encode("utf-8", "replace")
    given, digest = run.final_verdict or Verdict(), hashlib.sha256(written).hexdigest()[:16]
    refused: tuple[str, str] = refusal(run, pair.truth) or ("", "")
    file = (
        "" if refused[0] and not teacher.keep_all else f"{TRACES}/pair-{number:06d}-{sample}.json"
    )
    if file:
        with os_errors(f"Cannot write to {out}", KEPT):
            write_atomically(out / file, to_json(to_trace(played)))
    outcome = replace(outcome, given=given.labels, file=file, replies=digest)
    return replace(outcome, reason=refused[0], sentence=refused[1])
