"""Event handlers of Compare: what the form says is checked before it takes a place in the waiting room, and when its run begins."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import gradio as gr

from vrthinker_core.errors import BadInput
from vrthinker_core.protocols.sanitize import check_prompt
from vrthinker_core.types import Settings, VideoPair
from vrthinker_core.types.settings import parse_settings
from vrthinker_core.ui.history.visitors import owner_of
from vrthinker_core.ui.page.handlers.run_handlers import Handlers
from vrthinker_core.ui.page.layout import FormValues, PageComponents, Updates
from vrthinker_core.ui.page.services import Services, session_id_of
from vrthinker_core.ui.sessions import settings_form
from vrthinker_core.ui.view import words
from vrthinker_core.ui.votes.disclosure import votes_first


@dataclass(frozen=True, slots=True)
class CompareHandlers:
    """A comparison of the two videos in the players, with the judge and the settings that were chosen."""

    parts: PageComponents
    services: Services
    handlers: Handlers

    async def join_queue(self, values: FormValues, request: gr.Request) -> Updates:
        """Take a place in the waiting room. Raises a silent gr.Error where that cannot be; `refused` says why."""
        try:
            self._wanted(values, session_id_of(request))
        except BadInput as bad:
            self.handlers.refuse(request, str(bad))
        return self.handlers.take_place(request)

    def refused(self, request: gr.Request) -> Updates:
        """Say why it was refused."""
        return {self.parts.status: self.handlers.refusal(request)}

    async def compare(self, values: FormValues, request: gr.Request) -> AsyncIterator[Updates]:
        """Run a comparison, and show it as it goes."""
        session_id = session_id_of(request)
        with self.services.waiting_room.active(session_id) as number:
            try:
                pair, settings, judge = self._wanted(values, session_id)
            except BadInput as bad:
                yield {self.parts.status: str(bad), **self.parts.idle_buttons(number)}
                return
            session = self.services.sessions.start_run(
                session_id, pair, settings, judge, owner_of(request.cookies)
            )
            session.disclosure.begin(votes_first(request.cookies))
            async for updates in self.handlers.show_run(session_id, session, number):
                yield updates

    def _wanted(self, values: FormValues, session_id: str) -> tuple[VideoPair, Settings, str]:
        """Pair, settings and judge. Raises BadInput for a missing video, or one that was refused, a prompt missing or too long, or
        a choice not offered.
        """
        parts, shown = self.parts, [values[part] for part in self.parts.videos]
        if not all(shown):
            raise BadInput(words.MISSING_VIDEOS)
        first, second = (self.services.uploads.original_of(Path(path)) for path in shown)
        if not first.is_file() or not second.is_file():
            raise BadInput(words.GONE)
        if refusals := list(filter(None, self.services.player_files.refusals(session_id))):
            raise BadInput(words.next_step(None, None, None, refusals))
        prompt = values[parts.prompt] or ""
        check_prompt(prompt)
        judge = settings_form.parse_judge(values[parts.judge], self.services.judges.names)
        settings = parse_settings({name: values[part] for name, part in parts.settings.items()})
        return VideoPair(prompt, first, second), settings, judge
