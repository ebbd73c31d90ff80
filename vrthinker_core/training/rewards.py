"""The paper's reward of a rollout, part by part (section on GRPO; α, k, ω, η as published).

A part that cannot be computed is None, never 0: a run whose turns state no labels has no CoT gain, and a pair of which nothing is
known has no accuracy.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Annotated

from annotated_types import Ge, Le

from vrthinker_core.types import Dimension, Run, StopReason, Turn, Verdict
from vrthinker_core.types.comparison import SUB_SCORES

OVERALL_SHARE = 0.5  # α: the share of the overall label in the accuracy

_CLOSED = {
    "snapshot": re.compile(r"<snapshot>.*?</snapshot>", re.I | re.S),
    "think": re.compile(r"<think>.*?</think>", re.I | re.S),
    "tool_call": re.compile(r"<tool_call>.*?</tool_call>", re.I | re.S),
    "answer": re.compile(r"<(final )?answer>.*?</(final )?answer>", re.I | re.S),
    "recommended answer": re.compile(
        r"<recommend(ed)? answer>.*?</recommend(ed)? answer>", re.I | re.S
    ),
}


@dataclass(frozen=True, slots=True)
class RewardWeights:
    """The constants of the reward, with the paper's values."""

    overall: Annotated[float, Ge(0), Le(1)] = OVERALL_SHARE
    gain: Annotated[float, Ge(0)] = (
        0.2  # k: what a step of accuracy from the first stated labels to the last is worth
    )
    looking: Annotated[float, Ge(0)] = (
        0.5  # η: what looking is worth in a group that looks too seldom
    )
    looking_share: Annotated[float, Ge(0), Le(1)] = (
        0.2  # ω: the share of rollouts that look, from which on it earns nothing
    )


@dataclass(frozen=True, slots=True)
class RolloutReward:
    """The parts of one rollout's reward."""

    format: (
        float  # 1 when every turn is well formed (`malformation`) and the run was answered, else 0
    )
    accuracy: float | None  # 0 to 1; None where no label of the pair is known
    gain: (
        float | None
    )  # k times (accuracy of the last stated labels − accuracy of the first); None where no labels are stated
    exploration: float  # η times what the group lacks of ω, for a rollout that looked

    @property
    def total(self) -> float | None:
        """The sum of what could be computed; None without an accuracy."""
        return (
            None
            if self.accuracy is None
            else self.format + self.accuracy + (self.gain or 0.0) + self.exploration
        )


def group_rewards(
    runs: Sequence[Run], truth: Verdict, weights: RewardWeights = RewardWeights()
) -> list[RolloutReward]:
    """The rewards of the rollouts of one pair, whose true labels are `truth`, in order."""
    looked = [looks(run) for run in runs]
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
    """1 when the run ended with a whole answer and every turn is well formed, else 0."""
    end = run.finished
    answered = end is not None and end.stop is StopReason.ANSWERED and not end.provisional
    return float(
        answered and not any(malformation(turn, run.started.dialect) for turn in run.turns)
    )


def malformation(turn: Turn, protocol: str) -> str:
    """What is wrong with the form of a turn's reply, in a few words; "" for one that is well formed.

    The reader of replies forgives what can be understood all the same; here each segment has to be closed, as both cards ask. In
    `concat` a call stands beside recommended labels with their confidence.
    """
    if turn.completion.stop != "end":
        return "it was cut short"
    if turn.problems:
        return turn.problems[0].kind.value
    looking_on = turn.reply.kind != "answer"
    wanted = ["snapshot", "think", "tool_call" if looking_on else "answer"]
    if looking_on and protocol == "concat" and turn.reply.confidence is not None:
        wanted.append("recommended answer")
    if missing := [name for name in wanted if not _CLOSED[name].search(turn.reply.text)]:
        return f"it has no closed {missing[0]}"
    recommends = protocol != "concat" or not looking_on or turn.reply.confidence is not None
    return "" if recommends else "it recommends no labels with a confidence"


def accuracy(
    verdict: Verdict | None, truth: Verdict, overall: float = OVERALL_SHARE
) -> float | None:
    """α·[OA right] + (1 − α)·mean of [right] over TA, VQ and MQ, over the labels that are known. A label not given is wrong.

    Where only one of the two halves is known it counts whole; None where neither is.
    """
    right = {
        each: label is dict(verdict or ()).get(each) for each, label in truth if label is not None
    }
    parts = [right[each] for each in SUB_SCORES if each in right]
    halves = [(overall, float(right[Dimension.OA]))] if Dimension.OA in right else []
    halves += [(1 - overall, fmean(parts))] if parts else []
    total = sum(weight for weight, _ in halves)
    return sum(weight * value for weight, value in halves) / total if total else None


def cot_gain(run: Run, truth: Verdict, weights: RewardWeights) -> float | None:
    """k times the sum of what each turn's labels gain over those before; it telescopes to the last minus the first.

    So a policy can earn by starting wrong: `first_accuracy` is what tells that. None where fewer than two turns were needed to
    state labels and a turn states none, or where nothing of the pair is known.
    """
    values = list(_stated_accuracies(run, truth, weights))
    known = [value for value in values if value is not None]
    if not known or len(known) < min(2, len(values)):
        return None
    return weights.gain * (known[-1] - known[0])


def first_accuracy(run: Run, truth: Verdict, weights: RewardWeights) -> float | None:
    """The accuracy of the first labels that the run states: when it falls while the CoT gain rises, the gain is being gamed."""
    return next(
        (value for value in _stated_accuracies(run, truth, weights) if value is not None), None
    )


def looks(run: Run) -> bool:
    """The rollout was shown frames that it asked for."""
    return any(turn.frames for turn in run.turns[1:])


def _stated_accuracies(run: Run, truth: Verdict, weights: RewardWeights) -> Iterator[float | None]:
    for turn in run.turns:
        verdict = turn.reply.verdict
        yield (
            None
            if verdict is None or not verdict.labels
            else accuracy(verdict, truth, weights.overall)
        )
