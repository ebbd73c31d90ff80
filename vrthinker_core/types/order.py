"""The order check: a pair judged again with its sides swapped."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Protocol

from vrthinker_core.types.comparison import Dimension, Preference, Verdict
from vrthinker_core.types.events import Finished, Turn
from vrthinker_core.types.frames import FrameRef, Thumbnail
from vrthinker_core.types.messages import Completion
from vrthinker_core.types.replies import Reply

# A tie and None stay
_OTHER_LABEL = {Preference.FIRST: Preference.SECOND, Preference.SECOND: Preference.FIRST}


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
        return _effect(dict(self.first)[dimension], dict(self.second)[dimension])

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


def _effect(first: Preference | None, second: Preference | None) -> OrderEffect:
    if first is None or second is None:
        return OrderEffect.NEVER_SAID if first is second else OrderEffect.SAID_ONCE
    if first is second:
        return OrderEffect.STABLE
    if second is Preference.TIE:
        return OrderEffect.BECOMES_TIE
    return OrderEffect.FROM_TIE if first is Preference.TIE else OrderEffect.FLIPS


def check_order(first: Finished | None, second: Finished | None) -> OrderCheck | None:
    """Compare the ends of two runs; the second has its sides swapped.

    Returns None unless both have a verdict.
    """
    if first is None or second is None or first.verdict is None or second.verdict is None:
        return None
    return OrderCheck(first.verdict, swap_verdict(second.verdict))


class _Ended(Protocol):
    @property
    def finished(self) -> Finished | None: ...


def order_of(runs: Sequence[_Ended]) -> OrderCheck | None:
    """Compare both runs of a trace or state; None without two verdicts."""
    return check_order(runs[0].finished, runs[1].finished) if len(runs) > 1 else None


def swap_verdict(verdict: Verdict) -> Verdict:
    """Return the verdict with 1 and 2 exchanged; ties and None stay."""
    return Verdict(
        **{
            dimension.value: _OTHER_LABEL.get(label, label) if label else label
            for dimension, label in verdict
        }
    )


def swap_turn(turn: Turn) -> Turn:
    """Return the turn with its sides exchanged."""
    in_view = tuple(map(_swap_ref, turn.in_view))
    completion, reply = _swap_probabilities(turn.completion), _swap_reply(turn.reply)
    return replace(
        turn, frames=swap_frames(turn.frames), in_view=in_view, completion=completion, reply=reply
    )


def swap_frames(frames: tuple[Thumbnail, ...]) -> tuple[Thumbnail, ...]:
    """Return the frames with their sides exchanged; the judge's numbers stay."""
    return tuple(replace(frame, ref=_swap_ref(frame.ref)) for frame in frames)


def swap_end(finished: Finished | None) -> Finished | None:
    """Return the end of a run with its sides exchanged."""
    if finished is None or finished.verdict is None:
        return finished
    return replace(finished, verdict=swap_verdict(finished.verdict))


def _swap_ref(ref: FrameRef) -> FrameRef:
    return FrameRef(ref.slot, ref.side.other)


def _swap_probabilities(completion: Completion) -> Completion:
    """Exchange the label probabilities; the completion's text stays as it came."""
    if not completion.label_tokens:
        return completion
    told = [(token, token.probabilities) for token in completion.label_tokens]
    swapped = (
        replace(token, probabilities=(tie, second, first)) for token, (tie, first, second) in told
    )
    return replace(completion, label_tokens=tuple(swapped))


def _swap_reply(reply: Reply) -> Reply:
    return reply if reply.verdict is None else replace(reply, verdict=swap_verdict(reply.verdict))
