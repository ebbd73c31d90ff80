"""The video container of a hostile file.

FFmpeg gets an open file, never a name, and may open nothing else.
"""

import contextlib
import errno
import os
import re
import struct
from collections.abc import Iterator
from fractions import Fraction
from io import BufferedReader
from typing import Any, NoReturn

import av
import av.logging
from av.container.input import InputContainer
from av.packet import Packet
from av.stream import Disposition
from av.video.stream import VideoStream

from vrthinker_core.errors import VideoError
from vrthinker_core.video.files import IMAGE_BRANDS
from vrthinker_core.video.limits import CpuBudget

# Demuxers of self-contained video files. Formats that can point elsewhere (hls, dash, concat, sdp,
# image2, ...) are missing on purpose, and so are image and audio formats.
_FORMATS = (
    "mov,mp4,m4a,3gp,3g2,mj2,matroska,webm,avi,flv,live_flv,mpegts,mpeg,mpegvideo,"
    "ogg,asf,gif,ivf,obu,h263,h264,hevc,vvc,m4v,"
    "yuv4mpegpipe,mxf,nut,rm,dv,nsv,vc1,vc1test,cavsvideo,avs2,avs3,dirac,wtv,apng"
)
THREADS = 3
"""Decoder threads: PyAV's default on two processors, fixed for all machines.

The pictures of clips with lost slices depend on the number.
"""
_ONE_DURATION = ("matroska", "flv")
"""Formats whose header announces one end for all streams."""
_TELL_DURATIONS = ("mov", "matroska", "gif", "apng")
"""Formats that tell how long each frame is shown."""
_MATROSKA_CROP = re.compile(rb"\x54([\xaa\xbb\xcc\xdd])(\x81.|\x82..)", re.DOTALL)
# In Matroska the identifier of the data is between the name and the data
_DOLBY_VISION = re.compile(rb"dvcC(?:\x41\xed.)?[\x01\x02].(.)", re.DOTALL)
_APERTURE = re.compile(rb"\0\0\0\x28clap(.{32})", re.DOTALL)
CONTAINER_ERRORS = (av.FFmpegError, IndexError)
"""Errors from reading a damaged container.

PyAV raises `IndexError` for a packet of a stream that the header did not announce.
"""


class _SeekableFile:
    """A file whose failed seek returns an error code, as FFmpeg expects.

    An exception would end the run instead of the seek.
    """

    def __init__(self, file: BufferedReader) -> None:
        self._file, self.read, self.tell = file, file.read, file.tell

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Return the new position, or a negative error number."""
        try:
            return self._file.seek(offset, whence)
        except OSError as error:
            return -(error.errno or errno.EINVAL)


class VideoSource:
    """An open file, its container and its video stream."""

    def __init__(self, file: BufferedReader, budget: CpuBudget) -> None:
        """Take over the file; raises `VideoError` if no video within limits."""
        self._file = file
        self.budget = budget
        self.name = budget.name
        self._bytes = file.seek(0, os.SEEK_END)
        self._complaints: set[str] = set()  # parts of FFmpeg that have logged an error
        with _heard_errors() as errors:
            self.container, self.stream = self._open()
            self._complaints.update(name for _, name, _ in errors)
        # Read once, because PyAV would read freed memory after the container is closed.
        self.format: str = self.container.format.name
        self.kind = self.format.split(",")[0]
        self.codec: str = self.stream.codec_context.codec.canonical_name
        self.video_streams = len(_video_streams(self.container))
        # The mark of Matroska; MP4 marks each packet instead.
        self.encrypted = "enc_key_id" in self.stream.metadata
        self.transparent = self.stream.metadata.get("alpha_mode") == "1"
        # 0 if the header announces none, as an unfinished recording does
        frames = self.stream.frames
        self.header_frames = frames if frames < 1 << 30 else 0
        self.read_seconds = 0.0  # end of the last packet that `packets` has read
        self.damaged = self.broken_off = False  # known after `packets` has ended
        self.time_base = _fraction(self.stream.time_base) or Fraction(0)
        self.one_duration = self.kind in _ONE_DURATION
        self.tells_durations = self.kind in _TELL_DURATIONS
        self.header_seconds = self._header_seconds()
        # For missing times or durations
        stream = self.stream
        rate = _fraction(stream.guessed_rate) or _fraction(stream.average_rate) or Fraction(25)
        self.rate = rate if 0 < rate <= 1000 else Fraction(25)
        # In stored pixels, as the header declares.
        width, height = self.size = stream.codec_context.width, stream.codec_context.height
        limits, megapixels = budget.limits, f"{budget.limits.pixels // 1_000_000} megapixels"
        if width <= 0 or height <= 0:
            raise VideoError(f"{self.name} has no picture size, or one above {megapixels}.")
        if max(width, height) > limits.side or width * height > limits.pixels:
            allowed = f"The limits are {limits.side} per side and {megapixels}."
            raise VideoError(f"{self.name} is too large: {width} x {height} pixels. {allowed}")

        # An MP4 may have its header at its end
        at = max(0, self._bytes - (1 << 24)) if self.kind == "mov" else self._bytes
        header = self._bytes_at(0, 1 << 20) + self._bytes_at(at, 1 << 24)
        found = re.search(_DOLBY_VISION, header)
        self.dolby_vision = found[1][0] >> 1 if found else 0  # profile that the header names
        self.crop = self._declared_crop(header)

    def reopen(self) -> None:
        """Restart from the first packet with a new decoder.

        The old container and stream must not be used any more.
        """
        self.container.close()
        self.container, self.stream = self._open()

    def report_damage(self) -> None:
        """Make the decoder refuse or mark damaged frames instead of showing them.

        Call it before anything is decoded.
        """
        context = self.stream.codec_context
        if self.codec == "h264":  # with slice threads a lost slice is not marked
            context.thread_count = 1
        else:
            context.options = {**context.options, "err_detect": "explode"}

    def packets(self) -> Iterator["Packet[Any]"]:
        """Yield all nonempty packets of the video from here on.

        Raises `VideoError` at a limit, `CONTAINER_ERRORS` if the file is damaged.
        """
        self.damaged, corrupt, last, end = True, {}, 0, 0
        self.broken_off = True
        try:
            with _heard_errors() as errors:
                for packet in self.container.demux():
                    self.budget.check()
                    self._complaints.update(name for _, name, _ in errors)
                    errors.clear()
                    if not packet.size:
                        continue
                    position = packet.pos or 0
                    last, end = max(last, position), max(end, position + packet.size)
                    corrupt[packet.stream_index] = packet.is_corrupt
                    is_video = packet.stream_index == self.stream.index
                    start = packet.dts if packet.pts is None else packet.pts
                    counts = is_video or self.one_duration
                    if counts and start is not None and packet.time_base:
                        ends = float((start + (packet.duration or 0)) * packet.time_base)
                        self.read_seconds = max(self.read_seconds, ends)
                    if is_video:
                        self.encrypted = self.encrypted or packet.has_sidedata("encryption_info")
                        yield packet
        except MemoryError:
            raise VideoError(f"{self.name} needs more memory than a video may take.") from None
        self.broken_off = False
        self.damaged = (
            self.format in self._complaints or any(corrupt.values()) or self._lacks_end(last, end)
        )

    def _header_seconds(self) -> float:
        """Return the end by the header, 0 if only estimated."""
        stream = self.stream
        if self.kind in ("avi", "ivf"):
            return float(self.header_frames * self.time_base)
        if self.kind in ("mov", "mxf"):
            return float((stream.duration or 0) * self.time_base)
        # If the stream has a duration, too, FFmpeg has estimated both.
        announced = self.one_duration and stream.duration is None
        return (self.container.duration or 0) / av.time_base if announced else 0.0

    def _lacks_end(self, start: int, end: int) -> bool:
        """Return whether data is missing at the end of the file.

        Covers formats whose demuxers do not tell. The last packet is from `start` to `end`.
        """
        rest = self._bytes - end
        if self.kind == "ogg":
            # Enough for the last page
            tail = self._bytes_at(max(0, self._bytes - (1 << 17)), 1 << 17)
            page = tail.rpartition(b"OggS")[2]
            lengths = page[23 : 23 + page[22]] if len(page) > 22 else b""
            # Flag 4 marks the last page of a stream.
            return len(page) < 23 + len(lengths) + sum(lengths) or not page[1] & 4
        if self.kind == "mov":
            # In a complete file, nothing large follows the last fragment.
            return not self.stream.frames and 4 * rest > self._bytes
        if self.kind == "mpegts":  # Of packets of one length, each with a mark
            for length, mark in ((188, 0), (192, 4), (204, 0)):
                if self._bytes_at(mark, 1) == self._bytes_at(mark + length, 1) == b"G":
                    part = self._bytes % length
                    return part > mark and self._bytes_at(self._bytes - part + mark, 1) == b"G"
            return False
        # What follows a whole file is no part of it
        if self.kind == "yuv4mpegpipe":  # The header of a picture is not part of its packet
            return rest > 80 and self._bytes_at(end, 5) == b"FRAME"
        if self.kind == "apng":
            return self._bytes_at(end + 4, 4) != b"IEND"
        return self.kind == "gif" and not _ends_gif(self._bytes_at(start, 1 << 26))

    def _declared_crop(self, header: bytes) -> tuple[int, ...]:
        """Return the columns and rows to remove: left, top, right, bottom.

        PyAV does not give FFmpeg's side data of a stream.
        """
        width, height = self.size
        crop: tuple[int, ...] = (0, 0, 0, 0)
        if self.kind == "matroska":
            tracks = header.rpartition(b"\x16\x54\xae\x6b")[2]
            tracks = tracks.partition(b"\x1f\x43\xb6\x75")[0]  # up to the first cluster
            sides = {side[0]: value[1:] for side, value in _MATROSKA_CROP.findall(tracks)}
            crop = tuple(int.from_bytes(sides.get(side, b"")) for side in b"\xcc\xbb\xdd\xaa")
        elif self.kind == "mov" and (aperture := _APERTURE.search(header)) is not None:
            parts = struct.unpack(">IIIIiIiI", aperture[1])
            if all(parts[1::2]):
                across, down, x, y = (Fraction(*parts[at : at + 2]) for at in (0, 2, 4, 6))
                left, top = round((width - across) / 2 + x), round((height - down) / 2 + y)
                crop = left, top, round(width - across) - left, round(height - down) - top
        fits = min(crop) >= 0 and crop[0] + crop[2] < width and crop[1] + crop[3] < height
        return crop if fits else (0, 0, 0, 0)

    def _bytes_at(self, position: int, count: int) -> bytes:
        before = self._file.tell()
        self._file.seek(position)
        read = self._file.read(count)
        self._file.seek(before)
        return read

    @property
    def pixel_aspect(self) -> Fraction:
        """Width of a stored pixel over its height.

        Reliable after the first decoded frame; 1 if the file gives no usable value.
        """
        declared = self.stream.sample_aspect_ratio, self.stream.codec_context.sample_aspect_ratio
        aspect = _fraction(declared[0]) or _fraction(declared[1]) or Fraction(1)
        return aspect if Fraction(1, 8) <= aspect <= 8 else Fraction(1)

    def _open(self) -> tuple[InputContainer, VideoStream]:
        self._file.seek(0)
        options = {"format_whitelist": _FORMATS, "max_pixels": str(self.budget.limits.pixels)}
        try:
            container = av.open(
                _SeekableFile(self._file),
                "r",
                options=options,
                io_open=_refuse_other_files,
                buffer_size=1 << 18,
                metadata_errors="ignore",
            )
        except MemoryError:
            why = "needs more memory to open than a video may take"
            raise VideoError(f"{self.name} {why}.") from None
        except PermissionError:
            why = "points at other files, and these are never opened"
            raise VideoError(f"{self.name} {why}.") from None
        except (av.FFmpegError, ValueError):
            self._file.seek(0)
            head = self._file.read(1 << 20)
            why = "cannot be opened: it is damaged, or in no video format that is read"
            # MP4 boxes of an encrypted stream: in place of its codec, and for its encryption
            if b"encv" in head and b"sinf" in head:
                why = "is encrypted and cannot be opened without its key"
            raise VideoError(f"{self.name} {why}.") from None
        try:
            return container, self._choose_stream(container)
        except BaseException:
            container.close()
            raise

    def _choose_stream(self, container: InputContainer) -> VideoStream:
        candidates, videos = _video_streams(container), container.streams.video
        if not candidates:
            why = "holds sound only, no video" if container.streams.audio else "holds no video"
            if any(stream.codec_context is None for stream in videos):
                why = "is stored with a codec that cannot be decoded here"
            elif videos:
                why = "holds a still picture, no video"
            raise VideoError(f"{self.name} {why}.")
        best = container.streams.best("video")
        same = (stream for stream in candidates if best is not None and stream.index == best.index)
        stream = next(same, candidates[0])
        context = stream.codec_context
        context.thread_count, context.thread_type = THREADS, "SLICE"
        context.options = {"max_pixels": str(self.budget.limits.pixels)}
        return stream


@contextlib.contextmanager
def _heard_errors() -> Iterator[list[tuple[int, str, str]]]:
    """Collect FFmpeg's error logs; many demuxers report damage nowhere else."""
    level = av.logging.get_level()
    av.logging.set_level(av.logging.ERROR)
    try:
        with av.logging.Capture() as logs:
            yield logs
    finally:
        av.logging.set_level(level)


def _ends_gif(block: bytes) -> bool:
    """Return whether the blocks of a GIF's last picture are whole and its end follows."""
    at = 0
    if block.startswith(b"GIF"):  # the only picture, behind the header and the file's colours
        at = 13 + (3 << (block[10] & 7) + 1 if block[10] & 0x80 else 0)
    while block[at : at + 1] in (b"!", b","):
        if block[at] == 0x21:  # an extension
            at += 2
        else:  # a picture, its colours and the size of its codes
            packed = block[at + 9] if len(block) > at + 9 else 0
            at += 11 + (3 << (packed & 7) + 1 if packed & 0x80 else 0)
        while at < len(block) and block[at]:
            at += block[at] + 1
        at += 1
    return block[at : at + 1] == b";"


def _fraction(value: Fraction | None) -> Fraction | None:
    """Convert PyAV's rational type to `Fraction`, None and 0 to None."""
    return Fraction(value.numerator, value.denominator) if value else None


def _refuse_other_files(url: str, flags: int, options: dict[str, str]) -> NoReturn:  # noqa: ARG001 - the signature that PyAV calls
    raise PermissionError("a video never opens another file")


def _video_streams(container: InputContainer) -> list[VideoStream]:
    """Return decodable video streams without cover pictures and other stills."""
    cover = Disposition.attached_pic | Disposition.timed_thumbnails | Disposition.still_image
    streams = [
        stream
        for stream in container.streams.video
        if stream.codec_context is not None and not stream.disposition & cover
    ]
    # The still picture beside a sequence is listed as a stream, too.
    images = container.metadata.get("major_brand", "").encode() in IMAGE_BRANDS
    return [stream for stream in streams if stream.frames > 1 or not images]
