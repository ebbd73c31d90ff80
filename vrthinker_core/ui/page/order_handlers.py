"""Event handlers of "Check the order": the pair of the run that is shown is judged again with its sides swapped."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import gradio as gr

from vrthinker_core.errors import BadInput
from vrthinker_core.text import encodable
from vrthinker_core.types import Settings, VideoPair
from vrthinker_core.types.events import Started
from vrthinker_core.ui.page.handlers import Handlers
from vrthinker_core.ui.page.layout import PageComponents, Updates
from vrthinker_core.ui.page.services import Services, session_id_of
from vrthinker_core.ui.sessions.background_run import BackgroundRun
from vrthinker_core.ui.sessions.replay import file_digest
from vrthinker_core.ui.sessions.sessions import Session
from vrthinker_core.ui.view import words


@dataclass(frozen=True, slots=True)
class OrderHandlers:
    """The second run has judge and settings of the first one, live or saved; the first verdict stays whatever becomes of it."""

    parts: PageComponents
    services: Services
    handlers: Handlers

    async def join_queue(self, prompt: str | None, first: str | None, second: str | None, request: gr.Request) -> Updates:
        """Take a place in the waiting room. Raises a silent gr.Error when this cannot be checked now; `refused` says why."""
        if sentence := await asyncio.to_thread(self._refusal, prompt, (first, second), request):
            raise gr.Error(sentence, visible=False, print_exception=False)
        return await self.handlers.join_queue(request)

    async def refused(self, prompt: str | None, first: str | None, second: str | None, request: gr.Request) -> Updates:
        """Say beside the button why it was refused."""
        sentence = await asyncio.to_thread(self._refusal, prompt, (first, second), request)
        return self.handlers.refused_check(sentence or words.BUSY, request)

    async def check(self, prompt: str | None, first: str | None, second: str | None, request: gr.Request) -> AsyncIterator[Updates]:
        """Judge the pair again, and show that run as it goes."""
        session_id = session_id_of(request)
        with self.services.waiting_room.active(session_id):
            try:
                session, pair, judge = await asyncio.to_thread(self._checked_pair, prompt, (first, second), request)
                started = session.run.state.started
                settings = started.settings if started else Settings()
                checked = self.services.sessions.check_order(session_id, session, pair, settings, judge)
            except BadInput as bad:
                yield self.handlers.refused_check(str(bad), request)
                return
            async for updates in self.handlers.show_run(session_id, checked):
                yield updates

    def _refusal(self, prompt: str | None, videos: tuple[str | None, str | None], request: gr.Request) -> str:
        """Why the order cannot be checked now; "" when it can."""
        try:
            self._checked_pair(prompt, videos, request)
        except BadInput as bad:
            return str(bad)
        return ""

    def _checked_pair(
        self, prompt: str | None, videos: tuple[str | None, str | None], request: gr.Request
    ) -> tuple[Session, VideoPair, str]:
        """The run that is shown, its pair as it stands on the page, and its judge. Raises BadInput unless they belong together."""
        session = self.services.session_of(request)
        if self.services.waiting_room.waits(session_id_of(request)) or (session is not None and not session.run.over):
            raise BadInput(words.CHECK_LATER)
        state = session.run.state if session else None
        if session is None or state is None or state.started is None or state.finished is None or state.finished.verdict is None:
            raise BadInput(words.NOTHING_TO_CHECK)
        if encodable(prompt or "").strip() != state.started.prompt.strip():
            raise BadInput(words.CHECK_CHANGED)
        first, second = (self._original(path) for path in videos)
        if not self._were_compared(session, state.started, (first, second)):
            raise BadInput(words.CHECK_CHANGED)
        return session, VideoPair(state.started.prompt, first, second), self._judge_of(session)

    def _original(self, path: str | None) -> Path:
        if not path:
            raise BadInput(words.CHECK_NO_VIDEOS)
        return self.services.uploads.original_of(Path(path))

    @staticmethod
    def _were_compared(session: Session, started: Started, videos: tuple[Path, Path]) -> bool:
        """Whether these are the files that the run compared, by their names or else by their contents."""
        if session.files == videos:
            return True
        digests = [clip and clip.digest for clip in started.clips]
        return all(digests) and digests == [file_digest(path) for path in videos]

    def _judge_of(self, session: Session) -> str:
        """The name under which the judge of a run is offered here. Raises BadInput where it is not."""
        if isinstance(session.run, BackgroundRun):
            return session.judge
        started = session.run.state.started
        judge = self.services.judges.find(started.judge) if started else None
        if judge is None:
            raise BadInput(words.CHECK_NO_JUDGE.format(started.judge[:80] if started else ""))
        return judge
