"""The gate after the cold start: what a judge must reach on held-out pairs before the next stage begins."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean

from vrthinker_core.backends.base import Backend
from vrthinker_core.errors import BadInput
from vrthinker_core.text import encodable
from vrthinker_core.training.labelled_pairs.pair_set import PairSet
from vrthinker_core.training.rewards import format_reward
from vrthinker_core.training.rollouts import LIVE, Rollout, by_pair, play_each
from vrthinker_core.training.run.config import GateConfig
from vrthinker_core.training.run.sitting import Sitting
from vrthinker_core.types import Settings


@dataclass(frozen=True, slots=True)
class HeldOutFigures:
    """A judge on held-out pairs, sampled k times each."""

    pairs: int
    samples: int  # k
    format: float  # Share of well-formed rollouts
    mean_at_1: float  # Share of rollouts of which every known label is right
    pass_at_k: float  # Share of pairs of which at least one rollout is


def measure_judge(
    judge: Backend, pairs: PairSet, settings: Settings, gates: GateConfig
) -> HeldOutFigures:
    """Play the first `gates.pairs` pairs (fewer where there are fewer) `gates.samples` times each at the temperature given.

    A pair that cannot be played does not count. Raises BadInput where none can.
    """
    count, samples = min(gates.pairs, pairs.size or gates.pairs), gates.samples
    played = list(
        play_each((pairs.pair(number) for number in range(count)), judge, settings, samples, LIVE)
    )
    whole = (
        group
        for group in by_pair(played, samples)
        if all(isinstance(each, Rollout) for each in group)
    )
    rollouts = [each for group in whole for each in group if isinstance(each, Rollout)]
    if not rollouts:
        why = next(
            (str(each) for each in played if not isinstance(each, Rollout)), "There is none."
        )
        raise BadInput(f"No held-out pair can be played. {why}")
    return held_out_figures(rollouts, samples)


def held_out_figures(rollouts: Sequence[Rollout], samples: int) -> HeldOutFigures:
    """The figures of rollouts that stand pair by pair, `samples` of each."""
    right = [rollout.correct for rollout in rollouts]
    groups = by_pair(right, samples)
    well_formed = fmean(format_reward(rollout.run) for rollout in rollouts)
    return HeldOutFigures(len(groups), samples, well_formed, fmean(right), fmean(map(any, groups)))


def pass_gate(sitting: Sitting, check: Callable[[], None]) -> None:
    """Raise what `check` raises. A sitting with a time limit goes on: who set one wants to see all stages, and is told."""
    try:
        check()
    except BadInput as error:
        if sitting.deadline is None:
            raise
        sitting.say(f"{error} The time is limited, so training goes on.")


def check_cold_start(figures: HeldOutFigures, gates: GateConfig, source: str) -> None:
    """Raises BadInput where the form is not kept, or sampling finds hardly more than one try: then there is nothing to build on.

    `source`: the checkpoint that the cold start began with, with which it can be made again.
    """
    again = f"train again in a new folder (--model {encodable(source)} --out …) with more cold_start.traces or cold_start.sft.epochs"
    if figures.format < gates.format:
        raise BadInput(
            f"After the cold start {figures.format:.2f} of the rollouts keep to the format on {figures.pairs} held-out pairs, and "
            f"{gates.format:.2f} are needed: {again}, or go on with --resume and a lower gate (--set gates.format=…)."
        )
    if figures.pass_at_k - figures.mean_at_1 < gates.headroom:
        raise BadInput(
            f"After the cold start pass@{figures.samples} is {figures.pass_at_k:.2f} and mean@1 {figures.mean_at_1:.2f} on "
            f"{figures.pairs} held-out pairs, and {gates.headroom:.2f} between them are needed, or later stages find nothing: "
            f"{again}, or go on with --resume and a lower gate (--set gates.headroom=…)."
        )
