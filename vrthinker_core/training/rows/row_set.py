"""Token rows by number: their frames are kept up to a bound, and beyond it read again from where their runs are stored."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import cast, overload

from vrthinker_core.backends.local.engine.generation import LoadedModel
from vrthinker_core.errors import BadInput
from vrthinker_core.training.rollouts import Rollout
from vrthinker_core.training.rows.rollout_trace import StoredRollout
from vrthinker_core.training.rows.teaching import NotForTraining
from vrthinker_core.training.token_rows import TokenRow, token_rows
from vrthinker_core.types import ProtocolName


class RowSet(Sequence[TokenRow]):
    """The rows of stored rollouts. A run of the 7B has some 24 MB of frames, so those of a whole stage fit into no memory."""

    def __init__(self, loaded: LoadedModel, kept_bytes: int) -> None:
        """`loaded` renders the rows; frames of so many bytes are kept."""
        self.outlines: list[TokenRow] = []  # The rows without the pixels of their pictures
        self.protocols: tuple[
            ProtocolName, ...
        ] = ()  # That the runs speak, in the order in which they came
        self._loaded, self._room = loaded, kept_bytes
        self._kept: dict[int, TokenRow] = {}
        self._read_again: list[
            tuple[Callable[[], Rollout], int]
        ] = []  # And the place of the row in the rollout

    def add(self, stored: StoredRollout) -> None:
        """Append the rows of a rollout."""
        spoken = cast(ProtocolName, stored.rollout.run.started.dialect)
        self.protocols += () if spoken in self.protocols else (spoken,)
        for place, row in enumerate(token_rows(stored.rollout, self._loaded)):
            size = sum(len(frame.rgb) for item in row.items for frame in item.frames)
            if size <= self._room:
                self._room -= size
                self._kept[len(self.outlines)] = row
            self.outlines.append(
                replace(row, items=tuple(replace(item, frames=()) for item in row.items))
            )
            self._read_again.append((stored.read_again, place))

    def __len__(self) -> int:
        return len(self.outlines)

    @overload
    def __getitem__(self, number: int) -> TokenRow: ...
    @overload
    def __getitem__(self, number: slice) -> list[TokenRow]: ...
    def __getitem__(self, number: int | slice) -> TokenRow | list[TokenRow]:
        """With its pixels. Raises BadInput where what is stored is not what it was, VideoError where a video is gone."""
        if isinstance(number, slice):
            return [self[each] for each in range(*number.indices(len(self)))]
        outline = self.outlines[number]
        number %= len(self)
        return self._kept[number] if number in self._kept else self._read(number, outline)

    def _read(self, number: int, outline: TokenRow) -> TokenRow:
        read_again, place = self._read_again[number]
        try:
            rows = list(token_rows(read_again(), self._loaded))
        except NotForTraining:
            rows = []
        if place >= len(rows) or rows[place] != outline:
            raise BadInput(
                f"Row {number + 1} is not what it was when training began: leave runs and videos as they are meanwhile."
            )
        return rows[place]


def without_pixels(rows: Sequence[TokenRow]) -> Sequence[TokenRow]:
    """The rows where only their tokens are wanted: nothing is read for them."""
    return rows.outlines if isinstance(rows, RowSet) else rows
