"""Rollouts over drawn pairs whose replies are written beforehand, for tests of training."""

from __future__ import annotations

import json

from vrthinker_core import ScriptedBackend
from vrthinker_core.training.drawn_world.drawn_frames import DrawnFrames
from vrthinker_core.training.drawn_world.scenes import draw_pair
from vrthinker_core.training.rollouts import LabelledPair, Rollout, play
from vrthinker_core.types import Dimension, ProtocolName, Settings, Verdict


class DrawnPairs:
    """Drawn pairs without an end, from a seed on."""

    size = None

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def pair(self, number: int) -> LabelledPair:
        drawn = draw_pair(self._seed + number)
        return LabelledPair(drawn.prompt, drawn.verdict, DrawnFrames(drawn), self._seed + number)


def look(*indices: int, field: str = "frame_indices") -> str:
    """A reply that asks for frames."""
    call = json.dumps({"name": "select_frames", "arguments": {field: list(indices)}})
    return f"<Snapshot>a</Snapshot>\n<Think>b</Think>\n<tool_call>{call}</tool_call>"


def answer(verdict: Verdict) -> str:
    """A reply that answers."""
    labels = dict(verdict)
    said = ", ".join(f"{each}={labels[each].value if hasattr(labels[each], 'value') else labels[each]}" for each in Dimension)
    return f"<Snapshot>a</Snapshot>\n<Think>b</Think>\n<Answer>{said}</Answer>"


def scripted_rollout(
    pair: LabelledPair, *replies: str, protocol: ProtocolName = "paired", settings: Settings = Settings()
) -> Rollout:
    """What `play` makes of these replies."""
    (rollout,) = play([pair], ScriptedBackend(replies, protocol=protocol), settings)
    return rollout
