"""Encode every frame anew as 8-bit H.264, with the timestamps of the original."""

from __future__ import annotations

import io
import itertools
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

# No B-frames: the first frame is at 0 without an edit list. Many key frames: seeking in the copy is quick.
_OPTIONS = {"preset": "veryfast", "crf": "20", "bf": "0", "g": "12", "threads": "2"}
_BT709, _LIMITED = 1, 1
_FALLBACK_TIME_BASE = Fraction(1, 90_000)
_SMALLEST_TIME_BASE = Fraction(1, 1_000_000)
"""Time bases below this are too small for an MP4; they are rounded to the fallback."""


class UnusableTimestamps(Exception):
    """The decoder's timestamps are missing or not ascending."""


def encode(source: VideoSource, budget: CpuBudget) -> io.BytesIO:
    """The copy. Without usable timestamps it has the declared frame rate, as in `make_frame_times`. Raises VideoError."""
    if source.time_base > 0:
        try:
            return _encode(source, budget, by_rate=False)
        except UnusableTimestamps:
            pass
    return _encode(source, budget, by_rate=True)


def _encode(source: VideoSource, budget: CpuBudget, *, by_rate: bool) -> io.BytesIO:
    copy = io.BytesIO()
    writer: Mp4Writer | None = None
    tick = 1 / source.rate if by_rate else source.time_base
    with av.open(copy, "w", format="mp4") as output:
        for index, (pts, pixels) in enumerate(_display_frames(source, budget)):
            if writer is None:
                writer = Mp4Writer(output, pixels, tick, source.rate)
            writer.add(pixels, index if by_rate else pts)
        if writer is None:
            raise VideoError(f"{source.name} holds no frame that can be decoded.")
        writer.close()
    return copy


def _display_frames(source: VideoSource, budget: CpuBudget) -> Iterator[tuple[int | None, Pixels]]:
    """(pts, pixels in display orientation) of every frame; one size for all, sides even."""
    converter: FrameConverter | None = None
    for frame in SequentialReader(source, budget).read_all(DecodeStats()):
        if converter is None:
            converter = FrameConverter(
                DisplayGeometry((frame.width, frame.height), source.pixel_aspect, read_orientation(frame)), source.name
            )
        yield frame.pts, _displayed(converter, frame)


def _displayed(converter: FrameConverter, frame: VideoFrame) -> Pixels:
    geometry = converter.geometry
    scale = min(1.0, MAX_SIDE / max(geometry.displayed_size))
    width, height = (max(1, round(side * scale)) for side in geometry.displayed_size)
    stored = (height, width) if geometry.orientation.transpose else (width, height)
    pixels = geometry.orientation.apply(resize(converter.to_rgb(frame), *stored))
    return np.pad(pixels, ((0, height % 2), (0, width % 2), (0, 0)), mode="edge")


class Mp4Writer:
    """Writes one H.264 stream into an MP4."""

    def __init__(self, output: OutputContainer, first: Pixels, tick: Fraction, rate: Fraction) -> None:
        """Timestamps come in units of `tick` seconds; `rate` is the declared frames per second."""
        self._output = output
        self._tick = tick
        self._time_base = tick if tick >= _SMALLEST_TIME_BASE else _FALLBACK_TIME_BASE
        self._rate = rate
        self._start: int | None = None
        self._written: list[int] = []
        self._held: Packet[VideoStream] | None = None
        self._stream = output.add_stream("libx264", rate=rate, options=_OPTIONS)
        self._stream.height, self._stream.width = first.shape[:2]
        self._stream.pix_fmt = "yuv420p"
        self._stream.time_base = self._stream.codec_context.time_base = self._time_base
        context = self._stream.codec_context
        context.colorspace = context.color_primaries = context.color_trc = _BT709
        context.color_range = _LIMITED

    def add(self, pixels: Pixels, pts: int | None) -> None:
        """The next frame. Raises UnusableTimestamps when `pts` is None or not later than the last one."""
        if pts is None:
            raise UnusableTimestamps
        self._start = pts if self._start is None else self._start
        stamp = round((pts - self._start) * self._tick / self._time_base)
        if self._written and stamp <= self._written[-1]:
            raise UnusableTimestamps
        self._written.append(stamp)
        rgb = VideoFrame.from_ndarray(pixels, format="rgb24")
        frame = rgb.reformat(format="yuv420p", dst_colorspace=Colorspace.ITU709, dst_color_range=ColorRange.MPEG)
        frame.pts, frame.time_base = stamp, self._time_base
        self._mux(self._stream.encode(frame))

    def close(self) -> None:
        """Write what is left; the last frame lasts as long as the median one."""
        self._mux(self._stream.encode())
        durations = [end - start for start, end in itertools.pairwise(self._written)]
        typical = round(median(durations)) if durations else round(1 / self._rate / self._time_base)
        self._release(max(1, typical))

    def _mux(self, packets: list[Packet[VideoStream]]) -> None:
        """Each packet is held until the next one, whose timestamp is its end."""
        for packet in packets:
            if self._held is not None and packet.pts is not None and self._held.pts is not None:
                self._release(packet.pts - self._held.pts)
            self._held = packet

    def _release(self, duration: int) -> None:
        if self._held is not None:
            self._held.duration = duration
            self._output.mux(self._held)
            self._held = None
