"""The paper's reward as TRL calls it: from the sampled token ids, over our own reading of the replies."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from vrthinker_core.backends.base import JudgeDescription
from vrthinker_core.backends.local.text.tokenizer import SafeTokenizer
from vrthinker_core.training.environment import FrameEnvironment, replay
from vrthinker_core.training.rewards import RewardWeights, RolloutReward, group_rewards
from vrthinker_core.training.rollouts import Rollout, by_pair
from vrthinker_core.training.trl.sampled_replies import read_replies
from vrthinker_core.types import Settings, StopReason


@dataclass(frozen=True, slots=True)
class Group:
    """The rollouts of one pair, with their rewards."""

    rollouts: tuple[Rollout, ...]
    rewards: tuple[
        RolloutReward | None, ...
    ]  # None if its frames could not be had: that says nothing of the judge

    @property
    def totals(self) -> list[float | None]:
        """The reward of each rollout."""
        return [None if reward is None else reward.total for reward in self.rewards]

    @property
    def rewarded(self) -> list[tuple[Rollout, RolloutReward]]:
        """The rollouts that have rewards, with these."""
        return [
            (rollout, reward)
            for rollout, reward in zip(self.rollouts, self.rewards, strict=True)
            if reward is not None
        ]

    @property
    def is_mixed(self) -> bool:
        """Its rewards differ, so that it teaches something."""
        known = [total for total in self.totals if total is not None]
        return bool(known) and max(known) - min(known) > 1e-9


def group_of(rollouts: Sequence[Rollout], weights: RewardWeights) -> Group:
    """The rollouts of one pair as a group."""
    told = [rollout.run for rollout in rollouts if not _failed(rollout)]
    known = iter(group_rewards(told, rollouts[0].pair.truth, weights))
    return Group(
        tuple(rollouts), tuple(None if _failed(rollout) else next(known) for rollout in rollouts)
    )


def _failed(rollout: Rollout) -> bool:
    end = rollout.run.finished
    return end is None or end.stop is StopReason.FAILED


def mixed_share(groups: Sequence[Group]) -> float:
    """The share of groups whose rewards differ: a step learns from these alone."""
    return fmean(group.is_mixed for group in groups)


@dataclass(slots=True)
class RolloutRewards:
    """A reward function of `GRPOTrainer`."""

    judge: JudgeDescription
    settings: Settings
    tokenizer: SafeTokenizer
    samples: int  # Of each pair
    weights: RewardWeights = field(default_factory=RewardWeights)
    groups: Sequence[Group] = ()  # Of the latest step, in this process

    def __call__(
        self,
        completion_ids: Sequence[Sequence[int]],
        environments: Sequence[FrameEnvironment],
        **_: Any,
    ) -> list[float | None]:
        """The total of each rollout of a step, None for one that has none."""
        rollouts = [
            replay(environment.pair, self.judge, self.settings, read_replies(ids, self.tokenizer))
            for environment, ids in zip(environments, completion_ids, strict=True)
        ]
        self.groups = [group_of(group, self.weights) for group in by_pair(rollouts, self.samples)]
        return [total for group in self.groups for total in group.totals]
