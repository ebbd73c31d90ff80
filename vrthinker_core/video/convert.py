"""Conversion of decoded frames to sent pixels: colours, aspect, rotation, size."""

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
from vrthinker_core.types.frames import Sizing
from vrthinker_core.video.container import VideoSource

Pixels = NDArray[np.uint8]  # (height, width, 3) RGB
GreySample = NDArray[np.uint8]  # about 64 x 64 grey values of a frame

READ_MATRICES = (0, 1, 2, 4, 5, 6, 7, 9)
"""Colour matrices, as numbered in H.273, that FFmpeg converts by their own coefficients."""


@dataclass(frozen=True, slots=True)
class Orientation:
    """Rotation and reflection that the file declares for display.

    Frames are first transposed, then mirrored, then flipped.
    """

    transpose: bool = False
    mirror: bool = False  # swaps left and right
    flip: bool = False  # swaps top and bottom
    skewed: bool = False  # the declared angle is no quarter turn; frames are not rotated

    @property
    def clockwise(self) -> int:
        """Degrees of the rotation: 0, 90, 180 or 270.

        If there is a reflection, too, left and right are swapped after the rotation.
        """
        if self.transpose:
            return 270 if self.flip else 90
        return 180 if self.flip else 0

    @property
    def reflected(self) -> bool:
        """Whether the orientation includes a reflection."""
        return (self.mirror != self.flip) != self.transpose

    def apply(self, pixels: Pixels) -> Pixels:
        """Return the pixels as displayed."""
        pixels = pixels.transpose(1, 0, 2) if self.transpose else pixels
        return np.ascontiguousarray(pixels[:: -1 if self.flip else 1, :: -1 if self.mirror else 1])


def _read_orientation(frame: VideoFrame) -> Orientation:
    """Read the orientation from the frame's display matrix.

    x' = a x + c y, y' = b x + d y.
    """
    try:
        entry = frame.side_data.get(Type.DISPLAYMATRIX)  # type: ignore[call-overload]
    except ValueError:
        # PyAV cannot list side data with an unknown entry (stereo clips), but knows the angle.
        angle = math.radians(frame.rotation)
        a, b, c, d = math.cos(angle), -math.sin(angle), math.sin(angle), math.cos(angle)
    else:
        if entry is None:
            return Orientation()
        a, b, _, c, d = struct.unpack("=9i", bytes(entry))[:5]
    if max(abs(a), abs(d)) > 8 * max(abs(b), abs(c)):
        return Orientation(False, a < 0, d < 0)
    if max(abs(b), abs(c)) > 8 * max(abs(a), abs(d)):
        return Orientation(True, c < 0, b < 0)
    return Orientation(skewed=True)


@dataclass(frozen=True, slots=True)
class DisplayGeometry:
    """Display of a clip's frames, read from the first frame."""

    stored_size: tuple[int, int]  # (width, height) in stored pixels
    pixel_aspect: Fraction
    orientation: Orientation
    hdr: bool
    matrix: int  # colour matrix to RGB, as numbered in H.273
    transparent: bool  # in places, by the first frame or the header

    @property
    def displayed_size(self) -> tuple[int, int]:
        """(width, height) after rotation; enlarged to square pixels to keep all detail."""
        (width, height), aspect = self.stored_size, self.pixel_aspect
        if aspect >= 1:
            width = round(width * aspect)
        else:
            height = round(height / aspect)
        return (height, width) if self.orientation.transpose else (width, height)


class FrameConverter:
    """Converter of one clip's frames to RGB."""

    def __init__(self, source: VideoSource, first: VideoFrame) -> None:
        """Read the display geometry of all frames from the first decoded one."""
        self._stored, self._crop = source.size, source.crop
        left, top, right, bottom = self._cut(first.width, first.height)
        size = right - left, bottom - top
        hdr = first.color_trc in (16, 18)  # PQ and HLG, as numbered in H.273
        self._name = source.name
        # Two, because each caches the tables of one size.
        self._reformatter, self._sampler = VideoReformatter(), VideoReformatter()
        # PyAV holds a frame whose side data is read, so a small copy of the frame is used.
        orientation, aspect = _read_orientation(self._sampled(first)), source.pixel_aspect
        clear = source.transparent or self._is_transparent(first)
        self.geometry = DisplayGeometry(size, aspect, orientation, hdr, first.colorspace, clear)

    def to_rgb(self, frame: VideoFrame) -> Pixels:
        """Return the frame in RGB at its stored size, cut as the file asks.

        PyAV converts with the colour space and range that the file declares.
        """
        rgb = self._reformat(self._reformatter, frame)
        left, top, right, bottom = self._cut(frame.width, frame.height)
        pixels = rgb.to_ndarray().astype(np.uint8, copy=rgb is frame)
        return pixels[top:bottom, left:right]

    def grey_sample(self, frame: VideoFrame) -> GreySample:
        """Return grey values of 64 to 128 points per side.

        A smaller frame gives all its points. Points are not averaged, which would lose small
        movements.
        """
        sample = self._sampled(frame)
        left, top, right, bottom = self._cut(sample.width, sample.height)
        grey = cv2.cvtColor(sample.to_ndarray(), cv2.COLOR_RGB2GRAY)
        return grey.astype(np.uint8, copy=False)[top:bottom, left:right]

    def _is_transparent(self, frame: VideoFrame) -> bool:
        if not any(part.is_alpha for part in frame.format.components):
            return False
        pixels = self._sampled(frame, "rgba").to_ndarray()
        return bool((pixels[..., 3] < 255).any())

    def _cut(self, width: int, height: int) -> tuple[int, int, int, int]:
        """Return what the file shows of a picture: left, top, right and bottom edge."""
        (across, down), (left, top, right, bottom) = self._stored, self._crop
        left, top = left * width // across, top * height // down
        return left, top, width - right * width // across, height - bottom * height // down

    def _sampled(self, frame: VideoFrame, pixel_format: str = "rgb24") -> VideoFrame:
        sides = frame.width, frame.height
        width, height = (-(-side // max(1, side // 64)) for side in sides)
        size = {"width": width, "height": height, "interpolation": "POINT"}
        return self._reformat(self._sampler, frame, format=pixel_format, **size)

    def copy(self, frame: VideoFrame) -> VideoFrame:
        """Return the same picture, in RGB if needed, without decoder buffers."""
        try:
            # FFmpeg copies a frame only if another reference, such as this one, exists.
            other = frame.planes[0].__dlpack__()
        except (NotImplementedError, ValueError):  # palettes, packed and big-endian formats
            return self._reformat(self._reformatter, frame)
        frame.make_writable()
        del other
        return frame

    def _reformat(
        self, reformatter: VideoReformatter, frame: VideoFrame, **size: Any
    ) -> VideoFrame:
        size.setdefault("format", "rgb24")
        # FFmpeg 8 refuses other matrices; players show them like this.
        if frame.colorspace not in READ_MATRICES:
            constant = frame.colorspace == 10  # BT.2020 with constant luminance
            size["src_colorspace"] = Colorspace.BT2020 if constant else Colorspace.ITU601
        try:
            return reformatter.reformat(frame, threads=1, **size)
        except (av.FFmpegError, ValueError):
            stored = f"{self._name} stores its colours as {frame.format.name}"
            raise VideoError(f"{stored}, which cannot be converted.") from None

    def resize_for(self, pixels: Pixels, sizing: Sizing) -> Pixels:
        """Return the sent pixels, made from the pixels of `to_rgb`."""
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
        """Orient the pixels of `to_rgb` and resize them to `width` x `height`.

        Shrinks by area average and enlarges by cubic interpolation, per axis.
        """
        orientation, interpolation = self.geometry.orientation, cv2.INTER_AREA
        width, height = (height, width) if orientation.transpose else (width, height)
        down, across = pixels.shape[:2]
        # OpenCV averages 2 x 2 far faster than odd ratios. 1080p to 448 x 448 takes 1.3 ms instead
        # of 8.6 ms if halved first and interpolated then. The result differs from the published
        # resizing by 0.3 of 255 levels on average; plain averaging differs by 0.2.
        while across >= 2 * width and down >= 2 * height and across % 2 == down % 2 == 0:
            across, down = across // 2, down // 2
            pixels = _resize(pixels, across, down, cv2.INTER_AREA)
            # Up to this ratio, linear interpolation of a halved frame uses all its pixels.
            linear = max(across / width, down / height) < 2.2
            interpolation = cv2.INTER_LINEAR if linear else cv2.INTER_AREA
        pixels = _resize(pixels, min(across, width), min(down, height), interpolation)
        return orientation.apply(_resize(pixels, width, height, cv2.INTER_CUBIC))


def _resize(pixels: Pixels, width: int, height: int, interpolation: int) -> Pixels:
    if pixels.shape[:2] == (height, width):
        return pixels
    resized = cv2.resize(pixels, (width, height), interpolation=interpolation)
    return resized.astype(np.uint8, copy=False)
