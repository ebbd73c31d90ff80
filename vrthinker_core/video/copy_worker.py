"""The worker process that makes a browser copy.

It makes none if browsers play the file, remuxes it if possible and encodes it otherwise.
"""

from __future__ import annotations

import contextlib
import io
import re
from collections import deque
from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from statistics import median
from typing import Any

import av
import cv2
import numpy as np
from av.container.output import OutputContainer
from av.packet import Packet
from av.video.frame import VideoFrame
from av.video.reformatter import ColorRange, Colorspace
from av.video.stream import VideoStream

from vrthinker_core.errors import VideoError
from vrthinker_core.video.container import VideoSource
from vrthinker_core.video.convert import FrameConverter
from vrthinker_core.video.decode import DecodeStats, read_all
from vrthinker_core.video.files import open_local, shown_name
from vrthinker_core.video.limits import CpuBudget, Limits, confine_process, near_memory_limit
from vrthinker_core.video.process import connect_to_parent, respond
from vrthinker_core.video.timeline import FrameTimes, Timeline, read_timeline

_VIDEO_CODECS = {"mp4": ("h264", "vp9", "av1"), "webm": ("vp8", "vp9", "av1")}


def _check_browser_support(
    source: VideoSource, path: Path
) -> tuple[bool, tuple[int, ...], Timeline]:
    """Return (whether browsers play a source, timestamps to remux it, its timeline).

    The timestamps are of the packets in stored order, in units of the stream's time base; () if the
    packets cannot be copied into an MP4 without decoding. Reads all packets and leaves the source
    at its end. Raises `VideoError`.
    """
    header, container = source.container, source.kind
    if container == "mov":
        # Safari plays files of the brand "qt  "; other browsers do only sometimes.
        quicktime = header.metadata.get("major_brand", "qt").strip() == "qt"
        container = "mov" if quicktime else "mp4"
    elif container == "matroska":
        with path.open("rb") as file:
            webm = rb"\x42\x82[\x40-\xff]?[\x80-\xff]?\x00*webm"
            container = "webm" if re.search(webm, file.read(64)) else "matroska"
    contexts = [stream.codec_context for stream in header.streams.audio]
    heard = ("aac", "mp3", "opus", "vorbis", "flac")
    suffixes = {".mp4": "mp4", ".m4v": "mp4", ".webm": "webm"}
    plain_header = (
        source.codec in _VIDEO_CODECS.get(container, ())
        and all(context is None or context.name in heard for context in contexts)
        and len(header.streams.video) == 1
        # Browsers seek badly in fragmented MP4 (no frames in its table) and WebM without a length.
        and bool(header.duration)
        and (container != "mp4" or source.header_frames > 0)
        # Audio may start earlier: its codec's priming, which no browser plays
        and (header.start_time is None or -0.1 * av.time_base <= header.start_time <= 0)
        and suffixes.get(path.suffix.lower()) == container
        and not source.transparent
    )
    remuxable = (
        source.stream.codec_context.pix_fmt in ("yuv420p", "yuvj420p")
        and not any(source.crop)  # Not all browsers cut a picture
        # In these containers, packets have the timestamps of their frames.
        and container in ("mp4", "webm", "mov", "matroska")
    )
    timeline, times = _packet_times(source)
    times = times if remuxable else ()
    playable = plain_header and bool(times) and min(times) == 0
    return playable, times if source.codec in _VIDEO_CODECS["mp4"] else (), timeline


def _packet_times(source: VideoSource) -> tuple[Timeline, tuple[int, ...]]:
    """Return the timeline, and the packet timestamps in stored order.

    If a timestamp or a packet is unusable, the second is ().
    Unusable: a packet is damaged or hidden, an H.264 key frame is no IDR, a timestamp is wrong.
    """
    times: list[int | None] = []
    extra = source.stream.codec_context.extradata or b""
    sized = source.codec == "h264" and len(extra) > 4 and extra[0] == 1
    length_bytes = (extra[4] & 3) + 1 if sized else 0

    def look(packet: Packet[Any]) -> None:
        key = packet.is_keyframe
        odd = packet.is_discard or packet.is_corrupt or not (times or key)
        odd = odd or (sized and key and not _holds_idr(bytes(packet), length_bytes))
        times.append(None if odd else packet.pts)

    timeline = read_timeline(source, look)
    usable = [each for each in times if each is not None]
    wrong = source.broken_off or timeline.frame_times(sorted(usable), source).estimated
    return timeline, () if wrong or len(set(usable)) < len(times) else tuple(usable)


def _holds_idr(packet: bytes, length_bytes: int) -> bool:
    """Return whether an H.264 packet holds an IDR picture.

    In the packet, each NAL unit follows its length in `length_bytes` bytes. Chromium stops playing
    for good after a seek to a key frame without an IDR picture (open GOP, intra refresh).
    """
    offset = 0
    while offset + length_bytes < len(packet):
        if packet[offset + length_bytes] & 31 == 5:
            return True
        offset += length_bytes + int.from_bytes(packet[offset : offset + length_bytes], "big")
    return False


MAX_SIDE = 1280
"""Most pixels of the longer side of a copy."""

# Without B-frames, the first frame is at 0 without an edit list. Many key frames make seeking fast.
_OPTIONS = {"preset": "veryfast", "crf": "20", "bf": "0", "g": "12", "threads": "2"}


class UnusableTimestamps(Exception):
    """Missing or wrong timestamps from the decoder."""


def _encode(source: VideoSource, timeline: Timeline, times: FrameTimes | None) -> io.BytesIO:
    """Return the copy; `times`, if given, replace the decoder's timestamps.

    Each frame lasts until the next one, the last one as long as the file tells, else for the median
    duration.
    """
    copy, time_base = io.BytesIO(), source.time_base
    # Smaller time bases do not fit into an MP4, so their times are rounded.
    if times is not None or time_base < Fraction(1, 1_000_000):
        time_base = Fraction(1, 90_000)
    durations: list[int] = []
    with av.open(copy, "w", format="mp4") as output:
        packets = _encoded_packets(output, source, timeline, time_base, times)
        packet = next(packets)
        for following in packets:
            packet.duration = (following.pts or 0) - (packet.pts or 0)
            durations.append(packet.duration)
            output.mux(packet)
            packet = following
        typical = median(durations) if durations else 1 / source.rate / time_base
        last = times.last_duration if times else timeline.last_seconds
        packet.duration = max(1, round(last / float(time_base) or typical))
        output.mux(packet)
    return copy


def _encoded_packets(
    output: OutputContainer,
    source: VideoSource,
    timeline: Timeline,
    time_base: Fraction,
    times: FrameTimes | None,
) -> Iterator[Packet[VideoStream]]:
    """Yield packets with timestamps in units of `time_base`.

    All frames have one size with even sides. Raises `UnusableTimestamps`, and `VideoError` if no
    frame decodes.
    """
    stats, last = DecodeStats(), -1
    stream: VideoStream | None = None
    for decoded in read_all(source, stats):
        pts = decoded.frame.pts
        if stream is None:
            converter, first = FrameConverter(source, decoded.frame), pts
            size = converter.geometry.displayed_size
            width, height = (max(1, round(side * min(1.0, MAX_SIDE / max(size)))) for side in size)
        pixels = converter.display(converter.to_rgb(decoded.frame), width, height)
        pixels = np.pad(pixels, ((0, height % 2), (0, width % 2), (0, 0)), mode="edge")
        if stream is None:
            stream = output.add_stream("libx264", rate=source.rate, options=_OPTIONS)
            stream.height, stream.width = pixels.shape[:2]
            stream.pix_fmt, context = "yuv420p", stream.codec_context
            stream.time_base = context.time_base = time_base
            # BT.709, limited range
            context.colorspace = context.color_primaries = context.color_trc = 1
            context.color_range = 1
        stamp = last
        if times is not None:
            stamp = round(times.starts[len(stats.pts) - 1] / float(time_base))
        elif pts is not None and first is not None:
            stamp = round((pts - first) * source.time_base / time_base)
        if stamp <= last:
            raise UnusableTimestamps
        last = stamp
        rgb, space = VideoFrame.from_ndarray(pixels, format="rgb24"), Colorspace.ITU709
        frame = rgb.reformat(
            format="yuv420p", dst_colorspace=space, dst_color_range=ColorRange.MPEG
        )
        frame.pts, frame.time_base = stamp, time_base
        yield from stream.encode(frame)
    if stream is None:
        raise VideoError(f"{source.name} holds no frame that can be decoded.")
    if times is None and timeline.frame_times(stats.pts, source).estimated:
        raise UnusableTimestamps
    yield from stream.encode()


def remux(source: VideoSource, times: Sequence[int], timeline: Timeline) -> io.BytesIO | None:
    """Return the copy as an MP4 with its first frame at 0.

    `times` are the packet timestamps in stored order. Returns None if the packets do not fit into
    an MP4.
    """
    copy, ascending, first = io.BytesIO(), sorted(times), min(times)
    # Decoding timestamps ascend and are never later; some containers store none
    delay = max(dts - pts for dts, pts in zip(ascending, times, strict=True))
    decoding = [pts - delay for pts in ascending]
    try:
        source.reopen()
        with av.open(copy, "w", format="mp4") as output:
            stream = output.add_stream_from_template(source.stream)
            packets = (packet for packet in source.container.demux(source.stream) if packet.size)
            for packet, pts, dts in zip(packets, times, decoding, strict=True):
                source.budget.check()
                if pts == ascending[-1] and timeline.last_seconds:
                    packet.duration = round(timeline.last_seconds / source.time_base)
                packet.pts, packet.dts, packet.stream = pts - first, dts - first, stream
                output.mux(packet)
    except MemoryError:
        raise
    except (av.FFmpegError, ValueError):
        return None
    return copy


def main(handle: int) -> None:
    """Serve one request over the connection with the descriptor `handle`."""
    av.logging.set_level(av.logging.PANIC)
    cv2.setNumThreads(1)
    parent, requests = connect_to_parent(handle)
    request = requests.get()
    path, limits = Path(request["path"]), Limits(**request["limits"])
    budget = CpuBudget(name := shown_name(path), limits)
    died = True
    try:
        copy = _make_copy(path, limits, budget)
    except VideoError as problem:
        # If the copy passed a limit, the error says nothing about the file.
        error, died = str(problem), budget.is_spent or near_memory_limit()
    except MemoryError:
        error = f"{name} needs more memory to copy than a video may take."
    except Exception as problem:  # noqa: BLE001 - any error of a hostile file is one sentence
        error = f"No playable copy of {name} can be made ({type(problem).__name__})."
    else:
        copy.seek(0)
        while chunk := copy.read(1 << 20):
            respond(parent, {"done": False}, chunk)
        respond(parent, {"done": True})
        return
    respond(parent, {"error": error, "died": died})


def _make_copy(path: Path, limits: Limits, budget: CpuBudget) -> io.BytesIO:
    """Return the copy as an MP4, empty if browsers play the file."""
    confine_process(limits)
    with open_local(path) as file:
        source = VideoSource(file, budget)
        playable, times, timeline = _check_browser_support(source, path)
        if playable:
            return io.BytesIO()
        if times and (copy := remux(source, times, timeline)) is not None:
            return copy
        with contextlib.suppress(UnusableTimestamps):
            return _encode(source, timeline, None)
        stats = DecodeStats()  # of a decode that finds the times of all frames first
        deque(read_all(source, stats), maxlen=0)
        return _encode(source, timeline, timeline.frame_times(stats.pts, source))
