"""Which runs may teach, and which labels of a pair are known: a person's word comes before the judge's."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from vrthinker_core.results.layout import EvaluationPair
from vrthinker_core.types import Dimension, Preference, Run, Trace, Verdict
from vrthinker_core.types.order import OrderEffect, order_of, swap_verdict

RowKind = Literal[
    "sft", "preferences", "dpo", "rl", "videogen-reward"
]  # What the rows are for, as the command line says it


class NotForTraining(Exception):
    """A run that gives no row; `str(error)` says why in a sentence."""


@dataclass(frozen=True, slots=True)
class TraceFile:
    """A trace that was read, and where it lies."""

    path: Path
    trace: Trace
    pair: EvaluationPair | None = (
        None  # That an evaluation or a teacher was given, if the trace is one of theirs
    )


@dataclass(frozen=True, slots=True)
class RowFilter:
    """Which runs give rows at all."""

    voted_only: bool = False  # those that a person has given labels for, in a vote or a data set, or agreed or disagreed with
    agreed_only: bool = False  # those whose verdict a person agrees with


@dataclass(frozen=True, slots=True)
class KnownLabel:
    """A label of a pair, and who gave it."""

    label: Preference
    source: Literal["person", "judge"]


def known_labels(file: TraceFile) -> dict[Dimension, KnownLabel]:
    """The labels that are known: of a vote on the run, else of the data set that was evaluated, else the judge's.

    The judge's need a final answer, one that no person disagrees with, and the same label with the sides swapped where that was
    tried.
    """
    voted = dict(file.trace.vote.labels) if file.trace.vote else {}
    given = _labels_of_data_set(file)
    judges = _judges_labels(file.trace)
    known: dict[Dimension, KnownLabel] = {}
    for dimension in Dimension:
        if (label := voted.get(dimension)) is not None or (
            label := given.get(dimension)
        ) is not None:
            known[dimension] = KnownLabel(label, "person")
        elif (label := judges.get(dimension)) is not None:
            known[dimension] = KnownLabel(label, "judge")
    return known


def known_verdict(file: TraceFile) -> Verdict:
    """The labels that are known, whoever gave them."""
    return Verdict(
        **{dimension.value: known.label for dimension, known in known_labels(file).items()}
    )


def _labels_of_data_set(file: TraceFile) -> dict[Dimension, Preference]:
    """People's labels of the data set that was evaluated, where a vote gives none."""
    voted = dict(file.trace.vote.labels) if file.trace.vote else {}
    given = file.pair.labels if file.pair else Verdict()
    return {
        dimension: label
        for dimension, label in given
        if label is not None and voted.get(dimension) is None
    }


def _judges_labels(trace: Trace) -> dict[Dimension, Preference | None]:
    end, verdict = trace.finished, trace.final_verdict
    if end is None or verdict is None or (trace.vote and trace.vote.agrees is False):
        return {}
    check = order_of(trace.runs)
    return {
        each: label for each, label in verdict if check is None or check[each] is OrderEffect.STABLE
    }


def check_votes(file: TraceFile, chosen: RowFilter) -> None:
    """Raises NotForTraining for a run that `chosen` leaves out."""
    vote = file.trace.vote
    said = _labels_of_data_set(file) or (
        vote is not None and (vote.labels.labels or vote.agrees is not None)
    )
    if (chosen.voted_only or chosen.agreed_only) and not said:
        raise NotForTraining("nobody has voted on it")
    if chosen.agreed_only and agrees(file, file.trace) is not True:
        raise NotForTraining("the person does not agree with its verdict")


def check_conversation(file: TraceFile, run: Run, chosen: RowFilter) -> None:
    """Raises NotForTraining unless the run, the trace itself or its second one, shows how a pair is to be judged."""
    if run.whole_answer is None:
        raise NotForTraining("it ended without a whole final answer")
    for turn in run.turns:
        if turn.reply.problems or turn.completion.stop != "end":
            raise NotForTraining(f"turn {turn.number} does not keep to the format")
    agreed = agrees(file, run)
    if agreed is False or (chosen.agreed_only and agreed is None):
        raise NotForTraining("the person does not agree with its verdict")
    if not known_labels(file):
        raise NotForTraining("no label of its pair is known: all change with the sides swapped")


def agrees(file: TraceFile, run: Run) -> bool | None:
    """Whether people agree with the verdict of that run; what they said of the verdict itself they said of the first one."""
    vote, first, verdict = file.trace.vote, _verdict(file.trace), _verdict(run)
    if run is not file.trace:
        verdict = verdict and swap_verdict(verdict)
    said = (
        None
        if vote is None
        else (vote if verdict == first else replace(vote, agrees=None)).agrees_with(verdict)
    )
    judges = dict(verdict or ())
    equal = [
        judges[each] is label
        for each, label in _labels_of_data_set(file).items()
        if judges.get(each) is not None
    ]
    if said is False or not all(equal):
        return False
    return True if said or equal else None


def _verdict(run: Run) -> Verdict | None:
    return run.finished.verdict if run.finished else None
