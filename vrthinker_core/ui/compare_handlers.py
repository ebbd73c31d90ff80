"""Event handlers of Compare, and of the banner of the judge."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import gradio as gr

from vrthinker_core.backends import BETTER_JUDGE, NANO_LIMITS
from vrthinker_core.errors import BadInput, VrThinkerError
from vrthinker_core.protocols.sanitize import check_prompt
from vrthinker_core.types import Settings, VideoPair
from vrthinker_core.types.settings import parse_settings
from vrthinker_core.ui import settings_form, words
from vrthinker_core.ui.judge_loader import JudgeLoader
from vrthinker_core.ui.layout import FormValues, PageComponents, Updates
from vrthinker_core.ui.order_handlers import QueuedRuns
from vrthinker_core.ui.page_sessions import Session
from vrthinker_core.ui.services import Services, linked_trace, session_id_of

# A trace without a run; a page that shows a run by then ignores it (`page.js`)
BANNER_ONLY: dict[str, Any] = {"introduction": True, "turns": ()}


@dataclass(frozen=True, slots=True)
class JudgeBanner:
    """Writes the judge's name to the head, its notes to the trace.

    A shown run stays, live or saved; its own judge is named as long as it is shown (`page.js`).
    """

    parts: PageComponents
    services: Services
    _chosen: dict[str, str] = field(default_factory=dict)  # the last choice by session id

    async def on_load(self, request: gr.Request) -> AsyncIterator[Updates]:
        """Show the default judge on a page that was opened."""
        async for updates in self._banner(session_id_of(request), bool(linked_trace(request))):
            yield updates

    async def on_choose(self, judge: object, request: gr.Request) -> AsyncIterator[Updates]:
        """Show the judge that was chosen for the next run."""
        names = self.services.judges.names
        try:
            self._chosen[session_id_of(request)] = settings_form.parse_judge(judge, names)
        except BadInput as bad:
            raise gr.Error(str(bad), print_exception=False) from None
        async for updates in self._banner(session_id_of(request)):
            yield updates

    def end_session(self, session_id: str) -> None:
        """Forget a page that was left."""
        self._chosen.pop(session_id, None)

    async def _banner(self, session_id: str, opens_trace: bool = False) -> AsyncIterator[Updates]:
        """Yield LOADING until the judge is loaded, then the banner.

        The choice is read anew each time, so that only the newest is shown. `opens_trace`: a saved
        run is about to be shown.
        """
        judges, parts = self.services.judges, self.parts
        while not judges.is_loaded(self._chosen.get(session_id, "")):
            yield {parts.head: words.LOADING}
            await asyncio.sleep(0.25)
        line, trace = banner_values(judges, self._chosen.get(session_id, ""))
        shows_run = opens_trace or self.services.sessions.get(session_id) is not None
        yield {parts.head: line} if shows_run else {parts.head: line, parts.trace: trace}


def banner_values(judges: JudgeLoader, name: str) -> tuple[str, dict[str, Any]]:
    """Return line and trace for a judge, "" for the default."""
    default, *others = judges.names
    try:
        backend = judges.get(name)
    except VrThinkerError as error:
        advised = others and "another judge" not in str(error)
        ending = f"{error} {words.CHOOSE_IN_SETTINGS}" if advised else str(error)
        return words.UNOPENED_LINE.format(name or default), {**BANNER_ONLY, "ending": ending}
    is_best = name in ("", default) and any(NANO_LIMITS in note for note in backend.notes)
    notes = (*backend.notes, *([BETTER_JUDGE] if is_best else []))
    return words.judge_line(backend.name), {**BANNER_ONLY, "notes": notes}


class CompareHandlers(QueuedRuns):
    """Compares the two videos in the players, with the chosen judge and settings."""

    async def join_queue(self, values: FormValues, request: gr.Request) -> Updates:
        """Take a place, or raise a silent gr.Error; `refused` says why."""

        async def check() -> None:
            self._wanted(values, session_id_of(request))

        return await self.join(check(), request)

    async def compare(self, values: FormValues, request: gr.Request) -> AsyncIterator[Updates]:
        """Run a comparison, and show it as it goes."""

        async def prepare() -> Callable[[], Session]:
            wanted = self._wanted(values, session_id_of(request))
            return partial(self.start_run, request, *wanted)

        async for updates in self.run(prepare, request):
            yield updates

    def _wanted(self, values: FormValues, session_id: str) -> tuple[VideoPair, Settings, str]:
        """Return pair, settings and judge.

        Raises BadInput for a missing or refused video, a prompt that is missing or too long, or a
        choice that is not offered.
        """
        parts, services = self.parts, self.services
        shown = [values[part] for part in parts.videos]
        if not all(shown):
            raise BadInput(words.MISSING_VIDEOS)
        first, second = (services.uploads.original_of(Path(path)) for path in shown)
        if not first.is_file() or not second.is_file():
            raise BadInput(words.GONE)
        if refusals := list(filter(None, services.player_files.refusals(session_id))):
            raise BadInput(words.next_step(None, None, None, refusals))
        prompt = values[parts.prompt] or ""
        check_prompt(prompt)
        judge = settings_form.parse_judge(values[parts.judge], services.judges.names)
        settings = parse_settings({name: values[part] for name, part in parts.settings.items()})
        return VideoPair(prompt, first, second), settings, judge
