"""A scrubbed environment: no test reaches a network, a hub or a person's own settings; and one browser for all tests of a process.

Tests that need Chromium are skipped where there is none, except in CI. Where it is installed and does not start, the run ends at
once with one sentence.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import pytest

from tests.support.browser import NoBrowser, absent, started
from tests.support.engines import ENGINES, Engine
from tests.support.small_clips import write_clip
from tests.support.waiting import PATIENCE_MS
from vrthinker_core.types import VideoPair
from vrthinker_core.video import DecoderPool

if TYPE_CHECKING:
    from playwright.sync_api import Browser

SCRUBBED = (
    *("HF_TOKEN", "HF_HOME", "SPACE_ID", "SPACES_ZERO_GPU"),
    *("OPENAI_API_KEY", "GEMINI_API_KEY", "OPENROUTER_API_KEY", "VRTHINKER_API_KEY"),
    *("GRADIO_SERVER_NAME", "GRADIO_SERVER_PORT"),
)

# Another process of the tests may have the processor
hypothesis.settings.register_profile("untimed", deadline=None)
hypothesis.settings.load_profile("untimed")


@pytest.fixture(autouse=True, scope="session")
def scrubbed() -> None:
    for name in SCRUBBED:
        os.environ.pop(name, None)
    os.environ.update(HF_HUB_OFFLINE="1", GRADIO_ANALYTICS_ENABLED="False")
    # What is tested is the same on every machine, but for the tests of a GPU
    if not os.environ.get("VRT_GPU"):
        os.environ["CUDA_VISIBLE_DEVICES"] = ""


@pytest.fixture(autouse=True, scope="session")
def shared_decoder_pool() -> Iterator[DecoderPool]:
    """Runs that bring no pool of their own share this one: a fork server costs more than a short run."""
    with DecoderPool() as pool, pytest.MonkeyPatch.context() as patch:
        for module in ("comparison", "runner"):
            patch.setattr(f"vrthinker_core.{module}.DecoderPool", lambda: nullcontext(pool))
        yield pool


@pytest.fixture(scope="session")
def clips(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two clips of different length."""
    folder = tmp_path_factory.mktemp("clips")
    return write_clip(folder / "one.mp4"), write_clip(folder / "two.mp4", frames=30, hue=80)


@pytest.fixture
def pair(clips: tuple[Path, Path]) -> VideoPair:
    return VideoPair("A white block glides to the right.", *clips)


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest, pair: VideoPair, tmp_path: Path) -> Engine:
    """Each way to run that pair."""
    return Engine(pair, tmp_path / "run.json", *ENGINES[request.param])


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whatever opens a page is a test of the browser."""
    for item in items:
        if "chromium" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.browser)


def pytest_report_teststatus(report: pytest.TestReport) -> tuple[str, str, str] | None:
    """Say at once what failed, and how to run it alone."""
    if not report.failed:
        return None
    kind = "failed" if report.when == "call" else "error"
    slow = "VRT_SLOW=1 " if os.environ.get("VRT_SLOW") else ""
    alone = f"{slow}python -m pytest {shlex.quote(report.nodeid)}"
    return kind, f"\n{kind.upper()}, alone: {alone}\n", kind.upper()


def pytest_collection_finish(session: pytest.Session) -> None:
    """Before the first test: is there a browser for those that need one?"""
    wanted = any("chromium" in getattr(item, "fixturenames", ()) for item in session.items)
    if wanted and not session.config.option.collectonly and (os.environ.get("CI") or not absent()):
        with chromium_or_exit():
            pass


@contextmanager
def chromium_or_exit() -> Iterator[Browser]:
    """Chromium, running; where it does not start, one sentence and the end of the whole run."""
    try:
        with started() as browser:
            yield browser
    except NoBrowser as trouble:
        pytest.exit(str(trouble), returncode=1)


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    if reason := absent():
        pytest.skip(reason)
    from playwright.sync_api import expect

    expect.set_options(timeout=PATIENCE_MS)
    with chromium_or_exit() as browser:
        yield browser
