"""The law: a slot's frame is the one that a full sequential decode gives at that index, whatever the container does."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from tests.video.support.open_clips import CONCAT, FIRST, NATIVE, PAIRED, SQUARE, opened, pixels
from tests.video.support.sequential_decode import decode
from tests.video.support.write_clips import KINDS, damaged, repeated, write
from vrthinker_core.errors import VideoError
from vrthinker_core.types import ClipInfo, Frame
from vrthinker_core.types.geometry import Grid, Sizing

MADE = sorted(KINDS)
FOUND = (
    sorted(path for path in Path(os.environ["VRT_CLIPS"]).iterdir() if path.suffix != ".json") if "VRT_CLIPS" in os.environ else []
)
SEEKABLE = {
    "B-frames",
    "open GOP",
    "intra refresh",
    "one key frame",
    "variable rate",
    "edit list",
    "rotated",
    "HEVC",
    "10 bit",
    "long",
}
ASKED = (*FIRST, 127, 3, 5, 64, 2, 111, 0)


def expected(reference: np.ndarray[Any, Any], info: ClipInfo) -> np.ndarray[Any, Any]:
    """The reference as it is to be seen."""
    turned = np.rot90(reference, -info.rotation // 90)
    return turned[:, ::-1] if "Mirrored, as the file asks." in info.notes else turned


def check(frames: tuple[Frame, ...], info: ClipInfo, truth: list[tuple[int | None, np.ndarray[Any, Any]]], grid: Grid) -> None:
    assert info.frames == len(truth)
    for frame in frames:
        assert frame.index == grid.index(frame.ref.slot, len(truth))
        assert not frame.note
        wanted = expected(truth[frame.index][1], info)
        if wanted.shape[:2] == (frame.height, frame.width):
            assert np.array_equal(pixels(frame), wanted), f"slot {frame.ref.slot} shows another picture"
        else:
            wanted = cv2.resize(wanted, (frame.width, frame.height), interpolation=cv2.INTER_CUBIC)
            assert np.abs(pixels(frame).astype(int) - wanted).mean() < 4


@pytest.mark.parametrize("read_mode", ["whole", "seek"])
@pytest.mark.parametrize("name", MADE)
def test_every_slot_of_every_kind(name: str, read_mode: str, kind: Callable[[str], Path]) -> None:
    path = kind(name)
    with opened(path, read_mode=read_mode) as clip:
        frames = clip.frames(ASKED) + clip.frames(range(128))
        assert [frame.ref.slot for frame in frames] == [*ASKED, *range(128)]
        check(frames, clip.info, decode(path), PAIRED)
        if read_mode == "whole" or name in SEEKABLE:
            assert clip.read_mode == read_mode


@pytest.mark.parametrize("read_mode", ["whole", "seek"])
@pytest.mark.parametrize("path", FOUND, ids=lambda path: path.name)
def test_files_of_the_world(path: Path, read_mode: str) -> None:
    truth = decode(path) if path.suffix != ".webp" else []
    if not truth:
        with pytest.raises(VideoError, match=r"^\S.*\.$"):
            opened(path)
        return
    with opened(path, first=ASKED, read_mode=read_mode) as clip:
        check(clip.frames(ASKED), clip.info, truth, PAIRED)


def test_the_even_grid_and_two_sizes(kind: Callable[[str], Path]) -> None:
    opening, later = Sizing("area", area=64 * 28 * 28), Sizing("area", area=6 * 28 * 28)
    path = kind("one key frame")
    with opened(path, grid=CONCAT, opening=opening, later=later, first=[0, 12]) as clip:
        frames = clip.frames([0, 12, 47, 13])
    assert [frame.index for frame in frames] == [0, 51, 199, 55]
    assert [(frame.width, frame.height) for frame in frames] == [opening.size(96, 64)] * 2 + [later.size(96, 64)] * 2


def test_a_long_clip_is_read_on_demand_and_a_short_one_at_once(kind: Callable[[str], Path], tmp_path: Path) -> None:
    with opened(kind("B-frames")) as clip:
        assert clip.read_mode == "whole"
    minute = repeated(tmp_path / "minute.mp4", write(tmp_path / "second.mp4", 25, size=(1280, 720)), 40)
    with opened(minute, opening=SQUARE) as clip:
        assert clip.read_mode == "seek"
        assert clip.info.frames == 1000


def test_a_container_that_lies_is_decoded_as_a_whole(kind: Callable[[str], Path]) -> None:
    """A damaged packet shifts every later index: only a full decode knows."""
    path = kind("damaged")
    with opened(path, read_mode="seek") as clip:
        check(clip.frames(range(128)), clip.info, decode(path), PAIRED)
        assert clip.read_mode == "whole"


def test_a_lie_that_is_found_late_corrects_what_was_known(tmp_path: Path) -> None:
    """The end is asked for first; the damage at the beginning then shifts the end's numbers too."""
    path = damaged(tmp_path / "clip.mp4", repeated(tmp_path / "long.mp4", write(tmp_path / "part.mp4"), 12), 20)
    grid = Grid(600, "even")
    with opened(path, grid=grid, first=[550, 551], read_mode="seek") as clip:
        assert (clip.read_mode, clip.info.frames) == ("seek", 600)
        clip.frames([21])
        assert clip.read_mode == "whole"
        check(clip.frames(range(540, 560)), clip.info, decode(path), grid)


def test_pictures_larger_than_the_room_for_them_are_decoded_again(tmp_path: Path) -> None:
    path = repeated(tmp_path / "large.mp4", write(tmp_path / "part.mp4", 12, size=(1280, 720)), 4)
    with opened(path, opening=NATIVE) as clip:
        frames = clip.frames(range(0, 128, 2))
        assert sum(len(frame.rgb) for frame in frames) > 100_000_000
        check(frames, clip.info, decode(path), PAIRED)
