"""The order check: a pair judged again with its sides swapped."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TypeVar

from vrthinker_core.types.events import Finished, FramesShown, Run, Turn
from vrthinker_core.types.frames import FrameRef
from vrthinker_core.types.messages import Dimension, Preference, Verdict

Shown = TypeVar("Shown", Turn, FramesShown)


class OrderEffect(StrEnum):
    """The effect of the order of the videos on one label."""

    STABLE = "stable"  # The same label both times
    FLIPS = "flips"  # Each order prefers another video
    BECOMES_TIE = "turns into a tie"
    FROM_TIE = "no longer a tie"  # The first verdict was a tie, the second prefers a video
    SAID_ONCE = "said in one order only"  # One label is missing: nothing can be concluded
    NEVER_SAID = "not said"  # Both are missing


@dataclass(frozen=True, slots=True)
class OrderCheck:
    """The verdicts of both orders, with 1 as the person's video 1."""

    first: Verdict
    second: Verdict

    def __getitem__(self, dimension: Dimension) -> OrderEffect:
        """Return the effect of the order on the label of a dimension."""
        first, second = dict(self.first)[dimension], dict(self.second)[dimension]
        if first is None or second is None:
            return OrderEffect.NEVER_SAID if first is second else OrderEffect.SAID_ONCE
        if first is second:
            return OrderEffect.STABLE
        if second is Preference.TIE:
            return OrderEffect.BECOMES_TIE
        return OrderEffect.FROM_TIE if first is Preference.TIE else OrderEffect.FLIPS

    @property
    def overall(self) -> OrderEffect:
        """The effect of the order on the overall label."""
        return self[Dimension.OA]

    @property
    def flips(self) -> tuple[Dimension, ...]:
        """The dimensions without a reliable winner: each order prefers another video."""
        return tuple(dimension for dimension in Dimension if self[dimension] is OrderEffect.FLIPS)

    @property
    def effects(self) -> dict[str, str]:
        """The effects in the card's order: `{"TA": "stable", "MQ": "flips"}`."""
        return {dimension.value: self[dimension].value for dimension in Dimension}


def check_order(first: Finished | None, second: Finished | None) -> OrderCheck | None:
    """Compare the ends of two runs, the second swapped. None without two verdicts."""
    if first is None or second is None or first.verdict is None or second.verdict is None:
        return None
    return OrderCheck(first.verdict, swap_verdict(second.verdict))


def order_of(runs: Sequence[Run]) -> OrderCheck | None:
    """Compare both runs of a trace; None without two verdicts."""
    return check_order(runs[0].finished, runs[1].finished) if len(runs) > 1 else None


def swap_verdict(verdict: Verdict) -> Verdict:
    """Return the verdict with 1 and 2 exchanged; ties and None stay."""
    return Verdict(*(label and Preference(3 - label) for _, label in verdict))


def swap_turn(turn: Turn) -> Turn:
    """Return the turn with its sides exchanged; the completion's text stays as it came."""
    reply, tokens = turn.reply, []
    for token in turn.completion.label_tokens:
        tie, first, second = token.probabilities
        tokens.append(replace(token, probabilities=(tie, second, first)))
    if reply.verdict is not None:
        reply = replace(reply, verdict=swap_verdict(reply.verdict))
    completion = replace(turn.completion, label_tokens=tuple(tokens))
    return replace(_swap_shown(turn), completion=completion, reply=reply)


def swap_run(run: Run) -> Run:
    """Return a run with its sides exchanged."""
    started, finished, open_turn = run.started, run.finished, run.open
    started = replace(started, clips=(started.clips[1], started.clips[0]))
    if finished is not None and finished.verdict is not None:
        finished = replace(finished, verdict=swap_verdict(finished.verdict))
    if open_turn is not None and open_turn.shown is not None:
        open_turn = replace(open_turn, shown=_swap_shown(open_turn.shown))
    return Run(started, tuple(map(swap_turn, run.turns)), finished, open_turn)


def _swap_shown(shown: Shown) -> Shown:
    """Exchange the sides of frames; the judge's numbers stay."""
    frames = tuple(replace(frame, ref=_swap_ref(frame.ref)) for frame in shown.frames)
    return replace(shown, frames=frames, in_view=tuple(map(_swap_ref, shown.in_view)))


def _swap_ref(ref: FrameRef) -> FrameRef:
    return FrameRef(ref.slot, ref.side.other)
