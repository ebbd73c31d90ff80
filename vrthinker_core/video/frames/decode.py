"""Decode packets to frames: all in sequence, or from the nearest key frame to the frame with a given timestamp."""

import itertools
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

import av
import numpy as np
from av.video.frame import VideoFrame

from vrthinker_core.errors import VideoError
from vrthinker_core.video.frames.container import CONTAINER_ERRORS, VideoSource
from vrthinker_core.video.frames.timeline import Timeline
from vrthinker_core.video.limits import CpuBudget


@dataclass(slots=True)
class DecodeStats:
    """What was noticed while decoding."""

    pts: list[int | None] = field(default_factory=list)
    refused: int = 0
    """Packets that the decoder could not decode."""
    corrupt: int = 0
    """Frames that the decoder marked as damaged."""
    interlaced: bool = False
    resized_at: int | None = None
    """The first frame of another size than the first one."""


@dataclass(frozen=True, slots=True)
class DecodedFrame:
    """A frame and its index."""

    requested: int
    index: int
    """Equals `requested`, unless this is the nearest frame that could be decoded."""
    frame: VideoFrame


class TimestampMismatch(Exception):
    """The decoder gives other frames than the packets announce."""


class SequentialReader:
    """Every frame of a source, from the start. This is the reference for which frame has which index."""

    def __init__(self, source: VideoSource, budget: CpuBudget) -> None:
        """Nothing else may read the source meanwhile."""
        self._source = source
        self._budget = budget

    def read_until(self, indices: Collection[int]) -> Iterator[DecodedFrame]:
        """All frames up to the last one of `indices`."""
        last = max(indices)
        for index, frame in enumerate(self.read_all(DecodeStats())):
            yield DecodedFrame(index, index, frame)
            if index >= last:
                return

    def read_all(self, stats: DecodeStats) -> Iterator[VideoFrame]:
        """All frames; damaged packets are skipped and counted."""
        self._source.reopen()
        size = None
        for frame in decode_packets(self._source, self._budget, stats):
            size = size or (frame.width, frame.height)
            if stats.resized_at is None and size != (frame.width, frame.height):
                stats.resized_at = len(stats.pts)
            stats.pts.append(frame.pts)
            stats.corrupt += frame.is_corrupt
            stats.interlaced |= frame.interlaced_frame
            yield frame


def decode_packets(source: VideoSource, budget: CpuBudget, stats: DecodeStats) -> Iterator[VideoFrame]:
    """Frames from the current position of the source, in display order. A damaged container ends the iteration."""
    try:
        for packet in source.container.demux(source.stream):
            budget.check()
            try:
                yield from packet.decode()
            except av.FFmpegError as error:
                _raise_if_out_of_memory(error, source)
                stats.refused += bool(packet.size)
    except CONTAINER_ERRORS as error:
        _raise_if_out_of_memory(error, source)
    except MemoryError:
        raise VideoError(f"{source.name} needs more memory to decode than a video may take.") from None


def _raise_if_out_of_memory(error: Exception, source: VideoSource) -> None:
    if isinstance(error, MemoryError):
        raise VideoError(f"{source.name} needs more memory to decode than a video may take.") from None


class SeekingReader:
    """Frames on demand, found by timestamp. The decoder keeps its position, so that frames after it need no second decode."""

    def __init__(self, source: VideoSource, timeline: Timeline, budget: CpuBudget) -> None:
        """Nothing else may read the source meanwhile; the timeline must be seekable."""
        self._source = source
        self._timeline = timeline
        self._budget = budget
        self._frames: Iterator[VideoFrame] = iter(())
        self._last: DecodedFrame | None = None
        self._stats = DecodeStats()

    def read(self, indices: Collection[int], *, strict: bool) -> Iterator[DecodedFrame]:
        """Every frame that is decoded to reach those of `indices`, which are included.

        Strict: raises TimestampMismatch as soon as an announced frame is missing. Otherwise the nearest one replaces it.
        """
        for target in sorted(indices):
            start = self._timeline.interval_start(target)
            if self._last is None or not start <= self._last.index <= target:
                self._seek_to_interval(start, strict)
            yield from self._read_to(target, strict)

    def _read_to(self, target: int, strict: bool) -> Iterator[DecodedFrame]:
        before = self._last
        if before is not None and before.index == target:
            yield before
            return
        while (decoded := self._next(strict)) is not None:
            yield decoded
            if decoded.index >= target:
                break
            before = decoded
        if decoded is None or decoded.index != target:
            yield _nearest_decoded(target, [near for near in (before, decoded) if near is not None], strict)

    def _next(self, strict: bool) -> DecodedFrame | None:
        for frame in self._frames:
            index = None if frame.pts is None else self._timeline.index_of(frame.pts)
            if strict and (self._stats.refused or frame.is_corrupt or index is None or index != self._expected_index(index)):
                raise TimestampMismatch
            if index is not None:
                self._last = DecodedFrame(index, index, frame)
                return self._last
        return None

    def _expected_index(self, index: int) -> int:
        return index if self._last is None else self._last.index + 1

    def _seek_to_interval(self, start: int, strict: bool) -> None:
        """Make frame `start`, the first one of a key frame's interval, the next one to be read."""
        for offset in self._seek_offsets(start):
            for frame in self._seek(offset):
                index = None if frame.pts is None else self._timeline.index_of(frame.pts)
                # Frames shown before the key frame may lack the frames that they refer to: they are left out.
                if index is None or index < start:
                    continue
                if index == start or (not strict and offset == self._seek_offsets(start)[-1]):
                    self._frames = itertools.chain([frame], self._frames)
                    return
                break
        if strict:
            raise TimestampMismatch

    def _seek(self, offset: int) -> Iterator[VideoFrame]:
        self._last = None
        self._stats = DecodeStats()
        try:
            self._source.container.seek(offset, stream=self._source.stream)
        except av.FFmpegError:
            raise TimestampMismatch from None
        self._frames = decode_packets(self._source, self._budget, self._stats)
        return self._frames

    def _seek_offsets(self, start: int) -> list[int]:
        """Timestamps to try: the key frame, the one before (some indexes are in decoding order), the start."""
        keys = self._timeline.keyframes
        key = int(np.searchsorted(keys, self._timeline.pts[start], "right")) - 1
        return [*(int(keys[near]) for near in (key, key - 1) if near > 0), int(min(keys[0], self._timeline.pts[0]))]


def _nearest_decoded(target: int, near: list[DecodedFrame], strict: bool) -> DecodedFrame:
    if strict or not near:
        raise TimestampMismatch
    nearest = min(near, key=lambda decoded: abs(decoded.index - target))
    return DecodedFrame(target, nearest.index, nearest.frame)
