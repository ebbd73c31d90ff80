"""The page: its parts, what they do, and how it is served."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gradio as gr
from gradio.utils import get_upload_folder
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from vrthinker_core.types import Side
from vrthinker_core.ui.api import endpoints, mcp
from vrthinker_core.ui.api.mcp_calls import Callers, ToolCalls
from vrthinker_core.ui.fetch.public_addresses import PUBLIC, Policy
from vrthinker_core.ui.fetch.uploads import Uploads
from vrthinker_core.ui.page.handlers import Acts, idle, turned_away, visitor_of
from vrthinker_core.ui.page.judge_banner import Introductions
from vrthinker_core.ui.page.layout import Parts, lay_out, theme
from vrthinker_core.ui.page.upload_handlers import Arrivals
from vrthinker_core.ui.server.download_routes import Offers
from vrthinker_core.ui.server.gradio_blocks import CheckedInputs
from vrthinker_core.ui.server.origin_guard import Border
from vrthinker_core.ui.server.request_limits import Doors
from vrthinker_core.ui.sessions.background_run import Judging
from vrthinker_core.ui.sessions.judge_loader import Opening
from vrthinker_core.ui.sessions.sessions import FRAMES_URL, Visits
from vrthinker_core.ui.sessions.shared_traces import Shelf
from vrthinker_core.ui.sessions.waiting_room import Room
from vrthinker_core.ui.view import assets, words
from vrthinker_core.ui.view.example_cards import Examples

WAITING_ROOM = 24
"""Visitors that may wait; who comes later is told that all seats are taken."""

OTHERS = 40
"""Events that are handled beside the runs: a page opens and a video arrives also while everybody is judged."""

SESSIONS = 256
"""Visitors and calls of whom Gradio remembers the page; for others it makes it anew."""

QUIET: dict[str, Any] = {"api_visibility": "private", "show_progress": "hidden"}


class Page:
    """One server's page.

    `opening` holds the judges, `judging` does a job with one (on a Space: on a borrowed GPU); what visitors bring goes to `folder`.
    `policy` says which web addresses a video may be fetched from.
    """

    def __init__(
        self,
        opening: Opening,
        folder: Path,
        judging: Judging | None = None,
        *,
        at_once: int = 1,
        waiting: int = WAITING_ROOM,
        examples: Path = assets.EXAMPLES,
        policy: Policy = PUBLIC,
    ) -> None:
        self._opening = opening
        self._visits = Visits(folder, judging or opening.events, at_once)
        self._shelf = Shelf(folder / "shelf")
        self._examples = Examples(examples)
        self._uploads = Uploads(folder / "copies", Path(get_upload_folder()) / "fetched", policy)
        self._acts = Acts(opening, self._visits, self._shelf, self._examples, Room(waiting + at_once), self._uploads)
        self._introductions = Introductions(opening, self._visits)
        self._arrivals = Arrivals(self._visits, self._uploads)
        self._callers = Callers()
        self._at_once = at_once
        self._waiting = waiting

    def blocks(self) -> gr.Blocks:
        """The page itself, ready to be launched with `launch_options`."""
        gr.set_static_paths([self._visits.pictures, self._examples.folder])
        blocks = CheckedInputs(title=words.TITLE, analytics_enabled=False, delete_cache=(600, 3600))
        blocks.fetch = self._uploads.fetch
        with blocks:
            endpoints.register(blocks, self._opening, self._visits, self._at_once, callers=self._callers)
            self._connect(blocks, lay_out(self._examples.cards(self._visits.album), self._opening.names))
        blocks.queue(max_size=self._waiting + self._at_once, default_concurrency_limit=None)
        return blocks

    def launch_options(self, names: Sequence[str] = ()) -> dict[str, Any]:
        """What `launch` must be told: the page neither works nor is safe without it. `names`: its further host names."""
        return {
            "theme": theme(),
            "css": assets.style("trace.css", "transcript.css", "page.css", "gradio.css"),
            "head": f"<script>{assets.script(assets.PAGE)}</script>",
            "app_kwargs": {
                "routes": self._routes(),
                "middleware": [
                    Middleware(Border, names=names),
                    Middleware(Doors),
                    Middleware(ToolCalls, callers=self._callers),
                ],
            },
            "run_history": False,
            "enable_monitoring": False,
            "allowed_paths": [str(self._examples.folder.resolve())],
            "max_file_size": "100mb",
            "max_threads": self._at_once + OTHERS,
            "state_session_capacity": SESSIONS,
            "footer_links": ["api"],
            "ssr_mode": False,
            "share": False,
            "mcp_server": endpoints.has_mcp(),
        }

    def close(self) -> None:
        """Stop every judge."""
        self._visits.close()
        self._opening.close()

    def _routes(self) -> list[BaseRoute]:
        """The pictures of all runs, what can be taken home, and nothing for the video component's cutter, which is not used."""
        return [
            Mount(f"/{FRAMES_URL}", StaticFiles(directory=self._visits.pictures)),
            *Offers(self._visits, self._shelf).routes(),
            *mcp.routes(),
            Route("/static/ffmpeg/ffmpeg-core.js", _no_cutter),
            Route("/static/ffmpeg/ffmpeg-core.wasm", _no_cutter),
        ]

    def _connect(self, blocks: CheckedInputs, parts: Parts) -> None:
        acts = self._acts
        enter = parts.go.click(acts.enter, None, [*parts.buttons, parts.status], queue=False, **QUIET)
        run = enter.success(
            acts.compare,
            parts.asked,
            parts.shown,
            api_visibility="private",
            show_progress="minimal",
            show_progress_on=[parts.place],
            concurrency_limit=self._at_once,
            concurrency_id="judge",
        )
        run.success(None, None, parts.buttons, js=_said(idle()), **QUIET)
        enter.failure(None, None, [*parts.buttons, parts.status], js=_said(turned_away()), **QUIET)
        run.failure(acts.broken, None, [*parts.buttons, parts.status], queue=False, **QUIET)
        parts.stop.click(acts.stop, None, [*parts.shown, *parts.buttons], queue=False, cancels=[run], **QUIET)
        self._connect_arrivals(parts)
        self._connect_replays(blocks, parts, {"queue": False, "cancels": [run], **QUIET})
        sides = [parts.first, parts.second]
        parts.rail.click(acts.swap, sides, [*sides, *parts.shown], queue=False, **QUIET)
        parts.tabs.select(acts.look, None, parts.gallery, queue=False, **QUIET)
        introduced = [parts.head, parts.trace]
        blocks.load(self._introductions.welcome, None, introduced, **QUIET)
        parts.judge.input(self._introductions.choose, parts.judge, introduced, trigger_mode="multiple", **QUIET)

        def leave(request: gr.Request) -> None:
            acts.leave(request)
            self._introductions.leave(request)
            blocks.forget(visitor_of(request))

        blocks.unload(leave)

    def _connect_arrivals(self, parts: Parts) -> None:
        arrivals = self._arrivals
        limits: dict[str, Any] = {"concurrency_limit": 2, **QUIET}
        for side, player, address in zip(Side, (parts.first, parts.second), parts.addresses, strict=True):
            changed = [player, *parts.shown]
            player.upload(arrivals.uploaded(side), player, changed, concurrency_id="copies", **limits)
            player.clear(arrivals.taken, None, parts.shown, queue=False, **QUIET)
            address.submit(lambda: words.FETCHING, None, parts.status, queue=False, **QUIET).then(
                arrivals.named(side), address, changed, concurrency_id="fetched", **limits
            )

    def _connect_replays(self, blocks: gr.Blocks, parts: Parts, how: dict[str, Any]) -> None:
        acts = self._acts
        replayed = [parts.first, parts.second, parts.prompt, *parts.shown, *parts.buttons]
        parts.examples.click(acts.show_example, None, replayed, **how)
        parts.open.upload(acts.open_trace, parts.open, replayed, **how)
        blocks.load(acts.follow_link, None, replayed, **QUIET)


def _said(answer: tuple[Any, ...]) -> str:
    """An answer that is always the same, given by the browser itself: a crowd that is turned away is told at once."""
    return f"() => {json.dumps(answer)}"


async def _no_cutter(_request: Request) -> FileResponse:
    return FileResponse(assets.ASSETS / "no_cutter.js", media_type="text/javascript")
