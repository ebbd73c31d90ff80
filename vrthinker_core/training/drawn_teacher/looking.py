"""Where the teacher looks next: coarsely between the first frames, then closer only where the motion was odd.

A coarse look has two frames of each gap, near to one another, where a call can bring so many: of two frames that show the same
place nobody needs to know how fast things went before. It stops as soon as every flaw that could still decide is in sight.
"""

from collections.abc import Iterable
from itertools import pairwise

from vrthinker_core.training.drawn_teacher.evidence import CLOSE, Evidence
from vrthinker_core.training.drawn_world.faults import FRAMES
from vrthinker_core.types import FrameRef, Side


def next_indices(evidence: Evidence) -> tuple[int, ...]:
    """The dialect's numbers to call for; () when there is nothing more to see."""
    wanted = _coarse(evidence) if len(evidence.looks) == 1 else _closer(evidence) if len(evidence.looks) == 2 else []
    dialect = evidence.dialect
    seen = {(frame.side, frame.index) for look in evidence.looks for frame in look}
    numbers = {int(dialect.frame_number(ref)) for ref in wanted if (ref.side, evidence.index(ref)) not in seen}
    return tuple(sorted(numbers)[: dialect.frames_per_call])


def _coarse(evidence: Evidence) -> list[FrameRef]:
    """The middles between the first frames, in each video that is not settled, each with one shortly before it where that fits."""
    middles = [ref for side in Side if not evidence.settled(side) for ref in _middles(evidence, side)]
    twice = [*middles, *(FrameRef(ref.slot - _steps(evidence), ref.side) for ref in middles)]
    numbers = {evidence.dialect.frame_number(ref) for ref in twice}
    return twice if len(numbers) <= evidence.dialect.frames_per_call else middles


def _steps(evidence: Evidence) -> int:
    """CLOSE in the dialect's slots."""
    return max(1, round(CLOSE * evidence.dialect.grid.slots / FRAMES))


def _middles(evidence: Evidence, side: Side) -> Iterable[FrameRef]:
    slots = [ref.slot for ref in evidence.dialect.opening_refs if ref.side is side]
    middles = [(start + end) // 2 for start, end in pairwise(slots)]
    step = slots[1] - slots[0]
    if slots[0] < step // 4:  # The first frames begin with the clip, so there is a gap behind the last one
        middles.append(slots[-1] + step // 2)
    return [FrameRef(slot, side) for slot in middles]


def _closer(evidence: Evidence) -> list[FrameRef]:
    """Around the odd frames of each video that is not settled."""
    grid, steps = evidence.dialect.grid, _steps(evidence)
    found = []
    for side in Side:
        for frame in [] if evidence.settled(side) else evidence.odd_frames(side):
            slot = next(slot for slot in range(grid.slots) if grid.index(slot, FRAMES) == frame.index)
            found += [FrameRef(near, side) for near in (slot - steps, slot + steps) if 0 <= near < grid.slots]
    return found
