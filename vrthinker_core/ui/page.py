"""The page: Gradio components, and what happens when they are used. Everything that is shown comes from `view`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gradio as gr
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from vrthinker_core.errors import VrThinkerError
from vrthinker_core.types import Settings, VideoPair
from vrthinker_core.ui import assets, words
from vrthinker_core.ui.border import Border
from vrthinker_core.ui.opening import Opening
from vrthinker_core.ui.reading import reader
from vrthinker_core.ui.run import Judging
from vrthinker_core.ui.view import data, status, transcript
from vrthinker_core.ui.visits import FRAMES_URL, Visit, Visits

TITLE = f"<h1>{words.TITLE}</h1><p>{words.CLAIM}</p><p class='vrt-judge'></p>"

UPDATE = 0.12
"""Seconds between two updates of the page."""

LOOK = 0.03
"""Seconds between two looks at the run."""

WAITING_ROOM = 24
"""Runs that may wait; who comes later is told that all seats are taken."""


@dataclass(frozen=True, slots=True)
class Parts:
    """The components that take part in what happens."""

    head: gr.HTML
    first: gr.Video
    second: gr.Video
    prompt: gr.Textbox
    go: gr.Button
    stop: gr.Button
    status: gr.Textbox
    trace: gr.HTML
    transcript: gr.HTML

    @property
    def shown(self) -> list[Any]:
        """What a run writes to."""
        return [self.status, self.trace, self.transcript]


class Page:
    """One server's page.

    `opening` is the judge, `judging` does a job with it (on a Space: on a borrowed GPU); what visitors bring goes to `folder`.
    """

    def __init__(self, opening: Opening, folder: Path, judging: Judging | None = None, *, at_once: int = 1) -> None:
        self._opening = opening
        self._visits = Visits(folder, judging or opening.events, at_once)
        self._at_once = at_once

    def blocks(self) -> gr.Blocks:
        """The page itself, ready to be launched with `launch_options`."""
        blocks: gr.Blocks = gr.Blocks(title=words.TITLE, analytics_enabled=False, delete_cache=(600, 3600))
        with blocks:
            self._connect(blocks, self._layout())
        blocks.queue(max_size=WAITING_ROOM, default_concurrency_limit=None)
        return blocks

    def launch_options(self, names: Sequence[str] = ()) -> dict[str, Any]:
        """What `launch` must be told: the page neither works nor is safe without it. `names`: its further host names."""
        return {
            "theme": _theme(),
            "css": assets.style("trace.css", "transcript.css", "page.css"),
            "head": f"<script>{assets.script(assets.PAGE)}</script>",
            "app_kwargs": {"routes": self._routes(), "middleware": [Middleware(Border, names=names)]},
            "run_history": False,
            "enable_monitoring": False,
            "max_file_size": "100mb",
            "footer_links": ["api"],
            "ssr_mode": False,
            "share": False,
        }

    def close(self) -> None:
        """Stop every judge."""
        self._visits.close()

    def _routes(self) -> list[BaseRoute]:
        """The pictures of all runs, and nothing for the video component's cutter, which is not used."""
        return [
            Mount(f"/{FRAMES_URL}", StaticFiles(directory=self._visits.pictures)),
            Route("/static/ffmpeg/ffmpeg-core.js", _no_cutter),
            Route("/static/ffmpeg/ffmpeg-core.wasm", _no_cutter),
        ]

    # -- layout --------------------------------------------------------------------------------------------------------

    def _layout(self) -> Parts:
        head = _mounted(f"<header class='vrt vrt-header'>{TITLE}</header>", "mountHead(host, props, watch)", "", "head")
        with gr.Row(elem_id="players"):
            first, second = _player(1, "first"), _player(2, "second")
        _mounted("<div></div>", "mountRail(host)", None, "rail")
        with gr.Row(elem_id="ask", equal_height=True):
            prompt = gr.Textbox(
                label="Prompt", placeholder="The text both videos were made from", lines=2, max_lines=6, elem_id="prompt", scale=6
            )
            with gr.Column(scale=1, min_width=140):
                go = gr.Button("Compare", variant="primary", elem_id="go")
                stop = gr.Button("Stop", elem_id="stop", visible=False)
        state = gr.Textbox(words.READY, label="Status", elem_id="status", interactive=False, max_lines=1)
        with gr.Tabs():
            with gr.Tab(words.TAB_TRACE):
                trace = _mounted("<div></div>", f"mountTrace(host, props, watch, {words.EMPTY!r})", {"turns": []}, "trace")
            with gr.Tab(words.TAB_TRANSCRIPT):
                raw = _mounted("<div></div>", "mountTranscript(host, props, watch)", {"passages": []}, "transcript")
        return Parts(head, first, second, prompt, go, stop, state, trace, raw)

    def _connect(self, blocks: gr.Blocks, parts: Parts) -> None:
        quiet: dict[str, Any] = {"api_visibility": "private", "show_progress": "hidden"}
        buttons = [parts.go, parts.stop]
        run = parts.go.click(self._waiting, None, [*buttons, parts.status], queue=False, **quiet).then(
            self.compare,
            [parts.first, parts.second, parts.prompt],
            parts.shown,
            api_visibility="private",
            show_progress="minimal",
            show_progress_on=[parts.status],
            concurrency_limit=self._at_once,
            concurrency_id="judge",
        )
        for end in (run.then, run.failure):
            end(self._idle, None, buttons, queue=False, **quiet)
        parts.stop.click(self.stop, None, [*parts.shown, *buttons], queue=False, cancels=[run], **quiet)
        blocks.load(self.welcome, None, [parts.head, parts.trace], **quiet)
        blocks.unload(self.leave)

    # -- what happens --------------------------------------------------------------------------------------------------

    async def compare(
        self, first: str | None, second: str | None, prompt: str, request: gr.Request
    ) -> AsyncIterator[tuple[Any, ...]]:
        """One run, as it goes."""
        if not first or not second:
            yield words.MISSING_VIDEOS, {"turns": [], "ending": words.MISSING_VIDEOS}, {"passages": []}
            return
        pair = VideoPair(prompt or "", Path(first), Path(second))
        visit = self._visits.begin(str(request.session_hash), pair, Settings())
        try:
            while not visit.run.over:
                yield self._shown(visit)
                await self._next(visit)
            yield self._shown(visit)
        finally:
            visit.run.halt()

    async def stop(self, request: gr.Request) -> tuple[Any, ...]:
        """Stop the visitor's judge; everything it had seen and written stays."""
        visit = self._visits.find(str(request.session_hash))
        if visit is None or visit.run.over:
            return words.READY, gr.skip(), gr.skip(), *self._idle()
        await asyncio.to_thread(visit.run.stop)
        return *self._shown(visit), *self._idle()

    async def welcome(self) -> AsyncIterator[tuple[Any, ...]]:
        """Who judges here."""
        while not self._opening.done:
            yield words.LOADING, gr.skip()
            await asyncio.sleep(0.25)
        try:
            opened = self._opening.wait()
        except VrThinkerError as error:
            yield words.NO_JUDGE, {"turns": [], "ending": str(error)}
        else:
            yield words.judge_line(opened.backend.name), {"turns": [], "notes": opened.notes}

    def leave(self, request: gr.Request) -> None:
        """A visitor has closed or reloaded the page."""
        self._visits.leave(str(request.session_hash))

    def _waiting(self) -> tuple[Any, ...]:
        return gr.update(visible=False), gr.update(visible=True), words.WAITING

    def _idle(self) -> tuple[Any, ...]:
        return gr.update(visible=True), gr.update(visible=False)

    def _shown(self, visit: Visit) -> tuple[str, dict[str, Any], dict[str, Any]]:
        state = visit.run.state
        line = status(state, visit.run.seconds) if self._opening.done else words.LOADING
        return line, {"run": visit.name, **data(state, visit.album, reader(state.started))}, transcript(state)

    async def _next(self, visit: Visit) -> None:
        """Wait until there is something new to show, at most a second for the clock's sake."""
        before = visit.run.state
        await asyncio.sleep(UPDATE)
        for _ in range(round((1 - UPDATE) / LOOK)):
            if visit.run.state is not before:
                return
            await asyncio.sleep(LOOK)


async def _no_cutter(_request: Request) -> FileResponse:
    return FileResponse(assets.ASSETS / "no_cutter.js", media_type="text/javascript")


def _theme() -> gr.themes.Base:
    """Calm and without a request: the machine's own fonts."""
    return gr.themes.Monochrome(
        font=["system-ui", "sans-serif"], font_mono=["ui-monospace", "monospace"], spacing_size="md", radius_size="sm"
    ).set(layout_gap="14px", button_secondary_text_color_hover="*neutral_700", button_border_width="1px")


def _player(number: int, name: str) -> gr.Video:
    return gr.Video(label=f"Video {number}", sources=["upload"], elem_id=name, min_width=140, height=320, buttons=[])


def _mounted(template: str, mount: str, value: Any, name: str) -> gr.HTML:
    """A constant template; what is shown comes as data and is written as text by the page's own script."""
    return gr.HTML(
        value,
        html_template=template,
        js_on_load=f"const host = element.firstElementChild; VRThinker.{mount};",
        apply_default_css=False,
        elem_id=name,
    )
