"""The paper's reward as TRL calls it: from the sampled token ids, over our own reading of the replies."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from vrthinker_core.backends.base import JudgeDescription
from vrthinker_core.backends.local.text.tokenizer import SafeTokenizer
from vrthinker_core.training.environment import FrameEnvironment, replay
from vrthinker_core.training.groups import Group, group_of
from vrthinker_core.training.rewards import RewardWeights
from vrthinker_core.training.rollouts import by_pair
from vrthinker_core.training.trl.sampled_replies import read_replies
from vrthinker_core.types import Settings


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
        groups = [group_of(group, self.weights) for group in by_pair(rollouts, self.samples)]
        self.groups += groups
        if log := trainer.get("log_metric"):
            _log(log, groups)
        return [total for group in groups for total in group.totals]

    def taken(self) -> tuple[Group, ...]:
        """The groups so far, which are then forgotten."""
        groups, self.groups = tuple(self.groups), []
        return groups


def mixed_share(groups: Sequence[Group]) -> float:
    """The share of groups whose rewards differ: TRL draws no others in their place, so this is what a step learns from."""
    return sum(group.is_mixed for group in groups) / len(groups) if groups else 0.0


def _log(log: Callable[[str, float], None], groups: Sequence[Group]) -> None:
    log("mixed_groups", mixed_share(groups))
    for reward in (reward for group in groups for _, reward in group.rewarded):
        for part in ("format", "accuracy", "gain", "exploration"):
            value = getattr(reward, part)
            if value is not None:
                log(f"reward_{part}", value)
