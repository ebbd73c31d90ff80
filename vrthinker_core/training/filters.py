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
from itertools import islice
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
    least: float = 0.5,  # Share of the candidates that balancing leaves at least
) -> list[Outcome]:
    """Choose among the runs that passed, with balanced labels, by pair.

    Runs of pairs that were sometimes wrong go first; at most as many others follow, if there are
    any of the former. The order of `outcomes` does not matter.
    """
    by_pair: dict[int, list[Outcome]] = defaultdict(list)
    for outcome in sorted(outcomes, key=_place):
        by_pair[outcome.pair].append(outcome)
    ranked = []
    for runs in by_pair.values():
        kept = [run for run in runs if run.kept]
        different = {run.replies or str(run.sample): run for run in reversed(kept)}
        some = sorted(different.values(), key=_place)[:each]
        ranked += [(len(kept) / len(runs), _place(run), run) for run in some]
    hard = sum(right < 1 for right, *_ in ranked)
    candidates = [run for *_, run in sorted(ranked)[: 2 * hard or None]]
    size = min(len(candidates), most or len(candidates))
    fewest, wanted = min(size, ceil(least * len(candidates))), label_shares(_truths(outcomes))
    chosen = _balanced(candidates, wanted, tolerance, size)
    while fewest < len(chosen) < size:
        size = len(chosen)  # Shares are of fewer runs now
        chosen = _balanced(candidates, wanted, tolerance, size)
    taken = set(map(_place, chosen))
    others = (run for run in candidates if _place(run) not in taken)
    chosen += islice(others, max(0, fewest - len(chosen)))
    return sorted(chosen, key=_place)


def _balanced(
    candidates: Sequence[Outcome], wanted: LabelShares, tolerance: float, size: int
) -> list[Outcome]:
    """Take candidates in order while labels keep their shares."""
    room = {
        (name, label): (share + tolerance) * size
        for name, shares in wanted.items()
        for label, share in shares.items()
    }
    chosen = list[Outcome]()
    for run in candidates:
        if len(chosen) < size and all(room[label] >= 1 for label in run.truth.items()):
            chosen.append(run)
            room |= {label: room[label] - 1 for label in run.truth.items()}
    return chosen


def choice_lines(outcomes: Sequence[Outcome], chosen: Sequence[Outcome]) -> list[str]:
    """Report what passed and what was chosen, with shares of labels."""
    wrong = {outcome.pair for outcome in outcomes if not outcome.kept}
    hard = sum(run.pair in wrong for run in chosen)
    runs = count(len(chosen), "run")
    line = f"{runs} chosen to learn from; {hard:,} of pairs that were sometimes wrong."
    return [*report_lines(outcomes), line, *_share_lines(outcomes, chosen)]


def _place(outcome: Outcome) -> tuple[int, int]:
    return outcome.pair, outcome.sample
