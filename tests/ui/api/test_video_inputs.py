"""Videos as programs name them: which file is opened, what becomes of it, and what is no video of anybody's."""

from __future__ import annotations

import asyncio
import base64
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import quote

import pytest

from vrthinker_core.errors import BadInput
from vrthinker_core.ui.api.video_inputs import MAX_DATA_URL_BYTES, resolve_video

NOWHERE = Path("nowhere")


@pytest.fixture
def uploads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the server's uploads."""
    monkeypatch.setenv("GRADIO_TEMP_DIR", str(tmp_path / "uploads"))
    return tmp_path / "uploads"


def opened(named: object, fetched: Path = NOWHERE) -> tuple[Path, bytes | None, list[str]]:
    """(the file, what it holds while it is needed, the addresses that were fetched)."""
    asked: list[str] = []

    def fetch(address: str) -> Path:
        asked.append(address)
        return fetched

    async def look() -> tuple[Path, bytes | None, list[str]]:
        async with resolve_video(named, "Video 1", fetch) as path:
            return path, path.read_bytes() if path.exists() else None, asked

    with ThreadPoolExecutor(1) as elsewhere:  # the browser tests keep an event loop running in this thread
        return elsewhere.submit(lambda: asyncio.run(look())).result()


def test_an_upload_has_four_names(uploads: Path) -> None:
    path = uploads / "0f" / "a film, 100%.mp4"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"film")
    address = f"https://demo.example/gradio_api/file={quote(str(path))}"
    for named in (str(path), {"path": str(path)}, {"path": str(path), "meta": {"_type": "gradio.FileData"}}, address):
        assert opened(named) == (path, b"film", [])
    assert path.exists()


def test_a_web_address_is_fetched(uploads: Path) -> None:
    for address in ("https://demo.example/film.mp4", "http://demo.example/gradio_api/film.mp4"):
        assert opened(address) == (NOWHERE, None, [address])


def test_what_came_within_the_call_is_cleared_away(uploads: Path) -> None:
    path, held, asked = opened("data:video/mp4;base64," + base64.b64encode(b"film").decode())
    assert (held, asked) == (b"film", [])
    assert path.is_relative_to(uploads)
    assert not path.exists()
    assert not any(uploads.iterdir())


def test_no_larger_one_is_taken_within_a_call(uploads: Path) -> None:
    with pytest.raises(BadInput, match=r"^Video 1 has more than 20 MB"):
        opened("data:video/mp4;base64," + "A" * (MAX_DATA_URL_BYTES * 4 // 3 + 8))
    assert not any(uploads.iterdir())


@pytest.mark.parametrize(
    "named", [None, 7, [], {}, {"path": 7}, "", "a\0b", "film.mp4", "file:///etc/passwd", "ftp://demo.example/a"]
)
def test_nothing_else_is_a_video(named: object, uploads: Path) -> None:
    with pytest.raises(BadInput, match=r"^Video 1 is no uploaded file\."):
        opened(named)


def test_an_address_in_a_file_object_was_for_others_to_fetch(uploads: Path) -> None:
    with pytest.raises(BadInput, match=r"^Video 1 is no uploaded file\."):
        opened({"path": "https://demo.example/film.mp4"})
