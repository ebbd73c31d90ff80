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
    rewards: tuple[RolloutReward, ...]
    advantages: tuple[float, ...]  # 0 for a rollout without a reward

    @property
    def totals(self) -> list[float | None]:
        """The reward of each rollout; None also where its frames could not be had: that says nothing of the judge."""
        return [_total(*each) for each in zip(self.rollouts, self.rewards, strict=True)]

    @property
    def is_mixed(self) -> bool:
        """Its rewards differ, so that it teaches something."""
        return is_mixed(self.totals)


def group_of(rollouts: Sequence[Rollout], weights: RewardWeights) -> Group:
    """The rollouts of one pair as a group."""
    rewards = group_rewards([rollout.run for rollout in rollouts], rollouts[0].pair.truth, weights)
    known = advantages([_total(*each) for each in zip(rollouts, rewards, strict=True)])
    return Group(tuple(rollouts), tuple(rewards), tuple(value or 0.0 for value in known))


def _total(rollout: Rollout, reward: RolloutReward) -> float | None:
    end = rollout.run.finished
    return None if end is None or end.stop is StopReason.FAILED else reward.total


@dataclass(frozen=True, slots=True)
class StepReport:
    """What one optimizer step learnt from."""

    groups: tuple[Group, ...]
    drawn: int  # Groups that were played for them
    loss: float
    entropy: float  # Mean over the learnt tokens, in nats
    kl: float  # To the reference, mean over the learnt tokens
