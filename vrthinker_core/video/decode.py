"""Decoding of packets, in sequence or from the nearest key frame."""

import itertools
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace

import av
import numpy as np
from av.video.frame import VideoFrame

from vrthinker_core.errors import VideoError
from vrthinker_core.video.container import CONTAINER_ERRORS, VideoSource
from vrthinker_core.video.limits import near_memory_limit
from vrthinker_core.video.timeline import Timeline


@dataclass(slots=True)
class DecodeStats:
    """Findings of one decode."""

    pts: list[int | None] = field(default_factory=list)
    refused: int = 0  # packets that the decoder could not decode
    corrupt: int = 0  # frames that the decoder marked as damaged
    interlaced: bool = False
    resized_at: int | None = None  # first index with a frame of another size than the first


@dataclass(slots=True)
class DecodedFrame:
    """A frame and its index."""

    requested: int
    index: int  # differs from `requested` if only a neighbour could be decoded
    frame: VideoFrame
    """A frame in a buffer of the decoder; do not hold it.

    If data is lost, the decoder shows the old content of the next free buffer. A held buffer
    changes which buffer is next, and so changes damaged frames.
    """


class TimestampMismatch(Exception):
    """Decoded frames that differ from the frames announced by the packets."""


def read_all(source: VideoSource, stats: DecodeStats) -> Iterator[DecodedFrame]:
    """Yield every frame from the start, the reference for frame indices.

    Skips and counts damaged packets. Each frame returns to the decoder when the next one is
    requested, so keep only copies.
    """
    source.reopen()
    size = None
    for frame in _decode_packets(source, stats):
        index = len(stats.pts)
        size = size or (frame.width, frame.height)
        if stats.resized_at is None and size != (frame.width, frame.height):
            stats.resized_at = index
        stats.pts.append(frame.pts)
        stats.corrupt += frame.is_corrupt
        stats.interlaced |= frame.interlaced_frame
        decoded = DecodedFrame(index, index, frame)
        del frame
        yield decoded
        del decoded.frame


def _decode_packets(source: VideoSource, stats: DecodeStats) -> Iterator[VideoFrame]:
    """Yield frames in display order, up to damage of the container."""
    try:
        for packet in source.container.demux(source.stream):
            source.budget.check()
            try:
                yield from packet.decode()
            except MemoryError:
                raise
            except av.FFmpegError:
                stats.refused += bool(packet.size)
    except MemoryError:
        why = "needs more memory to decode than a video may take"
        raise VideoError(f"{source.name} {why}.") from None
    except CONTAINER_ERRORS:
        return


def no_frame_error(source: VideoSource, announced: int) -> VideoError:
    """Return the error of a video without a frame that decodes."""
    if near_memory_limit():
        return VideoError(f"{source.name} needs more memory to decode than a video may take.")
    state = "encrypted" if source.encrypted else "damaged"
    none = f"not one frame can be decoded, of {max(1, announced)} stored"
    return VideoError(f"{source.name} is {state}: {none}.")


class SeekingReader:
    """Reader of single frames by timestamp.

    The decoder keeps its position, so later frames need no second decode.
    """

    def __init__(self, source: VideoSource, timeline: Timeline) -> None:
        """Require a seekable timeline and a source that nothing else reads."""
        self._source = source
        self._timeline = timeline
        self._frames: Iterator[VideoFrame] = iter(())
        self._last: DecodedFrame | None = None
        self._stats = DecodeStats()

    def read(self, indices: Collection[int], *, strict: bool) -> Iterator[DecodedFrame]:
        """Yield the frames of `indices` and every frame decoded to reach them.

        If `strict`, raises `TimestampMismatch` as soon as an announced frame is missing. Otherwise
        the nearest frame replaces it.
        """
        for target in sorted(indices):
            start = self._timeline.interval_start(target)
            if self._last is None or not start <= self._last.index <= target:
                self._seek_to_interval(start, strict)
            before = self._last
            if before is not None and before.index == target:
                yield before
                continue
            while (decoded := self._next(strict)) is not None:
                yield decoded
                if decoded.index >= target:
                    break
                before = decoded
            if decoded is None or decoded.index != target:
                both = [each for each in (before, decoded) if each is not None]
                if strict or not both:
                    raise TimestampMismatch
                near = [(abs(each.index - target), each.index, each) for each in both]
                yield replace(min(near)[-1], requested=target)

    def cost(self, indices: Collection[int]) -> int:
        """Return how many frames `read` yields for `indices`."""
        count, last = 0, self._last.index if self._last else -1
        for target in sorted(indices):
            start = self._timeline.interval_start(target)
            count += target - (last if start <= last <= target else start - 1)
            last = target
        return count

    def _next(self, strict: bool) -> DecodedFrame | None:
        for frame in self._frames:
            index = self._timeline.index_of(frame.pts)
            gap = self._last is not None and index != self._last.index + 1
            if strict and (self._stats.refused or frame.is_corrupt or index is None or gap):
                raise TimestampMismatch
            if index is not None:
                self._last = DecodedFrame(index, index, frame)
                return self._last
        return None

    def _seek_to_interval(self, start: int, strict: bool) -> None:
        """Seek so that the next frame is `start`, first of its interval."""
        keys, pts = self._timeline.keyframes, self._timeline.pts
        key = int(np.searchsorted(keys, pts[start], "right")) - 1
        # To the key frame, the previous one (if the file's index is in decoding order), the start
        offsets = [int(keys[near]) for near in (key, key - 1) if near > 0]
        offsets.append(int(min(keys[0], pts[0])))
        for offset in offsets:
            self._last, self._stats = None, DecodeStats()
            try:
                self._source.container.seek(offset, stream=self._source.stream)
            except av.FFmpegError:
                raise TimestampMismatch from None
            self._frames = _decode_packets(self._source, self._stats)
            for frame in self._frames:
                index = self._timeline.index_of(frame.pts)
                # Frames shown before the key frame may lack their references, so they are skipped.
                if index is None or index < start:
                    continue
                if index == start or (not strict and offset == offsets[-1]):
                    self._frames = itertools.chain([frame], self._frames)
                    return
                break
        if strict:
            raise TimestampMismatch
