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
from vrthinker_core.video.frames.container import Source
from vrthinker_core.video.frames.convert import Look, Painter, Pixels, orientation_of, resize
from vrthinker_core.video.frames.decode import Sequential, Tally
from vrthinker_core.video.limits import Budget

LONGEST = 1280
"""Pixels of the longer side of a copy, at most."""

# No B-frames: the first frame is at 0 without an edit list. Many key frames: stepping through the copy is quick.
_OPTIONS = {"preset": "veryfast", "crf": "20", "bf": "0", "g": "12", "threads": "2"}
_BT709, _LIMITED = 1, 1
_FINE = Fraction(1, 90_000)
_FINEST = Fraction(1, 1_000_000)
"""Time bases below this are more than an MP4 can count in; they are rounded to `_FINE`."""


class NoTimes(Exception):
    """The decoder's timestamps are missing, or do not grow."""


def encode(source: Source, budget: Budget) -> io.BytesIO:
    """The copy. Times that cannot be used are counted by the declared rate, as the judge's own clock does. Raises VideoError."""
    if source.time_base > 0:
        try:
            return _encoded(source, budget, counted=False)
        except NoTimes:
            pass
    return _encoded(source, budget, counted=True)


def _encoded(source: Source, budget: Budget, *, counted: bool) -> io.BytesIO:
    copy = io.BytesIO()
    film: Film | None = None
    tick = 1 / source.rate if counted else source.time_base
    with av.open(copy, "w", format="mp4") as output:
        for index, (pts, pixels) in enumerate(_painted(source, budget)):
            if film is None:
                film = Film(output, pixels, tick, source.rate)
            film.add(pixels, index if counted else pts)
        if film is None:
            raise VideoError(f"{source.name} holds no frame that can be decoded.")
        film.close()
    return copy


def _painted(source: Source, budget: Budget) -> Iterator[tuple[int | None, Pixels]]:
    """(pts, picture as it is to be seen) of every frame; one size for all, sides even."""
    painter: Painter | None = None
    for frame in Sequential(source, budget).frames(Tally()):
        if painter is None:
            painter = Painter(Look((frame.width, frame.height), source.pixel_aspect, orientation_of(frame)), source.name)
        yield frame.pts, _seen(painter, frame)


def _seen(painter: Painter, frame: VideoFrame) -> Pixels:
    look = painter.look
    scale = min(1.0, LONGEST / max(look.shown))
    width, height = (max(1, round(side * scale)) for side in look.shown)
    across, down = (height, width) if look.orientation.transpose else (width, height)
    picture = look.orientation.apply(resize(painter.colours(frame), across, down))
    return np.pad(picture, ((0, height % 2), (0, width % 2), (0, 0)), mode="edge")


class Film:
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
            raise NoTimes
        self._start = pts if self._start is None else self._start
        stamp = round((pts - self._start) * self._tick / self._base)
        if self._stamps and stamp <= self._stamps[-1]:
            raise NoTimes
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
