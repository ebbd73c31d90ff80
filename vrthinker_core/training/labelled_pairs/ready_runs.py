"""Runs that are there already, to be learnt from: a teacher's folder, any folder of traces, or a file of SFT rows."""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vrthinker_core.dialects.factory import frame_layout
from vrthinker_core.errors import BadInput, TraceError, VideoError
from vrthinker_core.training.filters import FilterRefusal, Reason, refusal
from vrthinker_core.training.labelled_pairs.open_clips import ClipFrames, OpenClips
from vrthinker_core.training.labelled_pairs.open_pairs import kind_of, open_pairs
from vrthinker_core.training.labelled_pairs.row_file import read_json_rows
from vrthinker_core.training.labelled_pairs.sft_file import SftFile
from vrthinker_core.training.rollouts import LabelledPair, Rollout
from vrthinker_core.training.rows.conversation import run_dialect
from vrthinker_core.training.rows.make_rows import trace_videos
from vrthinker_core.training.rows.outcome_file import OUTCOMES, read_job
from vrthinker_core.training.rows.rollout_trace import to_rollout
from vrthinker_core.training.rows.teaching import NotForTraining, TraceFile, known_labels
from vrthinker_core.training.rows.trace_folder import read_traces
from vrthinker_core.training.teacher import kept_rollouts
from vrthinker_core.types import Run, Verdict, VideoPair
from vrthinker_core.types.geometry import FrameLayout
from vrthinker_core.types.progress import count

Entry = Rollout | FilterRefusal


@dataclass(frozen=True, slots=True)
class ReadyRuns:
    """Runs with known labels."""

    name: str  # As they were chosen
    entries: Callable[[], Iterator[Entry]]  # Each run, or why it cannot be read

    def kept(self, most: int, say: Callable[[str], None]) -> Iterator[Rollout]:
        """Those that pass both filters, at most so many; `say` hears how many do, and why the others do not. Raises BadInput."""
        runs, refused = 0, Counter[Reason]()
        for entry in self.entries():
            if runs - refused.total() == most:
                break
            runs += 1
            why = entry if isinstance(entry, FilterRefusal) else refusal(entry.run, entry.pair.truth)
            if why is None and isinstance(entry, Rollout):
                yield entry
            elif why is not None:
                refused[why.reason] += 1
        told = [f"{number:,} not: {reason}" for reason, number in refused.most_common()]
        say("; ".join([f"{runs - refused.total():,} of {count(runs, 'run')} pass the filters", *told]) + ".")


def open_ready_runs(data: str) -> ReadyRuns | None:
    """The runs that `data` names; None where it names pairs alone. Raises BadInput for a file that cannot be read."""
    kind, _, rest = data.partition(":")
    path = Path(rest if kind in ("rows", "traces") and rest else data)
    if path.is_dir():
        if (path / OUTCOMES).is_file():
            return ReadyRuns(data, lambda: _teachers_runs(path))
        return ReadyRuns(data, lambda: _traced_runs(path)) if kind_of(path) == "traces" else None
    if path.is_file() and kind_of(path) == "rows" and _holds_conversations(path):
        return ReadyRuns(data, lambda: _row_runs(path))
    return None


def taught_pairs(data: str) -> str:
    """The labelled pairs behind `data`: those that a teacher was given, where it is a teacher's folder. Raises BadInput."""
    return _job_data(Path(data)) if (Path(data) / OUTCOMES).is_file() else data


def _job_data(folder: Path) -> str:
    data = read_job(folder).get("data")
    if not isinstance(data, str) or not data:
        raise BadInput(f"{folder} does not say which pairs its teacher was given: give a folder that the command teacher made.")
    return data


def _teachers_runs(folder: Path) -> Iterator[Entry]:
    """The kept runs, over the pairs that the teacher was given."""
    first = next((file.trace for _, file in read_traces([folder / "traces"]) if isinstance(file, TraceFile)), None)
    if first is None:
        return
    pairs = open_pairs(_job_data(folder), frame_layout(run_dialect(first)))
    with ExitStack() as stack:
        if hasattr(pairs, "close"):
            stack.callback(pairs.close)
        yield from kept_rollouts(folder, pairs, keep_tokens=False)


def _traced_runs(folder: Path) -> Iterator[Entry]:
    """The first run of each trace, over its videos; a person's labels count before the judge's."""
    with ExitStack() as stack:
        opened: dict[FrameLayout, OpenClips] = {}
        for number, (_, file) in enumerate(read_traces([folder])):
            if isinstance(file, TraceError):
                continue
            try:
                layout = frame_layout(run_dialect(file.trace))
                clips = opened[layout] if layout in opened else opened.setdefault(layout, stack.enter_context(OpenClips(layout)))
                yield to_rollout(file.trace, _traced_pair(file, clips, number), keep_tokens=False)
            except NotForTraining as error:
                yield FilterRefusal(Reason.STORED, str(error))
            except VideoError as error:
                yield FilterRefusal(Reason.VIDEO, str(error))


def _traced_pair(file: TraceFile, clips: OpenClips, number: int) -> LabelledPair:
    prompt = file.trace.started.prompt
    first, second = (Path(str(video["path"])) for video in trace_videos(file, file.trace))
    truth = Verdict(**{name.value: known.label for name, known in known_labels(file.trace).items()})
    return LabelledPair(prompt, truth, ClipFrames(VideoPair(prompt, first, second), clips), number)


def _row_runs(path: Path) -> Iterator[Entry]:
    """The conversations; of a row without labels its answer is what is known, as in the published rows."""
    with SftFile(path) as file:
        for rollout in file.rollouts(keep_tokens=False):
            known = rollout.pair.truth if rollout.pair.truth.labels else _given(rollout.run)
            pair = LabelledPair(rollout.pair.prompt, known, rollout.pair.source, rollout.pair.seed)
            yield Rollout(pair, rollout.run, rollout.prompts)


def _given(run: Run) -> Verdict:
    return (run.finished.verdict if run.finished else None) or Verdict()


def _holds_conversations(path: Path) -> bool:
    """The first row is an SFT row."""
    try:
        with path.open("rb") as file:
            first: Any = json.loads(file.readline())
    except (OSError, ValueError, RecursionError):
        rows = read_json_rows(path)
        first = rows[0] if rows else None
    first = first[0] if isinstance(first, list) and first else first
    return isinstance(first, dict) and "message_list" in first
