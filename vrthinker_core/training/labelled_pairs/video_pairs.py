"""Pairs of video files with their labels, from any layout that is read here, as a pair set."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager

from vrthinker_core.errors import BadInput
from vrthinker_core.results.pair import EvaluationPair
from vrthinker_core.results.run_file import pairs_digest
from vrthinker_core.training.labelled_pairs.open_clips import ClipFrames, OpenClips
from vrthinker_core.training.rollouts import LabelledPair
from vrthinker_core.types import ProtocolName
from vrthinker_core.types.geometry import FrameLayout
from vrthinker_core.types.progress import count

Layouts = Mapping[ProtocolName, FrameLayout]
"""Which frames each protocol asks for."""


class VideoPairSet(AbstractContextManager["VideoPairSet"]):
    """A pair set over video files. Whoever makes one closes it."""

    def __init__(self, rows: Sequence[EvaluationPair], layouts: Layouts) -> None:
        """`layouts`: of the protocols that are trained, which rows take in turn.

        Raises BadInput where a row cannot be used, or none has a label.
        """
        self.rows = labelled_rows(rows)
        self._clips = [(protocol, OpenClips(layout)) for protocol, layout in layouts.items()]

    @property
    def size(self) -> int:
        """How many pairs there are."""
        return len(self.rows)

    @property
    def digest(self) -> str:
        """Of all pairs with their labels, in their order, by which they are divided between the stages."""
        return pairs_digest(self.rows, ordered=True)

    def pair(self, number: int) -> LabelledPair:
        """The pair of a row; its videos are opened when a frame is asked for."""
        if not 0 <= number < len(self.rows):
            raise IndexError(number)
        row = self.rows[number]
        protocol, clips = self._clips[number % len(self._clips)]
        return LabelledPair(
            row.prompt, row.labels, ClipFrames(row.videos, clips), number, protocol, row.row
        )

    def close(self) -> None:
        """Close all videos that are open."""
        for _, clips in self._clips:
            clips.close()

    def __exit__(self, *_: object) -> None:
        self.close()


def labelled_rows(rows: Sequence[EvaluationPair]) -> tuple[EvaluationPair, ...]:
    """The rows that hold a label. Those that people could not judge, or repeat another one, are left out.

    Raises BadInput where a row is broken, with the first one and how many there are: training never goes on with a part of the data
    that nobody has chosen.
    """
    broken = [row for row in rows if row.fault and not row.id.partition("-again")[1]]
    if broken:
        more = (
            f"; {count(len(broken), 'row')} of {len(rows):,} cannot be used"
            if len(broken) > 1
            else ""
        )
        raise BadInput(
            f"Row {broken[0].row}: {broken[0].fault.rstrip('.')}{more}. Mend the data or leave these rows out."
        )
    usable = tuple(row for row in rows if not row.fault and not row.left_out and row.labels.labels)
    if not usable:
        raise BadInput(
            f"The data hold no pair with a label ({count(len(rows), 'row')} read): there is nothing to train with."
        )
    return usable
