"""Copies of videos that browsers cannot play lead back to their originals."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.small_clips import write_clip
from tests.support.threads import run_in_thread
from tests.support.waiting import PATIENCE_S
from vrthinker_core.errors import BadInput, VideoError
from vrthinker_core.types import Side
from vrthinker_core.ui.fetch.disk_budget import MAX_BYTES, MAX_VISITOR_BYTES, DiskBudget
from vrthinker_core.ui.fetch.uploads import Uploads


def test_a_video_that_browsers_play_needs_no_copy(tmp_path: Path) -> None:
    clip = write_clip(tmp_path / "clip.mp4", 6)
    uploads = Uploads(tmp_path / "copies", tmp_path / "fetched")
    assert (
        uploads.make_playable(clip)
        == uploads.playable_of(clip)
        == uploads.original_of(clip)
        == clip
    )


def test_a_copy_leads_back_to_its_original_wherever_it_was_moved(tmp_path: Path) -> None:
    clip = write_clip(tmp_path / "clip.mkv", 6)
    uploads = Uploads(tmp_path / "copies", tmp_path / "fetched")
    copy = uploads.make_playable(clip)
    assert copy != clip
    assert uploads.playable_of(clip) == copy
    assert (
        uploads.original_of(copy) == uploads.original_of(tmp_path / "elsewhere" / copy.name) == clip
    )
    copy.unlink()
    assert uploads.playable_of(clip) == clip


def test_files_that_nobody_uses_are_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uploads = Uploads(tmp_path / "copies", tmp_path / "uploads" / "fetched")
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
    monkeypatch.setattr("vrthinker_core.ui.fetch.uploads.UNUSED_SECONDS", -1.0)
    uploads.expire([judged])
    assert [
        path for path in (unused, judged, shown, odd, original, copy, gradios) if path.exists()
    ] == [
        *(judged, shown),
        *(original, copy, gradios),
    ]
    uploads.let_go("anna")
    uploads.let_go("bert")
    for _ in range(2):
        uploads.expire([])
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
    uploads.budget.take(Path("whole"), "anna", MAX_VISITOR_BYTES)


def test_the_video_of_a_player_stays_however_often_the_other_one_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uploads = Uploads(tmp_path / "copies", tmp_path / "uploads" / "fetched")
    monkeypatch.setattr("vrthinker_core.ui.fetch.uploads.UNUSED_SECONDS", -1.0)
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
        "vrthinker_core.ui.fetch.uploads.fetch_video",
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


def test_a_file_that_is_no_video_is_refused(tmp_path: Path) -> None:
    (tmp_path / "words.mp4").write_text("no video\n" * 20)
    with pytest.raises(VideoError):
        Uploads(tmp_path / "copies", tmp_path / "fetched").make_playable(tmp_path / "words.mp4")
