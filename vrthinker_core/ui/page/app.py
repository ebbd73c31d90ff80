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
from vrthinker_core.ui.api.mcp_calls import McpCallMiddleware, McpCalls
from vrthinker_core.ui.fetch.public_addresses import PUBLIC_ONLY, FetchPolicy
from vrthinker_core.ui.fetch.uploads import Uploads
from vrthinker_core.ui.page.handlers import Handlers, idle, session_id_of, turned_away
from vrthinker_core.ui.page.judge_banner import JudgeBanner
from vrthinker_core.ui.page.layout import PageComponents, build_layout, theme
from vrthinker_core.ui.page.upload_handlers import UploadHandlers
from vrthinker_core.ui.server.download_routes import DownloadRoutes
from vrthinker_core.ui.server.gradio_blocks import CheckedBlocks
from vrthinker_core.ui.server.origin_guard import OriginGuard
from vrthinker_core.ui.server.request_limits import RequestLimits
from vrthinker_core.ui.sessions.background_run import JobRunner
from vrthinker_core.ui.sessions.judge_loader import JudgeLoader
from vrthinker_core.ui.sessions.sessions import THUMBNAILS_URL, Sessions
from vrthinker_core.ui.sessions.shared_traces import SharedTraces
from vrthinker_core.ui.sessions.waiting_room import WaitingRoom
from vrthinker_core.ui.view import assets, words
from vrthinker_core.ui.view.example_cards import Examples

MAX_WAITING = 24
"""Visitors that may wait; who comes later is told that all seats are taken."""

LIGHT_THREADS = 40
"""Events that are handled beside the runs: a page opens and a video arrives also while everybody is judged."""

GRADIO_SESSIONS = 256
"""Visitors and calls of whom Gradio remembers the page; for others it makes it anew."""

QUIET_EVENT: dict[str, Any] = {"api_visibility": "private", "show_progress": "hidden"}


class Page:
    """One server's page.

    `opening` holds the judges, `judging` does a job with one (on a Space: on a borrowed GPU); what visitors bring goes to `folder`.
    `policy` says which web addresses a video may be fetched from.
    """

    def __init__(
        self,
        opening: JudgeLoader,
        folder: Path,
        judging: JobRunner | None = None,
        *,
        at_once: int = 1,
        waiting: int = MAX_WAITING,
        examples: Path = assets.EXAMPLES,
        policy: FetchPolicy = PUBLIC_ONLY,
    ) -> None:
        self._judges = opening
        self._sessions = Sessions(folder, judging or opening.run_job, at_once)
        self._shared = SharedTraces(folder / "shelf")
        self._examples = Examples(examples)
        self._uploads = Uploads(folder / "copies", Path(get_upload_folder()) / "fetched", policy)
        self._handlers = Handlers(
            opening, self._sessions, self._shared, self._examples, WaitingRoom(waiting + at_once), self._uploads
        )
        self._judge_banner = JudgeBanner(opening, self._sessions)
        self._upload_handlers = UploadHandlers(self._sessions, self._uploads)
        self._callers = McpCalls()
        self._at_once = at_once
        self._waiting = waiting

    def blocks(self) -> gr.Blocks:
        """The page itself, ready to be launched with `launch_options`."""
        gr.set_static_paths([self._sessions.thumbnail_root, self._examples.folder])
        blocks = CheckedBlocks(title=words.TITLE, analytics_enabled=False, delete_cache=(600, 3600))
        blocks.fetch = self._uploads.fetch
        with blocks:
            endpoints.register_endpoints(blocks, self._judges, self._sessions, self._at_once, mcp_calls=self._callers)
            self._connect_events(blocks, build_layout(self._examples.cards(self._sessions.thumbnail_files), self._judges.names))
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
                    Middleware(OriginGuard, names=names),
                    Middleware(RequestLimits),
                    Middleware(McpCallMiddleware, calls=self._callers),
                ],
            },
            "run_history": False,
            "enable_monitoring": False,
            "allowed_paths": [str(self._examples.folder.resolve())],
            "max_file_size": "100mb",
            "max_threads": self._at_once + LIGHT_THREADS,
            "state_session_capacity": GRADIO_SESSIONS,
            "footer_links": ["api"],
            "ssr_mode": False,
            "share": False,
            "mcp_server": endpoints.has_mcp(),
        }

    def close(self) -> None:
        """Stop every judge."""
        self._sessions.close()
        self._judges.close()

    def _routes(self) -> list[BaseRoute]:
        """The pictures of all runs, what can be taken home, and nothing for the video component's cutter, which is not used."""
        return [
            Mount(f"/{THUMBNAILS_URL}", StaticFiles(directory=self._sessions.thumbnail_root)),
            *DownloadRoutes(self._sessions, self._shared).routes(),
            *mcp.routes(),
            Route("/static/ffmpeg/ffmpeg-core.js", _no_trimmer),
            Route("/static/ffmpeg/ffmpeg-core.wasm", _no_trimmer),
        ]

    def _connect_events(self, blocks: CheckedBlocks, parts: PageComponents) -> None:
        acts = self._handlers
        enter = parts.go.click(acts.join_queue, None, [*parts.buttons, parts.status], queue=False, **QUIET_EVENT)
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
        run.success(None, None, parts.buttons, js=_constant_js(idle()), **QUIET_EVENT)
        enter.failure(None, None, [*parts.buttons, parts.status], js=_constant_js(turned_away()), **QUIET_EVENT)
        run.failure(acts.on_failure, None, [*parts.buttons, parts.status], queue=False, **QUIET_EVENT)
        parts.stop.click(acts.stop, None, [*parts.shown, *parts.buttons], queue=False, cancels=[run], **QUIET_EVENT)
        self._connect_uploads(parts)
        self._connect_replays(blocks, parts, {"queue": False, "cancels": [run], **QUIET_EVENT})
        sides = [parts.first, parts.second]
        parts.rail.click(acts.swap_videos, sides, [*sides, *parts.shown], queue=False, **QUIET_EVENT)
        parts.tabs.select(acts.select_tab, None, parts.gallery, queue=False, **QUIET_EVENT)
        introduced = [parts.head, parts.trace]
        blocks.load(self._judge_banner.on_load, None, introduced, **QUIET_EVENT)
        parts.judge.input(self._judge_banner.on_choose, parts.judge, introduced, trigger_mode="multiple", **QUIET_EVENT)

        def leave(request: gr.Request) -> None:
            acts.on_unload(request)
            self._judge_banner.on_unload(request)
            blocks.forget_session(session_id_of(request))

        blocks.unload(leave)

    def _connect_uploads(self, parts: PageComponents) -> None:
        arrivals = self._upload_handlers
        limits: dict[str, Any] = {"concurrency_limit": 2, **QUIET_EVENT}
        for side, player, address in zip(Side, (parts.first, parts.second), parts.addresses, strict=True):
            changed = [player, *parts.shown]
            player.upload(arrivals.on_upload(side), player, changed, concurrency_id="copies", **limits)
            player.clear(arrivals.on_clear, None, parts.shown, queue=False, **QUIET_EVENT)
            address.submit(lambda: words.FETCHING, None, parts.status, queue=False, **QUIET_EVENT).then(
                arrivals.on_address(side), address, changed, concurrency_id="fetched", **limits
            )

    def _connect_replays(self, blocks: gr.Blocks, parts: PageComponents, how: dict[str, Any]) -> None:
        acts = self._handlers
        replayed = [parts.first, parts.second, parts.prompt, *parts.shown, *parts.buttons]
        parts.examples.click(acts.show_example, None, replayed, **how)
        parts.open.upload(acts.open_trace, parts.open, replayed, **how)
        blocks.load(acts.open_linked_trace, None, replayed, **QUIET_EVENT)


def _constant_js(answer: tuple[Any, ...]) -> str:
    """An answer that is always the same, given by the browser itself: a crowd that is turned away is told at once."""
    return f"() => {json.dumps(answer)}"


async def _no_trimmer(_request: Request) -> FileResponse:
    return FileResponse(assets.ASSETS / "no_cutter.js", media_type="text/javascript")
