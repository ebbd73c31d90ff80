"""Who judges: said when a visitor comes, and again when they choose another judge."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from types import MappingProxyType
from typing import Any

import gradio as gr

from vrthinker_core.errors import BadInput, VrThinkerError
from vrthinker_core.ui.page.handlers import linked_trace, session_id_of
from vrthinker_core.ui.sessions import settings_form
from vrthinker_core.ui.sessions.judge_loader import JudgeLoader
from vrthinker_core.ui.sessions.sessions import Sessions
from vrthinker_core.ui.view import words

POLL_SECONDS = 0.25
"""Seconds between two looks at a judge that is still being loaded."""

BANNER_ONLY: Mapping[str, Any] = MappingProxyType({"introduction": True, "turns": ()})
"""A trace without a run. A page that shows a run by then leaves it out (`page.js`)."""


class JudgeBanner:
    """Answers with the line that names the judge, and with the trace: what must be known of the judge stands there.

    A run that is shown stays as it is, live or saved; its own judge is named as long as it is (`page.js`).
    """

    def __init__(self, opening: JudgeLoader, visits: Sessions) -> None:
        self._judges = opening
        self._sessions = visits
        self._chosen: dict[str, str] = {}
        """The judge that each visitor chose last, where one was chosen."""

    async def on_load(self, request: gr.Request) -> AsyncIterator[tuple[Any, ...]]:
        """A visitor has opened the page."""
        async for told in self._banner(session_id_of(request), bool(linked_trace(request))):
            yield told

    async def on_choose(self, judge: object, request: gr.Request) -> AsyncIterator[tuple[Any, ...]]:
        """A visitor has chosen another judge, for the next run."""
        try:
            self._chosen[session_id_of(request)] = settings_form.parse_judge(judge, self._judges.names)
        except BadInput as bad:
            raise gr.Error(str(bad), print_exception=False) from None
        async for told in self._banner(session_id_of(request)):
            yield told

    def on_unload(self, request: gr.Request) -> None:
        """A visitor has closed or reloaded the page."""
        self._chosen.pop(session_id_of(request), None)

    async def _banner(self, who: str, reading: bool = False) -> AsyncIterator[tuple[Any, ...]]:
        """`reading`: a saved run is about to be shown. Whoever chooses anew meanwhile is told of the newest choice only."""
        while not self._judges.is_loaded(self._chosen.get(who, "")):
            yield words.LOADING, gr.skip()
            await asyncio.sleep(POLL_SECONDS)
        line, trace = self._banner_values(self._chosen.get(who, ""))
        yield line, gr.skip() if reading or self._sessions.get(who) else trace

    def _banner_values(self, name: str) -> tuple[str, dict[str, Any]]:
        try:
            opened = self._judges.get(name)
        except VrThinkerError as error:
            return words.unopened_line(name or self._judges.names[0]), {**BANNER_ONLY, "ending": str(error)}
        return words.judge_line(opened.backend.name), {**BANNER_ONLY, "notes": opened.notes}
