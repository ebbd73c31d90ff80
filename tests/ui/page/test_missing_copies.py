"""A video of which browsers get no copy is a video all the same: the status counts it, unlike a file that is none."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.small_clips import write_clip
from tests.ui.support.saved_examples import PROMPT, write_old
from vrthinker_core.errors import VideoUnavailable
from vrthinker_core.types import Side
from vrthinker_core.ui.fetch.disk_budget import MAX_BYTES, NOBODY
from vrthinker_core.ui.fetch.uploads import Uploads
from vrthinker_core.ui.page.handlers.upload_handlers import UploadHandlers
from vrthinker_core.ui.sessions.player_files import PlayerFiles
from vrthinker_core.ui.view import words

REQUEST: Any = SimpleNamespace(session_hash="a page")
PARTS: Any = SimpleNamespace(status="status", videos=("first", "second"))


@pytest.fixture
def uploads(tmp_path: Path) -> Uploads:
    return Uploads(tmp_path / "copies", tmp_path / "uploads" / "fetched")


def upload(uploads: Uploads, first: Path, second: Path) -> list[str]:
    """What the status says after each of the two files has come."""
    services: Any = SimpleNamespace(
        uploads=uploads, player_files=PlayerFiles(), session_of=lambda request: None
    )
    said = []
    for side, then in ((Side.FIRST, None), (Side.SECOND, str(second))):
        handlers = UploadHandlers(PARTS, services, side, lambda *_: {})
        before = handlers.on_arrival(PROMPT, str(first), then, REQUEST)
        said.append({**before, **handlers.on_upload(PROMPT, str(first), then, REQUEST)}["status"])
    return said


def large_copies(monkeypatch: pytest.MonkeyPatch, _uploads: Uploads) -> None:
    monkeypatch.setattr("vrthinker_core.video.browser_copy.copy.MAX_COPY_BYTES", 100)


def full_disk(monkeypatch: pytest.MonkeyPatch, _uploads: Uploads) -> None:
    def no_space(_path: Path) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("vrthinker_core.video.browser_copy.copy.atomic_path", no_space)


def full_budget(_monkeypatch: pytest.MonkeyPatch, uploads: Uploads) -> None:
    uploads.budget.take(Path("copies of others"), NOBODY, MAX_BYTES // 2)


@pytest.mark.parametrize(
    ("cause", "sentence"),
    [
        (large_copies, "A playable copy of old.avi would have more than 0 MB: cut it shorter."),
        (full_disk, "No playable copy of old.avi could be kept: No space left on device."),
        (
            full_budget,
            "There is no room here to keep a playable copy of old.avi; try again in ten minutes.",
        ),
    ],
)
def test_a_video_without_a_copy_is_counted(
    cause: Callable[..., None],
    sentence: str,
    uploads: Uploads,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cause(monkeypatch, uploads)
    said = upload(uploads, write_old(tmp_path / "old.avi"), write_clip(tmp_path / "good.mp4", 6))
    assert said == [f"{sentence} {words.NO_COPY} {words.ONE_VIDEO}", words.READY_TO_COMPARE]


def test_a_video_without_a_copy_is_held_for_its_page(
    uploads: Uploads, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vrthinker_core.ui.fetch.uploads.UNUSED_SECONDS", -1.0)
    large_copies(monkeypatch, uploads)
    folder = tmp_path / "uploads" / "a hash"
    folder.mkdir(parents=True)
    upload(uploads, write_old(folder / "old.avi"), write_clip(tmp_path / "good.mp4", 6))
    uploads.expire([])
    assert (folder / "old.avi").exists()


def test_a_file_that_is_no_video_is_not_counted(uploads: Uploads, tmp_path: Path) -> None:
    (tmp_path / "text.mp4").write_text("This is no video. " * 100)
    refused = "text.mp4 is a text file, not a video."
    said = upload(uploads, tmp_path / "text.mp4", write_clip(tmp_path / "good.mp4", 6))
    assert said == [f"{refused} {words.OTHER_VIDEO}", f"{refused} {words.ONE_VIDEO}"]


def test_a_video_that_cannot_be_read_now_may_be_compared_later(
    uploads: Uploads, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    busy = "old.avi cannot be opened now: Too many open files. Compare again later."

    def unavailable(*_: object) -> None:
        raise VideoUnavailable(busy)

    monkeypatch.setattr("vrthinker_core.ui.fetch.uploads.playable_copy", unavailable)
    said = upload(uploads, write_old(tmp_path / "old.avi"), write_clip(tmp_path / "good.mp4", 6))
    assert said == [f"{busy} {words.ONE_VIDEO}", f"{busy} {words.READY_TO_COMPARE}"]
