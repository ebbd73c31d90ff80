"""A folder of video copies that every browser plays.

A copy is an MP4 without audio. Its timestamps are the original's, shifted so that the first frame
is at 0. A worker process reads the original, writes no file and sends the copy as bytes.
"""

import contextlib
import hashlib
import itertools
import re
from collections.abc import Generator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import av
from av.packet import Packet

from vrthinker_core.errors import DecoderDied, NoCopy, VideoError
from vrthinker_core.storage import atomic_path
from vrthinker_core.video.container import VideoSource
from vrthinker_core.video.files import open_local, shown_name
from vrthinker_core.video.limits import Limits
from vrthinker_core.video.process import start_worker
from vrthinker_core.video.timeline import Timeline, read_timeline
from vrthinker_core.video.worker_io import Header

_VIDEO_CODECS = {"mp4": ("h264", "vp9", "av1"), "webm": ("vp8", "vp9", "av1")}


def check_browser_support(
    source: VideoSource, path: Path
) -> tuple[bool, tuple[int, ...], Timeline]:
    """Return (whether browsers play a source, timestamps to remux it, its timeline).

    The timestamps are of the packets in stored order, in units of the stream's time base; () if the
    packets cannot be copied into an MP4 without decoding. Reads all packets and leaves the source
    at its end. Raises `VideoError`.
    """
    header, container = source.container, source.format.split(",")[0]
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
    plain_pixels = source.stream.codec_context.pix_fmt in ("yuv420p", "yuvj420p")
    # Not all browsers cut a picture
    plain_pixels = plain_pixels and not any(source.crop)
    # In these containers, packets have the timestamps of their frames.
    remuxable = plain_pixels and container in ("mp4", "webm", "mov", "matroska")
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

    def look(packet: "Packet[Any]") -> None:
        key = packet.is_keyframe
        odd = packet.is_discard or packet.is_corrupt or not (times or key)
        odd = odd or (sized and key and not holds_idr(bytes(packet), length_bytes))
        times.append(None if odd else packet.pts)

    timeline = read_timeline(source, look)
    usable = [each for each in times if each is not None]
    wrong = source.broken_off or timeline.frame_times(sorted(usable), source).estimated
    return timeline, () if wrong or len(set(usable)) < len(times) else tuple(usable)


def holds_idr(packet: bytes, length_bytes: int) -> bool:
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


# More processor time than a comparison gets, because encoding comes on top of decoding.
COPY_LIMITS = Limits(cpu_seconds=60.0, wall_seconds=90.0)
MAX_COPY_BYTES = 300_000_000  # of a copy that is kept


def playable_copy(source: Path, folder: Path, *, limits: Limits = COPY_LIMITS) -> Path | None:
    """Return the path of a playable copy, None if not needed.

    None means that Chromium, Firefox and Safari play the file as it is. The copy is an MP4 in
    `folder`, named by a hash of the source. An existing copy is returned unchanged.

    Raises `VideoError` with one sentence if the file is no video, `NoCopy` if the copy passes a
    limit or cannot be kept, or if the worker process crashed.
    """
    copy = folder / f"{_digest(source)}.mp4"
    if copy.is_file():
        return copy
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return _write_copy(copy, _copy_chunks(source, limits), shown_name(source))
    except DecoderDied as died:
        raise NoCopy(str(died)) from None
    except OSError as error:
        copies = f"No playable copy of {shown_name(source)}"
        raise NoCopy(f"{copies} could be kept: {error.strerror}.") from None


def _digest(source: Path) -> str:
    """Hash content and suffix, because browser support depends on both."""
    suffix = source.suffix.lower().encode("utf-8", "replace")
    digest = hashlib.blake2b(b"playable/2" + suffix, digest_size=16)
    with open_local(source) as file:
        try:
            while chunk := file.read(1 << 20):
                digest.update(chunk)
        except OSError as error:
            raise VideoError(f"{shown_name(source)} cannot be read: {error.strerror}.") from None
    return digest.hexdigest()


def _write_copy(copy: Path, chunks: Generator[bytes, None, None], name: str) -> Path | None:
    with contextlib.closing(chunks):
        first = next(chunks, b"")
        if not first:
            return None
        with atomic_path(copy) as part, part.open("wb") as file:
            for chunk in itertools.chain([first], chunks):
                if file.tell() + len(chunk) > MAX_COPY_BYTES:
                    limit = f"more than {MAX_COPY_BYTES // 1_000_000} MB"
                    raise NoCopy(f"A playable copy of {name} would have {limit}: cut it shorter.")
                file.write(chunk)
    return copy


def _copy_chunks(source: Path, limits: Limits) -> Generator[bytes, None, None]:
    """Yield the worker's chunks; none if browsers play the file."""
    worker = start_worker("vrthinker_core.video.copy_worker")
    request: Header = {"path": str(source.resolve()), "limits": asdict(limits)}
    try:
        for _, chunk in worker.request(request, limits.wall_seconds):
            yield chunk
    except (EOFError, OSError, ValueError, TypeError, KeyError):
        raise DecoderDied(f"{shown_name(source)}: {worker.cause_of_death(limits)}.") from None
    finally:
        worker.end()
        worker.connection.close()
