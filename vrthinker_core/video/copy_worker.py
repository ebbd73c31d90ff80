"""The worker process that makes a browser copy.

It remuxes the file if possible and encodes it otherwise.
"""

from __future__ import annotations

import contextlib
import io
import itertools
from collections import deque
from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from statistics import median

import av
import cv2
import numpy as np
from av.container.output import OutputContainer
from av.packet import Packet
from av.video.frame import VideoFrame
from av.video.reformatter import ColorRange, Colorspace
from av.video.stream import VideoStream

from vrthinker_core.errors import VideoError
from vrthinker_core.video.browser_copies import check_browser_support
from vrthinker_core.video.container import VideoSource
from vrthinker_core.video.convert import FrameConverter, Pixels
from vrthinker_core.video.decode import DecodeStats, read_all
from vrthinker_core.video.files import open_local, shown_name
from vrthinker_core.video.limits import CpuBudget, Limits, confine_process, near_memory_limit
from vrthinker_core.video.timeline import FrameTimes, make_frame_times
from vrthinker_core.video.worker_io import connect_to_parent, request_queue, respond

MAX_SIDE = 1280
"""Most pixels of the longer side of a copy."""

# Without B-frames, the first frame is at 0 without an edit list. Many key frames make seeking fast.
_OPTIONS = {"preset": "veryfast", "crf": "20", "bf": "0", "g": "12", "threads": "2"}
_BT709, _LIMITED = 1, 1
_FALLBACK_TIME_BASE = Fraction(1, 90_000)
# Smaller time bases do not fit into an MP4; times are rounded to the fallback instead.
_SMALLEST_TIME_BASE = Fraction(1, 1_000_000)


class UnusableTimestamps(Exception):
    """Missing or wrong timestamps from the decoder."""


def encode(source: VideoSource) -> io.BytesIO:
    """Return the copy as an MP4.

    If a timestamp is unusable, decodes once more to find the times of all frames first.
    Raises `VideoError`.
    """
    with contextlib.suppress(UnusableTimestamps):
        return _encode(source, None)
    stats = DecodeStats()
    deque(read_all(source, stats), maxlen=0)
    return _encode(source, make_frame_times(stats.pts, source.time_base, source.rate))


def _encode(source: VideoSource, times: FrameTimes | None) -> io.BytesIO:
    """Return the copy; `times`, if given, replace the decoder's timestamps.

    Each frame lasts until the next one, the last one for the median duration.
    """
    copy = io.BytesIO()
    time_base = (
        source.time_base
        if times is None and source.time_base >= _SMALLEST_TIME_BASE
        else _FALLBACK_TIME_BASE
    )
    durations: list[int] = []
    with av.open(copy, "w", format="mp4") as output:
        packets = _encoded_packets(output, source, time_base, times)
        packet = next(packets)
        for following in packets:
            packet.duration = (following.pts or 0) - (packet.pts or 0)
            durations.append(packet.duration)
            output.mux(packet)
            packet = following
        packet.duration = max(
            1, round(median(durations) if durations else 1 / source.rate / time_base)
        )
        output.mux(packet)
    return copy


def _encoded_packets(
    output: OutputContainer, source: VideoSource, time_base: Fraction, times: FrameTimes | None
) -> Iterator[Packet[VideoStream]]:
    """Yield packets with timestamps in units of `time_base`.

    Raises `UnusableTimestamps`, and `VideoError` if no frame decodes.
    """
    stats = DecodeStats()
    frames = _display_frames(source, stats)
    first = next(frames, None)
    if first is None:
        raise VideoError(f"{source.name} holds no frame that can be decoded.")
    stream = _add_stream(output, first[1], time_base, source.rate)
    last = -1
    for pts, pixels in itertools.chain([first], frames):
        if times is not None:
            stamp = round(times.starts[len(stats.pts) - 1] / float(time_base))
        else:
            stamp = (
                last
                if pts is None or first[0] is None
                else round((pts - first[0]) * source.time_base / time_base)
            )
        if stamp <= last:
            raise UnusableTimestamps
        last = stamp
        rgb = VideoFrame.from_ndarray(pixels, format="rgb24")
        frame = rgb.reformat(
            format="yuv420p", dst_colorspace=Colorspace.ITU709, dst_color_range=ColorRange.MPEG
        )
        frame.pts, frame.time_base = stamp, time_base
        yield from stream.encode(frame)
    if times is None and make_frame_times(stats.pts, source.time_base, source.rate).estimated:
        raise UnusableTimestamps
    yield from stream.encode()


def _add_stream(
    output: OutputContainer, first: Pixels, time_base: Fraction, rate: Fraction
) -> VideoStream:
    stream = output.add_stream("libx264", rate=rate, options=_OPTIONS)
    context = stream.codec_context
    stream.height, stream.width = first.shape[:2]
    stream.pix_fmt = "yuv420p"
    stream.time_base = context.time_base = time_base
    context.colorspace = context.color_primaries = context.color_trc = _BT709
    context.color_range = _LIMITED
    return stream


def _display_frames(source: VideoSource, stats: DecodeStats) -> Iterator[tuple[int | None, Pixels]]:
    """Yield (pts, displayed pixels) of every frame.

    All frames have one size with even sides.
    """
    converter: FrameConverter | None = None
    for decoded in read_all(source, stats):
        converter = converter or FrameConverter(source, decoded.frame)
        yield decoded.frame.pts, _displayed(converter, decoded.frame)


def _displayed(converter: FrameConverter, frame: VideoFrame) -> Pixels:
    size = converter.geometry.displayed_size
    width, height = (max(1, round(side * min(1.0, MAX_SIDE / max(size)))) for side in size)
    pixels = converter.display(converter.to_rgb(frame), width, height)
    return np.pad(pixels, ((0, height % 2), (0, width % 2), (0, 0)), mode="edge")


def remux(source: VideoSource, times: Sequence[int]) -> io.BytesIO | None:
    """Return the copy as an MP4 with its first frame at 0.

    `times` are the packet timestamps in stored order. Returns None if the packets do not fit into
    an MP4.
    """
    copy = io.BytesIO()
    first, decoding = min(times), decoding_times(times)
    try:
        source.reopen()
        with av.open(copy, "w", format="mp4") as output:
            stream = output.add_stream_from_template(source.stream)
            packets = (packet for packet in source.container.demux(source.stream) if packet.size)
            for packet, pts, dts in zip(packets, times, decoding, strict=True):
                source.budget.check()
                packet.pts, packet.dts, packet.stream = pts - first, dts - first, stream
                output.mux(packet)
    except MemoryError:
        raise
    except (av.FFmpegError, ValueError):
        return None
    return copy


def decoding_times(times: Sequence[int]) -> list[int]:
    """Return decoding timestamps for presentation timestamps in stored order.

    They ascend and are never later than the presentation timestamps. Some containers store none.
    """
    ascending = sorted(times)
    delay = max(dts - pts for dts, pts in zip(ascending, times, strict=True))
    return [pts - delay for pts in ascending]


_CHUNK_BYTES = 1 << 20


def main(handle: int) -> None:
    """Serve one request over the connection with the descriptor `handle`."""
    av.logging.set_level(av.logging.PANIC)
    cv2.setNumThreads(1)
    parent = connect_to_parent(handle)
    request = request_queue(parent).get()
    path, limits = Path(request["path"]), Limits(**request["limits"])
    budget = CpuBudget(shown_name(path), limits)
    try:
        copy = _make_copy(path, limits, budget)
    except VideoError as error:
        # If the copy passed a limit, the error says nothing about the file.
        respond(parent, {"error": str(error), "died": budget.is_spent or near_memory_limit()})
    except MemoryError:
        respond(
            parent,
            {
                "error": f"{shown_name(path)} needs more memory to copy than a video may take.",
                "died": True,
            },
        )
    except Exception as error:  # noqa: BLE001 - whatever a hostile file provokes becomes one sentence about that file
        respond(
            parent,
            {
                "error": f"No playable copy of {shown_name(path)} can be made ({type(error).__name__}).",
                "died": True,
            },
        )
    else:
        copy.seek(0)
        while chunk := copy.read(_CHUNK_BYTES):
            respond(parent, {"done": False}, chunk)
        respond(parent, {"done": True})


def _make_copy(path: Path, limits: Limits, budget: CpuBudget) -> io.BytesIO:
    confine_process(limits)
    with open_local(path) as file:
        source = VideoSource(file, budget)
        support = check_browser_support(source, path)
        if support.playable:
            return io.BytesIO()
        if support.remuxable and (copy := remux(source, support.packet_times)) is not None:
            return copy
        return encode(source)
