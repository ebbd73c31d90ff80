"""Link previews: what a chat shows of a link to this page.

A link `?trace=NAME` has the run's verdict and prompt as its text, and the pair that decided it as
its picture.
"""

import asyncio
import html
import io
import re
import threading
from collections import OrderedDict
from dataclasses import dataclass
from urllib.parse import parse_qs, quote

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import FileResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from vrthinker_core.errors import TraceError
from vrthinker_core.types import Side, Thumbnail
from vrthinker_core.types.events import Finished, StopReason, Trace
from vrthinker_core.types.order import order_of
from vrthinker_core.types.wording import DEMO_RUN, DIMENSION_NAMES, NOT_SWAP_TESTED
from vrthinker_core.ui import assets, words
from vrthinker_core.ui.hidden_view import votes_first
from vrthinker_core.ui.listed_run import ListedRun
from vrthinker_core.ui.listed_runs import ListedRuns
from vrthinker_core.ui.page_json import deciding_pair
from vrthinker_core.ui.run_state import fold_all
from vrthinker_core.ui.shared_traces import SharedTraces, find_saved
from vrthinker_core.ui.tiles import Examples

MAX_PROMPT = 140  # characters of the prompt in a description
MAX_KEPT = 32  # previews kept in memory, some 60 KB each
WIDTH, HEIGHT = 1200, 630  # pixels of a picture, as previews show it
BAR = 12  # pixels of the colour below each half
DEFAULT_PICTURE = "previews/page.png"


@dataclass(frozen=True, slots=True)
class LinkPreview:
    """Title, description and picture of a link."""

    title: str
    description: str
    picture: str  # its path on this server
    jpeg: bytes = b""


PAGE_PREVIEW = LinkPreview(words.TITLE, words.CLAIM, DEFAULT_PICTURE)


class LinkPreviews:
    """Previews of the traces that links name; the latest are kept."""

    def __init__(
        self, examples: Examples, shared: SharedTraces, runs: ListedRuns | None = None
    ) -> None:
        self._examples = examples
        self._shared = shared
        self._runs = runs
        # With the row that each was made of
        self._kept: OrderedDict[str, tuple[ListedRun | None, LinkPreview]] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._kept)

    def find(self, name: str) -> LinkPreview:
        """Return the preview of a trace, or else the page's own."""
        if not name or len(name) > 100:
            return PAGE_PREVIEW
        row = self._runs.find(name) if self._runs else None
        saved = self._examples.find(name) is not None or self._shared.has(name)
        with self._lock:
            if row is None and not saved:
                self._kept.pop(name, None)
                return PAGE_PREVIEW
            if name not in self._kept or self._kept[name][0] != row:  # a row may be judged again
                try:
                    known = self._examples, self._shared
                    found = (
                        self._runs.trace(row) if self._runs and row else find_saved(*known, name)
                    )
                    self._kept[name] = row, _preview(name, found)
                except TraceError:
                    return PAGE_PREVIEW
            self._kept.move_to_end(name)
            if len(self._kept) > MAX_KEPT:
                self._kept.popitem(last=False)
            return self._kept[name][1]

    def routes(self) -> list[Route]:
        """Return the routes of the pictures."""
        screenshot = assets.ASSETS / "screenshot.png"
        return [
            Route(
                f"/{DEFAULT_PICTURE}", lambda _: FileResponse(screenshot, media_type="image/png")
            ),
            Route("/previews/{name}.jpg", self.picture),
        ]

    def picture(self, request: Request) -> Response:
        """Return the picture of one link."""
        if jpeg := self.find(str(request.path_params["name"])).jpeg:
            return Response(jpeg, media_type="image/jpeg")
        return PlainTextResponse(words.NO_SUCH_LINK, 404)


class LinkPreviewMiddleware:
    """ASGI middleware: gives the page's head the tags of its link.

    `script` runs before Gradio's scripts.
    """

    def __init__(self, app: ASGIApp, previews: LinkPreviews, script: str = "") -> None:
        self._app = app
        self._previews = previews
        self._script = f"<script>{script}</script>\n" if script else ""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on; replace the tags if the page answers."""
        if scope["type"] != "http" or scope["path"] != "/" or scope["method"] != "GET":
            await self._app(scope, receive, send)
            return
        request, query = Request(scope), parse_qs(scope["query_string"].decode("latin-1"))
        name = query.get("trace", [""])[0]
        if votes_first(request.cookies):
            name = ""  # a link's tags tell its verdict
        preview = await asyncio.to_thread(self._previews.find, name)
        tags = _tags(preview, request) + self._script
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
                whole = (head + tags + script + rest).encode()
                headers = MutableHeaders(raw=list(started["headers"]))
                headers["content-length"] = str(len(whole))
                await send({**started, "headers": headers.raw})
                await send({"type": "http.response.body", "body": whole})

        await self._app(scope, receive, send_with_tags)


def _tags(preview: LinkPreview, request: Request) -> str:
    # This server's address as the visitor knows it: a proxy in front of it may speak https.
    https = request.headers.get("x-forwarded-proto", "").partition(",")[0].strip() == "https"
    base = str(request.base_url.replace(scheme="https") if https else request.base_url)
    told = {
        "title": preview.title,
        "description": preview.description,
        "image": base + preview.picture,
    }
    return "".join(
        f'<meta property="og:{name}" content="{html.escape(value)}">\n'
        f'<meta name="twitter:{name}" content="{html.escape(value)}">\n'
        for name, value in told.items()
    ) + (
        '<meta property="og:type" content="website">\n'
        '<meta name="twitter:card" content="summary_large_image">\n'
    )


def _preview(name: str, trace: Trace) -> LinkPreview:
    finished = trace.finished or Finished(StopReason.CANCELLED)
    verdict, check = finished.verdict, order_of(trace.runs)
    headline = DEMO_RUN if finished.outside_scope else words.headline(finished, check).rstrip(".")
    prompt = " ".join(trace.started.prompt.split())
    parts = [f"“{prompt[: MAX_PROMPT - 1]}…”" if len(prompt) > MAX_PROMPT else f"“{prompt}”"]
    labels = dict(verdict or ())
    for each in filter(labels.__contains__, words.DIMENSION_HELP):
        label = words.label_name(labels[each], check[each] if check else None)
        parts.append(f"{DIMENSION_NAMES[each]}: {label}.")
    if verdict and not check:
        parts.append(f"{NOT_SWAP_TESTED.capitalize()}.")
    picture = f"previews/{quote(name, safe='')}.jpg"
    jpeg = _pair_picture(deciding_pair(fold_all(trace.events())))
    return LinkPreview(f"{headline} · {words.TITLE}", " ".join(parts), picture, jpeg)


def _pair_picture(halves: dict[Side, Thumbnail]) -> bytes:
    """Draw the frames side by side; a half without a readable frame stays dark."""
    from PIL import Image, ImageDraw
    from PIL.JpegImagePlugin import JpegImageFile

    whole, width, height = Image.new("RGB", (WIDTH, HEIGHT), "#111"), WIDTH // 2, HEIGHT - BAR
    draw = ImageDraw.Draw(whole)
    for side, colour in ((Side.FIRST, "#1f5fc0"), (Side.SECOND, "#a4510a")):
        left = (side - 1) * width
        draw.rectangle((left, height, left + width, HEIGHT), colour)
        if side not in halves:
            continue
        try:
            frame = JpegImageFile(io.BytesIO(halves[side].jpeg)).convert("RGB")
        except (OSError, ValueError, SyntaxError):
            continue
        scale = min((width - 4) / frame.width, height / frame.height)
        size = max(1, round(frame.width * scale)), max(1, round(frame.height * scale))
        place = left + (width - size[0]) // 2, (height - size[1]) // 2
        whole.paste(frame.resize(size, Image.Resampling.BICUBIC), place)
    buffer = io.BytesIO()
    whole.save(buffer, "JPEG", quality=80)
    return buffer.getvalue()
