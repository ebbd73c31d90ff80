"""The frames of a turn as tiles: the two videos side by side wherever the judge saw the same slot of both."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass
from typing import Literal, NotRequired, TypedDict

from vrthinker_core.types import ClipInfo, FrameRef, Side, Thumbnail
from vrthinker_core.ui.view import words


@dataclass(frozen=True, slots=True)
class ImageSource:
    """Where the browser finds a thumbnail (a URL or a data URI), and its size in pixels, so that nothing jumps when it arrives."""

    src: str
    width: int
    height: int


ImageSources = Callable[[Thumbnail], ImageSource]


class HalfJson(TypedDict):
    """One video's frame of a tile."""

    src: str
    ratio: float
    """Width divided by height."""
    at: float
    """Seconds to seek to."""
    place: float
    """Where the frame stands in its clip, 0 to 1."""
    gone: NotRequired[Literal[True]]
    """The frame has left the judge's view."""


class TileJson(TypedDict):
    """A tile; a half is None where the judge did not see that video."""

    label: str
    halves: list[HalfJson | None]


@dataclass(frozen=True, slots=True)
class Tile:
    """One slot of one turn. A side that was not sent is missing: a partner is never invented."""

    halves: Mapping[Side, Thumbnail]

    @property
    def label(self) -> str:
        """The frame's number as it was printed to the judge; both numbers where the videos are counted apart."""
        return " · ".join(dict.fromkeys(f"#{half.number}" for _, half in sorted(self.halves.items())))

    def to_json(self, clips: Mapping[Side, ClipInfo], visible: Set[FrameRef], pictures: ImageSources) -> TileJson:
        """For the page: a label, and for each side a picture with its moment, or None."""
        return {"label": self.label, "halves": [self._half(side, clips, visible, pictures) for side in Side]}

    def _half(self, side: Side, clips: Mapping[Side, ClipInfo], visible: Set[FrameRef], pictures: ImageSources) -> HalfJson | None:
        thumbnail = self.halves.get(side)
        if thumbnail is None:
            return None
        picture = pictures(thumbnail)
        half: HalfJson = {
            "src": picture.src,
            "ratio": round(picture.width / picture.height, 3),
            "at": seek_time(thumbnail),
            "place": timeline_position(thumbnail, clips.get(side)),
        }
        if thumbnail.ref not in visible:
            half["gone"] = True
        return half


def group_tiles(frames: Iterable[Thumbnail]) -> list[Tile]:
    """Frames grouped by slot, in the order in which each slot first came."""
    slots: dict[int, dict[Side, Thumbnail]] = {}
    for frame in frames:
        slots.setdefault(frame.ref.slot, {}).setdefault(frame.ref.side, frame)
    return [Tile(halves) for halves in slots.values()]


def with_captions(frames: Iterable[Thumbnail]) -> list[tuple[Thumbnail, str]]:
    """Every frame with its caption, the two videos of a slot beside each other."""
    halves = [half for tile in group_tiles(frames) for _, half in sorted(tile.halves.items())]
    return [(half, words.frame_caption(half.ref.side, half.number, half.seconds)) for half in halves]


def seek_time(frame: Thumbnail) -> float:
    """Seconds in the middle of the time for which the frame is shown: the one place where every player shows this very frame."""
    middle = (frame.seconds + max(frame.seconds, frame.until)) / 2
    return round(middle, 5) if math.isfinite(middle) else 0.0


def timeline_position(frame: Thumbnail, clip: ClipInfo | None) -> float:
    """Where the frame stands in its clip, 0 to 1, by index: the same place in both videos is the same moment."""
    index = min(max(frame.index, 0), 2**31)
    frames = max(clip.frames if clip else 0, index + 1)
    return round((index + 0.5) / frames, 5)
