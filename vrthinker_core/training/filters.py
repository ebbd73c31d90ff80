"""The paper's two filters of runs, and the choice among right runs.

A run is kept if (i) every turn obeys the format and (ii) every label of its final answer equals the
known one (section on the cold start).
"""

import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from math import ceil
from pathlib import Path
from typing import Any

from vrthinker_core.errors import BadInput, data_errors, os_errors, type_adapter
from vrthinker_core.storage import whole_lines
from vrthinker_core.training.rewards import malformation
from vrthinker_core.types import Dimension, Preference, Run, Verdict
from vrthinker_core.words import count, share

OUTCOMES = "outcomes.jsonl"  # In a teacher's folder: its identity, then a line for each run
FORMAT = "vr-thinker-outcomes/1"
LabelNumbers = Mapping[str, int]
LabelShares = dict[str, dict[int, float]]  # By dimension and label; the sum is 1 in each dimension


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


def refusal(run: Run, truth: Verdict) -> tuple[Reason, str] | None:
    """Return why a run fails, and a sentence; None if it passes.

    Only known labels of `truth` are compared.
    """
    end, answer, known = run.finished, run.whole_answer, truth.labels
    if answer is None:
        how = end.stop if end else "it was cut off"
        return Reason.NO_ANSWER, f"It ended without a whole final answer: {how}."
    for turn in run.turns:
        if what := malformation(turn, run.started.dialect):
            return Reason.FORMAT, f"Turn {turn.number} does not keep to the format: {what}."
    if not known:
        return Reason.NOT_KNOWN, "No label of its pair is known."
    given = answer.labels
    wrong = [
        f"{name}={given[name]}, not {known[name]}" for name in known if given[name] != known[name]
    ]
    return (Reason.LABELS, f"It says {'; '.join(wrong)}.") if wrong else None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one run of one pair."""

    pair: int  # Number in the pair set
    sample: int
    truth: LabelNumbers
    given: LabelNumbers = field(default_factory=dict)  # Of the final answer
    reason: str = ""  # A `Reason`; "" if the run is kept
    sentence: str = ""
    file: str = ""  # The trace, relative to the outcomes' folder; "" if it was not stored
    replies: str = ""  # Digest of the judge's texts
    first: str = ""  # Path of the video; "" if it was drawn
    second: str = ""

    @property
    def kept(self) -> bool:
        """Whether the run passed both filters."""
        return not self.reason


def read_outcomes(folder: Path) -> list[Outcome]:
    """Return the last outcome of each run, in order. Raises BadInput."""
    found: dict[tuple[int, int], Outcome] = {}
    for number, line in enumerate(_lines(folder)[1:], start=2):
        with data_errors(f"Line {number} of {folder / OUTCOMES} is no outcome of a run"):
            outcome = type_adapter(Outcome).validate_json(line)
        found[_place(outcome)] = outcome
    return [found[place] for place in sorted(found)]


def read_identity(folder: Path) -> dict[str, Any]:
    """Return the first line's judge, data, settings and samples. Raises BadInput."""
    head: Any = None
    with suppress(ValueError, IndexError):
        head = json.loads(_lines(folder)[0])
    if not isinstance(head, dict) or head.get("format") != FORMAT:
        raise BadInput(f"{folder / OUTCOMES} holds no outcomes: name a new folder with --out.")
    return head


def _lines(folder: Path) -> list[bytes]:
    with os_errors(f"{folder} holds no runs of a teacher"):
        return whole_lines(folder / OUTCOMES)


def report_lines(outcomes: Sequence[Outcome]) -> list[str]:
    """Report how many runs pass, why others fail, how labels shift."""
    kept = [outcome for outcome in outcomes if outcome.kept]
    pairs, pairs_kept = _truths(outcomes), {outcome.pair for outcome in kept}
    runs = count(len(outcomes), "run")
    lines = [
        f"{len(kept):,} of {runs} kept, of {len(pairs_kept):,} of {count(len(pairs), 'pair')}."
    ]
    reasons = Counter(outcome.reason for outcome in outcomes if not outcome.kept)
    lines += [f"{number:,} not kept: {reason}." for reason, number in reasons.most_common()]
    formed = [outcome for outcome in outcomes if outcome.reason in ("", Reason.LABELS)]
    for name in (dimension.value for dimension in Dimension):
        if known := [outcome for outcome in formed if name in outcome.truth]:
            right = sum(outcome.given.get(name) == outcome.truth[name] for outcome in known)
            share_right = share(right / len(known), 0)
            lines.append(
                f"{name}: {right:,} of {len(known):,} well-formed runs are right ({share_right})."
            )
    return [*lines, *_share_lines(outcomes, kept)]


def label_shares(truths: Sequence[LabelNumbers]) -> LabelShares:
    """Return each label's share of the known ones in its dimension."""
    shares: LabelShares = {}
    for name in (dimension.value for dimension in Dimension):
        if found := Counter(labels[name] for labels in truths if name in labels):
            shares[name] = {int(label): found[int(label)] / found.total() for label in Preference}
    return shares


def _truths(outcomes: Sequence[Outcome]) -> list[LabelNumbers]:
    """Return the labels of each pair once."""
    return list({outcome.pair: outcome.truth for outcome in outcomes}.values())


def _share_lines(outcomes: Sequence[Outcome], learnt: Sequence[Outcome]) -> list[str]:
    """Compare the labels of all pairs with the learnt ones."""

    def told(shares: dict[int, float] | None) -> str:
        return " / ".join(share(shares[label], 0) for label in Preference) if shares else "none"

    after = label_shares([outcome.truth for outcome in learnt])
    return [
        f"{name}: tie / 1 / 2 were {told(before)} before and are {told(after.get(name))} after."
        for name, before in label_shares(_truths(outcomes)).items()
    ]


def choose_runs(
    outcomes: Sequence[Outcome],
    *,
    each: int = 1,  # Runs of one pair at most; equal ones count once
    most: int | None = None,  # Runs in all at most (paper: up to about 20,000 help)
    tolerance: float = 0.03,  # Of a label's share, above its share among the pairs
    least: float = 0.5,  # Share of the passing runs that balancing leaves at least
    easy: float = 1.0,  # Runs of pairs that were always right, at most, for each other run
) -> list[Outcome]:
    """Choose among the runs that passed, with balanced labels, by pair.

    Runs of pairs that were sometimes wrong go first. The order of `outcomes` does not matter.
    """
    by_pair: dict[int, list[Outcome]] = defaultdict(list)
    for outcome in sorted(outcomes, key=_place):
        by_pair[outcome.pair].append(outcome)
    passed = []
    for runs in by_pair.values():
        kept = [run for run in runs if run.kept]
        different = {run.replies or str(run.sample): run for run in reversed(kept)}
        some = sorted(different.values(), key=_place)[:each]
        passed += [(run, len(kept) / len(runs)) for run in some]
    chosen = _Selection(passed, label_shares(_truths(outcomes)))
    always = sum(right == 1 for _, right in passed)
    # If every pair was always right, its runs are all there is, and stay
    if hard := len(passed) - always:
        for _ in range(always - int(easy * hard)):
            chosen.take_out(only_easy=True)
    while chosen.size > ceil(least * len(passed)) and chosen.worst_excess > tolerance:
        chosen.take_out()
    while most is not None and chosen.size > most:
        chosen.take_out()
    return sorted((run for runs in chosen.kinds.values() for run in runs), key=_place)


def choice_lines(outcomes: Sequence[Outcome], chosen: Sequence[Outcome]) -> list[str]:
    """Report what passed and what was chosen, with shares of labels."""
    wrong = {outcome.pair for outcome in outcomes if not outcome.kept}
    hard = sum(run.pair in wrong for run in chosen)
    runs = count(len(chosen), "run")
    line = f"{runs} chosen to learn from; {hard:,} of pairs that were sometimes wrong."
    return [*report_lines(outcomes), line, *_share_lines(outcomes, chosen)]


def _place(outcome: Outcome) -> tuple[int, int]:
    return outcome.pair, outcome.sample


# Labels, and the share of right runs of the pair: runs of one kind are equally good
_Kind = tuple[tuple[tuple[str, int], ...], float]


class _Selection:
    """Runs by kind, taken out one by one."""

    def __init__(self, passed: Sequence[tuple[Outcome, float]], wanted: LabelShares) -> None:
        """Take runs with their pairs' shares of right runs."""
        self._wanted = wanted
        self.kinds: dict[_Kind, list[Outcome]] = defaultdict(list)
        for run, right in passed:
            self.kinds[tuple(run.truth.items()), right].append(run)
        self._labels = Counter(label for run, _ in passed for label in run.truth.items())
        self._named = Counter(name for run, _ in passed for name in run.truth)

    @property
    def size(self) -> int:
        return sum(map(len, self.kinds.values()))

    @property
    def worst_excess(self) -> float:
        return max((self._excess(*each) for each in self._labels if self._labels[each]), default=0)

    def _excess(self, name: str, label: int) -> float:
        return self._labels[name, label] / self._named[name] - self._wanted[name][label]

    def take_out(self, *, only_easy: bool = False) -> None:
        """Take out a run of the most excessive labels, easy pairs first."""
        kinds = [
            kind for kind, runs in self.kinds.items() if runs and (kind[1] == 1 or not only_easy)
        ]

        def order(kind: _Kind) -> tuple[float, float, object]:
            labels, right = kind
            return round(sum(self._excess(*each) for each in labels), 9), right, labels

        run = self.kinds[max(kinds, key=order)].pop()
        self._labels.subtract(run.truth.items())
        self._named.subtract(list(run.truth))
