"""Token rows of stored rollouts by number; frames beyond a bound are read again from disk."""

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from vrthinker_core.backends.generation import LoadedModel
from vrthinker_core.errors import BadInput, os_errors
from vrthinker_core.results.trace_files import add_labels
from vrthinker_core.storage import write_atomically
from vrthinker_core.traces import to_json
from vrthinker_core.training.filters import Outcome
from vrthinker_core.training.rollouts import Rollout
from vrthinker_core.training.run_folder import ROLLOUTS
from vrthinker_core.training.teaching import NotForTraining
from vrthinker_core.training.token_rows import TokenRow, token_rows
from vrthinker_core.training.trace_folder import StoredRollout, to_trace
from vrthinker_core.types import ProtocolName

LEARNT = "learnt-runs.json"  # In the folder of a stage: pair and sample of each


def learning_begun(folder: Path) -> bool:
    """The stage of this folder has chosen its runs."""
    return (folder / LEARNT).is_file()


def keep_learnt_runs(folder: Path, outcomes: Sequence[Outcome]) -> None:
    """Write down that these are learnt from, in this order. Raises OSError."""
    runs = [(each.pair, each.sample) for each in outcomes]
    write_atomically(folder / LEARNT, json.dumps(runs).encode() + b"\n")


def learnt_runs(folder: Path, outcomes: Sequence[Outcome]) -> list[Outcome]:
    """The outcomes that are learnt from, in their written order. Raises BadInput if one is gone."""
    known = {(each.pair, each.sample): each for each in outcomes}
    try:
        return [known[pair, sample] for pair, sample in json.loads((folder / LEARNT).read_bytes())]
    except (ValueError, TypeError, KeyError):
        raise BadInput(
            f"{folder / LEARNT} names runs that are not there: begin again in a new folder with "
            "--out."
        ) from None


SHOWN = 2  # Rollouts of one pair that are kept each time


def keep_rollouts(folder: Path, stage: str, step: int, rollouts: Sequence[Rollout]) -> list[Path]:
    """Keep rollouts with their pictures, named by stage and step, as the list of runs sorts them.

    The judge's name in each says the step as well, and the labels of the data set stand beside
    them. Raises BadInput if they cannot be written.
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
    return [out / name for name in named]


class RowSet(Sequence[TokenRow]):
    """The rows of stored rollouts; with 24 MB a run of the 7B, a stage's frames fit no memory."""

    def __init__(self, loaded: LoadedModel, kept_bytes: int) -> None:
        """`loaded` renders the rows; frames of so many bytes are kept."""
        self.outlines: list[TokenRow] = []  # The rows without the pixels of their pictures
        self.protocols: tuple[ProtocolName, ...] = ()  # Of the runs, in the order they came
        self._loaded, self._room = loaded, kept_bytes
        self._kept: dict[int, TokenRow] = {}
        self._again: list[tuple[Callable[[], Rollout], int]] = []  # And the row's place in it

    def add(self, stored: StoredRollout) -> None:
        """Append the rows of a rollout."""
        spoken = cast(ProtocolName, stored.rollout.run.started.dialect)
        self.protocols += () if spoken in self.protocols else (spoken,)
        for place, row in enumerate(token_rows(stored.rollout, self._loaded)):
            size = sum(len(frame.rgb) for item in row.items for frame in item.frames)
            if size <= self._room:
                self._room -= size
                self._kept[len(self.outlines)] = row
            bare = tuple(replace(item, frames=()) for item in row.items)
            self.outlines.append(replace(row, items=bare))
            self._again.append((stored.read_again, place))

    def __len__(self) -> int:
        return len(self.outlines)

    def __getitem__(self, number: Any) -> Any:
        """With its pixels. Raises BadInput if it is not what it was, VideoError without video."""
        outline = self.outlines[number]
        number %= len(self)
        if number in self._kept:
            return self._kept[number]
        read_again, place = self._again[number]
        rows: list[TokenRow] = []
        with suppress(NotForTraining):
            rows = list(token_rows(read_again(), self._loaded))
        if place >= len(rows) or rows[place] != outline:
            raise BadInput(
                f"Row {number + 1} is not what it was when training began: leave runs and videos "
                "as they are meanwhile."
            )
        return rows[place]


def without_pixels(rows: Sequence[TokenRow]) -> Sequence[TokenRow]:
    """The rows if only their tokens are wanted: nothing is read for them."""
    return rows.outlines if isinstance(rows, RowSet) else rows
