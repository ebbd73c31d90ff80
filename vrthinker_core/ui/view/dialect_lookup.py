"""What depends on a run's dialect: how unfinished replies are read, and how frames are numbered."""

from collections.abc import Callable
from typing import Literal, TypedDict, cast, get_args

from vrthinker_core.errors import BadInput
from vrthinker_core.protocols import Dialect, make_dialect
from vrthinker_core.types import FrameRef, ProtocolName, Reply, Side
from vrthinker_core.types.events import Started


class GridJson(TypedDict):
    """How a run counts frames: what the rail needs to place them."""

    slots: int  # of each video
    rule: Literal["floor", "even"]  # how the slots are spread over a clip, as in `Grid`
    first: list[int]  # the number of each video's first slot
    last: str  # the number of the second video's last slot


def reply_reader(started: Started | None) -> Callable[[str], Reply] | None:
    """A function that reads an unfinished reply of this run; None where its dialect is not known."""
    dialect = dialect_of(started)
    return None if dialect is None else lambda text: dialect.parse(text, cut=True)


def grid_json(started: Started) -> GridJson | None:
    """How the run counts frames; None where its dialect is not known."""
    dialect = dialect_of(started)
    if dialect is None:
        return None
    slots = dialect.grid.slots
    return {
        "slots": slots,
        "rule": dialect.grid.rule,
        "first": [int(dialect.frame_number(FrameRef(0, side))) for side in Side],
        "last": dialect.frame_number(FrameRef(slots - 1, Side.SECOND)),
    }


def dialect_of(started: Started | None) -> Dialect | None:
    """The run's dialect as its settings want it; None where it is not known."""
    if started is None or started.dialect not in get_args(ProtocolName):
        return None
    try:
        return make_dialect(started.settings, cast(ProtocolName, started.dialect))
    except BadInput:
        return None
