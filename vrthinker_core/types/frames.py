"""Two videos, their frames and thumbnails, and the clips they come from."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from vrthinker_core.types.settings import Amount, Few, Natural

if TYPE_CHECKING:  # A process that only holds frames loads neither
    import numpy as np
    from PIL import Image


class Side(IntEnum):
    """The two sides of a pair: the first and the second video."""

    FIRST = 1
    SECOND = 2

    @property
    def other(self) -> "Side":
        """The side of the other video."""
        return Side.SECOND if self is Side.FIRST else Side.FIRST


@dataclass(frozen=True, slots=True)
class VideoPair:
    """Two videos made from one prompt."""

    prompt: str
    first: Path | str
    second: Path | str

    def swapped(self) -> "VideoPair":
        """Return the pair with its sides swapped."""
        return VideoPair(self.prompt, self.second, self.first)


@dataclass(frozen=True, slots=True, order=True)
class FrameRef:
    """A slot of one video, 0-based in every protocol."""

    slot: Natural
    side: Side


@dataclass(frozen=True, slots=True)
class Frame:
    """A decoded frame as it is sent to a judge.

    Attributes:
        index: Frame in the file, 0-based, counted by a full sequential decode.
        seconds: Timestamp from the file, 0 for the first frame.
        until: Timestamp of the next frame.
        key: Equal keys mean equal pixels and size: no picture is encoded twice.
        rgb: height * width * 3 bytes, row by row.
        note: Why this is not the requested frame; "" if it is.
    """

    ref: FrameRef
    index: int
    seconds: float
    until: float
    width: int
    height: int
    key: str
    rgb: bytes = field(repr=False, compare=False)
    note: str = ""

    @property
    def array(self) -> "np.ndarray[Any, np.dtype[np.uint8]]":
        """The pixels as a read-only NumPy array: (height, width, 3) in RGB."""
        import numpy as np

        return np.frombuffer(self.rgb, np.uint8).reshape(self.height, self.width, 3)

    @property
    def image(self) -> "Image.Image":
        """The frame as a PIL image in RGB."""
        from PIL import Image

        return Image.frombytes("RGB", (self.width, self.height), self.rgb)


@dataclass(frozen=True, slots=True)
class Thumbnail:
    """A frame as a trace keeps it: small, with its timestamp."""

    __pydantic_config__: ClassVar = {"ser_json_bytes": "base64", "val_json_bytes": "base64"}

    ref: FrameRef
    number: str  # The protocol's number, as printed to the judge
    index: Natural
    seconds: Amount
    until: Amount
    jpeg: bytes = field(repr=False)
    note: str = ""


@dataclass(frozen=True, slots=True)
class ClipInfo:
    """The facts of a video file: "input health" in a trace."""

    name: str
    digest: str
    container: str
    codec: str
    width: Natural
    height: Natural  # Displayed size in pixels: after rotation and pixel aspect
    frames: Natural  # Number of frames in a full sequential decode
    fps: Amount
    seconds: Amount
    rotation: int = 0
    variable_rate: bool = False
    notes: Few[str] = ()  # Health notes, one sentence each, for the person and never for the judge
    drawn: bool = False  # Drawn by this project: the file has its mark and is unchanged


# Returns the frames of the refs, in order
FrameSource = Callable[[Sequence[FrameRef]], tuple[Frame, ...]]


# Pixels per side of a Qwen2.5-VL token (14-pixel patches, merged 2 x 2): sizes are multiples of it
IMAGE_FACTOR = 28


@dataclass(frozen=True, slots=True)
class Grid:
    """The `slots` places of one video that a judge can ask for.

    Rule "floor" is the `paired` card's `min(int(slot / slots * total), total - 1)`. Rule "even"
    spreads the slots over the whole clip, both ends included (the `concat` card does not publish
    its rule).
    """

    slots: int
    rule: Literal["floor", "even"]

    def index(self, slot: int, total: int) -> int:
        """Return the 0-based frame of `slot` out of `total` >= 1 frames."""
        if self.rule == "floor" or self.slots == 1:
            return min(int(slot / self.slots * total), total - 1)
        return round(slot * (total - 1) / (self.slots - 1))

    def indices(self, total: int) -> list[int]:
        """Return the frame of every slot, in their order."""
        return [self.index(slot, total) for slot in range(self.slots)]


@dataclass(frozen=True, slots=True)
class Sizing:
    """The way a frame is resized before it is sent.

    "native" keeps the size. "square" squashes the frame to `side` x `side` (as the `paired` judge
    was trained). "letterbox" keeps the aspect inside that square, with black bars. "area" keeps the
    aspect with at most `area` pixels, both sides multiples of 28.
    """

    mode: Literal["native", "square", "letterbox", "area"]
    side: int = 0
    area: int = 0

    def size(self, width: int, height: int) -> tuple[int, int]:
        """Return (width, height) of the sent picture from the displayed size. In pixels."""
        if self.mode == "native":
            return width, height
        if self.mode in ("square", "letterbox"):
            return self.side, self.side
        fit = min(1.0, math.sqrt(self.area / (width * height)))
        w = max(IMAGE_FACTOR, round(width * fit / IMAGE_FACTOR) * IMAGE_FACTOR)
        h = max(IMAGE_FACTOR, round(height * fit / IMAGE_FACTOR) * IMAGE_FACTOR)
        while w * h > self.area and max(w, h) > IMAGE_FACTOR:
            w, h = (w - IMAGE_FACTOR, h) if w >= h else (w, h - IMAGE_FACTOR)
        return w, h


ReadMode = Literal["auto", "whole", "seek"]
"""Way to find frames: decode the whole clip once, or seek to the nearest key frame; "auto" chooses
by the length of the clip."""


@dataclass(frozen=True, slots=True)
class FramePlan:
    """The frames that a protocol asks of two videos, and their sizes."""

    grid: Grid
    opening: Sizing  # Of the frames in `first`
    later: Sizing  # Of the frames that a call brings
    first: tuple[FrameRef, ...]  # Sent before the judge's first turn, in this order

    def first_slots(self, side: Side) -> set[int]:
        """Return the slots of one video that are in `first`."""
        return {ref.slot for ref in self.first if ref.side == side}

    def pictures(
        self, side: Side, slots: Iterable[int], total: int
    ) -> dict[tuple[int, Sizing], list[int]]:
        """Return each (index, sizing) once, with its slots, out of `total` frames."""
        first, found = self.first_slots(side), dict[tuple[int, Sizing], list[int]]()
        for slot in slots:
            sizing = self.opening if slot in first else self.later
            found.setdefault((self.grid.index(slot, total), sizing), []).append(slot)
        return found
