"""Copies of videos that browsers cannot play lead back to their originals."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.small_clips import write_clip
from vrthinker_core.errors import VideoError
from vrthinker_core.ui.fetch.uploads import Uploads


def test_a_video_that_browsers_play_needs_no_copy(tmp_path: Path) -> None:
    clip = write_clip(tmp_path / "clip.mp4", 6)
    uploads = Uploads(tmp_path / "copies", tmp_path / "fetched")
    assert uploads.make_playable(clip) == uploads.playable_of(clip) == uploads.original_of(clip) == clip


def test_a_copy_leads_back_to_its_original_wherever_it_was_moved(tmp_path: Path) -> None:
    clip = write_clip(tmp_path / "clip.mkv", 6)
    uploads = Uploads(tmp_path / "copies", tmp_path / "fetched")
    copy = uploads.make_playable(clip)
    assert copy != clip
    assert uploads.playable_of(clip) == copy
    assert uploads.original_of(copy) == uploads.original_of(tmp_path / "elsewhere" / copy.name) == clip
    copy.unlink()
    assert uploads.playable_of(clip) == clip


def test_an_upload_that_broke_off_is_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vrthinker_core.ui.fetch.uploads.KEEP_SECONDS", -1.0)
    uploads = Uploads(tmp_path / "copies", tmp_path / "uploads" / "fetched")
    clip = write_clip(tmp_path / "clip.mp4", 6)
    (tmp_path / "uploads" / "0123").mkdir(parents=True)
    for name in ("tmp12345678", "0123/tmp.mp4"):
        (tmp_path / "uploads" / name).write_bytes(b"half")
    uploads.make_playable(clip)
    assert [path.name for path in (tmp_path / "uploads").rglob("*") if path.is_file()] == ["tmp.mp4"]


def test_a_file_that_is_no_video_is_refused(tmp_path: Path) -> None:
    (tmp_path / "words.mp4").write_text("no video\n" * 20)
    with pytest.raises(VideoError):
        Uploads(tmp_path / "copies", tmp_path / "fetched").make_playable(tmp_path / "words.mp4")
