"""One server's page: its parts, and the arguments with which Gradio serves it."""

import asyncio
import json
import logging
import re
from collections import Counter
from collections.abc import AsyncIterator, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import gradio as gr
from gradio.route_utils import BUILD_PATH_LIB
from gradio.utils import get_upload_folder
from starlette.middleware import Middleware
from starlette.responses import Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from vrthinker_core.__about__ import ASSETS
from vrthinker_core.backends.judge_name import JudgeGroup
from vrthinker_core.system import give_back_memory
from vrthinker_core.ui import api, handlers, routes, words
from vrthinker_core.ui.fetch import FetchPolicy
from vrthinker_core.ui.frames import ExactFrames
from vrthinker_core.ui.history import Examples, History
from vrthinker_core.ui.judges import JudgeLoader
from vrthinker_core.ui.layout import PageComponents, theme
from vrthinker_core.ui.queue import (
    MAX_UPLOAD_BYTES,
    CheckedBlocks,
    ForgottenUploads,
    JudgeQueue,
    QuickStates,
    close_silent,
)
from vrthinker_core.ui.run import JobRunner
from vrthinker_core.ui.runs_tab import REFUSALS, ListedRuns, runs_routes
from vrthinker_core.ui.security import GuardMiddleware, OpenPagesMiddleware, RequestLimitsMiddleware
from vrthinker_core.ui.sessions import THUMBNAILS_URL, Sessions
from vrthinker_core.ui.uploads import Uploads
from vrthinker_core.ui.visitors import Visitors

EXAMPLES = ASSETS / "examples"
SWEEP_SECONDS = 10.0  # between two looks for clients that collect nothing
HOUSEKEEPING_SECONDS = 30.0
THREADS = 64  # that draw and read runs
# Instead of FFmpeg (32 MB) for Gradio's video trimmer, which the page does not use
NO_TRIMMER = "export default async () => ({ setLogger() {}, setProgress() {} });"


def no_hls_player() -> Iterator[Route]:
    """Yield the route of a player that plays nothing, in place of Gradio's hls.js (509 kB).

    Only live streams use it. No route if this Gradio exports it in another form.
    """
    for file in Path(BUILD_PATH_LIB).glob("hls-*.js"):
        if exported := re.search(r"export\{([^{}]+)\};?\s*$", file.read_text("utf-8")):
            names = re.sub(r"[\w$]+ as", "no as", exported[1])
            yield _script(f"/assets/{file.name}", f"const no = () => false; export {{ {names} }};")


def early_files(kinds: Collection[str]) -> str:
    """Return Gradio's styles for these kinds of components, and links to load its scripts at once.

    Its scripts name them in three steps, each a way to the server and back. For a Gradio that is
    built otherwise some are left out: it finds them itself.
    """
    folder, shown = Path(BUILD_PATH_LIB), rf"\b(?:{'|'.join(kinds)}):{{[^{{}}]*?component:[^`]*"
    steps = {"index-": r"import\(`\./Index-", "Index-": r"import\(`\./Blocks-", "core-": shown}
    files = [file.name for file in folder.glob("index-*.js")]
    with suppress(StopIteration, IndexError, ValueError):
        for script, part in steps.items():
            name = next(name for name in files if name.startswith(script) and name.endswith(".js"))
            text = (folder / name).read_text("utf-8")
            named = json.loads(re.findall(r"m\.f=(\[[^]]*\])", text)[0])
            numbers = re.findall(part + r"[^[]*__vite__mapDeps\(\[([\d,]+)\]", text)
            files += [Path(named[int(each)]).name for each in ",".join(numbers).split(",")]
    scripts = [each for each in dict.fromkeys(files) if each.endswith(".js")]
    styles = [each for each in dict.fromkeys(files) if re.match(r"(?!index-).*\.css", each)]
    # Gradio takes a style sheet whose link is there for loaded, also a disabled one
    parts = [f"<style>{(folder / each).read_text('utf-8')}</style>" for each in styles]
    parts += [f'<link rel="stylesheet" disabled href="./assets/{each}">' for each in styles]
    parts += [f'<link rel="modulepreload" href="./assets/{each}">' for each in scripts]
    return "".join(parts)


def _script(path: str, text: str) -> Route:
    answer = Response(text, media_type="text/javascript")
    return Route(path, lambda _: answer)


class Page:
    """One server's page. `run_job` runs comparisons; all files of visitors go to `folder`."""

    def __init__(
        self,
        judges: JudgeLoader,
        run_job: JobRunner,
        folder: Path,
        history: History,
        visitors: Visitors,
        *,
        at_once: int,  # runs at the same time
        waiting: int,  # visitors that may wait for one
        examples: Path,
        policy: FetchPolicy,  # which web addresses a video may be fetched from
        runs: ListedRuns | None,  # an evaluation, or traces, for every visitor
        offered: Collection[JudgeGroup],  # the kinds of judges that visitors may choose
        after_leaving: float,  # seconds for which a run goes on that no page shows
    ) -> None:
        # Threads of handlers; `FairQueue` has the places for events
        self._max_threads = at_once + waiting + 200
        self._pages = Counter[str]()  # heartbeats of each open page
        queue = JudgeQueue(waiting, partial(judges.device, at_once=at_once), judges.is_loaded)
        leaving = after_leaving if history.keeps else 0.0
        sessions = Sessions(folder, run_job, queue, history, leaving, self._pages.__contains__)
        uploads = Uploads(folder / "copies", Path(get_upload_folder()) / "fetched", policy)
        self._services = handlers.Services(
            judges, queue, sessions, history, Examples(examples), uploads, runs, offered
        )
        self._visitors, self._exact_frames = visitors, ExactFrames(judges.decoder_pool)
        self._routes = routes.Routes(self._services, self._exact_frames)
        expect = partial(queue.expect, judges.names)
        self._blocks = CheckedBlocks(uploads.fetch_beside, words.TITLE, expect)
        self._mcp_tokens: set[str] = set()

    def launch(self, names: Sequence[str], in_frame: bool, root: str, **more: Any) -> str:
        """Serve the page with what makes it complete and safe, and `more`; return its address.

        `names`: further host names. `in_frame`: in another site's page, as in a Hugging Face Space.
        `root`: the path below which a proxy serves the page, or its whole address.
        """
        services, blocks = self._services, self._blocks
        gr.set_static_paths([services.sessions.thumbnail_root, services.examples.folder])
        with blocks:
            api.register_endpoints(blocks, services, self._mcp_tokens)
            cards = services.examples.cards(services.sessions.thumbnails)
            parts = PageComponents(cards, services.judges.names, services.runs is not None)
            handlers.connect(blocks, parts, services)
        blocks.open_queue()
        kinds = {block.get_block_name() for block in blocks.blocks.values()}
        middleware = [
            Middleware(GuardMiddleware, self._visitors, names, root, in_frame),
            Middleware(OpenPagesMiddleware, pages=self._pages),
            Middleware(RequestLimitsMiddleware),
            Middleware(api.McpCallMiddleware, tokens=self._mcp_tokens),
            Middleware(routes.LinkPreviewMiddleware, self._routes, root, early_files(kinds)),
        ]
        served = [
            Mount("/examples", StaticFiles(directory=services.examples.folder)),
            Mount(f"/{THUMBNAILS_URL}", StaticFiles(directory=services.sessions.thumbnail_root)),
            *self._routes.routes(),
            *(runs_routes(services.runs) if services.runs else ()),
            *api.mcp_routes(),
            _script("/static/ffmpeg/{part}", NO_TRIMMER),
            *no_hls_player(),
        ]
        _, address, _ = blocks.launch(
            theme=theme(),
            css=routes.joined("run.css", "page.css"),
            head=f"<script>{routes.joined(*routes.PAGE)}</script>",
            app_kwargs={
                "routes": served,
                "middleware": middleware,
                "lifespan": self._keep_house,
                "exception_handlers": REFUSALS,
            },
            root_path=root,
            run_history=False,
            enable_monitoring=False,
            allowed_paths=[str(services.examples.folder.resolve())],
            max_file_size=MAX_UPLOAD_BYTES,
            max_threads=self._max_threads,
            # Sessions whose component values Gradio keeps; others start from the page's own
            state_session_capacity=256,
            footer_links=["api"],
            ssr_mode=False,
            share=False,
            mcp_server=not api.why_no_mcp(),
            quiet=True,
            prevent_thread_lock=True,
            **more,
        )
        return str(address)

    def close(self) -> None:
        """Stop every run, and the decoder processes."""
        self._exact_frames.close()
        self._services.sessions.close()
        self._services.judges.close()

    @asynccontextmanager
    async def _keep_house(self, app: Any) -> AsyncIterator[None]:
        """Drop what nobody uses, as long as the page is served."""
        # Else six threads draw all runs, and one visitor's large ones hold them
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(THREADS, "page"))
        app.state_holder = QuickStates()  # type: ignore[no-untyped-call]
        app.state_holder.set_blocks(self._blocks)
        tasks = [asyncio.create_task(each) for each in (self._drop_uncollected(), self._tidy())]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()

    async def _drop_uncollected(self) -> None:
        silent = set[Any]()
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            silent = close_silent(self._blocks.server, silent)
            self._services.sessions.drop_unfollowed()
            for session_id in await self._blocks.drop_uncollected():
                self._services.sessions.end(session_id)

    async def _tidy(self) -> None:
        services, forgotten = self._services, ForgottenUploads()

        tasks = (
            services.sessions.expire,
            lambda: services.uploads.expire(services.sessions.files()),
            forgotten.sweep,
            services.history.sweep,
            self._exact_frames.close_idle,
            give_back_memory,
        )
        while True:
            await asyncio.sleep(HOUSEKEEPING_SECONDS)
            for task in tasks:
                try:
                    await asyncio.to_thread(task)
                except Exception as error:  # noqa: BLE001 - the other tasks go on
                    told = "Housekeeping: %s could not be done: %s"
                    logging.getLogger(__name__).warning(told, task, error)
