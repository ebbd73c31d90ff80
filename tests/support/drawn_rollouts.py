"""Rollouts over drawn pairs whose replies are written beforehand, for tests of training."""

from __future__ import annotations

import json
from dataclasses import replace

from vrthinker_core import ScriptedBackend
from vrthinker_core.drawn.world import draw_pair
from vrthinker_core.training.pair_set import DrawnFrames
from vrthinker_core.training.rollouts import LabelledPair, Rollout, play
from vrthinker_core.types import Dimension, Preference, ProtocolName, Settings, Verdict


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
    said = ", ".join(f"{each}={getattr(labels[each], 'value', labels[each])}" for each in Dimension)
    return f"<Snapshot>a</Snapshot>\n<Think>b</Think>\n<Answer>{said}</Answer>"


def right_and_wrong(
    pair: LabelledPair, *calls: str, settings: Settings = Settings()
) -> list[Rollout]:
    """After the same looks the true labels, or a wrong overall one: the rewards differ."""
    wrong = Preference.FIRST if pair.truth.OA is Preference.SECOND else Preference.SECOND
    answers = [answer(labels) for labels in (pair.truth, replace(pair.truth, OA=wrong))]
    return [scripted_rollout(pair, *calls, each, settings=settings) for each in answers]


def scripted_rollout(
    pair: LabelledPair,
    *replies: str,
    protocol: ProtocolName = "paired",
    settings: Settings = Settings(),
) -> Rollout:
    """What `play` makes of these replies."""
    (rollout,) = play([pair], ScriptedBackend(replies, protocol=protocol), settings)
    return rollout
