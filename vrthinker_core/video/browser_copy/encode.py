"""Every frame made anew as 8-bit H.264, at the times of the original."""

from __future__ import annotations

import io
from collections.abc import Iterator
from fractions import Fraction
from statistics import median

import av
import numpy as np
from av.container.output import OutputContainer
from av.packet import Packet
from av.video.frame import VideoFrame
from av.video.reformatter import ColorRange, Colorspace
from av.video.stream import VideoStream

from vrthinker_core.errors import VideoError
from vrthinker_core.video.frames.container import VideoSource
from vrthinker_core.video.frames.convert import DisplayGeometry, FrameConverter, Pixels, read_orientation, resize
from vrthinker_core.video.frames.decode import DecodeStats, SequentialReader
from vrthinker_core.video.limits import CpuBudget

MAX_SIDE = 1280
"""Pixels of the longer side of a copy, at most."""

# No B-frames: the first frame is at 0 without an edit list. Many key frames: stepping through the copy is quick.
_OPTIONS = {"preset": "veryfast", "crf": "20", "bf": "0", "g": "12", "threads": "2"}
_BT709, _LIMITED = 1, 1
_FINE = Fraction(1, 90_000)
_FINEST = Fraction(1, 1_000_000)
"""Time bases below this are more than an MP4 can count in; they are rounded to `_FINE`."""


class UnusableTimestamps(Exception):
    """The decoder's timestamps are missing, or do not grow."""


def encode(source: VideoSource, budget: CpuBudget) -> io.BytesIO:
    """The copy. Times that cannot be used are counted by the declared rate, as the judge's own clock does. Raises VideoError."""
    if source.time_base > 0:
        try:
            return _encoded(source, budget, counted=False)
        except UnusableTimestamps:
            pass
    return _encoded(source, budget, counted=True)


def _encoded(source: VideoSource, budget: CpuBudget, *, counted: bool) -> io.BytesIO:
    copy = io.BytesIO()
    film: Mp4Writer | None = None
    tick = 1 / source.rate if counted else source.time_base
    with av.open(copy, "w", format="mp4") as output:
        for index, (pts, pixels) in enumerate(_display_frames(source, budget)):
            if film is None:
                film = Mp4Writer(output, pixels, tick, source.rate)
            film.add(pixels, index if counted else pts)
        if film is None:
            raise VideoError(f"{source.name} holds no frame that can be decoded.")
        film.close()
    return copy


def _display_frames(source: VideoSource, budget: CpuBudget) -> Iterator[tuple[int | None, Pixels]]:
    """(pts, picture as it is to be seen) of every frame; one size for all, sides even."""
    painter: FrameConverter | None = None
    for frame in SequentialReader(source, budget).read_all(DecodeStats()):
        if painter is None:
            painter = FrameConverter(
                DisplayGeometry((frame.width, frame.height), source.pixel_aspect, read_orientation(frame)), source.name
            )
        yield frame.pts, _displayed(painter, frame)


def _displayed(painter: FrameConverter, frame: VideoFrame) -> Pixels:
    look = painter.geometry
    scale = min(1.0, MAX_SIDE / max(look.displayed_size))
    width, height = (max(1, round(side * scale)) for side in look.displayed_size)
    across, down = (height, width) if look.orientation.transpose else (width, height)
    picture = look.orientation.apply(resize(painter.to_rgb(frame), across, down))
    return np.pad(picture, ((0, height % 2), (0, width % 2), (0, 0)), mode="edge")


class Mp4Writer:
    """An H.264 stream that is being written."""

    def __init__(self, output: OutputContainer, first: Pixels, tick: Fraction, rate: Fraction) -> None:
        """Timestamps will come in units of `tick` seconds; `rate` is how many frames a second has, as far as is known."""
        self._output = output
        self._tick = tick
        self._base = tick if tick >= _FINEST else _FINE
        self._rate = rate
        self._start: int | None = None
        self._stamps: list[int] = []
        self._held: Packet[VideoStream] | None = None
        self._stream = output.add_stream("libx264", rate=rate, options=_OPTIONS)
        self._stream.height, self._stream.width = first.shape[:2]
        self._stream.pix_fmt = "yuv420p"
        self._stream.time_base = self._stream.codec_context.time_base = self._base
        context = self._stream.codec_context
        context.colorspace = context.color_primaries = context.color_trc = _BT709
        context.color_range = _LIMITED

    def add(self, pixels: Pixels, pts: int | None) -> None:
        """The next frame. Raises NoTimes when its time is missing or not later than the last one's."""
        if pts is None:
            raise UnusableTimestamps
        self._start = pts if self._start is None else self._start
        stamp = round((pts - self._start) * self._tick / self._base)
        if self._stamps and stamp <= self._stamps[-1]:
            raise UnusableTimestamps
        self._stamps.append(stamp)
        drawn = VideoFrame.from_ndarray(pixels, format="rgb24")
        frame = drawn.reformat(format="yuv420p", dst_colorspace=Colorspace.ITU709, dst_color_range=ColorRange.MPEG)
        frame.pts, frame.time_base = stamp, self._base
        self._mux(self._stream.encode(frame))

    def close(self) -> None:
        """The last frame lasts as long as most do."""
        self._mux(self._stream.encode())
        lengths = [late - early for early, late in zip(self._stamps, self._stamps[1:], strict=False)]
        typical = round(median(lengths)) if lengths else round(1 / self._rate / self._base)
        self._release(max(1, typical))

    def _mux(self, packets: list[Packet[VideoStream]]) -> None:
        """A packet waits for the next one, which says how long it lasts."""
        for packet in packets:
            if self._held is not None and packet.pts is not None and self._held.pts is not None:
                self._release(packet.pts - self._held.pts)
            self._held = packet

    def _release(self, duration: int) -> None:
        if self._held is not None:
            self._held.duration = duration
            self._output.mux(self._held)
            self._held = None
