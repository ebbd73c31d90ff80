"""A real server, and pages of a real browser."""

from __future__ import annotations

import json
import os
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from importlib import resources
from pathlib import Path
from shutil import copytree
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.app_process import fork_app, is_alive, start_app
from tests.support.loopback_server import free_port
from tests.support.waiting import PATIENCE_MS, PATIENCE_S, until
from tests.ui.support.saved_examples import ENDLESS, SCRIPT, ask, write_example
from vrthinker_core.types import Settings

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page, Request

ROOT = Path(__file__).resolve().parents[2]
DESKTOP = {"viewport": {"width": 1280, "height": 900}, "reduced_motion": "reduce"}


class Server:
    """`app.py` in a process of its own: a new interpreter, or, much sooner, forked from one that has imported everything."""

    def __init__(
        self,
        folder: Path,
        judge: str,
        *options: str,
        variables: Mapping[str, str] | None = None,
        forked: bool = False,
    ) -> None:
        self.folder, self.log = folder, folder / "server.log"
        self._environment = {**os.environ, "TMPDIR": str(folder), **(variables or {})}
        self._start_app = fork_app if forked else start_app
        # no test waits for the run of another
        self._options = ["--judge", judge, "--after-leaving", "0", *options]
        self._start()

    def _start(self) -> None:
        self.url = f"http://127.0.0.1:{(port := free_port())}/"
        told = [*self._options, "--port", str(port)]
        self.process = self._start_app(told, self._environment, self.log)
        self._wait()

    def restart(self) -> None:
        """Stop it, and start it anew at another address; it finds what it has kept."""
        self.close()
        self._start()

    def _wait(self) -> None:
        def answers() -> bool:
            assert is_alive(self.process), self.log.read_text()
            with suppress(OSError):
                urllib.request.urlopen(self.url, timeout=PATIENCE_S).close()
                return True
            return bool(time.sleep(0.25))

        until(answers)

    def close(self) -> None:
        """Stop it."""
        if is_alive(self.process):
            self.process.terminate()
            self.process.wait(PATIENCE_S)


Serve = Callable[..., Server]
Clips = tuple[Path, Path]


def write_script(path: Path, replies: Sequence[str], **options: object) -> str:
    """A scripted judge's file, as `--judge` takes it."""
    lines = [{"reply": reply} for reply in replies]
    path.write_text("\n".join(json.dumps(line) for line in [options, *lines]), encoding="utf-8")
    return f"scripted:{path}"


@pytest.fixture(scope="module")
def serve(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serve]:
    """Starts servers with a scripted judge; all are stopped at the end of the file: even idle ones take CPU time."""
    with ExitStack() as running:

        def start(replies: Sequence[str], *chosen: str, **options: object) -> Server:
            folder = tmp_path_factory.mktemp("server")
            judge = write_script(folder / "script.jsonl", replies, **options)
            return running.enter_context(closing(Server(folder, judge, *chosen, forked=True)))

        yield start


@pytest.fixture(scope="module")
def answering(serve: Serve) -> Server:
    """A server for tests that only send requests and need no script of their own."""
    return serve(["<Answer>TA=1, MQ=0, VQ=2, OA=1</Answer>"])


@pytest.fixture(scope="session")
def examples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of two examples, which no test changes."""
    folder = tmp_path_factory.mktemp("examples")
    write_example(folder / "a-block")
    write_example(folder / "b-block", hue=40)
    return folder


@pytest.fixture(scope="session")
def every_example(examples: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """These, one with frames of video 1 only, one in both orders, and two that have lost videos."""
    folder = tmp_path_factory.mktemp("every_example")
    copytree(examples, folder, dirs_exist_ok=True)
    asked = ask(5, 6).replace("frame_indices", "target_frames")
    answered = "<final answer>TA=1, MQ=0, VQ=2, OA=1</final answer>"
    # Videos are found by their content: each run has its own
    write_example(folder / "c-one-side", [asked, answered], hue=30, protocol="concat")
    write_example(folder / "d-both-orders", hue=50, settings=Settings(swap="on"))
    for name, lost in {"e-half": ["second"], "f-gone": ["first", "second"]}.items():
        write_example(folder / name, hue=60 + 5 * len(lost))
        for side in lost:
            (folder / name / f"{side}.mp4").unlink()
    return folder


@pytest.fixture(scope="module")
def server(serve: Serve, every_example: Path) -> Server:
    """The server behind `page`: it has examples of every kind, and may fetch from local addresses."""
    options = ("--local-addresses", "--examples", str(every_example))
    return serve(SCRIPT, *options, protocol="paired", pause=0.01)


@pytest.fixture(scope="module")
def endless(serve: Serve) -> Server:
    """A server whose judge asks for frames once and then writes without end; two visitors may wait for it."""
    return serve([SCRIPT[0], ENDLESS], "--waiting", "2", protocol="paired", pause=0.05)


@pytest.fixture(scope="session")
def axe() -> str:
    """The script of axe-core, from its Python package."""
    package = pytest.importorskip("axe_playwright_python")
    return resources.files(package).joinpath("axe.min.js").read_text("utf-8")


@pytest.fixture(scope="module")
def contexts(chromium: Browser) -> Iterator[Callable[..., BrowserContext]]:
    """A browser context for each choice of options: one that has compiled the page's scripts opens it much faster.

    Pages that are open side by side, by their `number`, get contexts of their own: a browser's connections are too few for both.
    """
    opened: dict[str, BrowserContext] = {}

    def context(number: int, **options: Any) -> BrowserContext:
        key = repr((number, sorted(options.items())))
        if key not in opened:
            opened[key] = chromium.new_context(**{**DESKTOP, **options})
            opened[key].set_default_timeout(PATIENCE_MS)
        return opened[key]

    yield context
    for used in opened.values():
        used.close()


KEEP_SAID = """
(() => {
    window.announced = [];
    const said = ({ target }) => (target.closest ? target : target.parentElement)?.closest(".vrt-unseen[role=status]");
    new MutationObserver((all) => all.map(said).forEach((node) => node && announced.push(node.textContent)))
        .observe(document, { childList: true, characterData: true, subtree: true });
    const area = HTMLTextAreaElement.prototype;
    const value = Object.getOwnPropertyDescriptor(area, "value");
    window.statusSaid = [];
    Object.defineProperty(area, "value", {
        ...value,
        set(text) {
            if (this.closest("#status")) window.statusSaid.push(String(text));
            value.set.call(this, text);
        },
    });
})();
"""
"""Keeps all that a page's status line ever said, and what screen readers were told: a short run is over before a test has looked."""


@pytest.fixture
def new_page(contexts: Callable[..., BrowserContext]) -> Iterator[Callable[..., Page]]:
    """Opens empty pages without storage or cookies; an error, a dialog or a foreign request on any page fails the test."""
    pages: list[Page] = []
    errors: list[str] = []

    def keep_foreign(request: Request) -> None:
        if not request.url.startswith(("http://127.0.0.1:", "data:", "blob:", "file:")):
            errors.append(f"a request left: {request.url}")

    def start(**options: Any) -> Page:
        page = contexts(len(pages), **options).new_page()
        page.add_init_script(KEEP_SAID)
        pages.append(page)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("dialog", lambda dialog: errors.append(f"a script ran: {dialog.message}"))
        page.on("request", keep_foreign)
        return page

    yield start
    for page in pages:
        if page.is_closed():
            continue
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
        page.wait_for_selector(".vrt-cover", state="detached")
        return page

    return start


@pytest.fixture
def page(request: pytest.FixtureRequest, open_page: Callable[..., Page]) -> Page:
    """The page of the `server`, or what `opened` says."""
    of, screen = getattr(request, "param", ("server", {}))
    return open_page(request.getfixturevalue(of).url, **screen)


@pytest.fixture
def open_file(new_page: Callable[..., Page]) -> Callable[[Path], Page]:
    """Opens a file from the disk, which may request nothing but itself."""

    def start(path: Path) -> Page:
        page = new_page()
        requests: list[str] = []
        page.on("request", lambda request: requests.append(request.url))
        page.goto(path.as_uri())
        assert [url for url in requests if not url.startswith("data:")] == [path.as_uri()]
        return page

    return start


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Fails the test when its block takes `seconds` or longer."""
    began = time.monotonic()
    yield
    assert time.monotonic() - began < seconds
