"""Event handlers of the list of runs and of the page's address: a kept run is shown, one that goes on is followed."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import gradio as gr

from vrthinker_core.ui.page.handlers.run_handlers import Handlers
from vrthinker_core.ui.page.layout import PageComponents, Updates, no_updates
from vrthinker_core.ui.page.saved_run import SavedRun
from vrthinker_core.ui.page.services import Services, linked_run, session_id_of, visitor_of
from vrthinker_core.ui.sessions.background_run import BackgroundRun
from vrthinker_core.ui.sessions.session import Session


@dataclass(frozen=True, slots=True)
class HistoryHandlers:
    """Runs by their names. One of another visitor is answered like one that does not exist."""

    parts: PageComponents
    services: Services
    handlers: Handlers

    async def open(self, event: gr.EventData, request: gr.Request) -> AsyncIterator[Updates]:
        """The run that was chosen in the list, or whatever the browser went back or forward to."""
        if name := str(getattr(event, "run", "")):
            async for updates in self._show(name, request):
                yield updates
        else:
            yield await self.handlers.show_saved(event, request)

    async def on_load(self, request: gr.Request) -> AsyncIterator[Updates]:
        """The run that the page's address names."""
        if name := linked_run(request):
            async for updates in self._show(name, request):
                yield updates
        else:
            yield await self.handlers.open_linked_trace(request)

    async def _show(self, name: str, request: gr.Request) -> AsyncIterator[Updates]:
        owner, history = visitor_of(request), self.services.history
        if (live := history.live(owner, name)) is not None:
            async for updates in self._follow(live, request):
                yield updates
            return

        def saved() -> SavedRun:
            trace, videos = history.open(owner, name)
            return SavedRun(trace, kept=name, videos=videos)

        yield await self.handlers.read_and_show(request, saved)

    async def _follow(self, session: Session, request: gr.Request) -> AsyncIterator[Updates]:
        """A run that goes on, until it is over or this page shows another one."""
        session_id, parts = session_id_of(request), self.parts
        self.services.sessions.attach(session_id, session)
        run = session.run
        assert isinstance(run, BackgroundRun)
        pair, playable = run.pair, self.services.uploads.playable_of
        self.services.player_files.forget(session_id)
        first, second = (str(playable(Path(path))) for path in (pair.first, pair.second))
        number = self.services.waiting_room.next_number()
        await self.handlers.followers.left(session_id)
        yield {parts.first: first, parts.second: second, parts.prompt: pair.prompt, **parts.running_buttons(number)}
        progress = self.handlers.run_progress(session_id, session, number)
        async for updates in self.handlers.followers.follow(session_id, progress):
            yield updates
        yield no_updates()  # Gradio sends the last update again at the end: by then another run may be shown
