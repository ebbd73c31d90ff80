"""The page's own routes: uploads, downloads, a visitor's runs, and previews of links."""

import asyncio
import html
import json
import re
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from string import Template
from urllib.parse import quote

from gradio.route_utils import get_root_url
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.formparsers import MultiPartException
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from vrthinker_core.__about__ import ASSETS, asset
from vrthinker_core.errors import BadInput, TraceError
from vrthinker_core.system import memory_of
from vrthinker_core.traces import storable, to_json
from vrthinker_core.types.events import Trace
from vrthinker_core.types.wording import DEMO_RUN, DIMENSION_NAMES, NOT_SWAP_TESTED, SCRIPTED_HELP
from vrthinker_core.ui import words
from vrthinker_core.ui.frames import ExactFrames, turns_of
from vrthinker_core.ui.handlers import Services
from vrthinker_core.ui.history import RunRecord, check_seen, votes_first
from vrthinker_core.ui.judges import OWN
from vrthinker_core.ui.queue import receive_files
from vrthinker_core.ui.runs_tab import ListedRun, fresh_json
from vrthinker_core.ui.security import is_page
from vrthinker_core.ui.sessions import ShownRun
from vrthinker_core.ui.view import RunView, inline_image
from vrthinker_core.ui.visitors import Turns, Visitor, visitor_of
from vrthinker_core.words import encodable, one_line, policy_hash

# The page's scripts and style sheets, in their order
VIEW = ("trace.js", "verdict.js", "closer.js", "gallery.js")  # draws a run, in a saved report, too
INPUTS = ("players.js", "live.js", "inputs.js", "history.js", "branches.js", "judges.js", "runs.js")
PAGE = (*VIEW, *INPUTS, "page.js")
FIRST_PAINT = "first.html"
HEARTBEAT = "heartbeat.js"  # In the head, before Gradio's scripts; all others come after them

# The longest pause in an upload; also what it may take beyond its bytes at the lowest speed
PAUSE_SECONDS = 20.0
LOWEST_SPEED = 32_768.0  # bytes a second
MAX_PREVIEW_PROMPT = 140  # characters
MAX_PREVIEWS = 96  # kept
MAX_REPORT_MB = 20

TOO_SLOW = "The upload stopped on its way, or was too slow. Try again."
NO_UPLOAD = "This is no upload: send the file as multipart/form-data, in the field files."


def joined(*names: str) -> str:
    """Return the assets of these names, joined in this order."""
    return "\n".join(asset(name).read_text(encoding="utf-8") for name in names)


def render_report(trace: Trace) -> str:
    """Return a run as one HTML file that opens without a request, pictures inside.

    Raises BadInput for a run that no browser would show within seconds.
    """
    view = RunView(trace)
    style, script = joined("run.css"), joined(*VIEW, "report.js")
    # JSON that cannot close the script element around it
    messages = [run.messages() for run in view.runs]
    saved = words.SAVED.format(f"{datetime.now(UTC):%d %B %Y}".lstrip("0"))
    told = DEMO_RUN if view.outside_scope else view.headline if view.scripted else ""
    sent = {"trace": view.page(inline_image), "messages": messages, "saved": saved}
    if (size := memory_of(sent) / 1e6) > MAX_REPORT_MB:
        raise BadInput(words.LARGE_REPORT.format(size, MAX_REPORT_MB))
    values = json.dumps(sent)
    for sign in "<>&":
        values = values.replace(sign, f"\\u{ord(sign):04x}")
    return joined("report.html").format(
        name=f"{told} · {words.TITLE}" if told else words.TITLE,
        title=words.TITLE,
        frames=words.TAB_FRAMES,
        policy=f"default-src 'none'; img-src data:; style-src {policy_hash(style)}; "
        f"script-src {policy_hash(script)}; base-uri 'none'",
        style=style,
        script=script,
        values=values,
    )


# A run's files by their names: how they are made, and their types
FILES: dict[str, tuple[Callable[[Trace], bytes], str]] = {
    "trace.json": (to_json, "application/json"),
    "report.html": (lambda trace: render_report(trace).encode(), "text/html; charset=utf-8"),
}


class Routes:
    """Serves runs by their random names, which only their visitors know, and what else is ours."""

    def __init__(self, services: Services, exact: ExactFrames) -> None:
        self._services, self._exact = services, exact
        self._making = Turns(1, "make")  # of files and previews: a large run takes much memory
        self._previews: dict[tuple[str, ListedRun | None], LinkPreview] = {}  # the latest

    def routes(self) -> list[Route]:
        """Return the routes; the upload route must come before Gradio's own."""
        screenshot = FileResponse(ASSETS / "screenshot.png", media_type="image/png")
        return [
            Route("/gradio_api/upload", self.upload, methods=["POST"]),
            *(Route(f"/runs/{{name}}/{file}", partial(self.download, file)) for file in FILES),
            Route("/runs/{name}/link", self.link, methods=["POST"]),
            Route("/runs/{name}/turns/{turn}/frames", self.frames),
            Route("/runs/{name}/turns/{turn:int}/messages", self.messages),
            Route("/history", self.list_runs, methods=["GET"]),
            Route("/history", self.delete, methods=["DELETE"]),
            Route("/history/{name}", self.delete, methods=["DELETE"]),
            Route("/previews/page.png", lambda _: screenshot),
            Route("/previews/{name}.jpg", self.picture),
            Route("/previews/{name}/{side}.jpg", self.picture),
        ]

    async def download(self, file: str, request: Request) -> Response:
        """Return a run that is over as one of `FILES`, which is made once."""
        render, kind = FILES[file]
        shown, trace = self._find(request)
        try:
            path = await self._making.run(visitor_of(request), shown.file, file, trace, render)
        except OSError:
            return PlainTextResponse(words.NO_ROOM, 507)
        return FileResponse(path, media_type=kind, filename=f"vr-thinker-{file}")

    def link(self, request: Request) -> Response:
        """Keep the trace for `?trace=`, and return the name it is kept under."""
        (shown, trace), owner = self._find(request), visitor_of(request).owner
        run, share = shown.kept or shown.name, self._services.history.share
        try:
            return JSONResponse({"trace": shown.link or share(run, trace, owner, shown.files)})
        except TimeoutError:
            return PlainTextResponse(words.LIST_BUSY, 503)
        except OSError:
            return PlainTextResponse(words.NO_ROOM, 507)

    async def frames(self, request: Request) -> Response:
        """Return the addresses of a turn's frames; `order=swapped`: of the second run."""
        name, turn = (str(request.path_params[each]) for each in ("name", "turn"))
        swapped = request.query_params.get("order") == "swapped"
        shown = self._services.sessions.find_run(name)
        if not shown or turn not in {str(each.number) for each in turns_of(shown, swapped)}:
            return PlainTextResponse(words.NO_RUN, 404)
        if (found := self._exact.request(shown, int(turn), swapped)) is None:
            return PlainTextResponse(words.MANY_LOOK_CLOSER, 503)
        return JSONResponse(await asyncio.shield(asyncio.wrap_future(found)))

    def messages(self, request: Request) -> Response:
        """Return what was sent and came back in a turn; `order` as in `frames`."""
        shown = self._services.sessions.find_run(str(request.path_params["name"]))
        if shown is None:
            raise TraceError(words.NO_RUN)
        check_seen(shown.hidden)
        runs, turn = RunView.of(shown.run).runs, request.path_params["turn"]
        swapped = request.query_params.get("order") == "swapped"
        turns = runs[-1 if swapped else 0].messages()
        return JSONResponse(turns[turn - 1 : turn])

    def _find(self, request: Request) -> tuple[ShownRun, Trace]:
        shown = self._services.sessions.find_run(str(request.path_params["name"]))
        trace = shown.run.trace if shown and shown.run.over else None
        if shown is None or trace is None:
            raise TraceError(words.NO_RUN)
        check_seen(shown.hidden)
        return shown, storable(trace)

    def list_runs(self, request: Request) -> Response:
        """Return the visitor's runs, the latest first, and for how long they are kept."""
        history, owner = self._services.history, visitor_of(request).owner
        shown = self._services.sessions.runs_of(owner)
        # Before the rows are read: a run keeps its end after it is over
        unkept = [run for run in shown if not run.run.join(0)]
        hidden = {run.kept: run.hidden for run in shown}
        rows = history.rows(owner, votes_first(request.cookies), hidden)
        for each in unkept:
            prompt, view = encodable(each.run.prompt), RunView.of(each.run)
            judge = view.started.judge if view.started else each.run.judge.partition(OWN)[0]
            record = RunRecord(owner, prompt, judge, each.began, each.began, branch=view.name)
            rows[each.kept] = record.row(each.kept, words.GOES_ON)
        runs = sorted(rows.values(), key=lambda row: -row["begun"])
        return fresh_json({"runs": runs, "help": history.help})

    def delete(self, request: Request) -> Response:
        """Delete the visitor's run of that name, or all of theirs, and nobody else's."""
        owner, name = visitor_of(request).owner, request.path_params.get("name")
        for shown in self._services.sessions.runs_of(owner):
            if name in (None, shown.kept) and not shown.run.over:
                shown.kept = ""
                shown.run.request_stop()
        self._services.history.delete(owner, name and [name])
        return self.list_runs(request)

    async def upload(self, request: Request) -> Response:
        """Return the paths of the files that have arrived, as JSON; otherwise one sentence."""
        uploads, visitor = self._services.uploads, visitor_of(request)
        came, began = 0, time.monotonic()

        async def receive() -> Message:
            """Receive more. Raises BadInput without room, TimeoutError if it is too slow."""
            nonlocal came
            left = began + PAUSE_SECONDS + came / LOWEST_SPEED - time.monotonic()
            message = await asyncio.wait_for(request.receive(), min(left, PAUSE_SECONDS))
            came += len(message.get("body", b""))
            uploads.shares.take(folder, visitor, came)
            return message

        try:
            with uploads.arrivals() as folder:
                files = await receive_files(Request(request.scope, receive), folder)
                uploads.shares.release(folder)
                return JSONResponse([str(uploads.keep(file, visitor)) for file in files])
        except MultiPartException as error:
            too_large = "maximum allowed size" in error.message
            return PlainTextResponse(error.message, 413 if too_large else 400)
        except TimeoutError:
            return PlainTextResponse(TOO_SLOW, 408)
        except BadInput as error:
            return PlainTextResponse(str(error), 507)
        except OSError:
            return PlainTextResponse(words.NO_ROOM_NOW, 507)
        except (HTTPException, TypeError, ValueError):
            return PlainTextResponse(NO_UPLOAD, 400)

    async def picture(self, request: Request) -> Response:
        """Return the frame that stands for the run of one link, of one side if named."""
        name = str(request.path_params["name"])
        pair = (await self.preview(name, visitor_of(request))).pair
        side = request.path_params.get("side") or min(pair, default="")
        if not (jpeg := pair.get(side, b"")):
            return PlainTextResponse(words.NO_SUCH_LINK, 404)
        return Response(jpeg, media_type="image/jpeg")

    async def preview(self, name: str, visitor: Visitor) -> "LinkPreview":
        """Return what a chat shows of `?trace=NAME`, or else of the page; the latest are kept."""
        services, kept = self._services, self._previews

        def find() -> tuple[str, ListedRun | None] | None:
            """Return what the preview is kept under, None for no link: a row may be judged again."""
            row = services.runs.find(name) if services.runs else None
            known = row or name in services.examples.by_name or services.history.is_link(name)
            return (name, row) if known else None

        with suppress(TraceError):
            if name and (key := await asyncio.to_thread(find)):
                if key not in kept:
                    kept[key] = await self._making.run(
                        visitor, lambda: kept.get(key) or self._make_preview(name)
                    )
                found = kept[key] = kept.pop(key)
                for oldest in [*kept][:-MAX_PREVIEWS]:
                    del kept[oldest]
                return found
        return LinkPreview(words.TITLE, words.CLAIM, "previews/page.png")

    def _make_preview(self, name: str) -> "LinkPreview":
        view = RunView(self._services.stored_run(name).trace)
        assert view.started is not None
        parts = [f"“{one_line(view.started.prompt, MAX_PREVIEW_PROMPT)}”"]
        for each in words.DIMENSION_HELP if view.verdict and not view.scripted else ():
            parts.append(f"{DIMENSION_NAMES[each]}: {view.label(each)[0]}.")
        if view.scripted:
            parts.append(SCRIPTED_HELP)
        elif view.verdict:
            checked = words.ORDER_LINES[view.order.overall] if view.order else NOT_SWAP_TESTED
            said = words.judge_line(view.started.judge, view.started.notes)
            parts.append(f"{', '.join(filter(None, [said[:1].upper() + said[1:], checked]))}.")
        outcome = (view.headline or words.NEVER_ENDED).rstrip(".")
        title = f"{DEMO_RUN if view.outside_scope else outcome} · {words.TITLE}"
        pair = {str(int(side)): half.jpeg for side, half in view.deciding_pair().items()}
        picture = f"previews/{quote(name, safe='')}.jpg"
        return LinkPreview(title, " ".join(parts), picture, pair)


@dataclass(frozen=True, slots=True)
class LinkPreview:
    """Title, description and picture of a link."""

    title: str
    description: str
    picture: str  # its path on this server
    pair: Mapping[str, bytes] = field(default_factory=dict)  # a JPEG of each side, "1" or "2"

    def tags(self, root: str) -> str:
        """Return the tags of the page's head; `root` is the page's address."""
        image = f"{root}/{self.picture}"
        told = {"title": self.title, "description": self.description, "image": image}
        return "".join(
            f'<meta property="og:{name}" content="{html.escape(value)}">\n'
            f'<meta name="twitter:{name}" content="{html.escape(value)}">\n'
            for name, value in told.items()
        ) + (
            '<meta property="og:type" content="website">\n'
            '<meta name="twitter:card" content="summary_large_image">\n'
        )


class LinkPreviewMiddleware:
    """ASGI middleware: gives the page's head the tags of its link, and a script before Gradio's.

    The page is compressed: nothing in it is secret, as the visitor's name is in a cookie alone.
    Gradio compresses its own files.
    """

    def __init__(self, app: ASGIApp, routes: Routes, root: str = "", early: str = "") -> None:
        """Serve below `root`; `early`: Gradio's styles and links, before its element."""
        self._app, self._routes, self._root = app, routes, root
        self._page = GZipMiddleware(self._answer, compresslevel=5)
        elsewhere = html.escape(words.ELSEWHERE)
        self._script = f'<script data-elsewhere="{elsewhere}">{joined(HEARTBEAT)}</script>\n'
        first, told = Template(joined(FIRST_PAINT)), {"title": words.TITLE, "lead": words.LEAD}
        self._first = [first.substitute(told, opening=each) + early for each in ("", words.OPENING)]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on; replace the tags if the page answers."""
        await (self._page if is_page(scope) else self._app)(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        request, path = Request(scope), html.escape(scope.get("root_path", ""))
        # A link's tags tell its verdict, which who votes first is not to see.
        name = "" if votes_first(request.cookies) else request.query_params.get("trace", "")
        preview = await self._routes.preview(name, visitor_of(request))
        tags = preview.tags(get_root_url(request, "/", self._root)) + self._script
        is_link = any(request.query_params.get(each) for each in ("trace", "run"))
        started: Message = {}
        body = b""

        async def send_with_tags(message: Message) -> None:
            nonlocal started, body
            if message["type"] == "http.response.start":
                started = message
                return
            body += message.get("body", b"")
            if not message.get("more_body"):
                # Gradio's values stand behind the first script; nothing in them is replaced.
                head, script, rest = body.decode("utf-8", "replace").partition("<script")
                head = re.sub(r'<meta\s+(?:property|name)="(?:og|twitter):[^>]*>\s*', "", head)
                # Gradio's page would look above the path that a proxy gives it.
                head = head.replace('<base href="./"', f'<base href="{path}/"')
                rest = rest.replace('href="/manifest.json"', f'href="{path}/manifest.json"', 1)
                app = "<gradio-app"
                rest = (self._first[is_link] + app).join(rest.rsplit(app, 1))
                whole = (head + tags + script + rest).encode()
                headers = MutableHeaders(raw=list(started["headers"]))
                headers["content-length"] = str(len(whole))
                await send({**started, "headers": headers.raw})
                await send({"type": "http.response.body", "body": whole})

        await self._app(scope, receive, send_with_tags)
