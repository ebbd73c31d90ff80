"""What is said to a person about a clip: measured on the clip, silent where there is nothing to say."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.video.support.open_clips import NATIVE, SQUARE, opened
from tests.video.support.write_clips import Picture, cut, drawn, repeated, write
from vrthinker_core.types.geometry import Grid, Sizing

ALL = Grid(50, "even")
"""As many slots as most of these clips have frames."""


def notes(path: Path, grid: Grid = ALL, opening: Sizing = NATIVE, **rest: Any) -> tuple[str, ...]:
    with opened(path, grid=grid, opening=opening, first=[0], **rest) as clip:
        assert all(note.endswith(".") and "\n" not in note for note in clip.info.notes)
        return clip.info.notes


def test_nothing_is_said_about_a_clip_in_good_health(tmp_path: Path) -> None:
    assert notes(write(tmp_path / "clip.mp4", 50, size=(64, 64)), opening=SQUARE) == ()


@pytest.mark.parametrize(
    ("name", "note"),
    [
        ("one frame", "The clip is a single picture: there is no motion to judge."),
        ("three frames", "The clip has only 3 frames."),
        ("damaged", "1 of 50 frames cannot be decoded."),
        ("variable rate", "Variable frame rate: a frame stays from 0.016 s to 0.071 s."),
        ("raw stream", "The file has no usable timestamps: seconds are counted at 25 frames per second."),
        ("rotated", "Turned by 90° clockwise, as the file asks."),
        ("wide pixels", "Pixels are not square (4:3): shown as 128 x 64."),
        ("two streams", "The file holds 2 video streams; the main one (64 x 48) is used."),
        ("size changes", "The picture size changes at frame 9; every frame is brought to the size of the first."),
        ("edit list", "The header announces 50 frames, 33 are there to be shown."),
    ],
)
def test_what_each_kind_is_told(name: str, note: str, kind: Callable[[str], Path]) -> None:
    assert note in notes(kind(name))


@pytest.mark.parametrize(
    "name", ["open GOP", "fragments", "no duration", "animated GIF", "MPEG-4 in AVI", "HEVC", "VP8", "10 bit", "odd size"]
)
def test_what_is_hard_for_us_but_no_fault_of_the_clip_is_not_told(name: str, kind: Callable[[str], Path]) -> None:
    with opened(kind(name)) as clip:
        frames = clip.info.frames
    assert notes(kind(name), grid=Grid(frames, "even")) == ()


@pytest.mark.parametrize(("opening", "told"), [(SQUARE, True), (Sizing("letterbox", 448), False), (NATIVE, False)])
def test_squashing_is_told_when_it_happens(opening: Sizing, told: bool, kind: Callable[[str], Path]) -> None:
    note = "The picture is 3:2 (96 x 64) and is squashed into a square for the judge."
    assert (note in notes(kind("B-frames"), opening=opening)) == told
    assert not any("squashed" in each for each in notes(kind("B-frames"), opening=Sizing("area", area=90 * 784)))


def test_slots_that_share_a_frame_and_frames_without_a_slot(kind: Callable[[str], Path]) -> None:
    path = kind("B-frames")
    assert notes(path, grid=Grid(128, "floor")) == ("50 frames for 128 slots: up to 3 slots show the same frame.",)
    assert notes(path, grid=Grid(20, "floor")) == (
        "50 frames for 20 slots: 30 frames lie between the slots and can never be asked for.",
    )
    assert notes(path, grid=Grid(20, "even")) == (
        "50 frames for 20 slots: 30 frames lie between the slots and can never be asked for.",
    )


def show(order: Sequence[int], path: Path) -> Path:
    """A clip of drawn pictures by number; -1 is black, -2 is a small red dot on black."""
    dot = np.zeros((64, 64, 3), np.uint8)
    dot[30:36, 30:36] = (255, 0, 0)
    special: dict[int, Picture] = {-1: np.zeros((64, 64, 3), np.uint8), -2: dot}
    pictures = [special.get(number, drawn(number, 64, 64)) if number < 0 else drawn(number, 64, 64) for number in order]
    return write(path, len(order), size=(64, 64), pictures=pictures)


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ([*range(25), *[-1] * 25], ("The picture is black from 1.00 s to 2.00 s.",)),
        ([-1] * 50, ("The picture is black throughout.",)),
        ([-2] * 50, ("The picture stands still throughout.",)),
        ([*range(20), *[20] * 20, *range(21, 31)], ("The picture stands still from 0.80 s to 1.60 s.",)),
        ([7] * 15 + list(range(20)) + [9] * 15, ("The picture stands still from 0.00 s to 0.60 s, from 1.40 s to 2.00 s.",)),
        ([number // 5 for number in range(50)], ()),
    ],
)
def test_black_and_still_stretches(order: list[int], expected: tuple[str, ...], tmp_path: Path) -> None:
    assert notes(show(order, tmp_path / "clip.mp4")) == expected


def test_a_small_and_a_slow_movement_are_no_standstill(tmp_path: Path) -> None:
    small, slow = [], []
    for index in range(50):
        picture = np.full((240, 320, 3), 90, np.uint8)
        picture[100:124, 4 * index : 4 * index + 24] = 230
        small.append(picture)
        slow.append(np.roll(drawn(3, 320, 240)[60:], index // 4, axis=1)[:180])
    assert notes(write(tmp_path / "small.mp4", 50, size=(320, 240), pictures=small)) == ()
    assert not any("throughout" in note for note in notes(write(tmp_path / "slow.mp4", 50, size=(320, 180), pictures=slow)))


def test_a_clip_that_is_read_on_demand_says_what_was_not_looked_for(kind: Callable[[str], Path]) -> None:
    assert any("were not looked for" in note for note in notes(kind("long"), read_mode="seek"))
    assert not any("were not looked for" in note for note in notes(kind("long"), read_mode="whole"))


def test_a_recording_that_was_cut_off(tmp_path: Path) -> None:
    """The index stands in front and announces everything, the pictures are missing."""
    whole = write(tmp_path / "whole.mp4", 50, size=(64, 64), container={"movflags": "faststart"})
    told = notes(cut(tmp_path / "cut.mp4", repeated(tmp_path / "long.mp4", whole, 1), 0.999), read_mode="whole")
    assert told == notes(tmp_path / "long.mp4")
    half = notes(cut(tmp_path / "half.mp4", whole, 0.6))
    assert any("The header announces 50 frames" in note or "cannot be decoded" in note for note in half)
