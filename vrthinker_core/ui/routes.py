"""The page's own routes: uploads, downloads, a visitor's runs, and previews of links."""

import asyncio
import html
import io
import json
import re
import time
from base64 import b64encode
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from string import Template
from typing import Any, TypeVar
from urllib.parse import quote

from gradio.route_utils import get_root_url
from PIL.Image import Image
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.formparsers import MultiPartException
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from vrthinker_core.__about__ import ASSETS, asset
from vrthinker_core.errors import BadInput, TraceError, VrThinkerError
from vrthinker_core.system import memory_of
from vrthinker_core.traces import storable, to_json
from vrthinker_core.types.events import Trace
from vrthinker_core.types.wording import DEMO_RUN
from vrthinker_core.ui import picture, words
from vrthinker_core.ui.frames import ExactFrames, turns_of
from vrthinker_core.ui.handlers import Services, compared_videos
from vrthinker_core.ui.history import RunRecord, SavedRun, check_seen, votes_first
from vrthinker_core.ui.judges import OWN
from vrthinker_core.ui.queue import receive_files
from vrthinker_core.ui.run import FoundVideos
from vrthinker_core.ui.runs_tab import fresh_json
from vrthinker_core.ui.security import is_page
from vrthinker_core.ui.sessions import ShownRun
from vrthinker_core.ui.view import RunView, inline_image
from vrthinker_core.ui.visitors import Turns, Visitor, visitor_of
from vrthinker_core.words import encodable, one_line, policy_hash

T = TypeVar("T")

# The page's scripts and style sheets, in their order
VIEW = ("trace.js", "verdict.js", "closer.js", "gallery.js")  # draws a run, in a saved report, too
INPUTS = ("players.js", "live.js", "inputs.js", "history.js", "branches.js", "judges.js", "runs.js")
PAGE = (*VIEW, *INPUTS, "blind.js", "page.js")
HEARTBEAT = "heartbeat.js"  # In the head, before Gradio's scripts; all others come after them

# The longest pause in an upload; also what it may take beyond its bytes at the lowest speed
PAUSE_SECONDS = 20.0
LOWEST_SPEED = 32_768.0  # bytes a second
MAX_PREVIEW_PROMPT = 140  # characters
MAX_KEPT = 192  # previews and pictures of links
MAX_REPORT_MB = 20
MAX_CLIPS_BYTES = 2_000_000  # of both videos in a report

TOO_SLOW = "The upload stopped on its way, or was too slow. Try again."
NO_UPLOAD = "This is no upload: send the file as multipart/form-data, in the field files."


def joined(*names: str) -> str:
    """Return the assets of these names, joined in this order."""
    return "\n".join(asset(name).read_text(encoding="utf-8") for name in names)


def render_report(trace: Trace, clips: Sequence[str] = ()) -> str:
    """Return a run as one HTML file that opens without a request, pictures inside.

    `clips`: data URIs of both videos. Raises BadInput for a run that no browser would show within
    seconds.
    """
    view = RunView(trace)
    style, script = joined("run.css"), joined(*VIEW, "report.js")
    # JSON that cannot close the script element around it
    messages = [run.messages() for run in view.runs]
    saved = "Saved " + f"{datetime.now(UTC):%d %B %Y}".lstrip("0")
    told = DEMO_RUN if view.outside_scope else view.headline if view.scripted else ""
    sent = {"trace": view.page(inline_image), "messages": messages, "saved": saved, "clips": clips}
    if (size := memory_of(sent) / 1e6) > MAX_REPORT_MB:
        told = f"This report would have {size:.0f} MB, and at most {MAX_REPORT_MB} MB are made."
        raise BadInput(f"{told} Save the trace as JSON instead.")
    values = json.dumps(sent)
    for sign in "<>&":
        values = values.replace(sign, f"\\u{ord(sign):04x}")
    return joined("report.html").format(
        name=f"{told} · {words.TITLE}" if told else words.TITLE,
        title=words.TITLE,
        frames=words.TAB_FRAMES,
        policy=f"default-src 'none'; img-src data:; media-src data:; base-uri 'none'; "
        f"style-src {policy_hash(style)}; script-src {policy_hash(script)}",
        style=style,
        script=script,
        values=values,
    )


def _encoded(drawn: Image, kind: str, **options: Any) -> bytes:
    drawn.save(buffer := io.BytesIO(), kind, **options)
    return buffer.getvalue()


# A run's files by their names, and their types
FILES = {
    "trace.json": "application/json",
    "report.html": "text/html; charset=utf-8",
    "picture.png": "image/png",
}


@dataclass(frozen=True, slots=True)
class LinkPreview:
    """Title, description and picture of a link; by default of the page."""

    title: str = words.TITLE
    description: str = words.CLAIM
    image: str = "previews/page.png"  # its path on this server
    size: tuple[int, int] = (1280, 800)  # of the picture

    def tags(self, root: str) -> str:
        """Return the tags of the page's head; `root` is the page's address."""
        told = {"title": self.title, "description": self.description}
        told |= {"image": f"{root}/{self.image}", "image:alt": self.title}
        opened = {"type": "website", **told}
        opened["image:width"], opened["image:height"] = map(str, self.size)
        carded = {"card": "summary_large_image", **told}
        return "".join(
            f'<meta {kind}:{name}" content="{html.escape(value)}">\n'
            for kind, values in (('property="og', opened), ('name="twitter', carded))
            for name, value in values.items()
        )


class Routes:
    """Serves runs by their random names, which only their visitors know, and what else is ours."""

    def __init__(self, services: Services, exact: ExactFrames) -> None:
        self._services, self._exact = services, exact
        self._making = Turns(1, "make")  # of files and previews: a large run takes much memory
        self._kept: dict[Hashable, Any] = {}  # the latest previews and pictures of links

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
            Route("/reports/{name}.html", self.report),
        ]

    async def download(self, file: str, request: Request) -> Response:
        """Return a run that is over as one of `FILES`, which is made once."""
        (shown, trace), visitor = self._find(request), visitor_of(request)
        videos, is_picture = shown.run.videos, file == "picture.png"
        clips = await self._clips(videos, visitor) if file == "report.html" else []
        dark = is_picture and request.query_params.get("theme") == "dark"

        def render(trace: Trace) -> bytes:
            if is_picture:
                return _encoded(picture.draw(trace, videos, dark), "PNG")
            return to_json(trace) if file == "trace.json" else render_report(trace, clips).encode()

        name = f"{'dark ' * dark}{file}"
        try:
            path = await self._making.run(visitor, shown.file, name, trace, render)
        except OSError:
            return PlainTextResponse(words.NO_ROOM, 507)
        return FileResponse(path, media_type=FILES[file], filename=f"vr-thinker-{file}")

    async def report(self, request: Request) -> Response:
        """Return the report of a link, which a page of anybody may frame: `GuardMiddleware`."""
        check_seen(votes_first(request.cookies))
        name, visitor = str(request.path_params["name"]), visitor_of(request)
        # The trace is read twice: nobody who waits for a turn holds a large one
        videos = await self._making.run(visitor, lambda: self._stored(name)[1])
        clips = await self._clips(videos, visitor)

        def render() -> str:
            return render_report(self._stored(name)[0].trace, clips)

        return Response(await self._making.run(visitor, render), media_type="text/html")

    async def _clips(self, videos: FoundVideos, visitor: Visitor) -> list[str]:
        """Return data URIs of both videos as browsers play them; [] if they are too large."""
        uris, paths, playable = list[str](), [*filter(None, videos)], self._services.uploads
        with suppress(OSError, VrThinkerError):
            if len(paths) == 2 and sum(path.stat().st_size for path in paths) <= MAX_CLIPS_BYTES:
                paths = [await playable.make_playable_beside(path, visitor) for path in paths]
                for path in paths:
                    kind = "video/webm" if path.suffix.lower() == ".webm" else "video/mp4"
                    uris.append(f"data:{kind};base64,{b64encode(path.read_bytes()).decode()}")
        return uris if sum(map(len, uris)) <= MAX_CLIPS_BYTES * 4 // 3 + 100 else []

    def _stored(self, name: str) -> tuple[SavedRun, FoundVideos]:
        """Return the run behind a link, and its videos. Raises TraceError without one."""
        saved = self._services.stored_run(name)
        return saved, compared_videos(saved, self._services.examples.videos)

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
        shown, turn = self._shown(request), request.path_params["turn"]
        swapped = request.query_params.get("order") == "swapped"
        if turn not in {str(each.number) for each in turns_of(shown, swapped)}:
            raise TraceError(words.NO_RUN)
        if (found := self._exact.request(shown, int(turn), swapped)) is None:
            return PlainTextResponse(words.MANY_LOOK_CLOSER, 503)
        return JSONResponse(await asyncio.shield(asyncio.wrap_future(found)))

    def messages(self, request: Request) -> Response:
        """Return what was sent and came back in a turn; `order` as in `frames`."""
        shown, turn = self._shown(request), request.path_params["turn"]
        check_seen(shown.hidden)
        swapped = request.query_params.get("order") == "swapped"
        turns = RunView.of(shown.run).runs[-1 if swapped else 0].messages()
        return JSONResponse(turns[turn - 1 : turn])

    def _shown(self, request: Request) -> ShownRun:
        if (shown := self._services.sessions.find_run(request.path_params["name"])) is None:
            raise TraceError(words.NO_RUN)
        return shown

    def _find(self, request: Request) -> tuple[ShownRun, Trace]:
        shown = self._shown(request)
        if not shown.run.over or (trace := shown.run.trace) is None:
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
        """Return the picture of the run of one link, but not to who votes first."""
        check_seen(votes_first(request.cookies))
        name, visitor = str(request.path_params["name"]), visitor_of(request)
        if (jpeg := await self._of_link(self._draw, name, visitor)) is None:
            return PlainTextResponse(words.NO_SUCH_LINK, 404)
        return Response(jpeg, media_type="image/jpeg")

    async def preview(self, name: str, visitor: Visitor) -> LinkPreview:
        """Return what a chat shows of `?trace=NAME`, or else of the page."""
        return await self._of_link(self._make_preview, name, visitor) or LinkPreview()

    async def _of_link(self, make: Callable[[str], T], name: str, visitor: Visitor) -> T | None:
        """Return what is made of a link, from the latest ones if it is there; None without."""
        services, kept = self._services, self._kept

        def find() -> Hashable:
            row = services.runs.find(name) if services.runs else None  # it may be judged again
            known = row or name in services.examples.by_name or services.history.is_link(name)
            return (make, name, row) if known else None

        with suppress(TraceError):
            if name and (key := await asyncio.to_thread(find)):
                if key not in kept:
                    kept[key] = await self._making.run(visitor, lambda: kept.get(key) or make(name))
                found: T = kept.pop(key)
                kept[key] = found
                for oldest in [*kept][:-MAX_KEPT]:
                    del kept[oldest]
                return found
        return None

    def _draw(self, name: str) -> bytes:
        saved, videos = self._stored(name)
        return _encoded(picture.draw(saved.trace, videos), "JPEG", quality=88, optimize=True)

    def _make_preview(self, name: str) -> LinkPreview:
        view = RunView(self._services.stored_run(name).trace)
        assert view.started is not None
        told = view.answer() or {"says": "", "note": ""}
        parts = [f"“{one_line(view.started.prompt, MAX_PREVIEW_PROMPT)}”"]
        parts += [f"{each['name']}: {each['label']}." for each in view.labels if not view.scripted]
        said = ", ".join(filter(None, [told["says"], told["note"]])).rstrip(".")
        parts += [f"{said[:1].upper()}{said[1:]}."] * bool(said)
        outcome = (view.headline or words.NEVER_ENDED).rstrip(".")
        title = f"{DEMO_RUN if view.outside_scope else outcome} · {words.TITLE}"
        image = f"previews/{quote(name, safe='')}.jpg"
        return LinkPreview(title, " ".join(parts), image, picture.SIZE)


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
        told, write = {"title": words.TITLE, "lead": words.LEAD}, Template(joined("first.html"))
        self._first = [
            write.substitute(told, opening=each) + early for each in ("", "Opening a run…")
        ]

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
        sent: list[Message] = []

        async def collect(message: Message) -> None:
            sent.append(message)

        await self._app(scope, receive, collect)
        body = b"".join(message.get("body", b"") for message in sent)
        # Gradio's values stand behind the first script; nothing in them is replaced.
        head, script, rest = body.decode("utf-8", "replace").partition("<script")
        head = re.sub(r'<meta\s+(?:property|name)="(?:og|twitter):[^>]*>\s*', "", head)
        # Gradio's page would look above the path that a proxy gives it.
        head = head.replace('<base href="./"', f'<base href="{path}/"')
        rest = rest.replace('href="/manifest.json"', f'href="{path}/manifest.json"', 1)
        app = "<gradio-app"
        rest = (self._first[is_link] + app).join(rest.rsplit(app, 1))
        whole = (head + tags + script + rest).encode()
        headers = MutableHeaders(raw=list(sent[0]["headers"]))
        headers["content-length"] = str(len(whole))
        await send({**sent[0], "headers": headers.raw})
        await send({"type": "http.response.body", "body": whole})
