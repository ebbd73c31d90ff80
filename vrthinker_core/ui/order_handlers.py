"""Event handlers of "Check the order": the pair of the run that is shown is judged again with its sides swapped."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import gradio as gr

from vrthinker_core.errors import BadInput
from vrthinker_core.storage import type_adapter
from vrthinker_core.text import encodable
from vrthinker_core.types import Settings, VideoPair, Vote
from vrthinker_core.types.events import Started, shown_slots
from vrthinker_core.ui import words
from vrthinker_core.ui.background_run import BackgroundRun
from vrthinker_core.ui.layout import PageComponents, Updates, no_updates
from vrthinker_core.ui.page_sessions import Session
from vrthinker_core.ui.run_handlers import Handlers
from vrthinker_core.ui.run_state import RunState
from vrthinker_core.ui.services import Services, session_id_of
from vrthinker_core.video.files import file_digest

Players = tuple[str | None, str | None]  # the file in each player


@dataclass(frozen=True, slots=True)
class SecondRuns:
    """The run that is shown, live or saved, and the way to another run of its pair."""

    parts: PageComponents
    services: Services
    handlers: Handlers

    async def join(self, check: Callable[[], object], request: gr.Request) -> Updates:
        """Take a place in the waiting room. Raises a silent gr.Error where `check` raises BadInput, or the room is full."""
        try:
            await asyncio.to_thread(check)
        except BadInput as bad:
            self.handlers.refuse(request, str(bad))
        return self.handlers.take_place(request)

    async def run(
        self,
        prepare: Callable[[], Callable[[], Session]],
        refused: Callable[[str], Updates],
        request: gr.Request,
    ) -> AsyncIterator[Updates]:
        """Start the run and show it as it goes. `prepare`, in a thread, checks all that it needs and gives what starts it.

        Where one of them raises BadInput, what `refused` makes of the sentence is shown.
        """
        session_id = session_id_of(request)
        room = self.services.waiting_room
        with room.active(session_id) as number:
            place = room.number(session_id)
            try:
                start = await asyncio.to_thread(prepare)
                if room.number(session_id) != place:
                    yield no_updates()  # Stop was pressed meanwhile
                    return
                session = start()
            except BadInput as bad:
                yield {**refused(str(bad)), **self.parts.idle_buttons(number)}
                return
            async for updates in self.handlers.show_run(session_id, session, number):
                yield updates

    def is_busy(self, session: Session | None, request: gr.Request) -> bool:
        """A run of the visitor waits or goes on."""
        waits = self.services.waiting_room.waits(session_id_of(request))
        return waits or (session is not None and not session.run.over)

    def original(self, path: str | None, missing: str) -> Path:
        """The file that was uploaded where a player holds a copy. Raises BadInput(missing) where it holds none."""
        if not path:
            raise BadInput(missing)
        return self.services.uploads.original_of(Path(path))

    @staticmethod
    def were_compared(session: Session, started: Started, videos: tuple[Path, Path]) -> bool:
        """Whether these are the files that the run compared, by their names or else by their contents."""
        if session.files == videos:
            return True
        digests = [clip and clip.digest for clip in started.clips]
        return all(digests) and digests == [file_digest(path) for path in videos]

    def judge_of(self, session: Session, unknown: str) -> str:
        """The name under which the judge of a run is offered here. Raises BadInput with the sentence `unknown` where it is not."""
        if isinstance(session.run, BackgroundRun):
            return session.judge
        started = session.run.state.started
        judge = self.services.judges.find(started.judge) if started else None
        if judge is None:
            raise BadInput(unknown.format(started.judge[:80] if started else ""))
        return judge


FIELDS = ("labels", "agrees", "slots", "note")  # what the person says; all else the server knows


def read_vote(given: object, state: RunState, hidden: bool) -> Vote:
    """The vote in `given` on the run in `state`. Raises BadInput for one that cannot be kept with that run.

    `hidden`: the person has seen nothing of what the judge said. Whoever changes a blind vote without changing its labels keeps it
    blind.
    """
    if state.started is None:
        raise BadInput(words.TOO_EARLY)
    vote = _parse(given, hidden or state.finished is not None, hidden)
    if vote.empty:
        raise BadInput(words.EMPTY_VOTE)
    if not shown_slots(state.runs).issuperset(vote.slots):
        raise BadInput(words.OTHER_PAIRS)
    before = state.vote
    blind = hidden or (before is not None and before.blind and before.labels == vote.labels)
    return Vote(vote.at, vote.labels, vote.agrees, vote.slots, vote.note, blind)


def _parse(given: object, allowed: bool, hidden: bool) -> Vote:
    from pydantic import ValidationError

    if not allowed:
        raise BadInput(words.TOO_EARLY)
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
        raise BadInput(words.BAD_VOTE) from None


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
