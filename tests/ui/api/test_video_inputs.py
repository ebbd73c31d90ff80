"""Videos as programs give them: which file is opened, what becomes of it, and what is refused."""

from __future__ import annotations

import base64
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.support.threads import run_in_thread
from vrthinker_core.errors import BadInput
from vrthinker_core.ui.api.video_inputs import MAX_DATA_URL_BYTES, resolve_video

NOWHERE = Path("nowhere")


@pytest.fixture
def uploads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the server's uploads."""
    monkeypatch.setenv("GRADIO_TEMP_DIR", str(tmp_path / "uploads"))
    return tmp_path / "uploads"


def resolve(given: object, fetched: Path = NOWHERE) -> tuple[Path, bytes | None, list[str]]:
    """(the file, its content while it is in use, the addresses that were fetched)."""
    addresses: list[str] = []

    async def fetch(address: str) -> Path:
        addresses.append(address)
        return fetched

    async def read() -> tuple[Path, bytes | None, list[str]]:
        async with resolve_video(given, "Video 1", fetch) as path:
            return path, path.read_bytes() if path.exists() else None, addresses

    return run_in_thread(read())


def test_an_upload_can_be_given_in_four_ways(uploads: Path) -> None:
    path = uploads / "0f" / "a film, 100%.mp4"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"film")
    address = f"https://demo.example/gradio_api/file={quote(str(path))}"
    for given in (
        str(path),
        {"path": str(path)},
        {"path": str(path), "meta": {"_type": "gradio.FileData"}},
        address,
    ):
        assert resolve(given) == (path, b"film", [])
    assert path.exists()


def test_a_web_address_is_fetched(uploads: Path) -> None:
    for address in ("https://demo.example/film.mp4", "http://demo.example/gradio_api/film.mp4"):
        assert resolve(address) == (NOWHERE, None, [address])


def test_the_file_of_a_data_url_is_deleted_afterwards(uploads: Path) -> None:
    path, content, addresses = resolve(
        "data:video/mp4;base64," + base64.b64encode(b"film").decode()
    )
    assert (content, addresses) == (b"film", [])
    assert path.is_relative_to(uploads)
    assert not path.exists()
    assert not any(uploads.iterdir())


def test_a_data_url_that_is_too_large_is_refused(uploads: Path) -> None:
    with pytest.raises(BadInput, match=r"^Video 1 has more than 3.5 MB"):
        resolve("data:video/mp4;base64," + "A" * (MAX_DATA_URL_BYTES * 4 // 3 + 8))
    assert not any(uploads.iterdir())


@pytest.mark.parametrize(
    "given",
    [
        None,
        7,
        [],
        {},
        {"path": 7},
        "",
        "a\0b",
        "film.mp4",
        "file:///etc/passwd",
        "ftp://demo.example/a",
    ],
)
def test_nothing_else_is_a_video(given: object, uploads: Path) -> None:
    with pytest.raises(BadInput, match=r"^Video 1 is no uploaded file\."):
        resolve(given)


def test_an_address_in_a_file_object_is_not_fetched_here(uploads: Path) -> None:
    with pytest.raises(BadInput, match=r"^Video 1 is no uploaded file\."):
        resolve({"path": "https://demo.example/film.mp4"})
