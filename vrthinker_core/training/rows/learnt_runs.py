"""Which of its runs a stage learns from, written down as it begins to: what goes on learns from the same, whatever came to them."""

import json
from collections.abc import Sequence
from pathlib import Path

from vrthinker_core.errors import BadInput
from vrthinker_core.files.atomic_file import write_atomically
from vrthinker_core.training.rows.filters import Outcome

LEARNT = "learnt-runs.json"  # In the folder of a stage: pair and sample of each


def learning_begun(folder: Path) -> bool:
    """The stage of this folder has chosen its runs."""
    return (folder / LEARNT).is_file()


def keep_learnt_runs(folder: Path, outcomes: Sequence[Outcome]) -> None:
    """Write down that these are learnt from, in this order. Raises OSError."""
    write_atomically(
        folder / LEARNT,
        json.dumps([[each.pair, each.sample] for each in outcomes]).encode() + b"\n",
    )


def learnt_runs(folder: Path, outcomes: Sequence[Outcome]) -> list[Outcome]:
    """Those of the outcomes that are learnt from, in the order that was written down. Raises BadInput where one is gone."""
    known = {(each.pair, each.sample): each for each in outcomes}
    try:
        return [known[pair, sample] for pair, sample in json.loads((folder / LEARNT).read_bytes())]
    except (ValueError, TypeError, KeyError):
        raise BadInput(
            f"{folder / LEARNT} names runs that are not there: begin again in a new folder with --out."
        ) from None
