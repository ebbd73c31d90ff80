"""Link previews: the tags of the page's head, as who reads a link's preview finds them."""

from __future__ import annotations

import io
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import httpx
import pytest
from PIL import Image
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import HTMLResponse
from starlette.routing import Route

from tests.support.threads import run_in_thread
from tests.ui.conftest import Serve
from tests.ui.support.saved_examples import PROMPT, SCRIPT, write_example
from vrthinker_core.traces import load, to_json
from vrthinker_core.ui.link_preview import (
    MAX_KEPT,
    PAGE_PREVIEW,
    LinkPreviewMiddleware,
    LinkPreviews,
)
from vrthinker_core.ui.run_store import RunStore
from vrthinker_core.ui.shared_traces import SharedTraces
from vrthinker_core.ui.tiles import Examples

NASTY = '"><script>alert(1)</script>\n<meta property="og:title" content="x"> & ' + "long " * 100
SCRIPT_DATA = (
    '<script>window.values = {"text": "<meta property=\\"og:title\\" content=\\"kept\\">"}</script>'
)
GRADIO_HEAD = '<head><meta charset="utf-8" /><meta\n property="og:title"\n content="Gradio" /><meta name="twitter:title" content="Gradio" />'


class TagReader(HTMLParser):
    """The tags that a preview is made of, in the order in which they stand."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, str]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        name = values.get("property") or values.get("name") or ""
        if tag == "meta" and name.startswith(("og:", "twitter:")):
            self.found.append((name, values.get("content") or ""))


def tags_of(text: str) -> dict[str, str]:
    """Every tag stands once."""
    found = TagReader(text).found
    assert len(dict(found)) == len(found), found
    return dict(found)


@pytest.fixture(scope="module")
def examples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("examples")
    write_example(folder / "a-block")
    path = write_example(folder / "b-block") / "trace.json"
    trace = load(path)
    path.write_bytes(to_json(replace(trace, started=replace(trace.started, prompt=NASTY))))
    return folder


@pytest.fixture
def previews(examples: Path, tmp_path: Path) -> LinkPreviews:
    return LinkPreviews(Examples(examples), SharedTraces(RunStore(tmp_path / "shared")))


def page(previews: LinkPreviews, address: str, **headers: str) -> httpx.Response:
    """What a page with Gradio's head is answered as."""

    async def ask() -> httpx.Response:
        home = Route("/", lambda _: HTMLResponse(f"<html>{GRADIO_HEAD}{SCRIPT_DATA}</head></html>"))
        app = Starlette(
            routes=[home, *previews.routes()],
            middleware=[Middleware(LinkPreviewMiddleware, previews=previews)],
        )
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(app), base_url="http://judge.example"
        ) as client:
            return await client.get(address, headers=headers)

    return run_in_thread(ask())


def test_the_page_has_a_title_a_description_and_a_picture_of_its_own(
    previews: LinkPreviews,
) -> None:
    text = page(previews, "/").text
    tags = tags_of(text.replace(SCRIPT_DATA, ""))
    assert tags["og:title"] == tags["twitter:title"] == "VR-Thinker"
    assert tags["og:description"] == PAGE_PREVIEW.description
    assert page(previews, tags["og:image"]).headers["content-type"] == "image/png"
    assert SCRIPT_DATA in text


def test_a_link_shows_verdict_prompt_and_deciding_pair(previews: LinkPreviews) -> None:
    tags = tags_of(
        page(previews, "/?trace=a-block", **{"x-forwarded-proto": "https"}).text.replace(
            SCRIPT_DATA, ""
        )
    )
    assert tags["og:title"] == "Video 1 is better overall · VR-Thinker"
    assert tags["twitter:description"].startswith(
        f"“{PROMPT}” Overall: Video 1. Text alignment: Video 1."
    )
    assert "not swap-tested" in tags["og:description"].lower()
    assert tags["og:image"] == "https://judge.example/previews/a-block.jpg"
    picture = page(previews, tags["og:image"].replace("https", "http"))
    assert picture.headers["content-type"] == "image/jpeg"
    with Image.open(io.BytesIO(picture.content)) as image:
        assert image.size == (1200, 630)
        left, right = image.getpixel((300, 500)), image.getpixel((900, 500))
    assert left != right, "the two clips have different colours"


def test_what_strangers_wrote_stays_text_and_short(previews: LinkPreviews) -> None:
    text = page(previews, "/?trace=b-block").text
    assert "<script>alert" not in text
    tags = tags_of(text.replace(SCRIPT_DATA, ""))
    assert tags["og:title"] == "Video 1 is better overall · VR-Thinker"
    assert '"><script>alert(1)</script> <meta property=' in tags["og:description"]
    assert len(tags["og:description"]) < 300


@pytest.mark.parametrize("name", ["0" * 24, "../a-block", "a" * 5000, "%00", "<script>"])
def test_a_name_that_leads_nowhere_is_shown_as_the_page(previews: LinkPreviews, name: str) -> None:
    assert (
        tags_of(page(previews, f"/?trace={name}").text.replace(SCRIPT_DATA, ""))["og:title"]
        == "VR-Thinker"
    )


def test_only_so_many_previews_are_kept(examples: Path, tmp_path: Path) -> None:
    shared = SharedTraces(RunStore(tmp_path / "shared"))
    previews = LinkPreviews(Examples(examples), shared)
    trace = load(examples / "a-block" / "trace.json")
    names = [shared.add(f"{number:024x}", trace) for number in range(MAX_KEPT + 3)]
    assert all(previews.find(name).jpeg for name in names)
    assert len(previews) == MAX_KEPT


def test_the_preview_of_a_run_goes_with_its_link(examples: Path, tmp_path: Path) -> None:
    store = RunStore(tmp_path)
    previews = LinkPreviews(Examples(examples), shared := SharedTraces(store))
    name = shared.add("0" * 24, load(examples / "a-block" / "trace.json"))
    assert previews.find(name).jpeg
    store.remove([name])
    assert previews.find(name).title == "VR-Thinker"
    assert len(previews) == 0


def test_the_server_tells_of_its_links(serve: Serve, examples: Path) -> None:
    server = serve(SCRIPT, "--examples", str(examples), protocol="paired")
    for address, title in (
        ("", "VR-Thinker"),
        ("?trace=a-block", "Video 1 is better overall · VR-Thinker"),
    ):
        tags = tags_of(httpx.get(server.url + address).text)
        assert tags["og:title"] == title
        assert "radio" not in "".join(tags.values())
        assert httpx.get(tags["og:image"]).status_code == 200
