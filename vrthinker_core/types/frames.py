"""Frames: which one is meant, its pixels, the picture of it that a trace keeps, and the clip it comes from."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from vrthinker_core.types.bounds import Amount, Few, Natural
from vrthinker_core.types.comparison import Side


@dataclass(frozen=True, slots=True, order=True)
class FrameRef:
    """A slot of one video, 0-based whatever numbers the protocol prints."""

    slot: Natural
    side: Side


@dataclass(frozen=True, slots=True)
class Frame:
    """A decoded frame as it is sent to a judge."""

    ref: FrameRef
    index: int  # The real frame in the file, 0-based, as a full sequential decode counts
    seconds: float  # When it appears, from the file's own timestamps, 0 for the first frame
    until: float  # When the next frame replaces it
    width: int
    height: int
    key: str  # Of the pixels and the size: equal keys mean equal pixels, so a picture is never encoded twice
    rgb: bytes = field(repr=False, compare=False)  # height * width * 3 bytes, row by row
    note: str = ""  # Why this is not the very frame that was asked for ("" when it is)


@dataclass(frozen=True, slots=True)
class Thumbnail:
    """A frame as a trace keeps it: small, and enough to find the moment again."""

    __pydantic_config__: ClassVar = {"ser_json_bytes": "base64", "val_json_bytes": "base64"}

    ref: FrameRef
    number: str  # What the protocol calls it, as printed to the judge
    index: Natural
    seconds: Amount
    until: Amount
    jpeg: bytes = field(repr=False)
    note: str = ""


@dataclass(frozen=True, slots=True)
class ClipInfo:
    """One video as it was found: what stands in a trace under "input health"."""

    name: str
    digest: str
    container: str
    codec: str
    width: Natural
    height: Natural  # Shown size in pixels: after rotation and pixel aspect
    frames: Natural  # Frames that a full sequential decode gives
    fps: Amount
    seconds: Amount
    rotation: int = 0
    variable_rate: bool = False
    notes: Few[str] = ()  # Health notes, one sentence each, for the person and never for the judge
    drawn: bool = (
        False  # The file carries the mark of a video that this project drew, and is unchanged since
    )


FrameSource = Callable[
    [Sequence[FrameRef]], tuple[Frame, ...]
]  # Gives the frames of the refs, in their order
