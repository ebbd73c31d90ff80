"""What a frame has: index, time, key, size and pixels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import cv2
import numpy as np
import pytest

from tests.video.support import write_clips
from tests.video.support.open_clips import NATIVE, SQUARE, opened, pixels
from tests.video.support.sequential_decode import decode, map_frames, rgb_copy
from tests.video.support.write_clips import FFV1, UNEVEN, damaged, repeated, rotated, write
from vrthinker_core.types import FrameRef, Side
from vrthinker_core.types.frames import Grid, Sizing
from vrthinker_core.video import Limits
from vrthinker_core.video.timeline import FrameTimes, make_frame_times

MakeClip = Callable[[str], Path]


def test_frames_come_in_the_order_of_the_slots_and_as_often(make_clip: MakeClip) -> None:
    """And what is no slot is a ValueError."""
    how = {"grid": Grid(50, "even"), "first": [4], "side": Side.SECOND}
    with opened(make_clip("B-frames"), **how) as clip:
        found = [(frame.ref, frame.index) for frame in clip.frames([7, 4, 7])]
        assert found == [(FrameRef(slot, Side.SECOND), slot) for slot in (7, 4, 7)]
        assert clip.frames([]) == ()
        for slot in (-1, 50):
            with pytest.raises(ValueError, match="slots run from 0 to 49"):
                clip.frames([slot])


@pytest.mark.parametrize("read_mode", ["whole", "seek"])
def test_seconds_follow_the_timestamps_of_the_file(read_mode: str, make_clip: MakeClip) -> None:
    path, grid = make_clip("variable rate"), Grid(40, "even")
    with opened(path, grid=grid, first=[0], read_mode=read_mode) as clip:
        frames = clip.frames(range(40))
        assert clip.info.variable_rate
    assert [round(frame.seconds * 1000) for frame in frames] == UNEVEN
    assert [frame.until for frame in frames[:-1]] == [frame.seconds for frame in frames[1:]]
    assert frames[-1].until > frames[-1].seconds


def test_time_starts_at_the_first_frame_that_is_shown(make_clip: MakeClip) -> None:
    with opened(make_clip("edit list"), grid=Grid(33, "even"), first=[0]) as clip:
        frames, info = clip.frames([0, 32]), clip.info
    assert (info.frames, round(info.seconds, 3), round(info.fps, 3)) == (33, 1.32, 25)
    assert [frame.seconds for frame in frames] == pytest.approx([0, 1.28])


EVEN = [40 * index for index in range(50)]
FAR = 10**9


def times_of(stamps: Sequence[int | None]) -> FrameTimes:
    """The times of frames with these timestamps, in thousandths of a second."""
    return make_frame_times(stamps, Fraction(1, 1000), Fraction(30))


@pytest.mark.parametrize(
    "wrong",
    [
        *({place: value} for place in (0, 20, 49) for value in (None, FAR, -FAR)),
        *({place: EVEN[place] + shift} for place in (1, 20, 48) for shift in (-40, 40, -90, 90)),
        {0: 40},
        {49: EVEN[48]},
        {20: 60, 21: 65},
        {20: 3000, 21: 3010, 22: 3020},
        {48: FAR, 49: FAR + 40},
        {0: -FAR, 3: None, 11: 400, 20: 60, 30: 0, 49: FAR},
        dict.fromkeys(range(10, 30), 0),
    ],
    ids=str,
)
def test_a_wrong_timestamp_costs_one_time(wrong: dict[int, int | None]) -> None:
    times = times_of([wrong.get(index, stamp) for index, stamp in enumerate(EVEN)])
    assert times.starts == pytest.approx([stamp / 1000 for stamp in EVEN])
    assert times.seconds == pytest.approx(2)
    assert 0 < times.estimated <= len(wrong)


@pytest.mark.parametrize("wrong", [{7: None}, {7: 0}, {7: FAR}, {7: 300}, {39: FAR}, {0: FAR}])
def test_all_other_times_of_a_variable_rate_stay(wrong: dict[int, int | None]) -> None:
    times = times_of([wrong.get(index, stamp) for index, stamp in enumerate(UNEVEN)])
    assert np.all(np.diff(times.starts) > 0)
    others = [index for index in range(40) if index not in wrong]
    starts = times.starts[others] - times.starts[others[0]]
    assert starts == pytest.approx([(UNEVEN[index] - UNEVEN[others[0]]) / 1000 for index in others])
    assert times.estimated == 1


def test_a_pause_is_no_wrong_timestamp() -> None:
    pause = [*EVEN, *(60_000 + stamp for stamp in EVEN)]
    assert times_of(pause).starts == pytest.approx([stamp / 1000 for stamp in pause])


def test_the_rate_gives_the_times_only_where_most_timestamps_are_unusable() -> None:
    half = EVEN[:25]
    for stamps in ([None] * 30 + EVEN[30:], EVEN[:20] + [0] * 30, [*half, *half], [0] * 50):
        times = times_of(stamps)
        assert times.from_rate
        assert times.starts == pytest.approx([index / 30 for index in range(50)])


def test_keys_are_equal_exactly_when_pixels_are(make_clip: MakeClip, tmp_path: Path) -> None:
    copy = tmp_path / "copy.mp4"
    copy.write_bytes(make_clip("B-frames").read_bytes())
    pixels_by_key: dict[str, bytes] = {}
    for path in (make_clip("B-frames"), copy, make_clip("10 bit")):
        for sizing in (SQUARE, Sizing("letterbox", 448), NATIVE):
            with opened(path, opening=sizing, later=Sizing("square", 56), first=[0, 1]) as clip:
                for frame in clip.frames([0, 1, 2, 60, 61, 127]):
                    assert pixels_by_key.setdefault(frame.key, frame.rgb) == frame.rgb
    # 3 opening sizes of the first frame, and frames 0, 23 and 49 at 56 x 56, of each of two contents.
    assert len(pixels_by_key) == 2 * (3 + 4) - 2
    with opened(copy) as clip, opened(make_clip("B-frames")) as other:
        assert clip.info.digest == other.info.digest
        assert clip.info.name != other.info.name


@pytest.mark.parametrize("size", [(96, 64), (64, 96), (64, 64)])
def test_square_sizing_changes_the_aspect(size: tuple[int, int], tmp_path: Path) -> None:
    path = write(tmp_path / "clip.mp4", 5, size=size)
    with opened(path, opening=SQUARE) as clip:
        (frame,) = clip.frames([0])
    assert (frame.width, frame.height, len(frame.rgb)) == (448, 448, 448 * 448 * 3)
    wanted = cv2.resize(decode(path)[0][1], (448, 448), interpolation=cv2.INTER_CUBIC)
    assert np.abs(pixels(frame).astype(int) - wanted).mean() < 1


def test_shrinking_averages_areas(tmp_path: Path) -> None:
    """A fine chequerboard becomes grey, not noise."""
    board = np.repeat(((np.indices((720, 1280)).sum(0) % 2) * 255)[..., None], 3, 2)
    how = {"size": (1280, 720), "pix_fmt": "bgr0", "pictures": [board.astype(np.uint8)] * 2}
    with opened(write(tmp_path / "board.mkv", 2, **FFV1, **how), opening=SQUARE) as clip:
        (frame,) = clip.frames([0])
    inner = pixels(frame)[4:-4, 4:-4].astype(int)
    assert abs(inner.mean() - 127.5) < 2
    assert inner.std() < 40


@pytest.mark.parametrize(
    ("size", "bars"), [((96, 48), (112, 0)), ((48, 96), (0, 112)), ((64, 64), (0, 0))]
)
def test_letterbox_sizing_keeps_the_aspect_between_black_bars(
    size: tuple[int, int], bars: tuple[int, int], tmp_path: Path
) -> None:
    """Black bars of equal size on both sides, the whole frame between them."""
    white = [np.full((size[1], size[0], 3), 255, np.uint8)] * 3
    path = write(tmp_path / "white.mp4", 3, size=size, pictures=white)
    with opened(path, opening=Sizing("letterbox", 448)) as clip:
        picture = pixels(clip.frames([0])[0])
    (top, left), light = bars, picture.min(axis=2) > 200
    assert picture.shape == (448, 448, 3)
    inside = np.zeros((448, 448), bool)
    inside[top : 448 - top, left : 448 - left] = True
    assert np.array_equal(light, inside)


def test_area_sizing_keeps_the_aspect_in_whole_patches(make_clip: MakeClip) -> None:
    opening = Sizing("area", area=400 * 28 * 28)
    with opened(make_clip("wide pixels"), opening=opening) as clip:
        (frame,) = clip.frames([0])
    assert (frame.width % 28, frame.height % 28) == (0, 0)
    assert (frame.width, frame.height) == opening.size(128, 64)


@pytest.mark.parametrize(
    ("aspect", "displayed"),
    [(Fraction(4, 3), (128, 64)), (Fraction(1, 2), (96, 128)), (Fraction(1), (96, 64))],
)
def test_pixels_that_are_not_square_are_stretched(
    aspect: Fraction, displayed: tuple[int, int], tmp_path: Path
) -> None:
    with opened(write(tmp_path / "clip.mp4", 3, pixel_aspect=aspect)) as clip:
        (frame,) = clip.frames([0])
        assert (clip.info.width, clip.info.height) == (frame.width, frame.height) == displayed
        assert any("Pixels are not square" in note for note in clip.info.notes) == (aspect != 1)


@pytest.mark.parametrize(
    ("how", "matrix", "like"),
    [
        *(({}, matrix, 9 if matrix == 10 else 2) for matrix in (8, 10, 11, 12, 13, 14)),
        *((write_clips.HEVC, 15, 2), (FFV1, 16, 2), (FFV1, 17, 2)),
        *((write_clips.MPEG4, 10, 9), (write_clips.VP9, 3, 2)),
    ],
)
def test_colours_of_an_unusual_matrix_are_those_that_players_show(
    how: dict[str, Any], matrix: int, like: int, tmp_path: Path
) -> None:
    """FFmpeg itself refuses to convert them from version 8 on."""
    path = write(tmp_path / "clip.mkv", 9, matrix=matrix, **how)

    def shown(index: int, frame: av.VideoFrame) -> Any:
        assert frame.colorspace == matrix
        frame.colorspace = like
        return rgb_copy(frame)

    wanted = map_frames(path, shown)
    for read_mode in ("whole", "seek"):
        with opened(path, grid=Grid(9, "even"), read_mode=read_mode, first=[8]) as clip:
            for frame in clip.frames(range(9)):
                assert np.array_equal(pixels(frame), wanted[frame.index])
            assert any("matrix" in note for note in clip.info.notes)


Turn = tuple[tuple[int, int, int, int], int, bool, Callable[[Any], Any]]
MATRICES: list[Turn] = [
    ((1, 0, 0, 1), 0, False, lambda picture: picture),
    ((0, 1, -1, 0), 90, False, lambda picture: np.rot90(picture, -1)),
    ((-1, 0, 0, -1), 180, False, lambda picture: np.rot90(picture, 2)),
    ((0, -1, 1, 0), 270, False, lambda picture: np.rot90(picture, 1)),
    ((-1, 0, 0, 1), 0, True, np.fliplr),
    ((1, 0, 0, -1), 180, True, np.flipud),
    ((0, 1, 1, 0), 90, True, lambda picture: picture.transpose(1, 0, 2)),
    ((0, -1, -1, 0), 270, True, lambda picture: np.rot90(picture.transpose(1, 0, 2), 2)),
]


@pytest.mark.parametrize("case", MATRICES, ids=lambda case: str(case[0]))
def test_the_display_matrix_rotates_and_mirrors(
    case: Turn, make_clip: MakeClip, tmp_path: Path
) -> None:
    matrix, degrees, mirrored, rotate = case
    path = rotated(tmp_path / "clip.mp4", make_clip("B-frames"), *matrix)
    with opened(path) as clip, opened(path, opening=SQUARE) as square:
        (frame,) = clip.frames([0])
        (small,) = square.frames([0])
        assert clip.info.rotation == degrees
        assert ("Mirrored, as the file asks." in clip.info.notes) == mirrored
        assert (clip.info.width, clip.info.height) == (frame.width, frame.height)
    stored = decode(path)[0][1]
    wanted, turned = rotate(stored), np.rot90(stored, -degrees // 90)
    assert np.array_equal(pixels(frame), wanted)
    told = turned[:, ::-1] if mirrored else turned
    assert np.array_equal(told, wanted), "what the notes say: turned, then mirrored"
    resized = cv2.resize(wanted, (448, 448), interpolation=cv2.INTER_CUBIC)
    assert np.abs(pixels(small).astype(int) - resized).mean() < 1


def test_a_neighbour_replaces_a_lost_frame_where_a_full_decode_takes_too_long(
    tmp_path: Path,
) -> None:
    """A long clip, damaged in one place, and too little time to decode everything: the frame count stays, the gap is noted."""
    part = write(tmp_path / "part.mp4", 30, size=(640, 360), gop=10)
    path = damaged(tmp_path / "clip.mp4", repeated(tmp_path / "long.mp4", part, 20), 305)
    found = {round(pts / 512) for pts, _ in decode(path) if pts is not None}
    lost = sorted(set(range(600)) - found)
    how = {"grid": Grid(600, "even"), "first": [0], "limits": Limits(cpu_seconds=0.5)}
    with opened(path, read_mode="seek", **how) as clip:
        assert clip.info.frames == 600
        frames = clip.frames([*lost, 299])
        assert clip.read_mode == "seek"
    for frame, slot in zip(frames, lost, strict=False):
        assert (abs(frame.index - slot), frame.note) == (1, "nearest decodable neighbour")
    assert (frames[-1].index, frames[-1].note) == (299, "")
