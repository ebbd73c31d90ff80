"""One server's page: what it is made of, and the arguments with which Gradio serves it."""

import ctypes
import logging
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gradio as gr
from gradio.utils import get_upload_folder
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from vrthinker_core.ui import api_endpoints as endpoints
from vrthinker_core.ui import assets, mcp, words
from vrthinker_core.ui.background_run import JobRunner
from vrthinker_core.ui.branch_sets import BranchSets
from vrthinker_core.ui.events import JUDGE_QUEUE, connect_events
from vrthinker_core.ui.exact_frames import ExactFrames
from vrthinker_core.ui.file_routes import DownloadRoutes, HistoryRoutes, UploadRoute
from vrthinker_core.ui.gradio_blocks import MAX_UPLOAD_BYTES, CheckedBlocks, ForgottenUploads
from vrthinker_core.ui.judge_loader import JudgeLoader
from vrthinker_core.ui.layout import PageComponents, theme
from vrthinker_core.ui.link_preview import LinkPreviewMiddleware, LinkPreviews
from vrthinker_core.ui.listed_runs import ListedRuns
from vrthinker_core.ui.mcp import McpCallMiddleware
from vrthinker_core.ui.open_pages import (
    HeartbeatSocketMiddleware,
    OpenPages,
    OpenPagesMiddleware,
)
from vrthinker_core.ui.page_sessions import THUMBNAILS_URL, Sessions
from vrthinker_core.ui.player_files import PlayerFiles
from vrthinker_core.ui.public_addresses import PUBLIC_ONLY, FetchPolicy
from vrthinker_core.ui.request_limits import OriginGuardMiddleware, RequestLimitsMiddleware
from vrthinker_core.ui.run_store import KEEP_SECONDS, RunStore, VisitorCookieMiddleware
from vrthinker_core.ui.runs_routes import RunsRoutes
from vrthinker_core.ui.services import Services
from vrthinker_core.ui.shared_traces import SharedTraces
from vrthinker_core.ui.tiles import Examples
from vrthinker_core.ui.uploads import Uploads
from vrthinker_core.ui.visitor_history import History, Keeping
from vrthinker_core.ui.waiting_room import WaitingRoom

SECONDS = 30.0


class Housekeeping:
    """Calls every task once each `seconds`, in a thread of its own, until `stop`."""

    def __init__(self, *tasks: Callable[[], object], seconds: float = SECONDS) -> None:
        self._tasks = tasks
        self._seconds = seconds
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._work, name="housekeeping", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Call no task any more, and wait for one that is going on."""
        self._stopped.set()
        self._thread.join(10)

    def _work(self) -> None:
        while not self._stopped.wait(self._seconds):
            for task in self._tasks:
                try:
                    task()
                except Exception as error:  # noqa: BLE001 - outermost in the thread: the other tasks go on
                    logging.getLogger(__name__).warning(
                        "Housekeeping: %s could not be done: %s", task, error
                    )


def give_back_memory() -> None:
    """Give the memory of what was dropped back to the system, where the C library has a call for it: glibc keeps it otherwise."""
    with suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)


MAX_WAITING = 24  # visitors that may wait; later ones are told BUSY
LIGHT_THREADS = 40  # for events beside the runs: a page opens and a video arrives also while every judge is busy
GRADIO_SESSIONS = (
    256  # sessions whose component values Gradio keeps; for others it starts from the page's own
)


@dataclass(frozen=True, slots=True)
class PageOptions:
    """What the command line may set."""

    at_once: int = 1  # runs at the same time
    waiting: int = MAX_WAITING  # visitors that may wait for one
    examples: Path = assets.EXAMPLES
    policy: FetchPolicy = PUBLIC_ONLY  # which web addresses a video may be fetched from
    keeping: Keeping = field(default_factory=Keeping)
    runs: ListedRuns | None = None  # an evaluation, or traces, that every visitor may look through


class Page:
    """One server's page. `run_job` runs comparisons with the judges of `judges`; all files of visitors go to `folder`."""

    def __init__(
        self, judges: JudgeLoader, run_job: JobRunner, folder: Path, options: PageOptions
    ) -> None:
        self._options = options
        keeping = options.keeping
        uploaded = Path(get_upload_folder())
        runs = keeping.folder if keeping.folder and keeping.seconds else folder / "runs"
        self._store = RunStore(
            runs,
            keeping.max_bytes,
            keeping.seconds or KEEP_SECONDS,
            lambda path: path.is_relative_to(uploaded),
        )
        sessions = Sessions(folder, run_job, options.at_once, judges.is_loaded)
        self._services = Services(
            judges,
            sessions,
            SharedTraces(self._store),
            Examples(options.examples),
            WaitingRoom(options.waiting + options.at_once),
            Uploads(folder / "copies", Path(get_upload_folder()) / "fetched", options.policy),
            PlayerFiles(),
            History(self._store, sessions, keeping),
            BranchSets(),
            options.runs,
        )
        self._exact_frames = ExactFrames(judges.decoder_pool)
        self._previews = LinkPreviews(
            self._services.examples, self._services.shared_traces, options.runs
        )
        self._open_pages = OpenPages()
        sessions.is_open = self._open_pages.__contains__
        self._mcp_tokens: set[str] = set()
        self._housekeeping: Housekeeping | None = None

    def blocks(self) -> gr.Blocks:
        """The page itself, ready to be launched with `launch_options`."""
        services, at_once = self._services, self._options.at_once
        gr.set_static_paths([services.sessions.thumbnail_root, services.examples.folder])
        blocks = CheckedBlocks(
            title=words.TITLE, analytics_enabled=False
        )  # `Uploads.expire` deletes the files that no page shows
        blocks.fetch = services.uploads.fetch_beside
        with blocks:
            endpoints.register_endpoints(
                blocks, services.judges, services.sessions, at_once, JUDGE_QUEUE, self._mcp_tokens
            )
            cards = services.examples.cards(services.sessions.thumbnail_files)
            parts = PageComponents(cards, services.judges.names, services.runs is not None)
            connect_events(blocks, parts, services, at_once, self._options.waiting + at_once)

        def expire_uploads() -> None:
            services.uploads.expire([*services.sessions.files(), *blocks.waiting_files()])

        forgotten = ForgottenUploads().sweep
        tasks = (
            services.sessions.expire,
            expire_uploads,
            forgotten,
            self._store.sweep,
            self._exact_frames.close_idle,
        )
        self._housekeeping = Housekeeping(*tasks, give_back_memory)
        return blocks

    def launch_options(self, names: Sequence[str] = (), in_frame: bool = False) -> dict[str, Any]:
        """Arguments for `launch`, without which the page is neither complete nor safe. `names`: the server's further host names.

        `in_frame`: the page stands in a frame of another site, as that of a Hugging Face Space does.
        """
        origin_guard = Middleware(OriginGuardMiddleware, names=names)
        guards = [
            origin_guard,
            Middleware(HeartbeatSocketMiddleware),
            Middleware(RequestLimitsMiddleware),
        ]
        mcp_calls = Middleware(McpCallMiddleware, tokens=self._mcp_tokens)
        cookies = Middleware(VisitorCookieMiddleware, in_frame=in_frame)
        previews = Middleware(
            LinkPreviewMiddleware, previews=self._previews, script=assets.joined(assets.HEARTBEAT)
        )
        open_pages = Middleware(OpenPagesMiddleware, pages=self._open_pages)
        return {
            "theme": theme(),
            "css": assets.joined(*assets.VIEW_STYLES, *assets.PAGE_STYLES),
            "head": f"<script>{assets.joined(*assets.PAGE)}</script>",
            "app_kwargs": {
                "routes": self._routes(),
                "middleware": [*guards, mcp_calls, cookies, previews, open_pages],
            },
            "run_history": False,
            "enable_monitoring": False,
            "allowed_paths": [str(self._services.examples.folder.resolve())],
            "max_file_size": MAX_UPLOAD_BYTES,
            "max_threads": self._options.at_once + LIGHT_THREADS,
            "state_session_capacity": GRADIO_SESSIONS,
            "footer_links": ["api"],
            "ssr_mode": False,
            "share": False,
            "mcp_server": not mcp.why_unavailable(),
        }

    def close(self) -> None:
        """Stop every run, and the decoder processes."""
        if self._housekeeping is not None:
            self._housekeeping.stop()
        self._exact_frames.close()
        self._services.sessions.close()
        self._services.history.close()
        self._services.judges.close()

    def _routes(self) -> list[BaseRoute]:
        """Thumbnails, uploads, downloads and MCP. Gradio's video trimmer, which the page does not use, gets an empty script."""
        services = self._services
        return [
            Mount("/intro", StaticFiles(directory=assets.ASSETS / "intro")),
            Mount(f"/{THUMBNAILS_URL}", StaticFiles(directory=services.sessions.thumbnail_root)),
            *UploadRoute(services.uploads).routes(),
            *DownloadRoutes(services.sessions, services.shared_traces, self._exact_frames).routes(),
            *HistoryRoutes(services.history).routes(),
            *(RunsRoutes(services.runs).routes() if services.runs else ()),
            *self._previews.routes(),
            *mcp.routes(),
            Route("/static/ffmpeg/ffmpeg-core.js", _no_trimmer),
            Route("/static/ffmpeg/ffmpeg-core.wasm", _no_trimmer),
        ]


async def _no_trimmer(_request: Request) -> FileResponse:
    return FileResponse(assets.ASSETS / "no_cutter.js", media_type="text/javascript")
