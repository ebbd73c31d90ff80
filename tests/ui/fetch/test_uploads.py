"""Copies of videos that browsers cannot play lead back to their originals, and a video without one is counted all the same."""

from __future__ import annotations

import asyncio
import errno
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.small_clips import write_clip
from tests.support.threads import run_in_thread
from tests.support.waiting import PATIENCE_S
from tests.ui.support.saved_examples import PROMPT, write_old
from vrthinker_core.errors import BadInput, VideoUnavailable
from vrthinker_core.types import Side
from vrthinker_core.ui import words
from vrthinker_core.ui.download import MAX_BYTES, MAX_VISITOR_BYTES, NOBODY, DiskBudget
from vrthinker_core.ui.player_files import PlayerFiles
from vrthinker_core.ui.upload_handlers import UploadHandlers
from vrthinker_core.ui.uploads import Uploads


def test_a_copy_leads_back_to_its_original_and_what_browsers_play_needs_none(
    uploads: Uploads, tmp_path: Path
) -> None:
    plays = write_clip(tmp_path / "clip.mp4", 6)
    assert uploads.make_playable(plays) == plays
    assert uploads.playable_of(plays) == uploads.original_of(plays) == plays
    clip = write_clip(tmp_path / "clip.mkv", 6)
    copy = uploads.make_playable(clip)
    assert copy != clip
    assert uploads.playable_of(clip) == copy
    assert (
        uploads.original_of(copy) == uploads.original_of(tmp_path / "elsewhere" / copy.name) == clip
    )
    copy.unlink()
    assert uploads.playable_of(clip) == clip


def test_files_that_nobody_uses_are_deleted(
    uploads: Uploads, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unused, judged, shown, odd = (
        arrive(uploads, name, b"x")
        for name in ("unused.mp4", "judged.mp4", "shown.mp4", "trace.json")
    )
    original = write_clip(arrive(uploads, "clip.mkv", b"x"), 6)
    copy = uploads.make_playable(original)
    gradios = tmp_path / "uploads" / "cache" / copy.name
    gradios.parent.mkdir()
    gradios.write_bytes(copy.read_bytes())
    uploads.hold("anna", Side.FIRST, shown)
    uploads.hold("bert", Side.SECOND, original, copy)
    uploads.expire([judged])
    assert odd.exists(), "ten minutes are not over"
    monkeypatch.setattr("vrthinker_core.ui.uploads.UNUSED_SECONDS", -1.0)
    uploads.expire([judged])
    assert [
        path for path in (unused, judged, shown, odd, original, copy, gradios) if path.exists()
    ] == [*(judged, shown), *(original, copy, gradios)]
    uploads.let_go("anna")
    uploads.let_go("bert")
    for _ in range(2):
        uploads.expire([])
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
    uploads.budget.take(Path("whole"), "anna", MAX_VISITOR_BYTES)


def test_the_video_of_a_player_stays_however_often_the_other_one_changes(
    uploads: Uploads, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vrthinker_core.ui.uploads.UNUSED_SECONDS", -1.0)
    stays, *others = (arrive(uploads, f"{number}.mp4", bytes([number])) for number in range(7))
    uploads.hold("anna", Side.SECOND, stays, stays)
    for number, other in enumerate(others):
        if number == 3:
            uploads.swap("anna")  # the video that stays is in the first player now
        uploads.hold("anna", Side.FIRST if number < 3 else Side.SECOND, other, other)
    uploads.expire([])
    assert [path.name for path in (stays, *others) if path.exists()] == ["0.mp4", "5.mp4", "6.mp4"]


def arrive(uploads: Uploads, name: str, content: bytes, visitor: str = "anna") -> Path:
    """An upload that has arrived whole."""
    folder = uploads.open_arrivals() / name.replace(".", "-")
    folder.mkdir()
    (folder / name).write_bytes(content)
    return uploads.keep(folder / name, visitor)


@given(
    st.lists(
        st.tuples(
            st.integers(0, 5), st.sampled_from(["", "anna", "bert"]), st.integers(0, 400_000_000)
        ),
        max_size=30,
    )
)
def test_no_visitor_and_not_all_together_hold_more_than_the_budget(
    files: list[tuple[int, str, int]],
) -> None:
    budget, held = DiskBudget(), dict[int, tuple[str, int]]()
    for file, visitor, size in files:
        held.pop(file, None)
        mine = sum(other for who, other in held.values() if who == visitor)
        most = MAX_BYTES // 2 if visitor == "" else MAX_VISITOR_BYTES
        if mine + size <= most and sum(other for _, other in held.values()) + size <= MAX_BYTES:
            budget.take(Path(str(file)), visitor, size)
            held[file] = (visitor, size)
        else:
            with pytest.raises(BadInput, match=r"ten minutes.*\.$"):
                budget.take(Path(str(file)), visitor, size)
    for file in held:
        budget.release(Path(str(file)))
    for number in range(MAX_BYTES // MAX_VISITOR_BYTES):
        budget.take(Path(f"{number}"), f"visitor {number}", MAX_VISITOR_BYTES)
    with pytest.raises(BadInput):
        budget.take(Path("one more"), "one more", 1)


def test_downloads_that_stall_hold_up_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answered, video = threading.Event(), write_clip(tmp_path / "clip.mp4", 6)
    monkeypatch.setattr(
        "vrthinker_core.ui.uploads.fetch_video",
        lambda *_, **__: answered.wait(PATIENCE_S) and video,
    )
    uploads = Uploads(tmp_path / "copies", tmp_path / "fetched")

    async def scenario() -> list[Path]:
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
        stalled = [
            asyncio.create_task(uploads.fetch_beside("https://film.example/a.mp4"))
            for _ in range(9)
        ]
        await asyncio.sleep(0)
        await asyncio.to_thread(answered.set)
        return await asyncio.gather(*stalled)

    assert run_in_thread(scenario()) == [video] * 9


REQUEST: Any = SimpleNamespace(session_hash="a page")
PARTS: Any = SimpleNamespace(status="status", videos=("first", "second"))


@pytest.fixture
def uploads(tmp_path: Path) -> Uploads:
    return Uploads(tmp_path / "copies", tmp_path / "uploads" / "fetched")


def say_of(uploads: Uploads, first: Path, second: Path) -> list[str]:
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
    monkeypatch.setattr("vrthinker_core.video.browser_copies.MAX_COPY_BYTES", 100)


def full_disk(monkeypatch: pytest.MonkeyPatch, _uploads: Uploads) -> None:
    def no_space(_path: Path) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("vrthinker_core.video.browser_copies.atomic_path", no_space)


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
    said = say_of(uploads, write_old(tmp_path / "old.avi"), write_clip(tmp_path / "good.mp4", 6))
    assert said == [f"{sentence} {words.NO_COPY} {words.ONE_VIDEO}", words.READY_TO_COMPARE]


def test_a_video_without_a_copy_is_held_for_its_page(
    uploads: Uploads, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vrthinker_core.ui.uploads.UNUSED_SECONDS", -1.0)
    large_copies(monkeypatch, uploads)
    folder = tmp_path / "uploads" / "a hash"
    folder.mkdir(parents=True)
    say_of(uploads, write_old(folder / "old.avi"), write_clip(tmp_path / "good.mp4", 6))
    uploads.expire([])
    assert (folder / "old.avi").exists()


def test_a_video_that_cannot_be_read_now_may_be_compared_later(
    uploads: Uploads, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    busy = "old.avi cannot be opened now: Too many open files. Compare again later."

    def unavailable(*_: object) -> None:
        raise VideoUnavailable(busy)

    monkeypatch.setattr("vrthinker_core.ui.uploads.playable_copy", unavailable)
    said = say_of(uploads, write_old(tmp_path / "old.avi"), write_clip(tmp_path / "good.mp4", 6))
    assert said == [f"{busy} {words.ONE_VIDEO}", f"{busy} {words.READY_TO_COMPARE}"]
