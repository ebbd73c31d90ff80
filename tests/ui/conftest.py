"""A real server, and pages of a real browser."""

from __future__ import annotations

import json
import os
import socket
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.app_process import fork_app, is_alive, start_app
from tests.support.waiting import PATIENCE_MS, PATIENCE_S
from tests.ui.support.saved_examples import ENDLESS, LABELS, write_example
from vrthinker_core.types import Trace

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

ROOT = Path(__file__).resolve().parents[2]
DESKTOP = {"viewport": {"width": 1280, "height": 900}, "reduced_motion": "reduce"}
PHONE: dict[str, Any] = {"is_mobile": True, "has_touch": True, "device_scale_factor": 2}
PHONE["viewport"] = {"width": 390, "height": 844}


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


class Server:
    """`app.py` in a process of its own: a new one, or, sooner, a fork that has imported it all."""

    def __init__(
        self,
        folder: Path,
        judge: str,
        *options: str,
        variables: Mapping[str, str] | None = None,
        forked: bool = False,
    ) -> None:
        self.url = f"http://127.0.0.1:{(port := free_port())}/"
        self.log = folder / "server.log"
        self.folder = folder
        environment = {**os.environ, "TMPDIR": str(folder), "PYTHONUNBUFFERED": "1"}
        # no test waits for the run of another
        told = ["--judge", judge, "--port", str(port), "--after-leaving", "0", *options]
        start = fork_app if forked else start_app
        self.process = start(told, {**environment, **(variables or {})}, self.log)
        self._wait()

    def _wait(self) -> None:
        for _ in range(round(PATIENCE_S / 0.25)):
            assert is_alive(self.process), self.log.read_text()
            with suppress(OSError):
                return urllib.request.urlopen(self.url, timeout=PATIENCE_S).close()
            time.sleep(0.25)
        raise AssertionError(f"the server did not start: {self.log.read_text()}")

    def stop(self) -> None:
        if is_alive(self.process):
            self.process.terminate()
            self.process.wait(PATIENCE_S)


Serve = Callable[..., Server]
Clips = tuple[Path, Path]
OpenReport = Callable[..., "Page"]


def write_script(path: Path, replies: Sequence[str], **options: object) -> str:
    """A scripted judge's file, as `--judge` takes it."""
    lines = [options, *({"reply": reply} for reply in replies)]
    path.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    return f"scripted:{path}"


@pytest.fixture(scope="module")
def serve(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serve]:
    """Starts servers with a scripted judge; all are stopped at the end of the file."""
    running: list[Server] = []

    def start(replies: Sequence[str], *chosen: str, **options: object) -> Server:
        folder = tmp_path_factory.mktemp("server")
        script = write_script(folder / "script.jsonl", replies, **options)
        running.append(Server(folder, script, *chosen, forked=True))
        return running[-1]

    yield start
    for server in running:
        server.stop()


@pytest.fixture(scope="module")
def answering(serve: Serve) -> Server:
    """A server for tests that only send requests and need no script of their own."""
    return serve([LABELS])


@pytest.fixture(scope="module")
def endless(serve: Serve) -> Server:
    """A server whose judge writes without end."""
    return serve([ENDLESS], protocol="paired", pause=0.05)


@pytest.fixture(scope="session")
def examples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of two examples, which no test changes."""
    folder = tmp_path_factory.mktemp("examples")
    write_example(folder / "a-block")
    write_example(folder / "b-block", hue=40)
    return folder


@pytest.fixture(scope="session")
def axe() -> str:
    """The script of axe-core, from its Python package."""
    package = pytest.importorskip("axe_playwright_python")
    return resources.files(package).joinpath("axe.min.js").read_text("utf-8")


@pytest.fixture(scope="module")
def contexts(chromium: Browser) -> Iterator[Callable[..., BrowserContext]]:
    """A browser context for each choice of options, and each `number` of pages side by side."""
    opened: dict[str, BrowserContext] = {}

    def context(number: int, **options: Any) -> BrowserContext:
        if (key := repr((number, sorted(options.items())))) not in opened:
            opened[key] = chromium.new_context(**{**DESKTOP, **options})
            opened[key].set_default_timeout(PATIENCE_MS)
        return opened[key]

    yield context
    for used in opened.values():
        used.close()


# Keeps all that the status line ever said: a short run is over before a slow test has looked.
KEEP_STATUS = """
const area = HTMLTextAreaElement.prototype, value = Object.getOwnPropertyDescriptor(area, "value");
window.statusSaid = [];
Object.defineProperty(area, "value", { ...value, set(text) {
    if (this.closest("#status")) window.statusSaid.push(String(text));
    value.set.call(this, text);
} });
"""


@pytest.fixture
def new_page(contexts: Callable[..., BrowserContext]) -> Iterator[Callable[..., Page]]:
    """Opens empty pages; an error, a dialog or a foreign request on any fails the test."""
    pages: list[Page] = []
    errors: list[str] = []

    def requested(url: str) -> None:
        if not url.startswith(("http://127.0.0.1:", "data:", "blob:", "file:")):
            errors.append(f"a request left: {url}")

    def start(**options: Any) -> Page:
        page = contexts(len(pages), **options).new_page()
        page.add_init_script(f"(() => {{ {KEEP_STATUS} }})()")
        pages.append(page)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("dialog", lambda dialog: errors.append(f"a script ran: {dialog.message}"))
        page.on("request", lambda request: requested(request.url))
        return page

    yield start
    for page in (page for page in pages if not page.is_closed()):
        page.evaluate("if (location.protocol.startsWith('http')) localStorage.clear()")
        page.close()
        page.context.clear_cookies()
    assert not errors, errors


@pytest.fixture
def open_page(new_page: Callable[..., Page]) -> Callable[..., Page]:
    """Opens the page of a server and waits until it is drawn."""

    def start(url: str, **options: Any) -> Page:
        page = new_page(**options)
        page.goto(url)
        page.wait_for_selector("#rail .vrt-track", state="attached")
        return page

    return start


@pytest.fixture
def open_file(new_page: Callable[..., Page]) -> Callable[[Path], Page]:
    """Opens a file from the disk, which may request nothing but itself."""

    def start(path: Path) -> Page:
        page, requests = new_page(), list[str]()
        page.on("request", lambda request: requests.append(request.url))
        page.goto(path.as_uri())
        assert [url for url in requests if not url.startswith("data:")] == [path.as_uri()]
        return page

    return start


@pytest.fixture
def open_report(open_file: Callable[[Path], Page], tmp_path: Path) -> OpenReport:
    """Opens the report of a trace."""
    from vrthinker_core.ui.routes import render_report  # here: Gradio comes with it, and is slow

    def start(trace: Trace) -> Page:
        path = tmp_path / "report.html"
        path.write_text(render_report(trace), encoding="utf-8")
        return open_file(path)

    return start


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Fails the test when its block takes `seconds` or longer."""
    began = time.monotonic()
    yield
    assert time.monotonic() - began < seconds
