"""Notes about a clip: measured on it, and none where nothing is unusual."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.video.support.open_clips import NATIVE, SQUARE, opened
from tests.video.support.sequential_decode import decode
from tests.video.support.write_clips import (
    FAST_VP9,
    Picture,
    numbered_picture,
    repeated,
    truncated,
    with_sound,
    write,
)
from vrthinker_core.types.frames import Grid, Sizing

ONE_SLOT_PER_FRAME = Grid(50, "even")
"""As many slots as most of these clips have frames."""


def notes(
    path: Path, grid: Grid = ONE_SLOT_PER_FRAME, opening: Sizing = NATIVE, **rest: Any
) -> tuple[str, ...]:
    with opened(path, grid=grid, opening=opening, first=[0], **rest) as clip:
        assert all(note.endswith(".") and "\n" not in note for note in clip.info.notes)
        return clip.info.notes


def test_a_clip_without_problems_has_no_notes(tmp_path: Path) -> None:
    assert notes(write(tmp_path / "clip.mp4", 50, size=(64, 64)), opening=SQUARE) == ()


@pytest.mark.parametrize(
    ("name", "note"),
    [
        ("one frame", "The clip is a single picture: there is no motion to judge."),
        ("three frames", "The clip has only 3 frames."),
        ("damaged", "1 of 50 frames cannot be decoded."),
        ("variable rate", "Variable frame rate: a frame stays from 0.016 s to 0.071 s."),
        (
            "raw stream",
            "The file has no usable timestamps: seconds are counted at 25 frames per second.",
        ),
        ("rotated", "Turned by 90° clockwise, as the file asks."),
        ("wide pixels", "Pixels are not square (4:3): shown as 128 x 64."),
        ("two streams", "The file holds 2 video streams; the main one (64 x 48) is used."),
        (
            "size changes",
            "The picture size changes at frame 9; every frame is brought to the size of the first.",
        ),
        ("edit list", "The header announces 50 frames, 33 are there to be shown."),
    ],
)
def test_each_kind_of_clip_has_its_note(
    name: str, note: str, make_clip: Callable[[str], Path]
) -> None:
    assert note in notes(make_clip(name))


@pytest.mark.parametrize(
    "name",
    [
        "open GOP",
        "fragments",
        "no duration",
        "unfinished AVI",
        "animated GIF",
        "MPEG-4 in AVI",
        "HEVC",
        "VP8",
        "10 bit",
        "odd size",
    ],
)
def test_a_clip_that_is_only_hard_to_decode_has_no_notes(
    name: str, make_clip: Callable[[str], Path]
) -> None:
    with opened(make_clip(name)) as clip:
        frames = clip.info.frames
    assert notes(make_clip(name), grid=Grid(frames, "even")) == ()


@pytest.mark.parametrize(
    ("opening", "noted"), [(SQUARE, True), (Sizing("letterbox", 448), False), (NATIVE, False)]
)
def test_a_changed_aspect_is_noted(
    opening: Sizing, noted: bool, make_clip: Callable[[str], Path]
) -> None:
    note = "The judge sees every frame squeezed to a square."
    assert (note in notes(make_clip("B-frames"), opening=opening)) == noted
    assert not any(
        "square" in each
        for each in notes(make_clip("B-frames"), opening=Sizing("area", area=90 * 784))
    )


def test_slots_that_share_a_frame_and_frames_without_a_slot_are_noted(
    make_clip: Callable[[str], Path],
) -> None:
    path = make_clip("B-frames")
    assert notes(path, grid=Grid(128, "floor")) == (
        "This clip has 50 frames; the judge counts 128, so neighbours can be the same picture.",
    )
    assert notes(path, grid=Grid(20, "floor")) == (
        "This clip has 50 frames; the judge counts 20, so it can never ask for 30 of them.",
    )
    assert notes(path, grid=Grid(20, "even")) == (
        "This clip has 50 frames; the judge counts 20, so it can never ask for 30 of them.",
    )


def write_numbered(order: Sequence[int], path: Path) -> Path:
    """A clip of numbered pictures; -1 is black, -2 is a small red dot on black."""
    dot = np.zeros((64, 64, 3), np.uint8)
    dot[30:36, 30:36] = (255, 0, 0)
    special: dict[int, Picture] = {-1: np.zeros((64, 64, 3), np.uint8), -2: dot}
    pictures = [
        special.get(number, numbered_picture(number, 64, 64))
        if number < 0
        else numbered_picture(number, 64, 64)
        for number in order
    ]
    return write(path, len(order), size=(64, 64), pictures=pictures)


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ([*range(25), *[-1] * 25], ("The picture is black from 1.00 s to 2.00 s.",)),
        ([-1] * 50, ("The picture is black throughout.",)),
        ([-2] * 50, ("The picture stands still throughout.",)),
        (
            [*range(20), *[20] * 20, *range(21, 31)],
            ("The picture stands still from 0.80 s to 1.60 s.",),
        ),
        (
            [7] * 15 + list(range(20)) + [9] * 15,
            ("The picture stands still from 0.00 s to 0.60 s, from 1.40 s to 2.00 s.",),
        ),
        ([number // 5 for number in range(50)], ()),
    ],
)
def test_black_and_still_stretches_are_noted(
    order: list[int], expected: tuple[str, ...], tmp_path: Path
) -> None:
    assert notes(write_numbered(order, tmp_path / "clip.mp4")) == expected


def test_a_small_or_slow_movement_is_not_still(tmp_path: Path) -> None:
    small, slow = [], []
    for index in range(50):
        picture = np.full((240, 320, 3), 90, np.uint8)
        picture[100:124, 4 * index : 4 * index + 24] = 230
        small.append(picture)
        slow.append(np.roll(numbered_picture(3, 320, 240)[60:], index // 4, axis=1)[:180])
    assert notes(write(tmp_path / "small.mp4", 50, size=(320, 240), pictures=small)) == ()
    assert not any(
        "throughout" in note
        for note in notes(write(tmp_path / "slow.mp4", 50, size=(320, 180), pictures=slow))
    )


def test_a_clip_that_is_not_decoded_whole_notes_that_stretches_were_not_looked_for(
    make_clip: Callable[[str], Path],
) -> None:
    assert any("were not looked for" in note for note in notes(make_clip("long"), read_mode="seek"))
    assert not any(
        "were not looked for" in note for note in notes(make_clip("long"), read_mode="whole")
    )


def test_a_truncated_recording_is_noted(tmp_path: Path) -> None:
    """The index at the front announces all frames, but their data is missing."""
    whole = write(tmp_path / "whole.mp4", 50, size=(64, 64), container={"movflags": "faststart"})
    found = notes(
        truncated(tmp_path / "cut.mp4", repeated(tmp_path / "long.mp4", whole, 1), 0.999),
        read_mode="whole",
    )
    assert found == notes(tmp_path / "long.mp4")
    half = notes(truncated(tmp_path / "half.mp4", whole, 0.6))
    assert any(
        "The header announces 50 frames" in note or "cannot be decoded" in note for note in half
    )


CUT: dict[str, dict[str, Any]] = {
    "clip.webm": {"codec": "libvpx", "options": FAST_VP9},
    "live.webm": {"codec": "libvpx", "options": FAST_VP9, "format": "webm", "unseekable": True},
    "clip.mkv": {},
    "fragments.mp4": {"container": {"movflags": "frag_keyframe+empty_moov+default_base_moof"}},
    "index in front.mp4": {"container": {"movflags": "faststart"}},
    "clip.flv": {"codec": "flv", "options": {}},
    "clip.ogv": {"codec": "libvpx", "options": FAST_VP9},
    "clip.mxf": {"codec": "mpeg2video", "options": {}},
    "without times.mxf": {},
    "clip.gif": {"codec": "gif", "pix_fmt": "rgb8", "options": {}},
    "clip.apng": {"codec": "apng", "pix_fmt": "rgba", "options": {}},
    "clip.y4m": {"codec": "wrapped_avframe", "options": {}, "format": "yuv4mpegpipe"},
    "clip.nut": {"codec": "mpeg4", "options": {}},
    "clip.avi": {"codec": "mpeg4", "options": {}},
    "clip.ivf": {"codec": "libvpx", "options": FAST_VP9},
    "clip.ts": {},
}


def broken(path: Path, **rest: Any) -> list[str]:
    return [note for note in notes(path, **rest) if "ends early" in note]


@pytest.mark.parametrize("read_mode", ["whole", "seek"])
@pytest.mark.parametrize("name", CUT)
def test_a_file_that_is_cut_off_shows_its_frames_and_one_note(
    name: str, read_mode: str, tmp_path: Path
) -> None:
    whole = write(tmp_path / name, 50, **CUT[name])
    assert broken(whole, read_mode=read_mode) == []
    for part in (0.61, 0.83):
        cut = truncated(tmp_path / f"cut {name}", whole, part)
        assert len(broken(cut, read_mode=read_mode)) == 1
        with opened(cut, read_mode=read_mode) as clip:
            assert 0 < clip.info.frames == len(decode(cut)) < 50


@pytest.mark.parametrize(
    "name", ["clip.webm", "live.webm", "clip.mkv", "clip.ogv", "clip.apng", "clip.y4m"]
)
def test_a_file_that_lost_bytes_in_its_middle_has_one_note(name: str, tmp_path: Path) -> None:
    whole = write(tmp_path / name, 50, **CUT[name])
    data = whole.read_bytes()
    lost = tmp_path / f"lost {name}"
    lost.write_bytes(data[: len(data) // 2] + data[len(data) // 2 + 1500 :])
    assert len(broken(lost)) == 1


@pytest.mark.parametrize("seconds", [0.5, 6.0])
@pytest.mark.parametrize("name", ["clip.webm", "clip.mkv", "fragments.mp4", "clip.ogv"])
def test_sound_of_another_length_is_no_damage(name: str, seconds: float, tmp_path: Path) -> None:
    video = write(tmp_path / f"silent {name}", 50, **CUT[name])
    sounding = with_sound(tmp_path / name, video, seconds, options=CUT[name].get("container", {}))
    assert broken(sounding) == []
    assert len(broken(truncated(tmp_path / f"cut {name}", sounding, 0.6))) == 1


def test_a_last_frame_that_stays_for_long_is_no_damage(tmp_path: Path) -> None:
    """As in recordings of a screen: the header announces more than there is, the longest frame inside lasts as long."""
    clip = write(tmp_path / "screen.mkv", 30, pts=[*range(0, 800, 40), *range(3000, 8000, 500)])
    content = clip.read_bytes()
    announced = content.index(b"\x44\x89\x88") + 3
    assert 7000 < struct.unpack(">d", content[announced : announced + 8])[0] < 9000
    for extra, noted in ((2000.0, 0), (8000.0, 1)):
        clip.write_bytes(
            content[:announced] + struct.pack(">d", 7500 + extra) + content[announced + 8 :]
        )
        assert len(broken(clip)) == noted
