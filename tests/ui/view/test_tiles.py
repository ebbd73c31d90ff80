"""Tiles: pairs where both sides were sent, and the middle of the interval in which a frame is shown."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tests.ui.support import handmade_runs
from vrthinker_core.types import FrameRef, Side, Thumbnail
from vrthinker_core.ui.view.tiles import ImageSource, group_tiles, seek_time, timeline_position

frames = st.lists(st.tuples(st.integers(0, 127), st.sampled_from(Side)), unique=True, max_size=40)


def image_of(frame: Thumbnail) -> ImageSource:
    return ImageSource("", 1, 1)


@given(frames)
def test_every_frame_is_on_exactly_one_tile_and_on_its_own_side(
    refs: list[tuple[int, Side]],
) -> None:
    sent = [handmade_runs.thumbnail(slot, side) for slot, side in refs]
    found = [
        (half.ref.slot, side) for tile in group_tiles(sent) for side, half in tile.halves.items()
    ]
    assert sorted(found) == sorted(refs)
    assert all(
        half.ref.side is side for tile in group_tiles(sent) for side, half in tile.halves.items()
    )


def test_a_side_that_was_not_sent_stays_empty() -> None:
    alone = group_tiles([handmade_runs.thumbnail(12, Side.SECOND, "61")])[0]
    assert alone.label == "#61"
    first, second = alone.to_json((None, None), frozenset(), image_of)["halves"]
    assert first is None
    assert second["gone"]


def test_frames_numbered_apart_show_both_numbers() -> None:
    assert (
        group_tiles(
            [
                handmade_runs.thumbnail(12, Side.FIRST, "13"),
                handmade_runs.thumbnail(12, Side.SECOND, "61"),
            ]
        )[0].label
        == "#13 · #61"
    )


def test_the_seek_time_lies_inside_the_frame_s_interval() -> None:
    frame = handmade_runs.thumbnail(16, Side.FIRST)
    assert frame.seconds < seek_time(frame) < frame.until


@given(st.integers(), st.floats(), st.floats())
def test_nonsense_numbers_give_finite_times_and_places(
    index: int, seconds: float, until: float
) -> None:
    frame = replace(
        handmade_runs.thumbnail(0, Side.FIRST),
        ref=FrameRef(0, Side.FIRST),
        index=index,
        seconds=seconds,
        until=until,
    )
    assert abs(seek_time(frame)) < float("inf")
    assert 0 <= timeline_position(frame, handmade_runs.clip("a")) <= 1
