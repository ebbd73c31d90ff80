"""One server's page: its parts, and the arguments with which Gradio serves it."""

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
from starlette.responses import Response
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
from vrthinker_core.ui.open_pages import HeartbeatSocketMiddleware, OpenPages, OpenPagesMiddleware
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


class Housekeeping:
    """Calls every task each 30 seconds, in a thread, until `stop`."""

    def __init__(self, *tasks: Callable[[], object]) -> None:
        self._tasks = tasks
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._work, name="housekeeping", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Call no more tasks, and wait for one that is running."""
        self._stopped.set()
        self._thread.join(10)

    def _work(self) -> None:
        while not self._stopped.wait(30):
            for task in self._tasks:
                try:
                    task()
                except Exception as error:  # noqa: BLE001 - the other tasks go on
                    logging.getLogger(__name__).warning(
                        "Housekeeping: %s could not be done: %s", task, error
                    )


def give_back_memory() -> None:
    """Return freed memory to the system: glibc keeps it otherwise."""
    with suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)


MAX_WAITING = 24  # visitors that may wait; later ones are told BUSY


@dataclass(frozen=True, slots=True)
class PageOptions:
    """Options of the command line."""

    at_once: int = 1  # runs at the same time
    waiting: int = MAX_WAITING  # visitors that may wait for one
    examples: Path = assets.EXAMPLES
    policy: FetchPolicy = PUBLIC_ONLY  # which web addresses a video may be fetched from
    keeping: Keeping = field(default_factory=Keeping)
    runs: ListedRuns | None = None  # an evaluation, or traces, for every visitor


class Page:
    """One server's page. `run_job` runs comparisons; all files of visitors go to `folder`."""

    def __init__(
        self, judges: JudgeLoader, run_job: JobRunner, folder: Path, options: PageOptions
    ) -> None:
        self._options = options
        keeping, uploaded = options.keeping, Path(get_upload_folder())
        runs = keeping.folder if keeping.folder and keeping.seconds else folder / "runs"
        self._store = RunStore(
            runs,
            keeping.max_bytes,
            keeping.seconds or KEEP_SECONDS,
            lambda path: path.is_relative_to(uploaded),
        )
        sessions = Sessions(folder, run_job, options.at_once, judges.is_loaded)
        shared, examples = SharedTraces(self._store), Examples(options.examples)
        self._services = Services(
            judges,
            sessions,
            shared,
            examples,
            WaitingRoom(options.waiting + options.at_once),
            Uploads(folder / "copies", uploaded / "fetched", options.policy),
            PlayerFiles(),
            History(self._store, sessions, keeping),
            BranchSets(),
            options.runs,
        )
        self._exact_frames = ExactFrames(judges.decoder_pool)
        self._previews = LinkPreviews(examples, shared, options.runs)
        self._open_pages = OpenPages()
        sessions.is_open = self._open_pages.__contains__
        self._mcp_tokens: set[str] = set()
        self._housekeeping: Housekeeping | None = None

    def blocks(self) -> gr.Blocks:
        """Build the page, ready to be launched with `launch_options`."""
        services, at_once = self._services, self._options.at_once
        sessions = services.sessions
        gr.set_static_paths([sessions.thumbnail_root, services.examples.folder])
        # `Uploads.expire` deletes the files that no page shows.
        blocks = CheckedBlocks(title=words.TITLE, analytics_enabled=False)
        blocks.fetch = services.uploads.fetch_beside
        with blocks:
            endpoints.register_endpoints(
                blocks, services.judges, sessions, at_once, JUDGE_QUEUE, self._mcp_tokens
            )
            cards = services.examples.cards(sessions.thumbnail_files)
            parts = PageComponents(cards, services.judges.names, services.runs is not None)
            connect_events(blocks, parts, services, at_once, self._options.waiting + at_once)

        def expire_uploads() -> None:
            services.uploads.expire([*sessions.files(), *blocks.waiting_files()])

        self._housekeeping = Housekeeping(
            sessions.expire,
            expire_uploads,
            ForgottenUploads().sweep,
            self._store.sweep,
            self._exact_frames.close_idle,
            give_back_memory,
        )
        return blocks

    def launch_options(self, names: Sequence[str] = (), in_frame: bool = False) -> dict[str, Any]:
        """Return arguments for `launch`, without which the page is neither complete nor safe.

        `names`: the server's further host names. `in_frame`: the page stands in a frame of another
        site, as in a Hugging Face Space.
        """
        heartbeat = assets.joined(assets.HEARTBEAT)
        middleware = [
            Middleware(OriginGuardMiddleware, names=names),
            Middleware(HeartbeatSocketMiddleware),
            Middleware(RequestLimitsMiddleware),
            Middleware(McpCallMiddleware, tokens=self._mcp_tokens),
            Middleware(VisitorCookieMiddleware, in_frame=in_frame),
            Middleware(LinkPreviewMiddleware, previews=self._previews, script=heartbeat),
            Middleware(OpenPagesMiddleware, pages=self._open_pages),
        ]
        return {
            "theme": theme(),
            "css": assets.joined(*assets.VIEW_STYLES, *assets.PAGE_STYLES),
            "head": f"<script>{assets.joined(*assets.PAGE)}</script>",
            "app_kwargs": {"routes": self._routes(), "middleware": middleware},
            "run_history": False,
            "enable_monitoring": False,
            "allowed_paths": [str(self._services.examples.folder.resolve())],
            "max_file_size": MAX_UPLOAD_BYTES,
            # 40 for events beside the runs: a page opens also while every judge is busy
            "max_threads": self._options.at_once + 40,
            # Sessions whose component values Gradio keeps; others start from the page's own
            "state_session_capacity": 256,
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
        services = self._services
        empty = "export default async () => ({ setLogger() {}, setProgress() {} });"
        return [
            Mount("/intro", StaticFiles(directory=assets.ASSETS / "intro")),
            Mount(f"/{THUMBNAILS_URL}", StaticFiles(directory=services.sessions.thumbnail_root)),
            *UploadRoute(services.uploads).routes(),
            *DownloadRoutes(services.sessions, services.shared_traces, self._exact_frames).routes(),
            *HistoryRoutes(services.history).routes(),
            *(RunsRoutes(services.runs).routes() if services.runs else ()),
            *self._previews.routes(),
            *mcp.routes(),
            # Not the 32 MB of Gradio's video trimmer, which the page does not use
            Route("/static/ffmpeg/{part}", lambda _: Response(empty, media_type="text/javascript")),
        ]
