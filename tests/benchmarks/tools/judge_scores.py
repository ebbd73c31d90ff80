"""What a judge's rollouts over pairs of known labels come to: shares with 95 % intervals, and what they cost."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

from vrthinker_core.training.rewards import format_reward
from vrthinker_core.training.rollouts import Rollout
from vrthinker_core.types import Dimension
from vrthinker_core.types.order import swap_verdict

Z = 1.96  # Of a 95 % interval


@dataclass(frozen=True)
class Share:
    """So many of so many, with Wilson's 95 % interval."""

    count: int
    of: int

    @property
    def interval(self) -> tuple[float, float]:
        """Both ends, 0 to 1; the whole range where there is nothing to count."""
        if not self.of:
            return 0.0, 1.0
        share, square = self.count / self.of, Z * Z / self.of
        middle = (share + square / 2) / (1 + square)
        half = Z * ((share * (1 - share) + square / 4) / self.of) ** 0.5 / (1 + square)
        return max(0.0, middle - half), min(1.0, middle + half)

    def __str__(self) -> str:
        if not self.of:
            return "–"
        low, high = self.interval
        return f"{self.count / self.of:.3f} [{low:.2f}, {high:.2f}]"


def share_sum(shares: Iterable[Share]) -> Share:
    """All of them together."""
    counted = list(shares)
    return Share(sum(share.count for share in counted), sum(share.of for share in counted))


def share_of(rollouts: Sequence[Rollout], holds: Callable[[Rollout], bool]) -> Share:
    """The share of rollouts of which something holds."""
    return Share(sum(map(holds, rollouts)), len(rollouts))


def label_right(rollout: Rollout, dimension: Dimension) -> bool:
    """The final answer has the true label."""
    said = rollout.run.final_verdict
    return said is not None and dict(said)[dimension] is dict(rollout.pair.truth)[dimension]


@dataclass(frozen=True)
class Scores:
    """Of one rollout a pair."""

    format: Share
    right: dict[Dimension, Share]
    all_four: Share
    pairs_of_frames: float  # Seen in a run on the average, the first four among them
    tokens: float  # Written in a run on the average
    turns: float

    def cells(self) -> list[str]:
        """The cells of a table's row."""
        right = [
            str(self.right[each])
            for each in (Dimension.TA, Dimension.VQ, Dimension.MQ, Dimension.OA)
        ]
        return [
            str(self.format),
            *right,
            str(self.all_four),
            f"{self.pairs_of_frames:.1f}",
            f"{self.tokens:.0f}",
            f"{self.turns:.2f}",
        ]


COLUMNS = (
    "format",
    "TA",
    "VQ",
    "MQ",
    "OA",
    "all four",
    "frame pairs a run",
    "tokens a run",
    "turns",
)


def scores(rollouts: Sequence[Rollout]) -> Scores:
    """Of at least one rollout."""
    turns = [rollout.run.turns for rollout in rollouts]
    return Scores(
        share_of(rollouts, lambda rollout: format_reward(rollout.run) == 1),
        {
            each: share_of(rollouts, lambda rollout, each=each: label_right(rollout, each))
            for each in Dimension
        },
        share_of(rollouts, lambda rollout: rollout.correct),
        fmean(len({frame.ref.slot for turn in run for frame in turn.frames}) for run in turns),
        fmean(sum(turn.completion.new_tokens or 0 for turn in run) for run in turns),
        fmean(map(len, turns)),
    )


def scores_over(found: Sequence[Scores]) -> Scores:
    """Those of several judges over equally many rollouts as one."""
    return Scores(
        share_sum(each.format for each in found),
        {name: share_sum(each.right[name] for each in found) for name in Dimension},
        share_sum(each.all_four for each in found),
        fmean(each.pairs_of_frames for each in found),
        fmean(each.tokens for each in found),
        fmean(each.turns for each in found),
    )


def sampled(rollouts: Sequence[Rollout], samples: int) -> tuple[float, Share]:
    """(mean@1, pass@k) of k = `samples` rollouts a pair, in order: the share that is right in all four labels."""
    groups = [rollouts[start : start + samples] for start in range(0, len(rollouts), samples)]
    mean = fmean(rollout.correct for rollout in rollouts)
    return mean, Share(
        sum(any(rollout.correct for rollout in group) for group in groups), len(groups)
    )


def same_when_swapped(given: Sequence[Rollout], swapped: Sequence[Rollout]) -> Share:
    """The share of pairs whose four labels are the same with the sides swapped."""

    def same(first: Rollout, second: Rollout) -> bool:
        one, other = first.run.finished, second.run.finished
        if one is None or other is None or one.verdict is None or other.verdict is None:
            return False
        return one.verdict == swap_verdict(other.verdict)

    return Share(sum(map(same, given, swapped)), len(given))
