"""What a browser makes of a file, from its header and its packets, without decoding any."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import av

from vrthinker_core.errors import VideoError
from vrthinker_core.video.frames.container import VideoSource
from vrthinker_core.video.limits import CpuBudget

_CODECS = {"mp4": ("h264", "vp9", "av1"), "webm": ("vp8", "vp9", "av1")}
_PIXELS = ("yuv420p", "yuvj420p")
_SOUNDS = ("aac", "mp3", "opus", "vorbis", "flac")
_SUFFIXES = {".mp4": "mp4", ".m4v": "mp4", ".webm": "webm"}
# Files that say "qt  " are played by Safari, and elsewhere only sometimes.
_QUICKTIME = "qt"
# Containers whose packets carry the frames' own timestamps.
_REMUXABLE = ("mp4", "webm", "mov", "matroska")
_WEBM = re.compile(rb"\x42\x82[\x40-\xff]?[\x80-\xff]?\x00*webm")
_HEAD_BYTES = 64
_IDR = 5
_MAX_AUDIO_LEAD = 0.1
"""Seconds by which sound may begin before the picture: what its codec needs to start, which browsers leave out."""


@dataclass(frozen=True, slots=True)
class BrowserSupport:
    """What there is to do."""

    playable: bool
    """Browsers play the file as it is, and count its time as we do."""
    remuxable: bool
    """The packets can be put into an MP4 as they are."""
    packet_times: tuple[int, ...] = ()
    """Timestamps of the packets as they are stored, in units of the stream's time base; only of movable ones."""


def check_browser_support(source: VideoSource, path: Path, budget: CpuBudget) -> BrowserSupport:
    """Walks over the packets of an opened source and leaves it at its end. Raises VideoError."""
    container = _container(source, path)
    pixels = source.stream.codec_context.pix_fmt in _PIXELS
    if not pixels or container not in _REMUXABLE:
        return BrowserSupport(False, False)
    header = _header_is_plain(source, container) and _SUFFIXES.get(path.suffix.lower()) == container
    times = _packet_times(source, budget)
    if not times:
        return BrowserSupport(False, False)
    return BrowserSupport(header and min(times) == 0, source.codec in _CODECS["mp4"], times)


def _container(source: VideoSource, path: Path) -> str:
    """Which kind of file it is by its content; one demuxer reads MP4 and QuickTime, another WebM and Matroska."""
    kind = source.format.split(",")[0]
    if kind == "mov":
        return "mov" if source.container.metadata.get("major_brand", _QUICKTIME).strip() == _QUICKTIME else "mp4"
    if kind == "matroska":
        with path.open("rb") as file:
            return "webm" if _WEBM.search(file.read(_HEAD_BYTES)) else "matroska"
    return kind


def _header_is_plain(source: VideoSource, container: str) -> bool:
    """The codecs fit the container, no other picture can be played, and length and beginning are as they should be."""
    opened = source.container
    fits = source.codec in _CODECS.get(container, ()) and all(audio.codec_context.name in _SOUNDS for audio in _sounds(source))
    alone = len(opened.streams.video) == 1
    # Without frames in its table, an MP4 is in fragments; a recorded WebM does not know its length. Browsers seek badly in both.
    known = bool(opened.duration) and (container != "mp4" or source.header_frames > 0)
    begins = opened.start_time is None or -_MAX_AUDIO_LEAD * av.time_base <= opened.start_time <= 0
    return fits and alone and known and begins


def _sounds(source: VideoSource) -> list[av.AudioStream]:
    return [stream for stream in source.container.streams.audio if stream.codec_context is not None]


def _packet_times(source: VideoSource, budget: CpuBudget) -> tuple[int, ...]:
    """The packets' timestamps as they are stored; () when one is damaged or hidden, has no time, or is no true key frame."""
    found: list[int] = []
    extra = source.stream.codec_context.extradata or b""
    lengths = (extra[4] & 3) + 1 if source.codec == "h264" and len(extra) > 4 and extra[0] == 1 else 0
    try:
        for packet in source.container.demux(source.stream):
            if not packet.size:
                continue
            if packet.pts is None or packet.is_discard or packet.is_corrupt or not (found or packet.is_keyframe):
                return ()
            if lengths and packet.is_keyframe and not holds_idr(bytes(packet), lengths):
                return ()
            found.append(packet.pts)
            if len(found) % 1024 == 0:
                budget.check()
    except MemoryError:
        raise VideoError(f"{source.name} needs more memory than a video may take.") from None
    except av.FFmpegError:
        return ()
    return tuple(found) if len(set(found)) == len(found) else ()


def holds_idr(packet: bytes, lengths: int) -> bool:
    """Whether an H.264 packet, its units headed by `lengths` bytes each, holds an IDR picture.

    Chromium fails for good after a seek to a key frame that is none (open GOPs, intra refresh).
    """
    place = 0
    while place + lengths < len(packet):
        if packet[place + lengths] & 31 == _IDR:
            return True
        place += lengths + int.from_bytes(packet[place : place + lengths], "big")
    return False
