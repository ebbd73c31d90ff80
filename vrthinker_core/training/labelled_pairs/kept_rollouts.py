"""The rollouts that a teacher or a judge has left in a folder, read again over their pairs, each as it is needed."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from vrthinker_core.batch import in_their_order
from vrthinker_core.traces import load
from vrthinker_core.training.labelled_pairs.pair_set import PairSet
from vrthinker_core.training.rollouts import Rollout
from vrthinker_core.training.rows.filters import Outcome
from vrthinker_core.training.rows.outcome_file import read_outcomes
from vrthinker_core.training.rows.rollout_trace import StoredRollout, to_rollout
from vrthinker_core.training.rows.teaching import NotForTraining

READERS = 2  # Threads that read stored rollouts, and draw or decode their frames


def kept_rollouts(
    out: Path, pairs: PairSet, chosen: Sequence[Outcome] | None = None, *, keep_tokens: bool
) -> Iterator[StoredRollout]:
    """The rollouts of the outcomes that are kept, or of `chosen`; `keep_tokens` as in `to_rollout`.

    Raises BadInput, TraceError, and NotForTraining where `pairs` are not those that they are of.
    """

    def read(outcome: Outcome) -> StoredRollout:
        return StoredRollout.read(
            partial(_read_rollout, out / outcome.file, pairs, outcome.pair, keep_tokens)
        )

    outcomes = chosen if chosen is not None else [each for each in read_outcomes(out) if each.kept]
    with ThreadPoolExecutor(READERS, "rollout") as executor:
        yield from in_their_order(
            lambda outcome: executor.submit(read, outcome), outcomes, READERS + 1
        )


def _read_rollout(path: Path, pairs: PairSet, number: int, keep_tokens: bool) -> Rollout:
    try:
        pair = pairs.pair(number)
    except IndexError:
        raise NotForTraining(
            "the data hold fewer pairs today than there were: give them as they were"
        ) from None
    return to_rollout(load(path), pair, keep_tokens=keep_tokens)
