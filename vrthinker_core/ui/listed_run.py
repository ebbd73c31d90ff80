"""One row of the list: the little of a result that the page lists, so that tens of thousands stay in memory."""

import hashlib
import re
import sys
from dataclasses import dataclass
from enum import IntFlag
from typing import TypedDict

from vrthinker_core.results.result import PairResult
from vrthinker_core.text import encodable
from vrthinker_core.types import Dimension, Preference, StopReason, Verdict
from vrthinker_core.types.order import OrderEffect
from vrthinker_core.types.wording import DEMO_RUN, TELLING

ROW = "row-"  # begins the name of a row in `?trace=NAME`
MAX_PROMPT = 1000  # characters that are kept, and searched
MAX_SHOWN = 240  # characters of the prompt in the list
MAX_SENTENCE = 160
MAX_SOURCE = 120  # characters of the generators' names, or of the file's
LOW_CONFIDENCE = 2
LOW_PROBABILITY = 0.6
_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_POSITIONS = {
    Preference.FIRST: -1,
    Preference.TIE: 0,
    Preference.SECOND: 1,
}  # a tie lies between the two


class Trait(IntFlag):
    """What the list can be filtered by. Rows hold the sum as a plain number, which is compared many times as fast."""

    OVERALL = 1
    ANY = 2
    FAILED = 4
    UNSURE = 8
    FLIPS = 16


@dataclass(frozen=True, slots=True)
class ListedRun:
    """A run without its trace. Labels in the order of `Dimension`."""

    name: str  # in the address and in requests: never a path
    row: int
    prompt: str
    source: str = ""  # the two generators, or the trace's own file
    people: tuple[Preference | None, ...] = ()
    data_set: tuple[Preference | None, ...] = ()  # empty where it gives none, or people gave them
    judge: tuple[
        Preference | None, ...
    ] = ()  # empty for a run without a verdict; None where a flip leaves no reliable winner
    flips: tuple[Dimension, ...] = ()  # where that is
    confidence: int | None = None
    probability: float | None = None  # of the overall label
    turns: int = 0
    ending: str = ""
    order: str = ""  # what the order of the videos does to the labels
    error: str = ""
    traits: int = 0
    distance: tuple[int, int] = (
        0,
        0,
    )  # between the judge's labels and the data set's or people's: overall, and of all dimensions
    trace: str = ""  # the trace's file, relative to the folder
    videos: tuple[str, ...] = ()  # as the result names them


class RowJson(TypedDict):
    """One row as the page is given it."""

    name: str
    row: int
    prompt: str
    source: str
    people: list[int | None]
    data_set: list[int | None]
    judge: list[int | None]
    flips: list[str]
    confidence: int | None
    probability: float | None
    turns: int
    ending: str
    order: str
    error: str
    opens: bool


def listed_run(result: PairResult, source: str = "", data_set: Verdict | None = None) -> ListedRun:
    """The row of a result, whose labels are people's; `data_set` are labels that nobody gave, but that are known."""
    pair, verdict = result.pair, result.verdict
    people, judge = _labels(pair.labels), _labels(verdict) if verdict else ()
    flips = result.flips
    reliable = tuple(
        None if each in flips else label for each, label in zip(Dimension, judge, strict=False)
    )
    known = _labels(data_set) if data_set else ()
    probability = _probability(result)
    effects = _effects(result)
    distances = _distances(known or people, judge)
    generators = " · ".join(filter(None, (pair.first_generator, pair.second_generator)))
    unsure = (result.confidence or 5) <= LOW_CONFIDENCE or (
        probability is not None and probability < LOW_PROBABILITY
    )
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
        _order(effects),
        one_line(result.error, MAX_SENTENCE),
        sum(trait.value for trait, there in traits.items() if there),
        (distances[-1], sum(distances)),
        result.trace,
        (pair.first, pair.second),
    )


def unreadable_run(key: str, row: int, reason: str, source: str = "") -> ListedRun:
    """The row of what could not be read."""
    return ListedRun(
        row_name(key),
        row,
        "",
        source,
        error=one_line(reason, MAX_SENTENCE),
        traits=Trait.FAILED.value,
    )


def row_name(key: str) -> str:
    """The name of a row: its pair's id, where that can stand in an address, else a digest of it."""
    safe = (
        key
        if _ID.fullmatch(key)
        else hashlib.sha256(key.encode("utf-8", "replace")).hexdigest()[:16]
    )
    return ROW + safe


def row_json(run: ListedRun) -> RowJson:
    """The row for the page: text stays text, and no probability is told that is near to certain or of a label that flips."""
    probability = None if Dimension.OA in run.flips else run.probability
    return {
        "name": run.name,
        "row": run.row,
        "prompt": one_line(run.prompt, MAX_SHOWN),
        "source": run.source,
        "people": list(run.people),
        "data_set": list(run.data_set),
        "judge": list(run.judge),
        "flips": [each.value for each in run.flips],
        "confidence": run.confidence,
        "probability": None
        if probability is None or probability >= TELLING
        else round(probability, 3),
        "turns": run.turns,
        "ending": run.ending,
        "order": run.order,
        "error": run.error,
        "opens": bool(run.trace),
    }


def without_labels(row: RowJson) -> RowJson:
    """The row for who votes first: nothing of what people and judge said, or is known."""
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
    """Text in one line of at most `most` characters, all of them printable."""
    line = encodable(text[: 2 * most])
    if not line.isprintable():
        line = "".join(each if each.isprintable() else " " for each in line)
    line = " ".join(line.split())
    return line if len(line) <= most and len(text) <= 2 * most else f"{line[: most - 1].rstrip()}…"


def _labels(verdict: Verdict) -> tuple[Preference | None, ...]:
    return tuple(label for _, label in verdict)


def _distances(
    people: tuple[Preference | None, ...], judge: tuple[Preference | None, ...]
) -> list[int]:
    """How far apart the labels are in each dimension: 1 where one is a tie, 2 for opposite ones, 0 where one is missing."""
    pairs = list(zip(people, judge, strict=True)) if judge else [(None, None)] * len(people)
    return [0 if a is None or b is None else abs(_POSITIONS[a] - _POSITIONS[b]) for a, b in pairs]


def _probability(result: PairResult) -> float | None:
    label = result.verdict.OA if result.verdict else None
    told = (result.probabilities or {}).get(Dimension.OA)
    return None if label is None or told is None or not 0 <= told[label] <= 1 else told[label]


def _ending(result: PairResult) -> str:
    if result.outside_scope:
        return DEMO_RUN
    if result.stop is StopReason.FAILED:
        return "not judged" if result.fault and not result.turns else StopReason.FAILED.value
    said = (
        "answered when told to"
        if result.forced and result.stop is StopReason.ANSWERED
        else result.stop.value
    )
    return f"{said}, last recommended labels" if result.provisional else said


def _effects(result: PairResult) -> dict[Dimension, OrderEffect]:
    """What the order does to each label; empty where only one order gave a verdict."""
    order = result.order
    return {each: order[each] for each in Dimension} if order else {}


def _order(effects: dict[Dimension, OrderEffect]) -> str:
    flipped = [each for each, effect in effects.items() if effect is OrderEffect.FLIPS]
    ties = [
        each
        for each, effect in effects.items()
        if effect in (OrderEffect.BECOMES_TIE, OrderEffect.FROM_TIE)
    ]
    parts = [f"flips when swapped: {', '.join(flipped)}"] if flipped else []
    parts += [f"a tie in one order: {', '.join(ties)}"] if ties else []
    return " · ".join(parts) or ("stable when swapped" if effects else "")
