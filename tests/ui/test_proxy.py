"""The page behind a proxy that serves it under a path: strips or keeps it, and rewrites Host."""

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit

import httpx
import pytest
from gradio_client import handle_file

from tests.support.loopback_server import LOST, LoopbackServer, QuietHandler, serving
from tests.support.waiting import PATIENCE_S
from tests.ui.conftest import Clips, Serve, Server
from tests.ui.support import steps
from tests.ui.support.api import FORM, HEAD, TAIL, client
from tests.ui.support.browsing import Open, expect
from tests.ui.support.saved_examples import PROMPT, SCRIPT

PATH = "/judges/page"
Proxied = Callable[..., str]


def handler(port: int, keeps: bool, rewrites: bool) -> type[QuietHandler]:
    """A proxy below `PATH`, which it `keeps` or strips; `rewrites`: Host is the server's own."""

    class Proxy(QuietHandler):
        protocol_version = "HTTP/1.1"

        def handle_any(self) -> None:
            if not self.path.startswith(PATH):
                self.send_error(404)
                return
            path = self.path if keeps else self.path.removeprefix(PATH) or "/"
            told = {k: v for k, v in self.headers.items() if k.lower() not in LOST}
            told["X-Forwarded-Host"] = host = self.headers["Host"]
            told |= {"X-Forwarded-For": "9.9.9.9", "X-Forwarded-Proto": "http"}
            told["Host"] = f"127.0.0.1:{port}" if rewrites else host
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0)) or None
            self.pass_on("127.0.0.1", port, path, body, told)
            self.close_connection = True

        do_GET = do_POST = do_HEAD = do_DELETE = handle_any  # noqa: N815 - as the library calls them

    return Proxy


@pytest.fixture(scope="module")
def proxied() -> Iterator[Proxied]:
    """Puts a proxy before a server; gives the address of the page behind it."""
    with ExitStack() as running:

        def start(server: Server, keeps: bool = False, rewrites: bool = False) -> str:
            port = urlsplit(server.url).port or 0
            proxy = LoopbackServer(handler(port, keeps, rewrites))
            return f"{running.enter_context(serving(proxy)).address}{PATH}/"

        yield start


@pytest.fixture(scope="module")
def server(serve: Serve, examples: Path) -> Server:
    return serve(SCRIPT, "--root-path", PATH, "--examples", str(examples), protocol="paired")


def test_the_whole_page_works_under_a_path(
    server: Server, proxied: Proxied, open_page: Open, clips: Clips, tmp_path: Path
) -> None:
    url, failed = proxied(server, rewrites=True), list[str]()
    page = open_page(url)
    page.on("response", lambda each: failed.append(each.url) if each.status >= 400 else None)
    steps.compare(page, clips)
    expect(steps.headline(page)).to_contain_text("Video 1")
    cookies = {each["name"]: each["path"] for each in page.context.cookies()}
    assert set(cookies.values()) == {PATH}
    with page.expect_response("**/turns/1/frames*") as exact:
        steps.look(page)
    assert exact.value.url.startswith(f"{url}runs/")
    page.keyboard.press("Escape")
    assert steps.saved_trace(page, tmp_path).started.prompt == PROMPT
    link = steps.link(page)
    assert link.startswith(f"{url}?trace=")
    steps.expect_runs(page, "Video 1 is better")
    page.goto(link)
    expect(steps.headline(page)).to_contain_text("Video 1")
    steps.wait_until_playable(page, "second")
    lost = "(image) => image.src && image.complete && !image.naturalWidth"
    assert page.evaluate(f"[...document.images].filter({lost}).length") == 0
    tags = dict(re.findall(r'property="(og:\w+)" content="([^"]*)"', page.request.get(link).text()))
    assert tags["og:image"].startswith(f"{url}previews/")
    assert page.request.get(tags["og:image"]).body()[:2] == b"\xff\xd8"
    steps.show_example(page)
    assert failed == []


def test_all_requests_work_under_a_path(server: Server, proxied: Proxied, clips: Clips) -> None:
    large = HEAD + bytes(12 * 2**20) + TAIL  # more than any other request may send
    for way in ({}, {"keeps": True}, {"rewrites": True}):
        url = proxied(server, **way)
        with httpx.Client(base_url=url, timeout=PATIENCE_S) as asked:
            assert f'"root":"{url.rstrip("/")}"' in asked.get("").text
            script = re.findall(r'src="([^"]+)"', asked.get("").text)[-1]
            assert asked.get(urljoin(url, script)).status_code == 200
            sent = asked.post("gradio_api/upload", content=large, headers={"Content-Type": FORM})
            assert Path(sent.json()[0]).stat().st_size == 12 * 2**20
            assert asked.post("gradio_api/component_server", content="{}").status_code == 404
            evil = {"Origin": "http://evil.example"}
            assert asked.post("history", content="{}", headers=evil).status_code == 403
            mcp = asked.get("gradio_api/mcp/sse")
            assert (mcp.status_code, mcp.text[-1]) == (404, ".")  # a sentence of ours
    behind: Any = type("Behind", (), {"url": url})
    videos = (handle_file(str(clip)) for clip in clips)
    last = client(behind).submit(*videos, PROMPT, api_name="/compare").result()
    assert last["stop"] == "answered"


def test_a_page_that_is_served_elsewhere_says_what_to_set(server: Server, new_page: Open) -> None:
    page, told = new_page(), server.url.rstrip("/")
    page.goto(server.url)  # no path, though it was told of one
    expect(page.locator("body")).to_contain_text(f"start it with --root-path {told}.")
