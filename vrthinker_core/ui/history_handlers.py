"""Event handlers of the list of runs and of the page's address: a kept run is shown, one that goes on is followed."""

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
    """Runs by their names. One of another visitor is answered like one that does not exist."""

    parts: PageComponents
    services: Services
    handlers: Handlers
    _opened: PageValues[str] = field(
        default_factory=PageValues
    )  # the run that a page has opened and is to follow
    # The form that an own run has brought, and what stood there before.
    _brought: PageValues[tuple[FormValues, FormValues]] = field(default_factory=PageValues)

    async def open(self, form: FormValues, event: gr.EventData, request: gr.Request) -> Updates:
        """The run that was chosen in the list, or whatever the browser went back or forward to."""
        name = str(getattr(event, "run", ""))
        opened = (
            await self._show(name, request)
            if name
            else await self.handlers.show_saved(event, request)
        )
        return self._with_form(opened, form, request)

    async def open_trace(self, values: FormValues, request: gr.Request) -> Updates:
        """The run in an uploaded trace."""
        form = {part: value for part, value in values.items() if part is not self.parts.open_button}
        return self._with_form(
            await self.handlers.open_trace(values[self.parts.open_button], request), form, request
        )

    async def on_load(self, request: gr.Request) -> Updates:
        """The run that the page's address names."""
        name, parts = linked_run(request), self.parts
        opened = (
            await self._show(name, request)
            if name
            else await self.handlers.open_linked_trace(request)
        )
        values = settings_form.form_values(Settings())
        form = {
            parts.judge: self.services.judges.names[0],
            **{part: values[row] for row, part in parts.settings.items()},
        }
        return self._with_form(opened, form, request)

    async def follow(self, request: gr.Request) -> AsyncIterator[Updates]:
        """After `open` or `on_load`: a run that goes on, until it is over or this page shows another one.

        It never sends the videos: in an event that streams, a player that is left out would hold the mark for that as its file.
        """
        yield no_updates()  # an event that yields nothing empties what it may change
        session_id = session_id_of(request)
        opened, session = self._opened.take(session_id), self.services.session_of(request)
        if session is not None and session.name == opened:
            progress = self.handlers.run_progress(
                session_id, session, self.services.waiting_room.next_number()
            )
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
        session_id, parts, playable = (
            session_id_of(request),
            self.parts,
            self.services.uploads.playable_of,
        )
        self.services.sessions.attach(session_id, session)
        run = session.run
        assert isinstance(run, BackgroundRun)
        self.services.player_files.forget(session_id)
        first, second = (str(playable(Path(path))) for path in (run.pair.first, run.pair.second))
        number = self.services.waiting_room.next_number()
        await self.handlers.followers.left(session_id)
        self._opened.put(session_id, session.name)
        inputs: Updates = {parts.first: first, parts.second: second, parts.prompt: run.pair.prompt}
        return {
            **inputs,
            **self.handlers.run_updates(session, session_id),
            **parts.running_buttons(number),
        }

    def _with_form(self, opened: Updates, form: FormValues, request: gr.Request) -> Updates:
        """What opens a run or the empty page, with what changes in the form.

        An own run brings its settings, which go with it, unless the visitor has changed some of them: then the form is theirs.
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
        """The settings of a run, and its judge where that is offered here: Compare asks for the same again."""
        run, started, judges = session.run, session.run.state.started, self.services.judges
        settings = (
            started.settings
            if started
            else run.job.settings
            if isinstance(run, BackgroundRun)
            else Settings()
        )
        judge = session.judge or (judges.find(started.judge) if started else None)
        trained: tuple[ProtocolName, ...] = ()
        if judge and judges.is_loaded(judge):
            with suppress(VrThinkerError):
                trained = judges.get(judge).protocols
        values = settings_form.form_values(settings, trained)
        chosen: FormValues = {part: values[name] for name, part in self.parts.settings.items()}
        return {**chosen, self.parts.judge: judge} if judge else chosen
