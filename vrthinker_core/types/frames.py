"""Frames, their thumbnails, and the clips they come from."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from vrthinker_core.types.bounds import Amount, Few, Natural
from vrthinker_core.types.comparison import Side


@dataclass(frozen=True, slots=True, order=True)
class FrameRef:
    """A slot of one video, 0-based in every protocol."""

    slot: Natural
    side: Side


@dataclass(frozen=True, slots=True)
class Frame:
    """A decoded frame as it is sent to a judge."""

    ref: FrameRef
    index: int  # Frame in the file, 0-based, counted by a full sequential decode
    seconds: float  # Timestamp from the file, 0 for the first frame
    until: float  # Timestamp of the next frame
    width: int
    height: int
    key: str  # Equal keys mean equal pixels and size: no picture is encoded twice
    rgb: bytes = field(repr=False, compare=False)  # height * width * 3 bytes, row by row
    note: str = ""  # Why this is not the requested frame; "" if it is


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
