"""The strip of origin and branches as the page is given it: a column a run, with what differs from the origin marked."""

from typing import TypedDict

from vrthinker_core.types.events import Finished, Started
from vrthinker_core.types.wording import DEMO_RUN, branch_name
from vrthinker_core.ui.branches import branch_words
from vrthinker_core.ui.branches.branch_sets import BranchSet
from vrthinker_core.ui.view.run_state import RunState
from vrthinker_core.ui.view.verdict import vote_words
from vrthinker_core.ui.view.verdict.verdict_json import labels_json


class StripLabelJson(TypedDict):
    """What one run says about one dimension."""

    name: str
    label: str
    value: int | None
    differs: bool  # from the origin's label


class StripRunJson(TypedDict):
    """One run."""

    name: str
    judge: str
    note: str  # why there are no labels, "" where there are
    labels: list[StripLabelJson]


class StripJson(TypedDict):
    """Origin and branches, side by side."""

    shown: int
    runs: list[StripRunJson]


def strip_json(branches: BranchSet | None, state: RunState) -> StripJson | None:
    """The runs of a page, of which `state` is shown; None where that has no branches."""
    if branches is None:
        return None
    facts: list[tuple[Started | None, Finished | None]] = [
        (state.started, state.finished)
        if run is None or place == branches.shown
        else (run.trace.started, run.trace.finished)
        for place, run in enumerate(branches.runs)
    ]
    hidden = [
        run is not None and place != branches.shown and run.disclosure.hidden
        for place, run in enumerate(branches.runs)
    ]
    first = [] if hidden[0] else _labels(facts[0][1], {})
    origin = {label["name"]: label["value"] for label in first}
    runs = [
        _hidden_run(place, *run) if hidden[place] else _run(place, *run, origin)
        for place, run in enumerate(facts)
    ]
    return {"shown": branches.shown, "runs": runs}


def _hidden_run(place: int, started: Started | None, finished: Finished | None) -> StripRunJson:
    """A run on which its visitor wants to vote before they see what the judge says."""
    shown = _run(place, started, finished, {})
    return {**shown, "note": vote_words.HIDDEN, "labels": []} if shown["labels"] else shown


def _run(
    place: int, started: Started | None, finished: Finished | None, origin: dict[str, int | None]
) -> StripRunJson:
    labels = _labels(finished, origin)
    name = (
        branch_words.ORIGIN
        if place == 0
        else branch_name(started)
        if started
        else branch_words.STARTING
    )
    name = name[:1].upper() + name[1:]
    without = DEMO_RUN if finished and finished.outside_scope else branch_words.NO_VERDICT
    note = "" if labels else branch_words.GOING_ON if finished is None else without
    return {"name": name, "judge": started.judge if started else "", "note": note, "labels": labels}


def _labels(finished: Finished | None, origin: dict[str, int | None]) -> list[StripLabelJson]:
    labels = labels_json(finished.verdict if finished else None)
    return [
        StripLabelJson(
            name=label["name"],
            label=label["label"],
            value=label["value"],
            differs=bool(origin) and origin.get(label["name"]) != label["value"],
        )
        for label in labels
    ]
