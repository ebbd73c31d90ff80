"""What a browser makes of a file, from its header and its packets, without decoding any."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import av
from av.packet import Packet
from av.video.stream import VideoStream

from vrthinker_core.errors import VideoError
from vrthinker_core.video.container import Source
from vrthinker_core.video.limits import Budget

_CODECS = {"mp4": ("h264", "vp9", "av1"), "webm": ("vp8", "vp9", "av1")}
_PIXELS = ("yuv420p", "yuvj420p")
_SOUNDS = ("aac", "mp3", "opus", "vorbis", "flac")
_SUFFIXES = {".mp4": "mp4", ".m4v": "mp4", ".webm": "webm"}
# Files that say "qt  " are played by Safari, and elsewhere only sometimes.
_QUICKTIME = "qt"
# Containers whose packets carry the frames' own timestamps.
_MOVABLE = ("mp4", "webm", "mov", "matroska")
_WEBM = re.compile(rb"\x42\x82[\x40-\xff]?[\x80-\xff]?\x00*webm")
_HEAD_BYTES = 64
_LEAD = 0.1
"""Seconds by which sound may begin before the picture: what its codec needs to start, which browsers leave out."""


@dataclass(frozen=True, slots=True)
class Survey:
    """What there is to do."""

    playable: bool
    """Browsers play the file as it is, and count its time as we do."""
    movable: bool
    """The packets can be put into an MP4 as they are."""
    first: int = 0
    """Timestamp of the first frame, in units of the stream's time base."""


def survey(source: Source, path: Path, budget: Budget) -> Survey:
    """Walks over the packets of an opened source and leaves it at its end. Raises VideoError."""
    container = _container(source, path)
    pixels = source.stream.codec_context.pix_fmt in _PIXELS
    if not pixels or container not in _MOVABLE:
        return Survey(False, False)
    header = _header_is_plain(source, container) and _SUFFIXES.get(path.suffix.lower()) == container
    first = _first_shown(source, budget)
    if first is None:
        return Survey(False, False)
    return Survey(header and first == 0, source.codec in _CODECS["mp4"], first)


def _container(source: Source, path: Path) -> str:
    """Which kind of file it is by its content; one demuxer reads MP4 and QuickTime, another WebM and Matroska."""
    kind = source.format.split(",")[0]
    if kind == "mov":
        return "mov" if source.container.metadata.get("major_brand", _QUICKTIME).strip() == _QUICKTIME else "mp4"
    if kind == "matroska":
        with path.open("rb") as file:
            return "webm" if _WEBM.search(file.read(_HEAD_BYTES)) else "matroska"
    return kind


def _header_is_plain(source: Source, container: str) -> bool:
    """The codecs fit the container, no other picture can be played, and length and beginning are as they should be."""
    opened = source.container
    fits = source.codec in _CODECS.get(container, ()) and all(audio.codec_context.name in _SOUNDS for audio in _sounds(source))
    alone = len(opened.streams.video) == 1
    # Without frames in its table, an MP4 is in fragments; a recorded WebM does not know its length. Browsers seek badly in both.
    known = bool(opened.duration) and (container != "mp4" or source.announced > 0)
    begins = opened.start_time is None or -_LEAD * av.time_base <= opened.start_time <= 0
    return fits and alone and known and begins


def _sounds(source: Source) -> list[av.AudioStream]:
    return [stream for stream in source.container.streams.audio if stream.codec_context is not None]


def _first_shown(source: Source, budget: Budget) -> int | None:
    """Timestamp of the first frame; None when some packet is damaged, hidden, without its time, or no key frame comes first."""
    stamps: set[int] = set()
    count, last = 0, None
    try:
        for packet in source.container.demux(source.stream):
            if not packet.size:
                continue
            if not _is_plain(packet, last) or (not count and not packet.is_keyframe):
                return None
            last = packet.dts
            count += 1
            stamps.add(packet.pts or 0)
            if count % 1024 == 0:
                budget.check()
    except MemoryError:
        raise VideoError(f"{source.name} needs more memory than a video may take.") from None
    except av.FFmpegError:
        return None
    return min(stamps) if count and len(stamps) == count else None


def _is_plain(packet: Packet[VideoStream], last: int | None) -> bool:
    if packet.pts is None or packet.dts is None or packet.is_discard or packet.is_corrupt:
        return False
    return last is None or packet.dts > last
