"""Write clips with PyAV: every one decodable, no two frames alike unless asked for."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from io import BytesIO
from pathlib import Path
from typing import Any

import av
import numpy as np

Picture = np.ndarray[Any, np.dtype[np.uint8]]
H264 = {"preset": "veryfast", "threads": "1"}
_VPX = {"cpu-used": "8", "deadline": "realtime", "auto-alt-ref": "0"}
# Encodings for `write`
HEVC: dict[str, Any] = {
    "codec": "libx265",
    "options": {"preset": "ultrafast", "x265-params": "log-level=none:pools=1"},
}
VP8: dict[str, Any] = {
    "codec": "libvpx",
    "options": {"auto-alt-ref": "1", "lag-in-frames": "16", "cpu-used": "8"},
}
FAST_VP8: dict[str, Any] = {"codec": "libvpx", "options": _VPX}
VP9: dict[str, Any] = {"codec": "libvpx-vp9", "options": _VPX}
AV1: dict[str, Any] = {"codec": "libsvtav1", "options": {"preset": "12"}}
FFV1: dict[str, Any] = {"codec": "ffv1", "options": {}}
MPEG4: dict[str, Any] = {"codec": "mpeg4", "options": {}}
FRAGMENTS = {"container": {"movflags": "frag_keyframe+empty_moov+default_base_moof"}}
UNEVEN = [index * 60 + index % 5 * 11 for index in range(40)]
"""When the frames of a clip of variable rate are shown, in thousandths of a second."""


def x264(params: str) -> dict[str, Any]:
    """An encoding with parameters of the encoder's own."""
    return {"options": {**H264, "x264-params": params}}


def numbered_picture(index: int, width: int = 96, height: int = 64) -> Picture:
    """A picture for a number: a gradient that moves with it, and its bits as eight bright or dark blocks."""
    x, y = np.meshgrid(np.arange(width), np.arange(height))
    picture = np.stack(
        [(2 * x + 5 * index) % 256, (3 * y + 7 * index) % 256, (x + y + 11 * index) % 256], axis=2
    )
    for bit in range(8):
        left = bit * width // 8
        picture[: height // 4, left : left + width // 8] = 235 if index >> bit & 1 else 20
    return picture.astype(np.uint8)


@dataclass(frozen=True, slots=True)
class Encoding:
    """How a clip is written."""

    size: tuple[int, int] = (96, 64)
    codec: str = "libx264"
    rate: int = 25
    pix_fmt: str = "yuv420p"
    options: dict[str, str] | None = None
    gop: int = 12
    pts: Sequence[int] | None = None
    """In thousandths of a second."""
    pixel_aspect: Fraction | None = None
    pictures: Sequence[Picture] | None = None
    container: dict[str, str] | None = None
    unseekable: bool = False
    """As to a pipe: without durations and index."""
    format: str | None = None
    matrix: int | None = None
    """Of colours, as numbered in H.273: a mark in the file, which changes no pixel."""


def write(path: Path, frames: int = 50, **encoding: Any) -> Path:
    """One video stream, by the values of `Encoding`, in the container of the suffix."""
    how = Encoding(**encoding)
    target: Any = UnseekableFile() if how.unseekable else str(path)
    with av.open(target, "w", format=how.format, options=how.container or {}) as output:
        stream: Any = output.add_stream(
            how.codec, rate=how.rate, options=H264 if how.options is None else how.options
        )
        stream.width, stream.height = how.size
        stream.pix_fmt, stream.gop_size = how.pix_fmt, how.gop
        if how.pts is not None:
            stream.time_base = stream.codec_context.time_base = Fraction(1, 1000)
        if how.pixel_aspect is not None:
            stream.codec_context.sample_aspect_ratio = how.pixel_aspect
        if how.matrix is not None:
            stream.codec_context.colorspace = how.matrix
        for index in range(frames):
            picture = how.pictures[index] if how.pictures else numbered_picture(index, *how.size)
            frame = av.VideoFrame.from_ndarray(picture, format="rgb24")
            if how.matrix is not None:
                frame = frame.reformat(format=how.pix_fmt)
                frame.colorspace = how.matrix
            if how.pts is not None:
                frame.pts, frame.time_base = how.pts[index], Fraction(1, 1000)
            output.mux(stream.encode(frame))
        output.mux(stream.encode())
    if how.codec == "libsvtav1" and hasattr(os, "sched_setscheduler"):
        # For root, SVT-AV1 makes its caller a real-time thread; a browser started later would starve the machine
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    if how.unseekable:
        path.write_bytes(target.getvalue())
    return path


class UnseekableFile(BytesIO):
    """Written from start to end only."""

    def seekable(self) -> bool:
        return False


def packets(path: Path) -> tuple[Any, list[Any]]:
    """An open container and the packets of its video."""
    source = av.open(str(path))
    return source, [packet for packet in source.demux(video=0) if packet.size]


def repeated(path: Path, source: Path, times: int) -> Path:
    """A long clip, made quickly: the packets of a short one `times` times, each time from a key frame."""
    opened, found = packets(source)
    length = sum(packet.duration for packet in found)
    data = [(bytes(p), p.pts, p.dts, p.is_keyframe, p.duration) for p in found]
    with opened, av.open(str(path), "w") as output:
        stream = output.add_stream_from_template(opened.streams.video[0])
        for turn in range(times):
            for content, pts, dts, key, duration in data:
                packet = av.Packet(content)
                packet.stream, packet.time_base = stream, found[0].time_base
                packet.pts, packet.dts = pts + turn * length, dts + turn * length
                packet.duration, packet.is_keyframe = duration, key
                output.mux(packet)
    return path


def trimmed(path: Path, source: Path, start: int) -> Path:
    """An edit list: all packets are there, those before frame `start` are marked as not to be shown."""
    opened, found = packets(source)
    shift = sorted(packet.pts for packet in found)[start]
    with opened, av.open(str(path), "w", options={"avoid_negative_ts": "disabled"}) as output:
        stream = output.add_stream_from_template(opened.streams.video[0])
        for packet in found:
            packet.pts, packet.dts, packet.stream = packet.pts - shift, packet.dts - shift, stream
            output.mux(packet)
    return path


def rotated(path: Path, source: Path, a: int, b: int, c: int, d: int) -> Path:
    """A display matrix, written over the one of an MP4: x' = a x + c y, y' = b x + d y."""
    data = bytearray(source.read_bytes())
    at = data.index(b"tkhd") + 4 + 40
    data[at : at + 36] = struct.pack(
        ">9i", *(value << 16 for value in (a, b, 0, c, d, 0, 0, 0)), 1 << 30
    )
    path.write_bytes(data)
    return path


def damaged(path: Path, source: Path, packet: int) -> Path:
    """One packet of an MP4 overwritten with noise, so that a decoder refuses it."""
    opened, found = packets(source)
    opened.close()
    data = bytearray(source.read_bytes())
    start = found[packet].pos
    data[start : start + found[packet].size] = bytes([0xFF]) * found[packet].size
    path.write_bytes(data)
    return path


def _silence(output: Any, seconds: float) -> list[Any]:
    """Packets of a stream of sound that is added to a file."""
    sound = output.add_stream("libopus", rate=48000)
    sound.layout = "mono"
    samples = np.zeros((1, int(48000 * seconds)), np.float32)
    frame = av.AudioFrame.from_ndarray(samples, format="fltp", layout="mono")
    frame.sample_rate, frame.pts, frame.time_base = 48000, 0, Fraction(1, 48000)
    return [*sound.encode(frame), *sound.encode()]


def sound_only(path: Path) -> Path:
    """Half a second of sound in an MP4."""
    with av.open(str(path), "w") as output:
        output.mux(_silence(output, 0.5))
    return path


def with_sound(path: Path, source: Path, seconds: float, **how: Any) -> Path:
    """The packets of a clip, and silence of another length."""
    opened, found = packets(source)
    with opened, av.open(str(path), "w", **how) as output:
        video = output.add_stream_from_template(opened.streams.video[0])
        sound = _silence(output, seconds)
        for packet in found:
            packet.stream = video
        output.mux(sorted([*found, *sound], key=lambda each: (each.dts or 0) * each.time_base))
    return path


def two_streams(path: Path, small: tuple[int, int], large: tuple[int, int]) -> Path:
    """Two video streams of 12 frames; the larger one comes second."""
    with av.open(str(path), "w") as output:
        streams: list[Any] = []
        for size in (small, large):
            stream: Any = output.add_stream("libx264", rate=25, options=H264)
            stream.width, stream.height, stream.pix_fmt = *size, "yuv420p"
            streams.append(stream)
        for index in range(12):
            for stream in streams:
                picture = numbered_picture(index, stream.width, stream.height)
                output.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        for stream in streams:
            output.mux(stream.encode())
    return path


def truncated(path: Path, source: Path, part: float) -> Path:
    """The first part of a file."""
    data = source.read_bytes()
    path.write_bytes(data[: int(len(data) * part)])
    return path


def cat(path: Path, *sources: Path) -> Path:
    """Raw streams one behind the other."""
    path.write_bytes(b"".join(source.read_bytes() for source in sources))
    return path


_PLAIN: dict[str, tuple[str, int, dict[str, Any]]] = {
    "B-frames": ("plain.mp4", 50, {}),
    "open GOP": ("open gop.mp4", 90, x264("open-gop=1:bframes=3:keyint=15:scenecut=0")),
    "intra refresh": ("refresh.mkv", 90, x264("intra-refresh=1:keyint=20")),
    "one key frame": ("one key.mp4", 200, {"gop": 1000, **x264("scenecut=0")}),
    "variable rate": ("vfr.mp4", 40, {"pts": UNEVEN}),
    "wide pixels": ("wide.mp4", 50, {"pixel_aspect": Fraction(4, 3)}),
    "transport stream": ("stream.ts", 50, {}),
    "fragments": ("fragments.mp4", 50, FRAGMENTS),
    "no duration": ("live.webm", 50, {**VP9, "unseekable": True, "format": "webm"}),
    "unfinished AVI": ("live.avi", 50, {**MPEG4, "unseekable": True, "format": "avi"}),
    "raw stream": ("raw.264", 50, {"format": "h264"}),
    "animated GIF": ("moving.gif", 20, {"codec": "gif", "pix_fmt": "rgb8", "options": {}}),
    "MPEG-4 in AVI": ("old.avi", 50, {"codec": "mpeg4", "options": {"bf": "2"}}),
    "MPEG-2 program": ("old.mpg", 50, {"codec": "mpeg2video", "options": {}}),
    "HEVC": ("hevc.mp4", 50, HEVC),
    "VP8": ("old.webm", 50, VP8),
    "10 bit": ("deep.mkv", 50, {"pix_fmt": "yuv420p10le"}),
    "4:4:4": ("full.mp4", 50, {"pix_fmt": "yuv444p"}),
    "alpha": ("alpha.webm", 50, {**VP9, "pix_fmt": "yuva420p"}),
    "odd size": ("odd.mkv", 50, {**FFV1, "size": (97, 63)}),
    "one frame": ("single.mp4", 1, {}),
    "three frames": ("three.mp4", 3, {}),
}
if "libsvtav1" in av.codecs_available:
    _PLAIN["AV1"] = ("new.mp4", 50, AV1)
KINDS: dict[str, Callable[[Path], Path]] = {
    **{
        kind: lambda to, name=name, frames=frames, how=how: write(to / name, frames, **how)
        for kind, (name, frames, how) in _PLAIN.items()
    },
    "edit list": lambda to: trimmed(to / "trimmed.mp4", write(to / "whole.mp4"), 17),
    "rotated": lambda to: rotated(to / "turned.mp4", write(to / "unturned.mp4"), 0, 1, -1, 0),
    "two streams": lambda to: two_streams(to / "two.mp4", (64, 48), (128, 96)),
    "size changes": lambda to: cat(
        to / "grows.264", write(to / "a.264", 9), write(to / "b.264", 9, size=(128, 96))
    ),
    "damaged": lambda to: damaged(to / "damaged.mp4", write(to / "sound.mp4"), 20),
    "cut off": lambda to: truncated(to / "cut.mkv", write(to / "uncut.mkv"), 0.6),
    "long": lambda to: repeated(to / "long.mp4", write(to / "short.mp4"), 12),
}
