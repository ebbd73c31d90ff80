"""The frames of a turn as tiles: the two videos side by side wherever the judge saw the same slot of both."""

import math
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass
from typing import Literal, NotRequired, TypedDict

from vrthinker_core.types import ClipInfo, FrameRef, Side, Thumbnail


@dataclass(frozen=True, slots=True)
class ImageSource:
    """A thumbnail's address (a URL or a data URI) and its size in pixels, so that the layout is stable while it loads."""

    src: str
    width: int
    height: int


ImageSources = Callable[[Thumbnail], ImageSource]  # gives the source of a thumbnail
Clips = tuple[ClipInfo | None, ClipInfo | None]


class HalfJson(TypedDict):
    """One video's frame of a tile."""

    src: str
    ratio: float  # width divided by height
    time: float  # when the frame appears, in seconds: the one time that a frame is shown with
    at: float  # seconds to seek to
    place: float  # where the frame stands in its clip, 0 to 1
    gone: NotRequired[Literal[True]]  # the frame has left the judge's view


class TileJson(TypedDict):
    """A tile; a half is None where the judge did not see that video."""

    label: str
    slot: int
    halves: list[HalfJson | None]


@dataclass(frozen=True, slots=True)
class Tile:
    """One slot of one turn. `halves` holds the sides that were sent, one or both."""

    halves: Mapping[Side, Thumbnail]

    @property
    def label(self) -> str:
        """The frame's number as it was printed to the judge; both numbers where the videos are counted apart."""
        return " · ".join(
            dict.fromkeys(f"#{half.number}" for _, half in sorted(self.halves.items()))
        )

    def to_json(self, clips: Clips, in_view: Set[FrameRef], images: ImageSources) -> TileJson:
        """The tile for the page. Frames that are not `in_view` are marked as gone."""
        halves = [
            self._half(side, clip, in_view, images) for side, clip in zip(Side, clips, strict=True)
        ]
        slot = min(half.ref.slot for half in self.halves.values())  # the same of both
        return {"label": self.label, "slot": slot, "halves": halves}

    def _half(
        self, side: Side, clip: ClipInfo | None, in_view: Set[FrameRef], images: ImageSources
    ) -> HalfJson | None:
        frame = self.halves.get(side)
        if frame is None:
            return None
        image = images(frame)
        ratio = round(image.width / image.height, 3)
        time, place = _finite(frame.seconds), timeline_position(frame, clip)
        half: HalfJson = {
            "src": image.src,
            "ratio": ratio,
            "time": time,
            "at": seek_time(frame),
            "place": place,
        }
        if frame.ref not in in_view:
            half["gone"] = True
        return half


def group_tiles(frames: Iterable[Thumbnail]) -> list[Tile]:
    """Frames grouped by slot, in the order in which each slot came first."""
    slots: dict[int, dict[Side, Thumbnail]] = {}
    for frame in frames:
        slots.setdefault(frame.ref.slot, {}).setdefault(frame.ref.side, frame)
    return [Tile(halves) for halves in slots.values()]


def seek_time(frame: Thumbnail) -> float:
    """Seconds to the middle of the frame's interval: browsers show the exact frame there (17 of 17; at its timestamp 10 to 12)."""
    return _finite((frame.seconds + max(frame.seconds, frame.until)) / 2)


def timeline_position(frame: Thumbnail, clip: ClipInfo | None) -> float:
    """The frame's place in its clip by index, 0 to 1: the same place in both videos is the same moment."""
    index = min(max(frame.index, 0), 2**31)
    frames = max(clip.frames if clip else 0, index + 1)
    return round((index + 0.5) / frames, 5)


def _finite(seconds: float) -> float:
    return round(seconds, 5) if math.isfinite(seconds) else 0.0
