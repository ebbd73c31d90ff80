"""The form of a vote and its handlers: save the vote with the visitor's run, or show the verdict without one."""

from dataclasses import dataclass
from datetime import UTC, datetime

import gradio as gr

from vrthinker_core.errors import BadInput
from vrthinker_core.storage import type_adapter
from vrthinker_core.text import encodable
from vrthinker_core.types import Vote
from vrthinker_core.types.events import shown_slots
from vrthinker_core.ui.page.handlers.run_handlers import Handlers
from vrthinker_core.ui.page.layout import PageComponents, Updates
from vrthinker_core.ui.page.services import Services, session_id_of
from vrthinker_core.ui.view import words
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


VOTE, SHOW = "vote", "show"  # what the page asks for


@dataclass(frozen=True, slots=True)
class VoteHandlers:
    """A vote counts for the run that is shown; another vote on it takes its place."""

    parts: PageComponents
    services: Services
    handlers: Handlers

    def on_submit(self, event: gr.EventData, request: gr.Request) -> Updates:
        """Save the vote, or show what was hidden. The event says of which run: another one may be shown by now."""
        session = self.services.session_of(request)
        if session is None or session.name != getattr(event, "run", None):
            return {self.parts.status: words.NO_RUN}
        act, refusal = getattr(event, "act", None), ""
        try:
            if act == VOTE:
                vote = read_vote(
                    getattr(event, "vote", None), session.run.state, session.disclosure.hidden
                )
                self.services.sessions.add_vote(session_id_of(request), session, vote)
            elif act == SHOW:
                session.disclosure.show()
        except BadInput as bad:
            refusal = str(bad)
        return self.handlers.shown_run(request, refusal)
