"""Event handlers of a vote: saved with the visitor's own copy of the run that is shown, or the verdict shown without one."""

from dataclasses import dataclass

import gradio as gr

from vrthinker_core.errors import BadInput
from vrthinker_core.ui.page.handlers.run_handlers import Handlers
from vrthinker_core.ui.page.layout import PageComponents, Updates
from vrthinker_core.ui.page.services import Services, session_id_of
from vrthinker_core.ui.view import words
from vrthinker_core.ui.votes.vote_form import read_vote

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
