"""Event handlers of "Check the order": the pair of the run that is shown is judged again with its sides swapped."""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from functools import partial

import gradio as gr

from vrthinker_core.errors import BadInput
from vrthinker_core.text import encodable
from vrthinker_core.types import Settings, VideoPair
from vrthinker_core.ui.page.handlers.second_runs import Players, SecondRuns
from vrthinker_core.ui.page.layout import Updates
from vrthinker_core.ui.page.services import session_id_of
from vrthinker_core.ui.sessions.session import Session
from vrthinker_core.ui.view import words


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
