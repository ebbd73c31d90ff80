"""The paper's two filters of runs that are to be learnt from, and what becomes of the runs of a whole data set.

A run is kept when (i) every turn obeys the format and (ii) every label of its final answer equals the known one (section on the
cold start).
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from vrthinker_core.training.rewards import format_reward, malformation
from vrthinker_core.types import Dimension, Preference, Run, Verdict
from vrthinker_core.types.progress import count

LabelNumbers = Mapping[str, int]
Shares = dict[
    str, dict[int, float]
]  # By dimension and label, from 0 to 1; they add up to 1 in each dimension


class Reason(StrEnum):
    """Why a run is not learnt from."""

    NO_ANSWER = "no whole final answer"
    FORMAT = "a turn does not keep to the format"
    LABELS = "a label is not the known one"
    NOT_KNOWN = "no label of the pair is known"
    VIDEO = "a video cannot be read"
    CONTEXT = "it is too long for the judge"
    HELD_OUT = "its pair is held out to measure with"
    STORED = "what the judge was sent cannot be made again from what is stored"


@dataclass(frozen=True, slots=True)
class FilterRefusal:
    """Why one run is not learnt from, and a sentence with what it was."""

    reason: Reason
    sentence: str


def refusal(run: Run, truth: Verdict) -> FilterRefusal | None:
    """None for a run that passes both filters. Labels that are not known are not asked for."""
    end, answer = run.finished, run.whole_answer
    if answer is None:
        return FilterRefusal(
            Reason.NO_ANSWER,
            f"It ended without a whole final answer: {end.stop if end else 'it was cut off'}.",
        )
    if not format_reward(run):
        return FilterRefusal(Reason.FORMAT, _broken_turn(run))
    if not truth.labels:
        return FilterRefusal(Reason.NOT_KNOWN, "No label of its pair is known.")
    given = answer.labels
    wrong = [
        f"{name}={given[name]}, not {label}"
        for name, label in truth.labels.items()
        if given[name] != label
    ]
    return FilterRefusal(Reason.LABELS, f"It says {'; '.join(wrong)}.") if wrong else None


def _broken_turn(run: Run) -> str:
    broken = ((turn.number, malformation(turn, run.started.dialect)) for turn in run.turns)
    return next(
        (f"Turn {number} does not keep to the format: {what}." for number, what in broken if what),
        "",
    )


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one run of one pair."""

    pair: int  # Number in the pair set
    sample: int
    truth: LabelNumbers
    given: LabelNumbers = field(default_factory=dict)  # Of the final answer
    reason: str = ""  # A `Reason`, "" for a run that is kept
    sentence: str = ""
    file: str = (
        ""  # Of the trace, relative to the folder of the outcomes; "" where it was not stored
    )
    replies: str = ""  # Digest of what the judge wrote: equal for equal texts
    first: str = ""  # Path of the video; "" of a drawn one
    second: str = ""

    @property
    def kept(self) -> bool:
        """It passed both filters."""
        return not self.reason

    @property
    def well_formed(self) -> bool:
        """It came to a whole answer in the form that is asked for."""
        return self.reason in ("", Reason.LABELS)


@dataclass(frozen=True, slots=True)
class FilterReport:
    """How many runs pass the filters, in which dimension they fail, and what that does to the labels."""

    runs: int
    kept: int
    pairs: int
    pairs_kept: int  # Of which at least one run is kept
    reasons: Mapping[str, int]  # Runs by the reason for which they are not kept
    right: Mapping[
        str, tuple[int, int]
    ]  # By dimension: right labels of well-formed runs, and how many have a known label
    labels_before: Shares  # Of the pairs that were judged
    labels_after: Shares  # Of the runs that are kept

    @property
    def lines(self) -> list[str]:
        """The report in sentences."""
        lines = [
            f"{self.kept:,} of {count(self.runs, 'run')} kept, of {self.pairs_kept:,} of {count(self.pairs, 'pair')}."
        ]
        lines += [
            f"{number:,} not kept: {reason}."
            for reason, number in sorted(self.reasons.items(), key=lambda each: -each[1])
        ]
        for name, (right, known) in self.right.items():
            lines.append(
                f"{name}: {right:,} of {known:,} well-formed runs are right ({_share(right / known)})."
            )
        lines += share_lines(self.labels_before, self.labels_after)
        return lines


def report_outcomes(outcomes: Sequence[Outcome]) -> FilterReport:
    """The report on some outcomes."""
    kept = [outcome for outcome in outcomes if outcome.kept]
    pairs = {outcome.pair: outcome.truth for outcome in outcomes}
    formed = [outcome for outcome in outcomes if outcome.well_formed]
    right = {}
    for name in (dimension.value for dimension in Dimension):
        known = [outcome for outcome in formed if name in outcome.truth]
        if known:
            right[name] = (
                sum(outcome.given.get(name) == outcome.truth[name] for outcome in known),
                len(known),
            )
    return FilterReport(
        len(outcomes),
        len(kept),
        len(pairs),
        len({outcome.pair for outcome in kept}),
        dict(Counter(outcome.reason for outcome in outcomes if not outcome.kept)),
        right,
        label_shares(list(pairs.values())),
        label_shares([outcome.truth for outcome in kept]),
    )


def label_shares(truths: Sequence[LabelNumbers]) -> Shares:
    """The share of each label in each dimension, among those that are known."""
    shares: Shares = {}
    for name in (dimension.value for dimension in Dimension):
        found = Counter(labels[name] for labels in truths if name in labels)
        if found:
            shares[name] = {int(label): found[int(label)] / found.total() for label in Preference}
    return shares


def share_lines(before: Shares, after: Shares) -> list[str]:
    """A sentence for each dimension: the shares of tie, 1 and 2 before and after."""

    def told(shares: dict[int, float] | None) -> str:
        return " / ".join(_share(shares[int(label)]) for label in Preference) if shares else "none"

    return [
        f"{name}: tie / 1 / 2 were {told(before[name])} before and are {told(after.get(name))} after."
        for name in before
    ]


def _share(value: float) -> str:
    return f"{100 * value:.0f} %"
