"""Groups of GRPO: the rollouts of one pair, with rewards and advantages, whichever trainer played them."""

from collections.abc import Sequence
from dataclasses import dataclass

from vrthinker_core.training.rewards import RewardWeights, RolloutReward, advantages, group_rewards, is_mixed
from vrthinker_core.training.rollouts import Rollout
from vrthinker_core.types import StopReason


@dataclass(frozen=True, slots=True)
class Group:
    """The rollouts of one pair, with their rewards and advantages."""

    rollouts: tuple[Rollout, ...]
    rewards: tuple[RolloutReward | None, ...]  # None where its frames could not be had: that says nothing of the judge
    advantages: tuple[float, ...]  # 0 for a rollout without a reward

    @property
    def totals(self) -> list[float | None]:
        """The reward of each rollout."""
        return [_total(reward) for reward in self.rewards]

    @property
    def rewarded(self) -> list[tuple[Rollout, RolloutReward]]:
        """The rollouts that have rewards, with these."""
        return [(rollout, reward) for rollout, reward in zip(self.rollouts, self.rewards, strict=True) if reward is not None]

    @property
    def is_mixed(self) -> bool:
        """Its rewards differ, so that it teaches something."""
        return is_mixed(self.totals)


def group_of(rollouts: Sequence[Rollout], weights: RewardWeights) -> Group:
    """The rollouts of one pair as a group."""
    told = [rollout.run for rollout in rollouts if not _failed(rollout)]
    known = iter(group_rewards(told, rollouts[0].pair.truth, weights))
    rewards = tuple(None if _failed(rollout) else next(known) for rollout in rollouts)
    found = advantages([_total(reward) for reward in rewards])
    return Group(tuple(rollouts), rewards, tuple(value or 0.0 for value in found))


def _failed(rollout: Rollout) -> bool:
    end = rollout.run.finished
    return end is None or end.stop is StopReason.FAILED


def _total(reward: RolloutReward | None) -> float | None:
    return None if reward is None else reward.total


@dataclass(frozen=True, slots=True)
class StepReport:
    """What one optimizer step learnt from."""

    groups: tuple[Group, ...]
    drawn: int  # Groups that were played for them
    loss: float
    entropy: float  # Mean over the learnt tokens, in nats
    kl: float  # To the reference, mean over the learnt tokens
