"""Which runs may teach, and which labels of a pair are known: a person's before the judge's."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from vrthinker_core.results.layout import EvaluationPair
from vrthinker_core.types import Dimension, Preference, Run, Trace, Verdict
from vrthinker_core.types.order import OrderEffect, order_of, swap_verdict

RowKind = Literal["sft", "preferences", "dpo", "rl", "videogen-reward"]  # As the command line says


class NotForTraining(Exception):
    """A run that gives no row; `str(error)` says why in a sentence."""


@dataclass(frozen=True, slots=True)
class TraceFile:
    """A trace that was read, and where it lies."""

    path: Path
    trace: Trace
    pair: EvaluationPair | None = None  # That an evaluation or a teacher was given


@dataclass(frozen=True, slots=True)
class RowFilter:
    """Which runs give rows at all."""

    voted_only: bool = False  # Labelled by a person, in a vote or a data set, or (dis)agreed with
    agreed_only: bool = False  # Whose verdict a person agrees with


@dataclass(frozen=True, slots=True)
class KnownLabel:
    """A label of a pair, and who gave it."""

    label: Preference
    source: Literal["person", "judge"]


def known_labels(file: TraceFile) -> dict[Dimension, KnownLabel]:
    """The labels that are known: of a vote, else of the evaluated data set, else the judge's.

    The judge's need a final answer, one that no person disagrees with, and the same label with the
    sides swapped if that was tried.
    """
    trace, vote = file.trace, file.trace.vote
    voted = dict(vote.labels) if vote else {}
    people = _labels_of_data_set(file) | {
        each: label for each, label in voted.items() if label is not None
    }
    known = {each: KnownLabel(label, "person") for each, label in people.items()}
    verdict = trace.final_verdict
    if verdict is not None and not (vote and vote.agrees is False):
        check = order_of(trace.runs)
        for each, label in verdict:
            stable = check is None or check[each] is OrderEffect.STABLE
            if label is not None and stable and each not in known:
                known[each] = KnownLabel(label, "judge")
    return {each: known[each] for each in Dimension if each in known}


def known_verdict(file: TraceFile) -> Verdict:
    """The labels that are known, whoever gave them."""
    return Verdict(**{each.value: known.label for each, known in known_labels(file).items()})


def _labels_of_data_set(file: TraceFile) -> dict[Dimension, Preference]:
    """People's labels of the data set that was evaluated, if a vote gives none."""
    voted = dict(file.trace.vote.labels) if file.trace.vote else {}
    given = file.pair.labels if file.pair else ()
    return {each: label for each, label in given if label is not None and voted.get(each) is None}


def check_votes(file: TraceFile, chosen: RowFilter) -> None:
    """Raise NotForTraining for a run that `chosen` leaves out."""
    vote = file.trace.vote
    said = vote is not None and (vote.labels.labels or vote.agrees is not None)
    if (chosen.voted_only or chosen.agreed_only) and not (said or _labels_of_data_set(file)):
        raise NotForTraining("nobody has voted on it")
    if chosen.agreed_only and agrees(file, file.trace) is not True:
        raise NotForTraining("the person does not agree with its verdict")


def check_conversation(file: TraceFile, run: Run, *, agreed_only: bool) -> None:
    """Raise NotForTraining unless the run, first or swapped, shows how a pair is to be judged."""
    if run.whole_answer is None:
        raise NotForTraining("it ended without a whole final answer")
    for turn in run.turns:
        if turn.reply.problems or turn.completion.stop != "end":
            raise NotForTraining(f"turn {turn.number} does not keep to the format")
    agreed = agrees(file, run)
    if agreed is False or (agreed_only and agreed is None):
        raise NotForTraining("the person does not agree with its verdict")
    if not known_labels(file):
        raise NotForTraining("no label of its pair is known: all change with the sides swapped")


def agrees(file: TraceFile, run: Run) -> bool | None:
    """Whether people agree with the run's verdict; `Vote.agrees` is said of the first run alone."""
    vote = file.trace.vote
    ends = (each.finished for each in (file.trace, run))
    first, verdict = (end.verdict if end else None for end in ends)
    if run is not file.trace:
        verdict = verdict and swap_verdict(verdict)
    if vote and verdict != first:
        vote = replace(vote, agrees=None)
    said = vote.agrees_with(verdict) if vote else None
    judges = dict(verdict or ())
    given = _labels_of_data_set(file).items()
    equal = [judges[each] is label for each, label in given if judges.get(each) is not None]
    if said is False or not all(equal):
        return False
    return True if said or equal else None
