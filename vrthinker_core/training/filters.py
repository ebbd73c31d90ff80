"""The paper's two filters of runs, and what becomes of the runs of a whole data set.

A run is kept when (i) every turn obeys the format and (ii) every label of its final answer equals
the known one (section on the cold start).
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from vrthinker_core.training.rewards import malformation
from vrthinker_core.types import Dimension, Preference, Run, Verdict
from vrthinker_core.words import count, share

LabelNumbers = Mapping[str, int]
LabelShares = dict[str, dict[int, float]]  # By dimension and label; 1 together in each dimension


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
    end, answer, known = run.finished, run.whole_answer, truth.labels
    if answer is None:
        how = end.stop if end else "it was cut off"
        return FilterRefusal(Reason.NO_ANSWER, f"It ended without a whole final answer: {how}.")
    for turn in run.turns:
        if what := malformation(turn, run.started.dialect):
            told = f"Turn {turn.number} does not keep to the format: {what}."
            return FilterRefusal(Reason.FORMAT, told)
    if not known:
        return FilterRefusal(Reason.NOT_KNOWN, "No label of its pair is known.")
    given = answer.labels
    wrong = [
        f"{name}={given[name]}, not {known[name]}" for name in known if given[name] != known[name]
    ]
    return FilterRefusal(Reason.LABELS, f"It says {'; '.join(wrong)}.") if wrong else None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one run of one pair."""

    pair: int  # Number in the pair set
    sample: int
    truth: LabelNumbers
    given: LabelNumbers = field(default_factory=dict)  # Of the final answer
    reason: str = ""  # A `Reason`, "" for a run that is kept
    sentence: str = ""
    file: str = ""  # Of the trace, relative to the outcomes' folder; "" if it was not stored
    replies: str = ""  # Digest of what the judge wrote: equal for equal texts
    first: str = ""  # Path of the video; "" of a drawn one
    second: str = ""

    @property
    def kept(self) -> bool:
        """It passed both filters."""
        return not self.reason


@dataclass(frozen=True, slots=True)
class FilterReport:
    """How many runs pass the filters, where they fail, and what that does to the labels."""

    runs: int
    kept: int
    pairs: int
    pairs_kept: int  # With at least one run that is kept
    reasons: Mapping[str, int]  # Runs by the reason for which they are not kept
    right: Mapping[str, tuple[int, int]]  # By dimension, well-formed runs: right labels, known ones
    labels_before: LabelShares  # Of the pairs that were judged
    labels_after: LabelShares  # Of the runs that are kept

    @property
    def lines(self) -> list[str]:
        """The report in sentences."""
        runs, pairs = count(self.runs, "run"), count(self.pairs, "pair")
        reasons = sorted(self.reasons.items(), key=lambda each: -each[1])
        return [
            f"{self.kept:,} of {runs} kept, of {self.pairs_kept:,} of {pairs}.",
            *(f"{number:,} not kept: {reason}." for reason, number in reasons),
            *(
                f"{name}: {right:,} of {known:,} well-formed runs are right "
                f"({share(right / known, 0)})."
                for name, (right, known) in self.right.items()
            ),
            *share_lines(self.labels_before, self.labels_after),
        ]


def report_outcomes(outcomes: Sequence[Outcome]) -> FilterReport:
    """The report on some outcomes."""
    kept = [outcome for outcome in outcomes if outcome.kept]
    pairs = {outcome.pair: outcome.truth for outcome in outcomes}
    formed = [outcome for outcome in outcomes if outcome.reason in ("", Reason.LABELS)]
    right = {}
    for name in (dimension.value for dimension in Dimension):
        if known := [outcome for outcome in formed if name in outcome.truth]:
            equal = sum(outcome.given.get(name) == outcome.truth[name] for outcome in known)
            right[name] = equal, len(known)
    return FilterReport(
        runs=len(outcomes),
        kept=len(kept),
        pairs=len(pairs),
        pairs_kept=len({outcome.pair for outcome in kept}),
        reasons=dict(Counter(outcome.reason for outcome in outcomes if not outcome.kept)),
        right=right,
        labels_before=label_shares(list(pairs.values())),
        labels_after=label_shares([outcome.truth for outcome in kept]),
    )


def label_shares(truths: Sequence[LabelNumbers]) -> LabelShares:
    """The share of each label in each dimension, among those that are known."""
    shares: LabelShares = {}
    for name in (dimension.value for dimension in Dimension):
        if found := Counter(labels[name] for labels in truths if name in labels):
            shares[name] = {int(label): found[int(label)] / found.total() for label in Preference}
    return shares


def share_lines(before: LabelShares, after: LabelShares) -> list[str]:
    """A sentence for each dimension: the shares of tie, 1 and 2 before and after."""

    def told(shares: dict[int, float] | None) -> str:
        return " / ".join(share(shares[label], 0) for label in Preference) if shares else "none"

    return [
        f"{name}: tie / 1 / 2 were {told(before[name])} before and are {told(after.get(name))} "
        "after."
        for name in before
    ]
