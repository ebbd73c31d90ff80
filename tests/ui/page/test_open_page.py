"""What the server keeps for a page that is open: its run, and the videos in its players, however long they are looked at."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.threads import run_in_thread
from tests.ui.conftest import write_script
from vrthinker_core.ui.page.app import Page, PageOptions
from vrthinker_core.ui.server.open_pages import HEARTBEAT_PATH, OpenPagesMiddleware
from vrthinker_core.ui.sessions.judge_loader import JudgeLoader, judge_openers


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Page]:
    monkeypatch.setenv("GRADIO_TEMP_DIR", str(tmp_path / "uploads"))
    judges = JudgeLoader(
        judge_openers([write_script(tmp_path / "script.jsonl", ["<Answer>OA=1</Answer>"])])
    )
    page = Page(judges, judges.run_job, tmp_path, PageOptions())
    yield page
    page.close()


def test_the_run_of_a_page_is_kept_while_that_holds_its_stream(page: Page) -> None:
    is_open, seen = page._services.sessions.is_open, list[bool]()

    async def stream(*_: object) -> None:
        seen.append(is_open("anna"))

    (counting,) = (
        each
        for each in page.launch_options()["app_kwargs"]["middleware"]
        if each.cls is OpenPagesMiddleware
    )
    run_in_thread(
        counting.cls(stream, **counting.kwargs)(
            {"type": "http", "path": f"{HEARTBEAT_PATH}anna"}, None, None
        )
    )
    assert (seen, is_open("anna")) == ([True], False)


def test_gradio_deletes_no_file_by_its_age(page: Page) -> None:
    """It knows nothing of the pages that show a file; `Uploads.expire` does."""

    async def blocks() -> Any:
        return page.blocks()

    assert run_in_thread(blocks()).delete_cache is None
