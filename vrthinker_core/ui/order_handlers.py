"""Event handlers of "Check the order" and votes; base of queued runs."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import gradio as gr

from vrthinker_core.branch_plan import BranchPlan
from vrthinker_core.errors import BadInput
from vrthinker_core.storage import type_adapter
from vrthinker_core.text import encodable
from vrthinker_core.types import Settings, VideoPair, Vote
from vrthinker_core.types.events import Started, shown_slots
from vrthinker_core.ui import words
from vrthinker_core.ui.background_run import BackgroundRun
from vrthinker_core.ui.hidden_view import votes_first
from vrthinker_core.ui.layout import PageComponents, Updates, no_updates
from vrthinker_core.ui.page_sessions import Session
from vrthinker_core.ui.run_handlers import Handlers
from vrthinker_core.ui.run_state import RunState
from vrthinker_core.ui.run_store import owner_of
from vrthinker_core.ui.services import Services, session_id_of
from vrthinker_core.video.files import file_digest

Players = tuple[str | None, str | None]  # the file in each player


@dataclass(frozen=True, slots=True)
class QueuedRuns:
    """Base of the handlers whose runs wait in the queue: comparisons, checks and branches."""

    parts: PageComponents
    services: Services
    handlers: Handlers

    async def join(self, checked: Awaitable[object], request: gr.Request) -> Updates:
        """Take a place in the waiting room.

        Raises a silent gr.Error if `checked` raises BadInput, or the room is full.
        """
        try:
            await checked
        except BadInput as bad:
            self.handlers.refuse(request, str(bad))
        return self.handlers.take_place(request)

    def say(self, sentence: str, request: gr.Request) -> Updates:  # noqa: ARG002 - some need it
        """Say why a run was refused."""
        return {self.parts.status: sentence}

    def refused(self, request: gr.Request) -> Updates:
        """Say why `join` was refused."""
        return self.say(self.handlers.refusal(request), request)

    async def run(
        self, prepare: Callable[[], Awaitable[Callable[[], Session]]], request: gr.Request
    ) -> AsyncIterator[Updates]:
        """Start the run and show it, or say why not.

        `prepare` checks all that it needs, and returns what starts it. Both may raise BadInput.
        """
        session_id, room = session_id_of(request), self.services.waiting_room
        with room.active(session_id) as number:
            place = room.number(session_id)
            try:
                start = await prepare()
                if room.number(session_id) != place:
                    yield no_updates()  # Stop was pressed meanwhile
                    return
                session = start()
            except BadInput as bad:
                yield {**self.say(str(bad), request), **self.parts.idle_buttons(number)}
                return
            async for updates in self.handlers.show_run(session_id, session, number):
                yield updates

    def start_run(
        self,
        request: gr.Request,
        pair: VideoPair,
        settings: Settings,
        judge: str,
        plan: BranchPlan | None = None,
    ) -> Session:
        """Start the visitor's own run, hidden if they vote first."""
        start, owner = self.services.sessions.start_run, owner_of(request.cookies)
        session = start(session_id_of(request), pair, settings, judge, owner, plan)
        session.disclosure.begin(votes_first(request.cookies))
        return session

    def is_busy(self, session: Session | None, request: gr.Request) -> bool:
        """Whether a run of the visitor waits or goes on."""
        waits = self.services.waiting_room.waits(session_id_of(request))
        return waits or (session is not None and not session.run.over)

    def compared_videos(
        self, session: Session, started: Started, players: Players, missing: str, changed: str
    ) -> tuple[Path, Path]:
        """Return the uploaded files of the players.

        Raises BadInput(missing) if a player is empty, BadInput(changed) if the run did not compare
        these files, by their names or else their contents.
        """
        if not players[0] or not players[1]:
            raise BadInput(missing)
        original = self.services.uploads.original_of
        first, second = original(Path(players[0])), original(Path(players[1]))
        if session.files != (first, second):
            digests = [clip and clip.digest for clip in started.clips]
            if not all(digests) or digests != [file_digest(first), file_digest(second)]:
                raise BadInput(changed)
        return first, second

    def judge_of(self, session: Session, unknown: str) -> str:
        """Return the name of a run's judge, or raise BadInput(unknown)."""
        if isinstance(session.run, BackgroundRun):
            return session.judge
        started = session.run.state.started
        judge = self.services.judges.find(started.judge) if started else None
        if judge is None:
            raise BadInput(unknown.format(started.judge[:80] if started else ""))
        return judge


def read_vote(given: object, state: RunState, hidden: bool) -> Vote:
    """Read the vote in `given` on the run in `state`.

    Raises BadInput if it cannot be kept with that run. `hidden`: the person has seen nothing of
    what the judge said. A blind vote stays blind as long as its labels stay.
    """
    from pydantic import ValidationError

    if state.started is None or not (hidden or state.finished is not None):
        raise BadInput(words.TOO_EARLY)
    # What the person says; all else the server knows. With what nobody has seen nobody agrees.
    fields = ("labels", "slots", "note", *([] if hidden else ["agrees"]))
    sent = given if isinstance(given, dict) else {}
    said = {name: sent[name] for name in fields if name in sent}
    if isinstance(said.get("note"), str):
        said["note"] = encodable(said["note"]).strip()
    said["at"] = datetime.now(UTC).replace(microsecond=0)
    try:
        vote = type_adapter(Vote).validate_python(said)
    except ValidationError:
        raise BadInput(words.BAD_VOTE) from None
    if vote.empty:
        raise BadInput(words.EMPTY_VOTE)
    if not shown_slots(state.runs).issuperset(vote.slots):
        raise BadInput(words.OTHER_PAIRS)
    before = state.vote
    was_blind = before is not None and before.blind and before.labels == vote.labels
    return replace(vote, blind=hidden or was_blind)


@dataclass(frozen=True, slots=True)
class VoteHandlers:
    """Keeps one vote for the run that is shown."""

    parts: PageComponents
    services: Services
    handlers: Handlers

    def on_submit(self, event: gr.EventData, request: gr.Request) -> Updates:
        """Save a vote, or show what was hidden, for the event's run."""
        session = self.services.session_of(request)
        if session is None or session.name != getattr(event, "run", None):
            return {self.parts.status: words.NO_RUN}
        act, given = getattr(event, "act", None), getattr(event, "vote", None)
        if act == "show":
            session.disclosure.show()
        elif act == "vote":
            try:
                vote = read_vote(given, session.run.state, session.disclosure.hidden)
                self.services.sessions.add_vote(session_id_of(request), session, vote)
            except BadInput as bad:
                return self.handlers.shown_run(request, str(bad))
        return self.handlers.shown_run(request)


class OrderHandlers(QueuedRuns):
    """The second run has judge and settings of the first one, whose verdict stays."""

    async def join_queue(
        self, prompt: str | None, first: str | None, second: str | None, request: gr.Request
    ) -> Updates:
        """Take a place, or raise a silent gr.Error; `refused` says why."""
        players = first, second
        checked = asyncio.to_thread(self._checked, prompt, players, request)
        return await self.join(checked, request)

    def say(self, sentence: str, request: gr.Request) -> Updates:
        """Say beside the button why a check was refused."""
        return self.handlers.refused_check(sentence, request)

    async def check(
        self, prompt: str | None, first: str | None, second: str | None, request: gr.Request
    ) -> AsyncIterator[Updates]:
        """Judge the pair again, and show that run as it goes."""

        def prepare() -> Callable[[], Session]:
            checked = self._checked(prompt, (first, second), request)
            check_order = self.services.sessions.check_order
            return partial(check_order, session_id_of(request), *checked)

        async for updates in self.run(partial(asyncio.to_thread, prepare), request):
            yield updates

    def _checked(
        self, prompt: str | None, players: Players, request: gr.Request
    ) -> tuple[Session, VideoPair, Settings, str]:
        """Return the shown run, its pair, settings and judge, or raise BadInput."""
        session = self.services.session_of(request)
        if self.is_busy(session, request):
            raise BadInput(words.CHECK_LATER)
        state = session.run.state if session else RunState()
        started, finished = state.started, state.finished
        if session is None or started is None or finished is None or finished.verdict is None:
            raise BadInput(words.NOTHING_TO_CHECK)
        if started.is_taken_over(1):
            raise BadInput(words.CHECK_BRANCH)
        if encodable(prompt or "").strip() != started.prompt.strip():
            raise BadInput(words.CHECK_CHANGED)
        missing = words.CHECK_NO_VIDEOS
        if any(players):
            missing = words.CHECK_NO_VIDEO.format(2 if players[0] else 1)
        changed = words.CHECK_CHANGED
        videos = self.compared_videos(session, started, players, missing, changed)
        pair, judge = (
            VideoPair(started.prompt, *videos),
            self.judge_of(session, words.CHECK_NO_JUDGE),
        )
        return session, pair, started.settings, judge
