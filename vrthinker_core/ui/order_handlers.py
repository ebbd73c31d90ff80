"""Event handlers of "Check the order": the pair of the run that is shown is judged again with its sides swapped."""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

import gradio as gr

from vrthinker_core.errors import BadInput
from vrthinker_core.storage import type_adapter
from vrthinker_core.text import encodable
from vrthinker_core.types import Settings, VideoPair, Vote
from vrthinker_core.types.events import shown_slots
from vrthinker_core.ui import vote_words, words
from vrthinker_core.ui.layout import PageComponents, Updates
from vrthinker_core.ui.page_sessions import Session
from vrthinker_core.ui.run_handlers import Handlers
from vrthinker_core.ui.run_state import RunState
from vrthinker_core.ui.second_runs import Players, SecondRuns
from vrthinker_core.ui.services import Services, session_id_of

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


@dataclass(frozen=True, slots=True)
class OrderHandlers:
    """The second run has judge and settings of the first one, live or saved; the first verdict stays whatever becomes of it."""

    runs: SecondRuns

    async def join_queue(
        self, prompt: str | None, first: str | None, second: str | None, request: gr.Request
    ) -> Updates:
        """Take a place in the waiting room. Raises a silent gr.Error when this cannot be checked now; `refused` says why."""
        return await self.runs.join(
            lambda: self._checked_pair(prompt, (first, second), request), request
        )

    def refused(self, request: gr.Request) -> Updates:
        """Say beside the button why it was refused."""
        return self.runs.handlers.refused_check(self.runs.handlers.refusal(request), request)

    async def check(
        self, prompt: str | None, first: str | None, second: str | None, request: gr.Request
    ) -> AsyncIterator[Updates]:
        """Judge the pair again, and show that run as it goes."""

        def prepare() -> Callable[[], Session]:
            session, pair, judge = self._checked_pair(prompt, (first, second), request)
            started = session.run.state.started
            settings = started.settings if started else Settings()
            return partial(
                self.runs.services.sessions.check_order,
                session_id_of(request),
                session,
                pair,
                settings,
                judge,
            )

        async for updates in self.runs.run(
            prepare, lambda sentence: self.runs.handlers.refused_check(sentence, request), request
        ):
            yield updates

    def _checked_pair(
        self, prompt: str | None, players: Players, request: gr.Request
    ) -> tuple[Session, VideoPair, str]:
        """The run that is shown, its pair as it stands on the page, and its judge. Raises BadInput unless they belong together."""
        session = self.runs.services.session_of(request)
        if self.runs.is_busy(session, request):
            raise BadInput(words.CHECK_LATER)
        state = session.run.state if session else None
        if (
            session is None
            or state is None
            or state.started is None
            or state.finished is None
            or state.finished.verdict is None
        ):
            raise BadInput(words.NOTHING_TO_CHECK)
        if state.started.is_taken_over(1):
            raise BadInput(words.CHECK_BRANCH)
        if encodable(prompt or "").strip() != state.started.prompt.strip():
            raise BadInput(words.CHECK_CHANGED)
        missing = (
            words.CHECK_NO_VIDEO.format(2 if players[0] else 1)
            if any(players)
            else words.CHECK_NO_VIDEOS
        )
        first, second = (self.runs.original(path, missing) for path in players)
        if not self.runs.were_compared(session, state.started, (first, second)):
            raise BadInput(words.CHECK_CHANGED)
        return (
            session,
            VideoPair(state.started.prompt, first, second),
            self.runs.judge_of(session, words.CHECK_NO_JUDGE),
        )
