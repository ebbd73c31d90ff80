"""A vote as page and report are given it."""

from datetime import UTC
from typing import TypedDict

from vrthinker_core.types.wording import DIMENSION_NAMES
from vrthinker_core.ui.view import words
from vrthinker_core.ui.view.run_state import RunState
from vrthinker_core.ui.view.verdict import vote_words


class VoteRowJson(TypedDict):
    """The person's label for one dimension."""

    dimension: str
    name: str
    label: str
    value: int | None
    compared: (
        str  # whether the judge's label is the same, in a word; "" where one of them is missing
    )


class VoteViewJson(TypedDict):
    """The vote, in the order in which the page shows the dimensions."""

    rows: list[VoteRowJson]
    agrees: bool | None
    slots: list[int]
    note: str
    when: str
    blind: str  # that it was blind, "" else
    key: str  # changes with each vote


def vote_json(state: RunState) -> VoteViewJson | None:
    """The vote on a run; None where there is none."""
    vote = state.vote
    if vote is None:
        return None
    same = vote.compare(state.finished.verdict if state.finished else None)
    compared = {
        dimension: vote_words.AGREES if equal else vote_words.DIFFERS
        for dimension, equal in same.items()
    }
    labels = dict(vote.labels)
    rows = [
        VoteRowJson(
            dimension=each.value,
            name=DIMENSION_NAMES[each],
            label=words.label_name(labels[each]),
            value=labels[each],
            compared=compared.get(each, ""),
        )
        for each in words.DIMENSION_HELP
    ]
    return {
        "rows": rows,
        "agrees": vote.agrees,
        "slots": list(vote.slots),
        "note": vote.note,
        "when": vote.at.astimezone(UTC).strftime(vote_words.VOTED_AT),
        "blind": vote_words.BLIND if vote.blind else "",
        "key": repr(vote),
    }
