"""Event handlers of Compare: what the form says is checked before it takes a place in the waiting room, and when its run begins."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import gradio as gr

from vrthinker_core.backends import BETTER_JUDGE, NANO_LIMITS
from vrthinker_core.errors import BadInput, VrThinkerError
from vrthinker_core.protocols.sanitize import check_prompt
from vrthinker_core.types import Settings, VideoPair
from vrthinker_core.types.settings import parse_settings
from vrthinker_core.ui import settings_form, words
from vrthinker_core.ui.hidden_view import votes_first
from vrthinker_core.ui.judge_loader import JudgeLoader
from vrthinker_core.ui.layout import FormValues, PageComponents, Updates
from vrthinker_core.ui.run_handlers import Handlers
from vrthinker_core.ui.run_store import owner_of
from vrthinker_core.ui.services import Services, linked_trace, session_id_of

POLL_SECONDS = 0.25  # between two looks at a judge that is still being loaded

# A trace without a run. A page that shows a run by the time it arrives ignores it (`page.js`).
BANNER_ONLY: Mapping[str, Any] = MappingProxyType({"introduction": True, "turns": ()})


class JudgeBanner:
    """Writes the judge's name to the page's head; its notes, or why it cannot be opened, go to the trace.

    A run that is shown stays as it is, live or saved; its own judge is named as long as it is (`page.js`).
    """

    def __init__(self, parts: PageComponents, services: Services) -> None:
        self._parts = parts
        self._services = services
        self._chosen: dict[
            str, str
        ] = {}  # session id to the judge that was chosen last, where one was chosen

    async def on_load(self, request: gr.Request) -> AsyncIterator[Updates]:
        """A visitor has opened the page."""
        async for updates in self._banner(session_id_of(request), bool(linked_trace(request))):
            yield updates

    async def on_choose(self, judge: object, request: gr.Request) -> AsyncIterator[Updates]:
        """A visitor has chosen another judge, for the next run."""
        try:
            self._chosen[session_id_of(request)] = settings_form.parse_judge(
                judge, self._services.judges.names
            )
        except BadInput as bad:
            raise gr.Error(str(bad), print_exception=False) from None
        async for updates in self._banner(session_id_of(request)):
            yield updates

    def end_session(self, session_id: str) -> None:
        """A visitor has left the page."""
        self._chosen.pop(session_id, None)

    async def _banner(self, session_id: str, opens_trace: bool = False) -> AsyncIterator[Updates]:
        """LOADING until the judge is loaded, then the banner. `opens_trace`: a saved run is about to be shown.

        The choice is read anew each time: of several choices while a judge is being loaded, only the newest is shown.
        """
        while not self._services.judges.is_loaded(self._chosen.get(session_id, "")):
            yield {self._parts.head: words.LOADING}
            await asyncio.sleep(POLL_SECONDS)
        line, trace = banner_values(self._services.judges, self._chosen.get(session_id, ""))
        shows_run = opens_trace or self._services.sessions.get(session_id) is not None
        yield {self._parts.head: line} | ({} if shows_run else {self._parts.trace: trace})


def banner_values(judges: JudgeLoader, name: str) -> tuple[str, dict[str, Any]]:
    """The line and the trace for the judge of that name, "" for the default: what to do about one that is no good is said, too."""
    default, *others = judges.names
    try:
        backend = judges.get(name)
    except VrThinkerError as error:
        advice = (
            f" {words.CHOOSE_IN_SETTINGS}" if others and "another judge" not in str(error) else ""
        )
        return words.UNOPENED_LINE.format(name or default), {
            **BANNER_ONLY,
            "ending": f"{error}{advice}",
        }
    is_best = name in ("", default) and any(NANO_LIMITS in note for note in backend.notes)
    return words.judge_line(backend.name), {
        **BANNER_ONLY,
        "notes": (*backend.notes, *([BETTER_JUDGE] if is_best else [])),
    }


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
