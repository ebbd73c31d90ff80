"""A vote as the page sends it: checked, since anybody may send anything."""

from datetime import UTC, datetime

from vrthinker_core.errors import BadInput
from vrthinker_core.files.type_adapter import type_adapter
from vrthinker_core.text import encodable
from vrthinker_core.types import Vote
from vrthinker_core.types.events import shown_slots
from vrthinker_core.ui.view.run_state import RunState
from vrthinker_core.ui.view.verdict import vote_words

FIELDS = ("labels", "agrees", "slots", "note")  # what the person says; all else the server knows


def read_vote(given: object, state: RunState, hidden: bool) -> Vote:
    """The vote in `given` on the run in `state`. Raises BadInput for one that cannot be kept with that run.

    `hidden`: the person has seen nothing of what the judge said. Whoever changes a blind vote without changing its labels keeps it
    blind.
    """
    if state.started is None:
        raise BadInput(vote_words.TOO_EARLY)
    vote = _parse(given, hidden or state.finished is not None, hidden)
    if vote.empty:
        raise BadInput(vote_words.EMPTY_VOTE)
    if not shown_slots(state.runs).issuperset(vote.slots):
        raise BadInput(vote_words.OTHER_PAIRS)
    before = state.vote
    blind = hidden or (before is not None and before.blind and before.labels == vote.labels)
    return Vote(vote.at, vote.labels, vote.agrees, vote.slots, vote.note, blind)


def _parse(given: object, allowed: bool, hidden: bool) -> Vote:
    from pydantic import ValidationError

    if not allowed:
        raise BadInput(vote_words.TOO_EARLY)
    said = (
        {name: given[name] for name in FIELDS if name in given} if isinstance(given, dict) else {}
    )
    if hidden:
        said.pop("agrees", None)  # with what nobody has seen nobody agrees
    if isinstance(said.get("note"), str):
        said["note"] = encodable(said["note"]).strip()
    try:
        return type_adapter(Vote).validate_python(
            {**said, "at": datetime.now(UTC).replace(microsecond=0)}
        )
    except ValidationError:
        raise BadInput(vote_words.BAD_VOTE) from None
