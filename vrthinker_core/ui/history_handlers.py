"""Event handlers that show kept runs and follow live ones."""

from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import gradio as gr

from vrthinker_core.errors import VrThinkerError
from vrthinker_core.types import ProtocolName, Settings
from vrthinker_core.ui import settings_form
from vrthinker_core.ui.background_run import BackgroundRun
from vrthinker_core.ui.layout import FormValues, PageComponents, Updates, no_updates
from vrthinker_core.ui.page_sessions import Session
from vrthinker_core.ui.player_files import PageValues
from vrthinker_core.ui.run_handlers import Handlers
from vrthinker_core.ui.run_store import owner_of
from vrthinker_core.ui.saved_run import SavedRun
from vrthinker_core.ui.services import Services, linked_run, session_id_of


@dataclass(frozen=True, slots=True)
class HistoryHandlers:
    """Show runs by their names; another visitor's run does not exist."""

    parts: PageComponents
    services: Services
    handlers: Handlers
    # The run that a page has opened and is to follow
    _opened: PageValues[str] = field(default_factory=PageValues)
    # The form that an own run has brought, and what stood there before
    _brought: PageValues[tuple[FormValues, FormValues]] = field(default_factory=PageValues)

    async def open(self, form: FormValues, event: gr.EventData, request: gr.Request) -> Updates:
        """Show the run from the list, or from the browser's history."""
        if name := str(getattr(event, "run", "")):
            return self._with_form(await self._show(name, request), form, request)
        return self._with_form(await self.handlers.show_saved(event, request), form, request)

    async def open_trace(self, values: FormValues, request: gr.Request) -> Updates:
        """Show the run in an uploaded trace."""
        button = self.parts.open_button
        form = {part: value for part, value in values.items() if part is not button}
        opened = await self.handlers.open_trace(values[button], request)
        return self._with_form(opened, form, request)

    async def on_load(self, request: gr.Request) -> Updates:
        """Show the run that the page's address names."""
        if name := linked_run(request):
            opened = await self._show(name, request)
        else:
            opened = await self.handlers.open_linked_trace(request)
        form = {self.parts.judge: self.services.judges.names[0], **self._form(Settings())}
        return self._with_form(opened, form, request)

    async def follow(self, request: gr.Request) -> AsyncIterator[Updates]:
        """Follow a live run until it ends or another one is shown.

        It never sends the videos: in an event that streams, a player that is left out would hold
        the mark for that as its file.
        """
        yield no_updates()  # an event that yields nothing empties what it may change
        session_id = session_id_of(request)
        opened, session = self._opened.take(session_id), self.services.session_of(request)
        if session is not None and session.name == opened:
            number = self.services.waiting_room.next_number()
            progress = self.handlers.run_progress(session_id, session, number)
            async for updates in self.handlers.followers.follow(session_id, progress):
                yield updates

    async def _show(self, name: str, request: gr.Request) -> Updates:
        owner, history = owner_of(request.cookies), self.services.history
        if (live := history.live(owner, name)) is not None:
            return await self._show_live(live, request)

        def saved() -> SavedRun:
            trace, videos = history.open(owner, name)
            return SavedRun(trace, kept=name, videos=videos)

        return await self.handlers.read_and_show(request, saved)

    async def _show_live(self, session: Session, request: gr.Request) -> Updates:
        services, parts, session_id = self.services, self.parts, session_id_of(request)
        services.sessions.attach(session_id, session)
        assert isinstance(session.run, BackgroundRun)
        services.player_files.forget(session_id)
        pair, playable = session.run.pair, services.uploads.playable_of
        first, second = (str(playable(Path(path))) for path in (pair.first, pair.second))
        number = services.waiting_room.next_number()
        await self.handlers.followers.wait_until_detached(session_id)
        self._opened.put(session_id, session.name)
        shown = self.handlers.run_updates(session, session_id) | parts.running_buttons(number)
        return {parts.first: first, parts.second: second, parts.prompt: pair.prompt, **shown}

    def _with_form(self, opened: Updates, form: FormValues, request: gr.Request) -> Updates:
        """Add the form's changes to what opens a run or the empty page.

        An own run brings its settings, which go with it, unless the visitor has changed some of
        them: then the form is theirs.
        """
        if self.parts.prompt not in opened:
            return opened  # nothing was: what was shown before stays
        session_id, session = session_id_of(request), self.services.session_of(request)
        brought, before = self._brought.take(session_id) or (form, form)
        wanted = chosen = before if form == brought else form
        if session is not None and session.kept:
            wanted = {**chosen, **self._form_of(session)}
            self._brought.put(session_id, (wanted, chosen))
        return {**opened, **{part: value for part, value in wanted.items() if value != form[part]}}

    def _form_of(self, session: Session) -> FormValues:
        """The settings of a run, and its judge if it is offered here."""
        run, started, judges = session.run, session.run.state.started, self.services.judges
        settings = run.job.settings if isinstance(run, BackgroundRun) else Settings()
        judge = session.judge or (judges.find(started.judge) if started else None)
        trained: tuple[ProtocolName, ...] = ()
        if judge and judges.is_loaded(judge):
            with suppress(VrThinkerError):
                trained = judges.get(judge).protocols
        chosen = self._form(started.settings if started else settings, trained)
        return {**chosen, self.parts.judge: judge} if judge else chosen

    def _form(self, settings: Settings, trained: tuple[ProtocolName, ...] = ()) -> FormValues:
        values = settings_form.form_values(settings, trained)
        return {part: values[name] for name, part in self.parts.settings.items()}
