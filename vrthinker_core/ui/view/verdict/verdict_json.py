"""The verdict as the page is given it: labels with the judge's own sentences and the frames that decided them."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import TypedDict

from vrthinker_core.protocols.label_probabilities import verdict_probabilities
from vrthinker_core.protocols.reasons import find_sentence, frame_numbers
from vrthinker_core.types import Dimension, Preference, Side, Thumbnail, Verdict
from vrthinker_core.types.messages import LabelProbabilities
from vrthinker_core.types.order import OrderEffect, order_of
from vrthinker_core.types.wording import DIMENSION_NAMES, NOT_SWAP_TESTED
from vrthinker_core.ui.view import words
from vrthinker_core.ui.view.run_state import RunState
from vrthinker_core.ui.view.tiles import Tile, group_tiles
from vrthinker_core.ui.view.verdict.beside_words import probability_words

Probabilities = Mapping[Dimension, LabelProbabilities]  # As far as they are known

MAX_FRAMES = 4  # that stand under a dimension


class ChipJson(TypedDict):
    """One dimension of a verdict."""

    name: str
    label: str
    value: (
        int | None
    )  # the label as a number; None where the judge did not say, or swapping the sides turned it round
    help: str
    reason: str  # the judge's own sentence about it, "" where there is none
    frames: list[str]  # labels of the tiles that decided it
    source: str  # where these frames are from, in words


class VerdictJson(TypedDict):
    """The verdict, in the order in which the page shows its dimensions; without one the headline says why, and chips is empty."""

    headline: str
    note: str  # that the order was not checked, "" else
    caveats: list[str]
    chips: list[ChipJson]


class LabelJson(TypedDict):
    """What a reply says about one dimension."""

    name: str
    label: str
    value: int | None
    probability: list[
        str
    ]  # of the label, as a percentage, and what that means; [] where it is not known or nearly certain


def verdict_json(state: RunState) -> VerdictJson | None:
    """The verdict of a run, or why it has none; None before it has ended."""
    finished = state.finished
    if finished is None:
        return None
    check = order_of(state.runs)
    line = words.headline(finished, check)
    if finished.verdict is None:
        return {"headline": line, "note": "", "caveats": [], "chips": []}
    known = state_probabilities(state)
    chips = [
        _chip(each, finished.verdict, check[each] if check else None, state, known)
        for each in words.DIMENSION_HELP
    ]
    note = "" if check else NOT_SWAP_TESTED
    return {
        "headline": line,
        "note": note,
        "caveats": words.verdict_caveats(finished),
        "chips": chips,
    }


def state_probabilities(state: RunState) -> Probabilities:
    """Of the labels of a run's verdict."""
    turns = [turn.turn for turn in state.turns if turn.turn]
    return verdict_probabilities(turns, state.finished.verdict if state.finished else None)


def _chip(
    dimension: Dimension,
    verdict: Verdict,
    effect: OrderEffect | None,
    state: RunState,
    known: Probabilities,
) -> ChipJson:
    label = dict(verdict)[dimension]
    meaning = probability_words(label, known.get(dimension))[1:]
    sentence, named = _reason(dimension, state)
    return {
        "name": DIMENSION_NAMES[dimension],
        "label": words.label_name(label, effect),
        "value": None if effect is OrderEffect.FLIPS else label,
        "help": " ".join([words.DIMENSION_HELP[dimension], words.LABEL_HELP[label], *meaning]),
        "reason": sentence,
        "frames": [tile.label for tile in named][:MAX_FRAMES],
        "source": words.NAMED_FRAMES if named else "",
    }


def _reason(dimension: Dimension, state: RunState) -> tuple[str, list[Tile]]:
    """The judge's own sentence about the dimension, and the tiles that it names."""
    sentence = find_sentence(
        dimension, (turn.turn.reply.think for turn in reversed(state.turns) if turn.turn)
    )
    tiles = [tile for turn in state.turns for tile in group_tiles(turn.frames)]
    shown = {half.number: tile for tile in tiles for half in tile.halves.values()}
    named = {
        shown[number].label: shown[number] for number in map(str, frame_numbers(sentence, shown))
    }
    return sentence, list(named.values())


def _last_tiles(state: RunState) -> list[Tile]:
    return [tile for turn in state.turns[-1:] for tile in group_tiles(turn.frames)]


def deciding_pair(state: RunState) -> dict[Side, Thumbnail]:
    """The frames that stand for a run: those that decided it overall, else in one dimension, else the last that were shown."""
    named = [tile for dimension in words.DIMENSION_HELP for tile in _reason(dimension, state)[1]]
    shown = (
        named
        or _last_tiles(state)
        or [tile for turn in state.turns for tile in group_tiles(turn.frames)]
    )
    best = next(
        (tile for tile in shown if len(tile.halves) == len(Side)), shown[0] if shown else None
    )
    return dict(best.halves) if best else {}


def labels_json(
    verdict: Verdict | None, known: Probabilities = MappingProxyType({})
) -> list[LabelJson]:
    """What an answer says about each dimension, in the order in which the page shows them; [] for none."""
    labels = dict(verdict or ())
    return [
        _label(dimension, labels[dimension], known)
        for dimension in words.DIMENSION_HELP
        if dimension in labels
    ]


def _label(dimension: Dimension, label: Preference | None, known: Probabilities) -> LabelJson:
    probability = probability_words(label, known.get(dimension))
    return LabelJson(
        name=DIMENSION_NAMES[dimension],
        label=words.label_name(label),
        value=label,
        probability=probability,
    )
