"""Who judges: said when a visitor comes, and again when they choose another judge."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from types import MappingProxyType
from typing import Any

import gradio as gr

from vrthinker_core.errors import BadInput, VrThinkerError
from vrthinker_core.ui.page.handlers import link_of, visitor_of
from vrthinker_core.ui.sessions import settings_form
from vrthinker_core.ui.sessions.judge_loader import Opening
from vrthinker_core.ui.sessions.sessions import Visits
from vrthinker_core.ui.view import words

LOOK = 0.25
"""Seconds between two looks at a judge that is still being loaded."""

INTRODUCTION: Mapping[str, Any] = MappingProxyType({"introduction": True, "turns": ()})
"""A trace without a run. A page that shows a run by then leaves it out (`page.js`)."""


class Introductions:
    """Answers with the line that names the judge, and with the trace: what must be known of the judge stands there.

    A run that is shown stays as it is, live or saved; its own judge is named as long as it is (`page.js`).
    """

    def __init__(self, opening: Opening, visits: Visits) -> None:
        self._opening = opening
        self._visits = visits
        self._chosen: dict[str, str] = {}
        """The judge that each visitor chose last, where one was chosen."""

    async def welcome(self, request: gr.Request) -> AsyncIterator[tuple[Any, ...]]:
        """A visitor has opened the page."""
        async for told in self._introduced(visitor_of(request), bool(link_of(request))):
            yield told

    async def choose(self, judge: object, request: gr.Request) -> AsyncIterator[tuple[Any, ...]]:
        """A visitor has chosen another judge, for the next run."""
        try:
            self._chosen[visitor_of(request)] = settings_form.judge(judge, self._opening.names)
        except BadInput as bad:
            raise gr.Error(str(bad), print_exception=False) from None
        async for told in self._introduced(visitor_of(request)):
            yield told

    def leave(self, request: gr.Request) -> None:
        """A visitor has closed or reloaded the page."""
        self._chosen.pop(visitor_of(request), None)

    async def _introduced(self, who: str, reading: bool = False) -> AsyncIterator[tuple[Any, ...]]:
        """`reading`: a saved run is about to be shown. Whoever chooses anew meanwhile is told of the newest choice only."""
        while not self._opening.done(self._chosen.get(who, "")):
            yield words.LOADING, gr.skip()
            await asyncio.sleep(LOOK)
        line, trace = self._told(self._chosen.get(who, ""))
        yield line, gr.skip() if reading or self._visits.find(who) else trace

    def _told(self, name: str) -> tuple[str, dict[str, Any]]:
        try:
            opened = self._opening.wait(name)
        except VrThinkerError as error:
            return words.unopened_line(name or self._opening.names[0]), {**INTRODUCTION, "ending": str(error)}
        return words.judge_line(opened.backend.name), {**INTRODUCTION, "notes": opened.notes}
