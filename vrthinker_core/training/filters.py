"""The paper's two filters of runs, and the choice among right runs.

A run is kept if (i) every turn obeys the format and (ii) every label of its final answer equals the
known one (section on the cold start).
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from math import ceil
from pathlib import Path

from vrthinker_core.errors import data_errors, os_errors, type_adapter
from vrthinker_core.storage import whole_lines
from vrthinker_core.training.rewards import malformation
from vrthinker_core.types import Dimension, Preference, Run, Verdict
from vrthinker_core.words import count, share

OUTCOMES = "outcomes.jsonl"  # In a teacher's folder: its identity, then a line for each run
LabelNumbers = Mapping[str, int]


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
        f"{name}={given[name]}, not {label}"
        for name, label in known.items()
        if given[name] != label
    ]
    return (Reason.LABELS, f"It says {'; '.join(wrong)}.") if wrong else None


@dataclass(frozen=True, slots=True, order=True)
class Outcome:
    """What became of one run of one pair; ordered by pair and sample."""

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
    with os_errors(f"{folder} holds no runs of a teacher"):
        lines = whole_lines(folder / OUTCOMES)
    for number, line in enumerate(lines[1:], start=2):
        with data_errors(f"Line {number} of {folder / OUTCOMES} is no outcome of a run"):
            outcome = type_adapter(Outcome).validate_json(line)
        found[outcome.pair, outcome.sample] = outcome
    return sorted(found.values())


def report_lines(outcomes: Sequence[Outcome], chosen: Sequence[Outcome] | None = None) -> list[str]:
    """Report how many runs pass, why others fail, how labels shift.

    `chosen`: the runs to learn from; None if nobody chooses among the kept ones.
    """
    kept = [each for each in outcomes if each.kept]
    truths = {each.pair: each.truth for each in outcomes}
    runs, pairs = count(len(outcomes), "run"), count(len(truths), "pair")
    lines = [f"{len(kept):,} of {runs} kept, of {len({each.pair for each in kept}):,} of {pairs}."]
    reasons = Counter(each.reason for each in outcomes if not each.kept)
    lines += [f"{number:,} not kept: {reason}." for reason, number in reasons.most_common()]
    if chosen is not None:
        wrong = {each.pair for each in outcomes if not each.kept}
        hard = sum(each.pair in wrong for each in chosen)
        runs = count(len(chosen), "run")
        lines.append(f"{runs} chosen to learn from; {hard:,} of pairs that were sometimes wrong.")
    after = label_shares([each.truth for each in (kept if chosen is None else chosen)])
    formed = [each for each in outcomes if each.reason in ("", Reason.LABELS)]
    for name, before in label_shares(list(truths.values())).items():
        known = [each for each in formed if name in each.truth]
        right = sum(each.given.get(name) == each.truth[name] for each in known)
        was, now = (
            " / ".join(share(each, 0) for each in shares.values()) or "none"
            for shares in (before, after.get(name, {}))
        )
        lines.append(
            f"{name}: {right:,} of {len(known):,} well-formed runs are right; "
            f"tie / 1 / 2 were {was} before and are {now} after."
        )
    return lines


def label_shares(truths: Sequence[LabelNumbers]) -> dict[str, dict[int, float]]:
    """Return by dimension each label's share of the known ones; they sum to 1."""
    shares = {}
    for name in (dimension.value for dimension in Dimension):
        if found := Counter(labels[name] for labels in truths if name in labels):
            shares[name] = {int(label): found[int(label)] / found.total() for label in Preference}
    return shares


def choose_runs(
    outcomes: Sequence[Outcome],
    *,
    each: int = 1,  # Runs of one pair at most; equal ones count once
    most: int | None = None,  # Runs in all at most (paper: up to about 20,000 help)
    tolerance: float = 0.03,  # Of a label's share, above its share among the pairs
    least: float = 0.5,  # Share of the candidates that balancing leaves at least
) -> list[Outcome]:
    """Choose among the runs that passed, with balanced labels, by pair.

    Runs of pairs that were sometimes wrong go first; if there are any, at most as many others
    follow. The order of `outcomes` does not matter.
    """
    by_pair: dict[int, list[Outcome]] = defaultdict(list)
    for outcome in sorted(outcomes):
        by_pair[outcome.pair].append(outcome)
    ranked: list[tuple[float, Outcome]] = []
    for runs in by_pair.values():
        kept = [run for run in runs if run.kept]
        different = {run.replies: run for run in reversed(kept)}.values()
        ranked += [(len(kept) / len(runs), run) for run in sorted(different)[:each]]
    hard = sum(right < 1 for right, _ in ranked)
    candidates = [run for _, run in sorted(ranked)[: 2 * hard or None]]
    size = min(len(candidates), most or len(candidates))
    fewest = min(size, ceil(least * len(candidates)))
    wanted = label_shares([runs[0].truth for runs in by_pair.values()])
    while True:
        room = {
            (name, label): (part + tolerance) * size
            for name, parts in wanted.items()
            for label, part in parts.items()
        }
        chosen, others = list[Outcome](), list[Outcome]()
        for run in candidates:
            fits = len(chosen) < size and all(room[label] >= 1 for label in run.truth.items())
            (chosen if fits else others).append(run)
            if fits:
                room |= {label: room[label] - 1 for label in run.truth.items()}
        if not fewest < len(chosen) < size:
            return sorted(chosen + others[: max(0, fewest - len(chosen))])
        size = len(chosen)  # Shares are of fewer runs now
