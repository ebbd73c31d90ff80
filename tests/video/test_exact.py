"""The frame of a slot is the one that a full sequential decode gives at its index, whatever the container says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from tests.video.support.hostile_clips import HOSTILE
from tests.video.support.open_clips import CONCAT, FIRST, NATIVE, PAIRED, SQUARE, opened, pixels
from tests.video.support.real_clips import real_clips
from tests.video.support.sequential_decode import decode
from tests.video.support.write_clips import KINDS, damaged, repeated, write
from vrthinker_core.errors import VideoError
from vrthinker_core.types import ClipInfo, Frame
from vrthinker_core.types.frames import Grid, Sizing

SOUGHT = {
    *("B-frames", "open GOP", "intra refresh", "one key frame", "variable rate", "edit list"),
    *("rotated", "HEVC", "10 bit", "long"),
}
NOT_SOUGHT = {"damaged", "swapped key frames, mp4", "swapped key frames, mkv"}
TELLING = {
    *("ax_iibbibb_editlist_videoonly.mp4", "ax_invalid-bitstream.webm", "ax_sample_h264.ts"),
    *("ax_sample_android_slow_motion.mp4", "ax_sample_audio_only.mp4", "dc_corrupted.mp4"),
    *("ax_sample_missing_stsd.mp4", "ax_sample_rotate_and_reflect.mp4", "dc_unordered.mov"),
    *("dc_video_90.mov", "mp_circle.gif", "mp_no_duration.webm", "oh_BA_MW_D_IDR_LOST.264"),
    *("pil_decompression_bomb.gif", "pil_iss634.webp", "tc_h265_10bits.mp4"),
    "wm_simple_block.webm",
}
READ_MODES = ("whole", "seek")
SLOTS = (*FIRST, 127, 3, 5, 64, 2, 111, 0)
Reference = list[tuple[int | None, np.ndarray[Any, Any]]]


def shown(reference: np.ndarray[Any, Any], info: ClipInfo) -> np.ndarray[Any, Any]:
    """The reference as it is displayed."""
    rotated = np.rot90(reference, -info.rotation // 90)
    return rotated[:, ::-1] if "Mirrored, as the file asks." in info.notes else rotated


def check(
    frames: tuple[Frame, ...], info: ClipInfo, reference: Reference, grid: Grid = PAIRED
) -> None:
    assert info.frames == len(reference) > 0
    for frame in frames:
        assert frame.index == grid.index(frame.ref.slot, len(reference))
        assert not frame.note
        found, expected = pixels(frame), shown(reference[frame.index][1], info)
        if found.shape == expected.shape:
            assert np.array_equal(found, expected), f"slot {frame.ref.slot} shows another picture"
        else:
            size = frame.width, frame.height
            resized = cv2.resize(expected, size, interpolation=cv2.INTER_CUBIC)
            assert np.abs(found.astype(int) - resized).mean() < 4


@pytest.mark.parametrize("name", sorted((KINDS | HOSTILE).keys() - {"animated WebP"}))
def test_every_slot_of_every_kind_of_clip(name: str, make_clip: Callable[[str], Path]) -> None:
    path = make_clip(name)
    reference = decode(path)
    for read_mode in READ_MODES:
        with opened(path, read_mode=read_mode) as clip:
            frames = clip.frames(SLOTS) + clip.frames(range(128))
            assert [frame.ref.slot for frame in frames] == [*SLOTS, *range(128)]
            check(frames, clip.info, reference)
            if name in SOUGHT:
                assert clip.read_mode == read_mode
            if read_mode == "whole" or name in NOT_SOUGHT:
                assert clip.read_mode == "whole", "its timestamps do not tell where its frames are"


@pytest.mark.parametrize("path", real_clips(TELLING))
def test_real_clips(path: Path) -> None:
    reference = decode(path) if path.suffix != ".webp" else []
    for read_mode in READ_MODES if reference else ():
        with opened(path, first=SLOTS, read_mode=read_mode) as clip:
            check(clip.frames(SLOTS), clip.info, reference)
    if not reference:
        with pytest.raises(VideoError, match=r"^\S.*\.$"):
            opened(path)


def test_an_even_grid_with_a_size_for_the_first_slots_and_one_for_the_others(
    make_clip: Callable[[str], Path],
) -> None:
    opening, later = Sizing("area", area=64 * 28 * 28), Sizing("area", area=6 * 28 * 28)
    path = make_clip("one key frame")
    with opened(path, grid=CONCAT, opening=opening, later=later, first=[0, 12]) as clip:
        frames = clip.frames([0, 12, 47, 13])
    assert [frame.index for frame in frames] == [0, 51, 199, 55]
    sizes = [opening.size(96, 64)] * 2 + [later.size(96, 64)] * 2
    assert [(frame.width, frame.height) for frame in frames] == sizes


def test_a_long_clip_is_sought_in_and_a_short_one_decoded_whole(
    make_clip: Callable[[str], Path], tmp_path: Path
) -> None:
    with opened(make_clip("B-frames")) as clip:
        assert clip.read_mode == "whole"
    second = write(tmp_path / "second.mp4", 25, size=(1280, 720))
    minute = repeated(tmp_path / "minute.mp4", second, 40)
    with opened(minute, opening=SQUARE) as clip:
        assert clip.read_mode == "seek"
        assert clip.info.frames == 1000


def test_wrong_timestamps_found_late_correct_the_frame_count(tmp_path: Path) -> None:
    """The end is read first; the damage at the start then shifts the indices at the end too, and a key still means one picture."""
    long = repeated(tmp_path / "long.mp4", write(tmp_path / "part.mp4"), 12)
    path = damaged(tmp_path / "clip.mp4", long, 20)
    grid = Grid(600, "even")
    with opened(path, grid=grid, first=[550, 551], read_mode="seek") as clip:
        assert (clip.read_mode, clip.info.frames) == ("seek", 600)
        before = clip.frames(range(540, 560))
        clip.frames([21])
        assert clip.read_mode == "whole"
        after = clip.frames(range(540, 560))
        check(tuple(replace(frame, note="") for frame in after), clip.info, decode(path), grid)
    assert {frame.note for frame in before} == {""}
    told = "counted among the 599 frames that decode, earlier ones among 600"
    assert {frame.note for frame in after} == {told}
    for one, other in product(before, after):
        assert (one.key == other.key) == (one.rgb == other.rgb)


def test_frames_that_do_not_fit_into_the_cache_are_decoded_again(tmp_path: Path) -> None:
    part = write(tmp_path / "part.mp4", 12, size=(1280, 720))
    path = repeated(tmp_path / "large.mp4", part, 4)
    with opened(path, opening=NATIVE) as clip:
        frames = clip.frames(range(0, 128, 2))
        assert sum(len(frame.rgb) for frame in frames) > 100_000_000
        check(frames, clip.info, decode(path))
