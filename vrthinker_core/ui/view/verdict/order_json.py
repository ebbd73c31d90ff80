"""Both orders as page and API are given them: both verdicts with the labels of the first, and a word for each dimension."""

from collections.abc import Callable
from typing import Generic, TypedDict, TypeVar

from vrthinker_core.types.order import OrderCheck, order_of
from vrthinker_core.types.wording import order_unchecked
from vrthinker_core.ui.view import words
from vrthinker_core.ui.view.dialect_lookup import GridJson, grid_json
from vrthinker_core.ui.view.run_state import RunState, state_in_first_sides
from vrthinker_core.ui.view.verdict.verdict_json import LabelJson, labels_json

TurnJsonType = TypeVar("TurnJsonType")


class OrderRowJson(TypedDict):
    """One dimension in both orders."""

    name: str
    first: LabelJson
    second: LabelJson
    effect: str  # an `OrderEffect`


class SwappedRunJson(TypedDict, Generic[TurnJsonType]):
    """What the page shows in place of the first run's turns: clips, frames and labels in the sides of the first."""

    notice: str  # that the judge's words keep the other sides
    grid: GridJson | None
    turns: list[TurnJsonType]


class OrderViewJson(TypedDict, Generic[TurnJsonType]):
    """The second run."""

    live: bool  # it goes on
    line: str  # what the order does to the overall label, or why it was not checked
    rows: list[
        OrderRowJson
    ]  # in the order in which the page shows the dimensions; [] without two verdicts
    caveats: list[str]  # why the second verdict is less than a free and complete final answer
    run: SwappedRunJson[TurnJsonType]


def order_json(
    state: RunState, turns: Callable[[RunState], list[TurnJsonType]]
) -> OrderViewJson[TurnJsonType] | None:
    """The second run of `state`; None where there is none. `turns` gives those of a run."""
    if state.swapped is None:
        return None
    second = state_in_first_sides(state.swapped)
    check = order_of(state.runs)
    live = second.finished is None
    line = (
        words.ORDER_LINES[check.overall]
        if check
        else words.CHECKING
        if live
        else order_unchecked(second.finished)
    )
    return {
        "live": live,
        "line": line,
        "rows": _rows(check) if check else [],
        "caveats": [
            words.IN_SWAPPED.format(text) for text in words.verdict_caveats(second.finished)
        ]
        if second.finished
        else [],
        "run": {"notice": words.SWAPPED_NOTICE, "grid": _grid(second), "turns": turns(second)},
    }


def _rows(check: OrderCheck) -> list[OrderRowJson]:
    effects = [check[dimension].value for dimension in words.DIMENSION_HELP]
    both = zip(labels_json(check.first), labels_json(check.second), effects, strict=True)
    return [
        OrderRowJson(name=first["name"], first=first, second=second, effect=effect)
        for first, second, effect in both
    ]


def _grid(second: RunState) -> GridJson | None:
    """How the second run counts frames, that of the person's first video before that of the second."""
    grid = grid_json(second.started) if second.started else None
    return None if grid is None else {**grid, "first": grid["first"][::-1]}
