"""The paper's reward as TRL calls it: from the sampled token ids, over our own reading of the replies."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from vrthinker_core.backends.base import JudgeDescription
from vrthinker_core.backends.local.text.tokenizer import SafeTokenizer
from vrthinker_core.training.environment import FrameEnvironment, replay
from vrthinker_core.training.grpo_loop import Group
from vrthinker_core.training.rewards import RewardWeights, RolloutReward, advantages, group_rewards, is_mixed
from vrthinker_core.training.rollouts import Rollout, by_pair
from vrthinker_core.training.trl.sampled_replies import read_replies
from vrthinker_core.types import Settings, StopReason


@dataclass(slots=True)
class RolloutRewards:
    """A reward function of `GRPOTrainer`. `groups` are those of this process since they were last taken."""

    judge: JudgeDescription
    settings: Settings
    tokenizer: SafeTokenizer
    samples: int  # Of each pair
    weights: RewardWeights = field(default_factory=RewardWeights)
    groups: list[Group] = field(default_factory=list)

    def __call__(
        self, completion_ids: Sequence[Sequence[int]], environments: Sequence[FrameEnvironment], **trainer: Any
    ) -> list[float | None]:
        """The total of each rollout, None for one that has none. Its parts are logged."""
        rollouts = [
            replay(environment.pair, self.judge, self.settings, read_replies(ids, self.tokenizer))
            for environment, ids in zip(environments, completion_ids, strict=True)
        ]
        groups = [self._group(group) for group in by_pair(rollouts, self.samples)]
        self.groups += groups
        if log := trainer.get("log_metric"):
            _log(log, groups)
        return [total_reward(*each) for group in groups for each in zip(group.rollouts, group.rewards, strict=True)]

    def taken(self) -> tuple[Group, ...]:
        """The groups so far, which are then forgotten."""
        groups, self.groups = tuple(self.groups), []
        return groups

    def _group(self, rollouts: Sequence[Rollout]) -> Group:
        rewards = group_rewards([rollout.run for rollout in rollouts], rollouts[0].pair.truth, self.weights)
        known = advantages([total_reward(*each) for each in zip(rollouts, rewards, strict=True)])
        return Group(tuple(rollouts), tuple(rewards), tuple(value or 0.0 for value in known))


def total_reward(rollout: Rollout, reward: RolloutReward) -> float | None:
    """The reward; None also for a rollout whose frames could not be had: that says nothing of the judge."""
    end = rollout.run.finished
    return None if end is None or end.stop is StopReason.FAILED else reward.total


def mixed_share(groups: Sequence[Group]) -> float:
    """The share of groups whose rewards differ: TRL draws no others in their place, so this is what a step learns from."""
    totals = [[total_reward(*each) for each in zip(group.rollouts, group.rewards, strict=True)] for group in groups]
    return sum(map(is_mixed, totals)) / len(groups) if groups else 0.0


def _log(log: Callable[[str, float], None], groups: Sequence[Group]) -> None:
    log("mixed_groups", mixed_share(groups))
    for reward in (reward for group in groups for reward in group.rewards):
        for part in ("format", "accuracy", "gain", "exploration"):
            value = getattr(reward, part)
            if value is not None:
                log(f"reward_{part}", value)
