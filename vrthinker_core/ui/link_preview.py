"""Link previews: what a chat or a search engine shows of a link to this page, by the Open Graph and Twitter tags in its head.

A link `?trace=NAME` has the run's verdict and prompt as its text, and the pair that decided it as its picture.
"""

import asyncio
import html
import io
import re
import threading
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, quote

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

if TYPE_CHECKING:
    from PIL import Image

MAX_NAME = 100  # characters of a trace's name
MAX_PROMPT = 140  # characters of the prompt in a description
MAX_KEPT = 32  # previews kept in memory, some 60 KB each
WIDTH, HEIGHT, BAR = (
    1200,
    630,
    12,
)  # pixels of a picture, as previews show it, and of the colour below each half
SIDE_COLOURS = {Side.FIRST: "#1f5fc0", Side.SECOND: "#a4510a"}
DEFAULT_PICTURE = "previews/page.png"

_TAG = re.compile(r'<meta\s+(?:property|name)="(?:og|twitter):[^>]*>\s*')
_FIRST_SCRIPT = "<script"  # behind it stand Gradio's values, in which nothing is replaced


@dataclass(frozen=True, slots=True)
class LinkPreview:
    """What is shown of a link."""

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
        self._kept: OrderedDict[str, tuple[ListedRun | None, LinkPreview]] = (
            OrderedDict()
        )  # with the row it was made of
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._kept)

    def find(self, name: str) -> LinkPreview:
        """The preview of the trace of that name, that of the page where there is no such trace."""
        if not name or len(name) > MAX_NAME:
            return PAGE_PREVIEW
        row = self._runs.find(name) if self._runs else None
        known = row is not None or self._examples.find(name) is not None or self._shared.has(name)
        with self._lock:
            if not known:
                self._kept.pop(name, None)
                return PAGE_PREVIEW
            if name not in self._kept or self._kept[name][0] != row:  # a row may be judged again
                try:
                    found = (
                        self._runs.trace(row)
                        if self._runs and row
                        else find_saved(self._examples, self._shared, name)
                    )
                    self._kept[name] = row, _preview(name, found)
                except TraceError:
                    return PAGE_PREVIEW
            self._kept.move_to_end(name)
            if len(self._kept) > MAX_KEPT:
                self._kept.popitem(last=False)
            return self._kept[name][1]

    def routes(self) -> list[Route]:
        """The pictures."""
        return [
            Route(f"/{DEFAULT_PICTURE}", _page_picture),
            Route("/previews/{name}.jpg", self.picture),
        ]

    def picture(self, request: Request) -> Response:
        """The picture of one link."""
        jpeg = self.find(str(request.path_params["name"])).jpeg
        return (
            Response(jpeg, media_type="image/jpeg")
            if jpeg
            else PlainTextResponse(words.NO_SUCH_LINK, 404)
        )


class LinkPreviewMiddleware:
    """ASGI middleware: the tags of the page's head are those of the link by which it was opened. `script` runs before Gradio's."""

    def __init__(self, app: ASGIApp, previews: LinkPreviews, script: str = "") -> None:
        self._app = app
        self._previews = previews
        self._script = f"<script>{script}</script>\n" if script else ""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on; where it asks for the page, the tags in the answer are replaced."""
        if scope["type"] != "http" or scope["path"] != "/" or scope["method"] != "GET":
            await self._app(scope, receive, send)
            return
        name = parse_qs(scope["query_string"].decode("latin-1")).get("trace", [""])[0]
        if votes_first(Request(scope).cookies):
            name = ""  # the tags of the page itself: those of a link tell its verdict
        preview = await asyncio.to_thread(self._previews.find, name)
        tags = "".join(_tags(preview, _base_url(Request(scope)))) + self._script
        started: Message = {}
        body = b""

        async def send_with_tags(message: Message) -> None:
            nonlocal started, body
            if message["type"] == "http.response.start":
                started = message
                return
            body += message.get("body", b"")
            if not message.get("more_body"):
                whole = _with_tags(body, tags)
                headers = [
                    pair for pair in started["headers"] if pair[0].lower() != b"content-length"
                ]
                await send(
                    {
                        **started,
                        "headers": [*headers, (b"content-length", str(len(whole)).encode())],
                    }
                )
                await send({"type": "http.response.body", "body": whole})

        await self._app(scope, receive, send_with_tags)


def _with_tags(body: bytes, tags: str) -> bytes:
    head, script, rest = body.decode("utf-8", "replace").partition(_FIRST_SCRIPT)
    return (_TAG.sub("", head) + tags + script + rest).encode()


def _tags(preview: LinkPreview, base: str) -> Iterable[str]:
    picture = base + preview.picture
    for name, value in {
        "title": preview.title,
        "description": preview.description,
        "image": picture,
    }.items():
        yield f'<meta property="og:{name}" content="{html.escape(value)}">\n'
        yield f'<meta name="twitter:{name}" content="{html.escape(value)}">\n'
    yield '<meta property="og:type" content="website">\n<meta name="twitter:card" content="summary_large_image">\n'


def _base_url(request: Request) -> str:
    """This server's address as the visitor knows it: a proxy in front of it may speak https."""
    https = request.headers.get("x-forwarded-proto", "").partition(",")[0].strip() == "https"
    return str(request.base_url.replace(scheme="https") if https else request.base_url)


def _preview(name: str, trace: Trace) -> LinkPreview:
    finished = trace.finished or Finished(StopReason.CANCELLED)
    verdict, check = finished.verdict, order_of(trace.runs)
    headline = DEMO_RUN if finished.outside_scope else words.headline(finished, check).rstrip(".")
    prompt = " ".join(trace.started.prompt.split())
    parts = [f"“{prompt[: MAX_PROMPT - 1]}…”" if len(prompt) > MAX_PROMPT else f"“{prompt}”"]
    labels = dict(verdict or ())
    said = {
        each: words.label_name(labels[each], check[each] if check else None)
        for each in words.DIMENSION_HELP
        if each in labels
    }
    parts += [f"{DIMENSION_NAMES[each]}: {label}." for each, label in said.items()]
    parts += [f"{NOT_SWAP_TESTED.capitalize()}."] if verdict and not check else []
    picture = f"previews/{quote(name, safe='')}.jpg"
    return LinkPreview(
        f"{headline} · {words.TITLE}",
        " ".join(parts),
        picture,
        _pair_picture(deciding_pair(fold_all(trace.events()))),
    )


def _pair_picture(halves: dict[Side, Thumbnail]) -> bytes:
    """The two frames side by side, each above the colour of its video; a half without a frame stays dark."""
    from PIL import Image, ImageDraw

    whole, width = Image.new("RGB", (WIDTH, HEIGHT), "#111"), WIDTH // 2
    draw = ImageDraw.Draw(whole)
    for side, colour in SIDE_COLOURS.items():
        left = (int(side) - 1) * width
        draw.rectangle((left, HEIGHT - BAR, left + width, HEIGHT), colour)
        if side in halves and (frame := _decoded(halves[side].jpeg)) is not None:
            scale = min((width - 4) / frame.width, (HEIGHT - BAR) / frame.height)
            frame = frame.resize(
                (max(1, round(frame.width * scale)), max(1, round(frame.height * scale))),
                Image.Resampling.BICUBIC,
            )
            whole.paste(
                frame, (left + (width - frame.width) // 2, (HEIGHT - BAR - frame.height) // 2)
            )
    buffer = io.BytesIO()
    whole.save(buffer, "JPEG", quality=80)
    return buffer.getvalue()


def _decoded(jpeg: bytes) -> "Image.Image | None":
    """The picture; None for what cannot be decoded."""
    from PIL.JpegImagePlugin import JpegImageFile

    try:
        return JpegImageFile(io.BytesIO(jpeg)).convert("RGB")
    except (OSError, ValueError, SyntaxError):
        return None


async def _page_picture(_request: Request) -> FileResponse:
    return FileResponse(assets.ASSETS / "screenshot.png", media_type="image/png")
