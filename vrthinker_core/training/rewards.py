"""The paper's reward of a rollout, part by part (section on GRPO; α, k, ω, η as published).

A part that cannot be computed is None, never 0: a run whose turns state no labels has no CoT gain,
and a pair without known labels has no accuracy.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Annotated

from annotated_types import Ge, Le

from vrthinker_core.types import Dimension, Run, StopReason, Turn, Verdict
from vrthinker_core.types.messages import SUB_SCORES

OVERALL_SHARE = 0.5  # α: the share of the overall label in the accuracy


@dataclass(frozen=True, slots=True)
class RewardWeights:
    """The constants of the reward, with the paper's values."""

    overall: Annotated[float, Ge(0), Le(1)] = OVERALL_SHARE
    gain: Annotated[float, Ge(0)] = 0.2  # k: of accuracy from the first labels to the last
    looking: Annotated[float, Ge(0)] = 0.5  # η: of looking in a group that looks too seldom
    looking_share: Annotated[float, Ge(0), Le(1)] = 0.2  # ω: enough of a group looks


@dataclass(frozen=True, slots=True)
class RolloutReward:
    """The parts of one rollout's reward."""

    format: float  # 1 if every turn is well formed and the run was answered, else 0
    accuracy: float | None  # 0 to 1; None if no label of the pair is known
    gain: float | None  # k times the accuracy of the last stated labels − of the first
    exploration: float  # η times what the group lacks of ω, for a rollout that looked

    @property
    def total(self) -> float | None:
        """The sum of what could be computed; None without an accuracy."""
        if self.accuracy is None:
            return None
        return self.format + self.accuracy + (self.gain or 0.0) + self.exploration


def group_rewards(
    runs: Sequence[Run], truth: Verdict, weights: RewardWeights = RewardWeights()
) -> list[RolloutReward]:
    """Return the rewards of one pair's rollouts, in order."""
    looked = [any(turn.frames for turn in run.turns[1:]) for run in runs]
    bonus = weights.looking * max(weights.looking_share - fmean(looked), 0.0) if runs else 0.0
    return [
        RolloutReward(
            format_reward(run),
            accuracy(run.final_verdict, truth, weights.overall),
            cot_gain(run, truth, weights),
            bonus if looking else 0.0,
        )
        for run, looking in zip(runs, looked, strict=True)
    ]


def format_reward(run: Run) -> float:
    """Return 1 if every turn is well formed and the last is a whole answer, else 0."""
    end = run.finished
    answered = end is not None and end.stop is StopReason.ANSWERED and not end.provisional
    broken = any(malformation(turn, run.started.dialect) for turn in run.turns)
    return float(answered and not broken)


def malformation(turn: Turn, protocol: str) -> str:
    """Return what is wrong with the form of a turn's reply, "" if nothing.

    The parser forgives what can be understood; here each segment has to be closed, as both cards
    ask. In `concat` a call stands beside recommended labels with their confidence.
    """
    if turn.completion.stop != "end":
        return "it was cut short"
    if turn.problems:
        return turn.problems[0].kind.value
    if turn.reply.kind == "answer":
        ends = {"answer": "(final )?answer"}
    elif protocol == "concat":
        ends = {"tool_call": "tool_call", "recommended answer": "recommend(ed)? answer"}
    else:
        ends = {"tool_call": "tool_call"}
    for name, tag in {"snapshot": "snapshot", "think": "think", **ends}.items():
        if not re.search(f"<{tag}>.*?</{tag}>", turn.reply.text, re.I | re.S):
            return f"it has no closed {name}"
    if "recommended answer" in ends and turn.reply.confidence is None:
        return "it recommends no labels with a confidence"
    return ""


def right_labels(verdict: Verdict | None, truth: Verdict) -> dict[Dimension, bool]:
    """Return whether each known label is right; a missing one is wrong."""
    given = dict(verdict or ())
    return {each: label is given.get(each) for each, label in truth if label is not None}


def accuracy(
    verdict: Verdict | None, truth: Verdict, overall: float = OVERALL_SHARE
) -> float | None:
    """Return α·[OA right] + (1 − α)·mean of [right] over TA, VQ and MQ.

    Only known labels count. If only one of the two halves is known it counts whole; None if neither is.
    """
    right = right_labels(verdict, truth)
    parts = [right[each] for each in SUB_SCORES if each in right]
    halves = [(overall, float(right[Dimension.OA]))] if Dimension.OA in right else []
    halves += [(1 - overall, fmean(parts))] if parts else []
    total = sum(weight for weight, _ in halves)
    return sum(weight * value for weight, value in halves) / total if total else None


def cot_gain(run: Run, truth: Verdict, weights: RewardWeights) -> float | None:
    """Return k times the last stated accuracy minus the first: the turns' gains telescope.

    So a policy can earn by starting wrong, which `first_accuracy` shows. None if fewer than two
    turns state labels (one, in a run of one turn), or no label of the pair is known.
    """
    known = _stated_accuracies(run, truth, weights)
    if not known or len(known) < min(2, len(run.turns)):
        return None
    return weights.gain * (known[-1] - known[0])


def first_accuracy(run: Run, truth: Verdict, weights: RewardWeights) -> float | None:
    """Return the first stated accuracy; if it falls, a rising gain is being gamed."""
    return next(iter(_stated_accuracies(run, truth, weights)), None)


def _stated_accuracies(run: Run, truth: Verdict, weights: RewardWeights) -> list[float]:
    said = (turn.reply.verdict for turn in run.turns)
    stated = (each for each in said if each is not None and each.labels)
    found = (accuracy(each, truth, weights.overall) for each in stated)
    return [each for each in found if each is not None]
