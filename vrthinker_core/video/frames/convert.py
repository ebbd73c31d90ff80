"""Convert a decoded frame to the pixels that are sent: colours, pixel aspect, rotation, size."""

import math
import struct
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import av
import cv2
import numpy as np
from av.sidedata.sidedata import Type
from av.video.frame import VideoFrame
from av.video.reformatter import Colorspace, VideoReformatter
from numpy.typing import NDArray

from vrthinker_core.errors import VideoError
from vrthinker_core.types.geometry import Sizing
from vrthinker_core.video.frames.container import VideoSource

Pixels = NDArray[np.uint8]  # (height, width, 3) RGB
GreySample = NDArray[np.uint8]  # about 64 x 64 grey values of a frame

_SAMPLES = 64
_HDR_TRANSFERS = (16, 18)  # PQ and HLG, as numbered in H.273
READ_MATRICES = (0, 1, 2, 4, 5, 6, 7, 9)
"""The colour matrices, as numbered in H.273, that FFmpeg converts by their own coefficients."""
_BT2020_CONSTANT = 10
_MAX_LINEAR_RATIO = (
    2.2  # ratio up to which interpolating between pixels of a halved frame uses all of them
)


@dataclass(frozen=True, slots=True)
class Orientation:
    """How the file says that its frames are rotated or mirrored for display. First transposed, then mirrored, then flipped."""

    transpose: bool = False
    mirror: bool = False  # left and right are swapped
    flip: bool = False  # top and bottom are swapped
    skewed: bool = (
        False  # the file asks for an angle that is no quarter turn; frames are not rotated
    )

    @property
    def clockwise(self) -> int:
        """Degrees of the rotation: 0, 90, 180 or 270. Where there is a reflection too, left and right are swapped after it."""
        if self.transpose:
            return 270 if self.flip else 90
        return 180 if self.flip else 0

    @property
    def reflected(self) -> bool:
        """Whether this is more than a rotation."""
        return (self.mirror != self.flip) != self.transpose

    def apply(self, pixels: Pixels) -> Pixels:
        """The pixels as they are displayed."""
        pixels = pixels.transpose(1, 0, 2) if self.transpose else pixels
        return np.ascontiguousarray(pixels[:: -1 if self.flip else 1, :: -1 if self.mirror else 1])


def _read_orientation(frame: VideoFrame) -> Orientation:
    """From the frame's display matrix: x' = a x + c y, y' = b x + d y."""
    matrix = _matrix(frame)
    if matrix is None:
        return Orientation()
    a, b, c, d = matrix
    if max(abs(a), abs(d)) > 8 * max(abs(b), abs(c)):
        return Orientation(False, a < 0, d < 0)
    if max(abs(b), abs(c)) > 8 * max(abs(a), abs(d)):
        return Orientation(True, c < 0, b < 0)
    return Orientation(skewed=True)


def _matrix(frame: VideoFrame) -> tuple[float, float, float, float] | None:
    try:
        entry = frame.side_data.get(Type.DISPLAYMATRIX)  # type: ignore[call-overload]
    except ValueError:
        # PyAV cannot list side data when one entry is of a kind unknown to it (stereo clips), but still gives the angle.
        angle = math.radians(frame.rotation)
        return math.cos(angle), -math.sin(angle), math.sin(angle), math.cos(angle)
    if entry is None:
        return None
    a, b, _, c, d = struct.unpack("=9i", bytes(entry))[:5]
    return a, b, c, d


@dataclass(frozen=True, slots=True)
class DisplayGeometry:
    """How the frames of a clip are displayed; read from the first one."""

    stored_size: tuple[int, int]  # (width, height) in stored pixels
    pixel_aspect: Fraction
    orientation: Orientation
    hdr: bool
    matrix: int  # how colours become red, green and blue, as numbered in H.273

    @property
    def displayed_size(self) -> tuple[int, int]:
        """(width, height) after pixel aspect and rotation. Pixels are made square by enlarging, so that no detail is lost."""
        (width, height), aspect = self.stored_size, self.pixel_aspect
        width, height = (
            (round(width * aspect), height) if aspect >= 1 else (width, round(height / aspect))
        )
        return (height, width) if self.orientation.transpose else (width, height)


class FrameConverter:
    """Converts the frames of one clip to RGB."""

    def __init__(self, source: VideoSource, first: VideoFrame) -> None:
        """The first decoded frame of the source tells how all are displayed."""
        size, hdr = (first.width, first.height), first.color_trc in _HDR_TRANSFERS
        self._name = source.name
        self._reformatter, self._sampler = (
            VideoReformatter(),
            VideoReformatter(),
        )  # each caches the tables of one size
        # PyAV holds a frame whose side data is read: a small one with the same side data.
        self.geometry = DisplayGeometry(
            size,
            source.pixel_aspect,
            _read_orientation(self._sampled(first)),
            hdr,
            first.colorspace,
        )

    def to_rgb(self, frame: VideoFrame) -> Pixels:
        """The frame in RGB at its stored size, by PyAV's conversion, with the colour space and range that the file declares."""
        rgb = self._reformat(self._reformatter, frame)
        return rgb.to_ndarray().astype(np.uint8, copy=rgb is frame)

    def grey_sample(self, frame: VideoFrame) -> GreySample:
        """Grey values of 64 to 128 points a side, all of a smaller frame: no averages, so that a small movement is not lost."""
        return cv2.cvtColor(self._sampled(frame).to_ndarray(), cv2.COLOR_RGB2GRAY).astype(
            np.uint8, copy=False
        )

    def _sampled(self, frame: VideoFrame) -> VideoFrame:
        across, down = (
            -(-side // max(1, side // _SAMPLES)) for side in (frame.width, frame.height)
        )
        return self._reformat(
            self._sampler, frame, width=across, height=down, interpolation="POINT"
        )

    def copy(self, frame: VideoFrame) -> VideoFrame:
        """A frame with the same picture that holds no buffer of the decoder's: the same object, or one in RGB."""
        try:
            other = (
                frame.planes[0].__dlpack__()
            )  # FFmpeg copies a frame only while something else refers to it, as this does
        except (NotImplementedError, ValueError):  # palettes, packed and big-endian formats
            return self._reformat(self._reformatter, frame)
        frame.make_writable()
        del other
        return frame

    def _reformat(
        self, reformatter: VideoReformatter, frame: VideoFrame, **size: Any
    ) -> VideoFrame:
        if frame.colorspace not in READ_MATRICES:  # FFmpeg 8 refuses these, players show them so
            size["src_colorspace"] = (
                Colorspace.BT2020 if frame.colorspace == _BT2020_CONSTANT else Colorspace.ITU601
            )
        try:
            return reformatter.reformat(frame, format="rgb24", threads=1, **size)
        except (av.FFmpegError, ValueError):
            raise VideoError(
                f"{self._name} stores its colours as {frame.format.name}, which cannot be converted."
            ) from None

    def resize_for(self, pixels: Pixels, sizing: Sizing) -> Pixels:
        """The pixels that are sent, from those of `to_rgb`."""
        width, height = self.geometry.displayed_size
        across, down = sizing.size(width, height)
        if sizing.mode != "letterbox":
            return self.display(pixels, across, down)
        scale = min(across / width, down / height)
        inner = self.display(pixels, max(1, round(width * scale)), max(1, round(height * scale)))
        framed = np.zeros((down, across, 3), np.uint8)
        top, left = (down - inner.shape[0]) // 2, (across - inner.shape[1]) // 2
        framed[top : top + inner.shape[0], left : left + inner.shape[1]] = inner
        return framed

    def display(self, pixels: Pixels, width: int, height: int) -> Pixels:
        """The pixels of `to_rgb` as they are displayed, resized to `width` x `height`."""
        orientation = self.geometry.orientation
        return orientation.apply(
            _resize(pixels, *((height, width) if orientation.transpose else (width, height)))
        )


def _resize(pixels: Pixels, width: int, height: int) -> Pixels:
    """Area average where it shrinks, cubic interpolation where it enlarges, for each axis on its own."""
    down, across = pixels.shape[:2]
    interpolation = cv2.INTER_AREA
    # OpenCV averages 2 x 2 far faster than odd ratios: 1080p to 448 x 448 takes 1.3 ms instead of 8.6 when it is halved first and
    # interpolated from there, and is 0.3 of 255 levels from the published resizing on average, where plain averaging is 0.2.
    while across >= 2 * width and down >= 2 * height and across % 2 == down % 2 == 0:
        across, down = across // 2, down // 2
        pixels = _cv_resize(pixels, across, down, cv2.INTER_AREA)
        interpolation = (
            cv2.INTER_LINEAR
            if max(across / width, down / height) < _MAX_LINEAR_RATIO
            else cv2.INTER_AREA
        )
    pixels = _cv_resize(pixels, min(across, width), min(down, height), interpolation)
    return _cv_resize(pixels, width, height, cv2.INTER_CUBIC)


def _cv_resize(pixels: Pixels, width: int, height: int, interpolation: int) -> Pixels:
    if pixels.shape[:2] == (height, width):
        return pixels
    return cv2.resize(pixels, (width, height), interpolation=interpolation).astype(
        np.uint8, copy=False
    )
