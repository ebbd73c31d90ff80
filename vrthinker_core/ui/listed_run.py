"""One row of the list: a small part of a result."""

import hashlib
import re
import sys
from dataclasses import dataclass
from enum import IntFlag
from typing import Any

from vrthinker_core.results.result import PairResult
from vrthinker_core.text import encodable
from vrthinker_core.types import Dimension, Preference, StopReason, Verdict
from vrthinker_core.types.order import OrderCheck, OrderEffect
from vrthinker_core.types.wording import DEMO_RUN, TELLING

ROW = "row-"  # begins the name of a row in `?trace=NAME`
MAX_PROMPT = 1000  # characters that are kept, and searched
MAX_SENTENCE = 160
MAX_SOURCE = 120  # characters of the generators' names, or of the file's name

RowLabels = tuple[Preference | None, ...]  # in the order of `Dimension`


class Trait(IntFlag):
    """Filters of the list; rows hold their sum as a plain number."""

    OVERALL = 1
    ANY = 2
    FAILED = 4
    UNSURE = 8
    FLIPS = 16


@dataclass(frozen=True, slots=True)
class ListedRun:
    """A run without its trace."""

    name: str  # in the address and in requests: never a path
    row: int
    prompt: str
    source: str = ""  # the two generators, or the trace's own file
    people: RowLabels = ()
    data_set: RowLabels = ()  # empty if it gives none, or people gave them
    judge: RowLabels = ()  # empty without a verdict; None where a flip leaves no reliable winner
    flips: tuple[Dimension, ...] = ()
    confidence: int | None = None
    probability: float | None = None  # of the overall label
    turns: int = 0
    ending: str = ""
    order: str = ""  # what the order of the videos does to the labels
    error: str = ""
    traits: int = 0
    # Between labels of judge and data set (or people): overall, and of all dimensions
    distance: tuple[int, int] = (0, 0)
    trace: str = ""  # the trace's file, relative to the folder
    videos: tuple[str, ...] = ()  # as the result names them


def listed_run(result: PairResult, source: str = "", data_set: Verdict | None = None) -> ListedRun:
    """Return the row of a result with people's labels; `data_set`: labels that nobody gave."""
    pair, verdict, flips = result.pair, result.verdict, result.flips
    people, judge, known = _labels(pair.labels), _labels(verdict), _labels(data_set)
    reliable = tuple(
        None if each in flips else label for each, label in zip(Dimension, judge, strict=False)
    )
    label = verdict.OA if verdict else None
    told = (result.probabilities or {}).get(Dimension.OA)
    probability = None if label is None or told is None else told[label]
    if probability is not None and not 0 <= probability <= 1:
        probability = None
    # For each dimension 1 if one of two labels is a tie, 2 if they are opposite
    distances = [
        0 if a is None or b is None or a == b else 1 if Preference.TIE in (a, b) else 2
        for a, b in zip(known or people, judge, strict=False)
    ] or [0]
    generators = " · ".join(filter(None, (pair.first_generator, pair.second_generator)))
    unsure = (result.confidence or 5) <= 2 or (probability is not None and probability < 0.6)
    traits = {
        Trait.OVERALL: distances[-1] > 0,
        Trait.ANY: any(distances),
        Trait.FAILED: not result.judged or verdict is None,
        Trait.UNSURE: verdict is not None and unsure,
        Trait.FLIPS: bool(flips),
    }
    return ListedRun(
        row_name(pair.id),
        pair.row,
        one_line(pair.prompt, MAX_PROMPT),
        sys.intern(source or one_line(generators, MAX_SOURCE)),
        people,
        known,
        reliable,
        flips,
        result.confidence,
        probability,
        result.turns,
        sys.intern(_ending(result)),
        _order(result.order),
        one_line(result.error, MAX_SENTENCE),
        sum(trait.value for trait, there in traits.items() if there),
        (distances[-1], sum(distances)),
        result.trace,
        (pair.first, pair.second),
    )


def unreadable_run(key: str, row: int, reason: str, source: str = "") -> ListedRun:
    """Return the row of a line or file that could not be read."""
    error = one_line(reason, MAX_SENTENCE)
    return ListedRun(row_name(key), row, "", source, error=error, traits=Trait.FAILED.value)


def row_name(key: str) -> str:
    """Name a row by its pair's id, or a digest of it."""
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", key):
        key = hashlib.sha256(key.encode("utf-8", "replace")).hexdigest()[:16]
    return ROW + key


def row_json(run: ListedRun) -> dict[str, Any]:
    """Return the row for the page.

    Probabilities are left out if close to certain, or of a label that flips.
    """
    probability = None if Dimension.OA in run.flips else run.probability
    if probability is not None:
        probability = None if probability >= TELLING else round(probability, 3)
    return {
        "name": run.name,
        "row": run.row,
        "prompt": one_line(run.prompt, 240),
        "source": run.source,
        "people": list(run.people),
        "data_set": list(run.data_set),
        "judge": list(run.judge),
        "flips": [each.value for each in run.flips],
        "confidence": run.confidence,
        "probability": probability,
        "turns": run.turns,
        "ending": run.ending,
        "order": run.order,
        "error": run.error,
        "opens": bool(run.trace),
    }


def without_labels(row: dict[str, Any]) -> dict[str, Any]:
    """Return the row without any labels, for who votes first."""
    return {
        **row,
        "people": [],
        "data_set": [],
        "judge": [],
        "flips": [],
        "confidence": None,
        "probability": None,
        "order": "",
    }


def one_line(text: str, most: int) -> str:
    """Return the text in one line of at most `most` characters, all printable."""
    line = encodable(text[: 2 * most])
    if not line.isprintable():
        line = "".join(each if each.isprintable() else " " for each in line)
    line = " ".join(line.split())
    return line if len(line) <= most and len(text) <= 2 * most else f"{line[: most - 1].rstrip()}…"


def _labels(verdict: Verdict | None) -> RowLabels:
    return tuple(label for _, label in verdict) if verdict else ()


def _ending(result: PairResult) -> str:
    if result.outside_scope:
        return DEMO_RUN
    if result.stop is StopReason.FAILED:
        return "not judged" if result.fault and not result.turns else StopReason.FAILED.value
    told = result.forced and result.stop is StopReason.ANSWERED
    said = "answered when told to" if told else result.stop.value
    return f"{said}, last recommended labels" if result.provisional else said


def _order(order: OrderCheck | None) -> str:
    if order is None:
        return ""
    tied = (OrderEffect.BECOMES_TIE, OrderEffect.FROM_TIE)
    ties = [each for each in Dimension if order[each] in tied]
    parts = [f"flips when swapped: {', '.join(order.flips)}"] if order.flips else []
    parts += [f"a tie in one order: {', '.join(ties)}"] if ties else []
    return " · ".join(parts) or "stable when swapped"
