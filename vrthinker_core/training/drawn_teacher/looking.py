"""Where the teacher looks next: coarsely between the first frames, then closer only where the motion was odd.

It stops as soon as every flaw that could still decide is in sight.
"""

from collections.abc import Iterable
from itertools import pairwise

from vrthinker_core.training.drawn_teacher.evidence import Evidence
from vrthinker_core.training.drawn_world.faults import FRAMES
from vrthinker_core.types import FrameRef, Side

CLOSE = 6  # Frames from an odd frame to those that a closer look brings
NEAR = 4  # Slots from the middle between two of the first frames to the two that a look at a view brings


def next_indices(evidence: Evidence) -> tuple[int, ...]:
    """The dialect's numbers to call for; () when there is nothing more to see."""
    wanted = (
        _coarse(evidence)
        if len(evidence.looks) == 1
        else _closer(evidence)
        if len(evidence.looks) == 2
        else []
    )
    dialect = evidence.dialect
    seen = {(frame.side, frame.index) for look in evidence.looks for frame in look}
    numbers = {
        int(dialect.frame_number(ref))
        for ref in wanted
        if (ref.side, evidence.index(ref)) not in seen
    }
    return tuple(sorted(numbers)[: dialect.frames_per_call])


def _coarse(evidence: Evidence) -> list[FrameRef]:
    """The middles between the first frames, in each video that is not settled."""
    return [ref for side in Side if not evidence.settled(side) for ref in _middles(evidence, side)]


def _middles(evidence: Evidence, side: Side) -> Iterable[FrameRef]:
    """Of a view two near frames in each gap, where a call can bring so many: a freeze shows in two frames that it holds."""
    slots = [ref.slot for ref in evidence.dialect.opening_refs if ref.side is side]
    middles = [(start + end) // 2 for start, end in pairwise(slots)]
    step = slots[1] - slots[0]
    if (
        slots[0] < step // 4
    ):  # The first frames begin with the clip, so there is a gap behind the last one
        middles.append(slots[-1] + step // 2)
    if evidence.dialect.name == "paired" and evidence.pair.scenes[side].view:
        middles = [middle + off for middle in middles for off in (-NEAR, NEAR)]
    return [FrameRef(slot, side) for slot in middles]


def _closer(evidence: Evidence) -> list[FrameRef]:
    """Around the odd frames of each video that is not settled."""
    grid = evidence.dialect.grid
    steps = max(1, round(CLOSE * grid.slots / FRAMES))
    found = []
    for side in Side:
        for frame in [] if evidence.settled(side) else evidence.odd_frames(side):
            slot = next(
                slot for slot in range(grid.slots) if grid.index(slot, FRAMES) == frame.index
            )
            found += [
                FrameRef(near, side)
                for near in (slot - steps, slot + steps)
                if 0 <= near < grid.slots
            ]
    return found
