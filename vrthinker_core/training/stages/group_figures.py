"""The figures of a GRPO step from the groups that were played for it."""

from collections.abc import Sequence
from dataclasses import replace

from vrthinker_core.training.grpo_loop import Group, StepReport
from vrthinker_core.training.monitor.metrics import StepMetrics


def with_groups(metrics: StepMetrics, report: StepReport, played: Sequence[Group], wanted: int) -> StepMetrics:
    """The figures of all rollouts that were played, not only of those that taught something. `wanted`: groups of a step."""
    rollouts = [rollout for group in played for rollout in group.rollouts]
    rewards = [reward for group in played for reward in group.rewards]
    known = replace(
        metrics,
        entropy=report.entropy,
        kl=report.kl,
        mixed=sum(any(group.advantages) for group in played) / max(1, len(played)),
        redrawn=max(0, len(played) - wanted),
    )
    return known.with_rollouts(rollouts, rewards)
