"""Notes about a clip: measured on it, and none where nothing is unusual."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.slow import slow
from tests.video.support import write_clips
from tests.video.support.open_clips import NATIVE, SQUARE, opened
from tests.video.support.sequential_decode import decode
from tests.video.support.write_clips import FAST_VP8, FRAGMENTS, MPEG4, truncated, write
from vrthinker_core.types.frames import Grid, Sizing

ONE_SLOT_PER_FRAME = Grid(50, "even")
"""As many slots as most of these clips have frames."""
READ_MODES = ("whole", "seek")
MakeClip = Callable[[str], Path]


def notes(
    path: Path, grid: Grid = ONE_SLOT_PER_FRAME, opening: Sizing = NATIVE, **rest: Any
) -> tuple[str, ...]:
    with opened(path, grid=grid, opening=opening, first=[0], **rest) as clip:
        assert all(note.endswith(".") and "\n" not in note for note in clip.info.notes)
        return clip.info.notes


def test_a_clip_without_problems_has_no_notes(tmp_path: Path) -> None:
    assert notes(write(tmp_path / "clip.mp4", 50, size=(64, 64)), opening=SQUARE) == ()


NOTED = {
    "encrypted MP4": "encrypted",
    "encrypted Matroska": "encrypted",
    "one frame": "The clip is a single picture: there is no motion to judge.",
    "three frames": "The clip has only 3 frames.",
    "damaged": "1 of 50 frames cannot be decoded.",
    "variable rate": "Variable frame rate: a frame stays from 0.016 s to 0.071 s.",
    "raw stream": "The file has no usable timestamps: seconds are counted at 25 frames per second.",
    "rotated": "Turned by 90° clockwise, as the file asks.",
    "wide pixels": "Pixels are not square (4:3): shown as 128 x 64.",
    "two streams": "The file holds 2 video streams; the main one (64 x 48) is used.",
    "size changes": "The picture size changes at frame 9; every frame is brought to the size of ",
    "edit list": "The header announces 50 frames, 33 are there to be shown.",
}


@pytest.mark.parametrize("name", NOTED)
def test_each_kind_of_clip_has_its_note(name: str, make_clip: MakeClip) -> None:
    assert NOTED[name] in "\n".join(notes(make_clip(name)))


HARD = [
    *("open GOP", "fragments", "no duration", "unfinished AVI", "animated GIF", "MPEG-4 in AVI"),
    *("HEVC", "VP8", "10 bit", "odd size"),
]


@pytest.mark.parametrize("name", HARD)
def test_a_clip_that_is_only_hard_to_decode_has_no_notes(name: str, make_clip: MakeClip) -> None:
    with opened(make_clip(name)) as clip:
        frames = clip.info.frames
    assert notes(make_clip(name), grid=Grid(frames, "even")) == ()


def test_a_changed_aspect_is_noted(make_clip: MakeClip) -> None:
    note = "The judge sees every frame squeezed to a square."
    assert note in notes(make_clip("B-frames"), opening=SQUARE)
    for opening in (Sizing("letterbox", 448), NATIVE, Sizing("area", area=90 * 784)):
        assert "square" not in str(notes(make_clip("B-frames"), opening=opening))


@pytest.mark.parametrize(
    ("grid", "consequence"),
    [
        (Grid(128, "floor"), "128, so neighbours can be the same picture."),
        (Grid(20, "floor"), "20, so it can never ask for 30 of them."),
        (Grid(20, "even"), "20, so it can never ask for 30 of them."),
    ],
    ids=str,
)
def test_slots_that_share_a_frame_and_frames_without_a_slot_are_noted(
    grid: Grid, consequence: str, make_clip: MakeClip
) -> None:
    told = f"This clip has 50 frames; the judge counts {consequence}"
    assert notes(make_clip("B-frames"), grid=grid) == (told,)


def write_numbered(order: Sequence[int], path: Path) -> Path:
    """A clip of numbered pictures; -1 is black, -2 is a small red dot on black."""
    dot = np.zeros((64, 64, 3), np.uint8)
    dot[30:36, 30:36] = (255, 0, 0)
    special: dict[int, write_clips.Picture] = {-1: np.zeros((64, 64, 3), np.uint8), -2: dot}
    pictures = [
        special[number] if number < 0 else write_clips.numbered_picture(number, 64, 64)
        for number in order
    ]
    return write(path, len(order), size=(64, 64), pictures=pictures)


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ([*range(25), *[-1] * 25], "is black from 1.00 s to 2.00 s."),
        ([-1] * 50, "is black throughout."),
        ([-2] * 50, "stands still throughout."),
        (
            [*[-1] * 15, *range(20), *[-1] * 15],
            "is black from 0.00 s to 0.60 s, from 1.40 s to 2.00 s.",
        ),
        ([*range(20), *[20] * 20, *range(21, 31)], ""),  # which `measure` tells, exactly
        ([number // 5 for number in range(50)], ""),
    ],
)
def test_black_and_still_stretches_are_noted(
    order: list[int], expected: str, tmp_path: Path
) -> None:
    found = notes(write_numbered(order, tmp_path / "clip.mp4"))
    assert found == ((f"The picture {expected}",) if expected else ())


def test_a_small_or_slow_movement_is_not_still(tmp_path: Path) -> None:
    small, slowly = [], []
    for index in range(50):
        picture = np.full((120, 160, 3), 90, np.uint8)
        picture[50:62, 2 * index : 2 * index + 12] = 230
        small.append(picture)
        slowly.append(np.roll(write_clips.numbered_picture(3, 160, 120)[30:], index // 4, axis=1))
    assert notes(write(tmp_path / "small.mp4", 50, size=(160, 120), pictures=small)) == ()
    found = notes(write(tmp_path / "slow.mp4", 50, size=(160, 90), pictures=slowly))
    assert "throughout" not in str(found)


def test_a_clip_that_is_not_decoded_whole_notes_that_stretches_were_not_looked_for(
    make_clip: MakeClip,
) -> None:
    for read_mode in READ_MODES:
        told = "were not looked for" in str(notes(make_clip("long"), read_mode=read_mode))
        assert told == (read_mode == "seek")


GIF = {"codec": "gif", "pix_fmt": "rgb8", "options": {}}
APNG = {"codec": "apng", "pix_fmt": "rgba", "options": {}}
RAW = {"codec": "wrapped_avframe", "options": {}, "format": "yuv4mpegpipe"}
CUT: dict[str, dict[str, Any]] = {
    "clip.webm": FAST_VP8,
    "live.webm": {**FAST_VP8, "format": "webm", "unseekable": True},
    "clip.mkv": {},
    "fragments.mp4": FRAGMENTS,
    "index in front.mp4": {"container": {"movflags": "faststart"}},
    "clip.flv": {"codec": "flv", "options": {}},
    "clip.ogv": FAST_VP8,
    "clip.mxf": {"codec": "mpeg2video", "options": {}},
    "without times.mxf": {},
    "clip.gif": GIF,
    "clip.apng": APNG,
    "clip.y4m": RAW,
    "clip.nut": MPEG4,
    "clip.avi": MPEG4,
    "clip.ivf": FAST_VP8,
    "clip.ts": {},
}
RARE = {"clip.flv", "without times.mxf", "clip.ivf"}


def broken(path: Path, **rest: Any) -> list[str]:
    return [note for note in notes(path, **rest) if "ends early" in note]


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=slow if name in RARE else []) for name in CUT]
)
def test_a_file_that_is_cut_off_shows_its_frames_and_one_note(name: str, tmp_path: Path) -> None:
    whole = write(tmp_path / name, 50, **CUT[name])
    cuts = [truncated(tmp_path / f"cut {part} {name}", whole, part) for part in (0.61, 0.83)]
    frames = [len(decode(cut)) for cut in cuts]
    for read_mode in READ_MODES:
        assert broken(whole, read_mode=read_mode) == []
        for cut, there in zip(cuts, frames, strict=True):
            with opened(cut, read_mode=read_mode) as clip:
                assert 0 < clip.info.frames == there < 50
                assert len([note for note in clip.info.notes if "ends early" in note]) == 1


@pytest.mark.parametrize("part", [0.3, 0.8, "fragments"])
def test_a_seek_outside_the_file_is_an_error_of_the_container(
    part: float | str, tmp_path: Path
) -> None:
    """Such as a real file gives: an exception would end the run."""
    if isinstance(part, str):  # One says that its data stands far behind the end of the file
        how = {"movflags": "frag_keyframe+empty_moov"}
        path = write(tmp_path / "far.mp4", 50, container=how)
        data = bytearray(path.read_bytes())
        start = data.index(b"tfhd", data.index(b"tfhd", data.index(b"tfhd") + 1) + 1) + 12
        data[start : start + 8] = struct.pack(">Q", 0x7F43_0000_0000_0000)
        path.write_bytes(data)
    else:
        path = truncated(tmp_path / "cut.nut", write(tmp_path / "whole.nut", 50, **MPEG4), part)
    with opened(path) as clip:
        assert 10 <= clip.info.frames == len(decode(path)) < 50
        assert "ends early" in str(clip.info.notes)


@pytest.mark.parametrize("name", ["clip.webm", "live.webm", "clip.ogv", "clip.apng", "clip.y4m"])
def test_a_file_that_lost_bytes_in_its_middle_has_one_note(name: str, tmp_path: Path) -> None:
    data = write(tmp_path / name, 50, **CUT[name]).read_bytes()
    lost = tmp_path / f"lost {name}"
    lost.write_bytes(data[: len(data) // 2] + data[len(data) // 2 + 1500 :])
    assert len(broken(lost)) == 1


@pytest.mark.parametrize("name", ["clip.webm", "clip.mkv", "fragments.mp4", "clip.ogv"])
def test_sound_of_another_length_is_no_damage(name: str, tmp_path: Path) -> None:
    video, how = write(tmp_path / f"silent {name}", 50, **CUT[name]), CUT[name].get("container", {})
    for seconds in (0.5, 6.0):
        sounding = write_clips.with_sound(tmp_path / name, video, seconds, options=how)
        assert broken(sounding) == []
        assert len(broken(truncated(tmp_path / f"cut {name}", sounding, 0.6))) == 1


def test_a_last_frame_that_stays_for_long_is_no_damage(tmp_path: Path) -> None:
    """As in recordings of a screen: the header announces more than there is, the longest frame inside lasts as long."""
    clip = write(tmp_path / "screen.mkv", 30, pts=[*range(0, 800, 40), *range(3000, 8000, 500)])
    content = clip.read_bytes()
    at = content.index(b"\x44\x89\x88") + 3  # the announced duration
    assert 7000 < struct.unpack(">d", content[at : at + 8])[0] < 9000
    for extra, noted in ((2000.0, 0), (8000.0, 1)):
        clip.write_bytes(content[:at] + struct.pack(">d", 7500 + extra) + content[at + 8 :])
        assert len(broken(clip)) == noted
