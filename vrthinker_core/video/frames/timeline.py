"""When each frame is shown, from one pass over the packets, without decoding any."""

from __future__ import annotations

import math
import statistics
from array import array
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from vrthinker_core.video.drawn_mark import PacketDigest
from vrthinker_core.video.frames.container import CONTAINER_ERRORS, VideoSource

# Where a packet has the timestamp of its frame, and decoding can start at a key frame. In MPEG-TS, AVI, raw streams and the like
# frames get their number only while decoding; VP8 stores frames that are never shown.
_RELIABLE_FORMATS = ("mov", "matroska")
_RELIABLE_CODECS = ("h264", "hevc", "vp9", "av1")
_ROUNDED_SECONDS = 0.1  # by which a header may announce more than there is
_WILD = (
    20  # times the length of the clip: a few frames that far from all others have wrong timestamps
)


@dataclass(frozen=True, slots=True)
class Timeline:
    """Timestamps according to the packets; what the decoder gives may differ."""

    pts: NDArray[
        np.int64
    ]  # timestamps of the frames in display order, in units of the stream's time base
    keyframes: NDArray[np.int64]  # timestamps of the key frames, ascending
    stored: int  # packets of frames to be shown: without those that an edit list hides
    drawn: bool  # the mark of a drawn video is there and names these packets
    seekable: bool  # frames can be found by timestamp: one per packet, key frames in order, in a container with reliable timestamps
    missing_seconds: float  # by which the file ends before what its header announces; 0 if the last frame may stay so long

    def interval_start(self, index: int) -> int:
        """Index of the first frame that is shown at or after the key frame from which frame `index` can be decoded."""
        key = int(np.searchsorted(self.keyframes, self.pts[index], "right")) - 1
        return int(np.searchsorted(self.pts, self.keyframes[key])) if key >= 0 else 0

    def index_of(self, pts: int | None) -> int | None:
        """Index of the frame with the timestamp `pts`, or None."""
        if pts is None:
            return None
        index = int(np.searchsorted(self.pts, pts))
        return index if index < len(self.pts) and int(self.pts[index]) == pts else None


def read_timeline(source: VideoSource, reached: Callable[[int], None] = lambda _: None) -> Timeline:
    """Read all packets of an opened source. Leaves it at its end. `reached` is told where in the file each one stands."""
    pts, keys, stored, complete, latest = array("q"), array("q"), 0, True, -math.inf
    digest = PacketDigest(source.container.metadata)
    try:
        for packet in source.packets():
            reached(packet.pos or 0)
            digest.add(memoryview(packet))
            if packet.pts is not None and packet.is_keyframe:
                # Whatever is stored before a key frame must be shown before it, else decoding from it misses frames.
                complete = complete and packet.pts > latest
                keys.append(packet.pts)
            elif packet.pts is not None and len(keys) > 1:
                # A wrong timestamp changes the indices of all frames between it and the right one, so that seeking cannot find it.
                complete = complete and packet.pts > keys[-2]
            latest = latest if packet.pts is None else max(latest, packet.pts)
            if packet.is_discard:
                continue
            stored += 1
            complete = complete and packet.pts is not None and not packet.is_corrupt
            if packet.pts is not None:
                pts.append(packet.pts)
    except CONTAINER_ERRORS:
        complete = False
    shown = _ascending(pts)
    reliable = source.format.split(",")[0] in _RELIABLE_FORMATS and source.codec in _RELIABLE_CODECS
    seekable = (
        complete
        and reliable
        and not source.encrypted
        and len(keys) > 0
        and len(shown) == stored > 0
    )
    missing = _missing_seconds(source, shown, stored)
    return Timeline(shown, _ascending(keys), stored, digest.drawn, seekable, missing)


def _missing_seconds(source: VideoSource, shown: NDArray[np.int64], stored: int) -> float:
    missing = source.header_seconds - (source.read_seconds or stored / float(source.rate))
    longest = (
        float(np.diff(shown).max() * source.time_base) if len(shown) > 1 else 1 / float(source.rate)
    )
    return missing if missing > longest + _ROUNDED_SECONDS else 0.0


def _ascending(times: array[int]) -> NDArray[np.int64]:
    """Each value once. NumPy's `unique` and `median` load its masked arrays, which takes longer than decoding a short clip."""
    return np.array(sorted(set(times)), dtype=np.int64)


@dataclass(frozen=True, slots=True)
class FrameTimes:
    """When every frame is shown, in seconds from the first."""

    starts: NDArray[np.float64]
    typical_duration: float  # median seconds that a frame is shown; also assumed for the last one
    tick: float  # the time base in seconds: timestamps are multiples of it
    from_rate: bool = (
        False  # the file has no usable timestamps: these follow from the declared rate
    )
    estimated: int = 0  # frames whose time follows from that of their neighbours

    def end_of(self, index: int) -> float:
        """When the next frame replaces frame `index`."""
        last = len(self.starts) - 1
        return (
            float(self.starts[index + 1])
            if index < last
            else float(self.starts[last]) + self.typical_duration
        )

    @property
    def seconds(self) -> float:
        """Duration of the clip."""
        return self.end_of(len(self.starts) - 1)

    @property
    def durations(self) -> NDArray[np.float64]:
        """Seconds that each frame but the last is shown."""
        return np.diff(self.starts)

    @property
    def variable(self) -> bool:
        """Some frame lasts clearly longer or shorter than the median, beyond what rounding to ticks explains."""
        if len(self.starts) < 3:
            return False
        return bool(
            np.any(
                np.abs(self.durations - self.typical_duration)
                > max(0.05 * self.typical_duration, 1.5 * self.tick)
            )
        )


def make_frame_times(
    pts: Sequence[int | None] | NDArray[np.int64], time_base: Fraction, rate: Fraction
) -> FrameTimes:
    """From the timestamps of the decoded frames or of the packets, in units of `time_base`.

    A frame whose timestamp is missing or wrong lies between its neighbours. If most are, all times follow from the rate.
    """
    tick, frames = float(time_base), np.arange(len(pts))
    ticks = np.array(pts, np.float64)  # not a number for None
    known = np.flatnonzero(~np.isnan(ticks))
    ticks = ticks[known]
    usable = _usable(known, ticks)
    if tick <= 0 or 2 * len(usable) <= len(pts):
        return FrameTimes(frames / float(rate), 1 / float(rate), 0.0, from_rate=True)
    kept, first, last = known[usable], known[usable[0]], known[usable[-1]]
    typical = (
        statistics.median(np.diff(ticks[usable]).tolist())
        if len(kept) > 1
        else 1 / float(rate) / tick
    )
    starts = np.interp(frames, kept, ticks[usable])
    starts[:first] += typical * (frames[:first] - first)
    starts[last:] += typical * (frames[last:] - last)
    ordered = np.sort(ticks)
    if len(kept) < len(ordered) == len(pts) and _unevenness(frames, ordered, typical) < _unevenness(
        frames, starts, typical
    ):
        starts = ordered  # some files have the timestamps of another order of the same frames
    return FrameTimes(
        (starts - starts[0]) * tick, typical * tick, tick, estimated=len(pts) - len(kept)
    )


def _unevenness(frames: NDArray[np.int64], times: NDArray[np.float64], typical: float) -> float:
    return float(np.abs(np.diff(times) - typical * np.diff(frames)).sum())


def _usable(frames: NDArray[np.int64], times: NDArray[np.float64]) -> NDArray[np.int64]:
    """Positions of as many ascending times as possible, without a few that are far from all others."""
    kept = _most_ascending(frames, times) if np.any(np.diff(times) <= 0) else np.arange(len(times))
    gaps = np.diff(times[kept])
    limit = _WILD * len(kept) * statistics.median(gaps.tolist()) if len(gaps) else math.inf
    near = max(np.split(kept, np.flatnonzero(gaps > limit) + 1), key=len)
    return near if 10 * len(near) >= 9 * len(kept) else kept


def _most_ascending(frames: NDArray[np.int64], times: NDArray[np.float64]) -> NDArray[np.int64]:
    """Positions of a longest run of ascending times. Where several are as long, the most even one.

    In 3 4 4 6 the second 4 is wrong, in 4 6 6 7 the first 6.
    """
    low = np.array(_ascending_run(times.tolist()))
    high = len(times) - 1 - np.array(_ascending_run((-times[::-1]).tolist()))[::-1]
    typical = statistics.median(np.diff(times[low]).tolist()) if len(low) > 1 else 0.0
    different = np.flatnonzero(low != high)
    for stretch in (
        np.split(different, np.flatnonzero(np.diff(different) > 1) + 1) if len(different) else ()
    ):
        around = slice(max(0, stretch[0] - 1), stretch[-1] + 2)
        of_low, of_high = (
            _unevenness(frames[run], times[run], typical) for run in (low[around], high[around])
        )
        if of_high < of_low:
            low[stretch] = high[stretch]
    return low


def _ascending_run(values: list[float]) -> list[int]:
    """Positions of the longest strictly ascending run, gaps allowed; of several the one with the lowest values."""
    ends: list[float] = []  # the lowest value at which a run of each length can end
    positions: list[int] = []  # where each of these stands
    before: list[int] = []  # for each position the one before it in a run
    for position, value in enumerate(values):
        length = bisect_left(ends, value)
        before.append(positions[length - 1] if length else -1)
        if ends[length : length + 1] != [value]:  # of equal ones the first stays
            ends[length : length + 1], positions[length : length + 1] = [value], [position]
    run = positions[-1:]
    while before[run[-1]] >= 0:
        run.append(before[run[-1]])
    return run[::-1]
