"""Timestamps of frames from one pass over the packets, without decoding."""

from __future__ import annotations

import hashlib
import math
import re
import statistics
from array import array
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any, Final

import numpy as np
from av.packet import Packet
from numpy.typing import NDArray

from vrthinker_core.video.container import CONTAINER_ERRORS, VideoSource

MARK: Final = "drawn by VR-Thinker, packets sha256 "  # Before the digest
_MARKED: Final = re.compile(rf"(?:(.*); )?{MARK}([0-9a-f]{{64}})", re.DOTALL)
_REORDERED: Final = 16  # frames by which a codec's order differs from the display's, at most
# As long as the final mark, which replaces it in the written file
UNSEALED: Final = f"{MARK}{'0' * 64}"


def unmarked(comment: str) -> str | None:
    """Return the comment before the mark, or None without a mark."""
    found = _MARKED.fullmatch(comment)
    return None if found is None else found[1] or ""


def claims_drawn(path: Path) -> bool:
    """Return whether a file holds a mark, unproven: nothing of it is decoded."""
    if not path.stat().st_size:
        return False
    with path.open("rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as data:
        return re.search(f"{MARK}[0-9a-f]{{64}}".encode(), data) is not None


class PacketDigest:
    """SHA-256 of a stream's packets, computed only if a mark exists."""

    def __init__(self, metadata: Mapping[str, str]) -> None:
        found = _MARKED.fullmatch(metadata.get("comment", ""))
        self._claimed = found and found[2]
        self._digest = hashlib.sha256()

    def add(self, packet: bytes | memoryview) -> None:
        """Add the next packet, in file order."""
        if self._claimed:
            self._digest.update(packet)

    @property
    def hexdigest(self) -> str:
        """Hex digest of all packets so far."""
        return self._digest.hexdigest()

    @property
    def drawn(self) -> bool:
        """Whether the mark exists and matches the added packets."""
        return self._claimed == self.hexdigest


@dataclass(frozen=True, slots=True)
class Timeline:
    """Timestamps according to the packets; decoded frames may differ."""

    pts: NDArray[np.int64]  # of the frames in display order, in units of the stream's time base
    keyframes: NDArray[np.int64]  # timestamps of the key frames, ascending
    stored: int  # packets of frames to be shown, without frames hidden by an edit list
    drawn: bool  # the mark of a drawn video exists and matches these packets
    # Frames can be found by timestamp: one per packet, key frames in order, reliable container.
    seekable: bool
    # From the last packet's end to the end in the header; 0 if the last frame may stay so long.
    missing_seconds: float
    told_seconds: float  # of all frames, by the header or their own durations; 0 if neither is told
    last_seconds: float  # for which the last frame is shown; 0 if not told

    def frame_times(
        self, pts: Sequence[int | None] | NDArray[np.int64], source: VideoSource
    ) -> FrameTimes:
        """Return the display times of decoded frames with these timestamps."""
        told, last = self.told_seconds, self.last_seconds
        return make_frame_times(pts, source.time_base, source.rate, told=told, last=last)

    def interval_start(self, index: int) -> int:
        """Return the first frame of the key frame interval of frame `index`.

        Decoding of frame `index` starts at that key frame.
        """
        key = int(np.searchsorted(self.keyframes, self.pts[index], "right")) - 1
        return int(np.searchsorted(self.pts, self.keyframes[key])) if key >= 0 else 0

    def index_of(self, pts: int | None) -> int | None:
        """Return the index of the frame with the timestamp `pts`, or None."""
        if pts is None:
            return None
        index = int(np.searchsorted(self.pts, pts))
        return index if index < len(self.pts) and int(self.pts[index]) == pts else None


def read_timeline(source: VideoSource, look: Callable[[Packet[Any]], None]) -> Timeline:
    """Read all packets of an opened source, up to its end; `look` is called with each."""
    pts, keys, stored, complete, latest = array("q"), array("q"), 0, True, -math.inf
    lasting, last = 0, 0  # durations of all frames, and of the last one
    digest = PacketDigest(source.container.metadata)
    try:
        for packet in source.packets():
            look(packet)
            digest.add(memoryview(packet))
            if packet.pts is not None and packet.is_keyframe:
                # A frame stored before a key frame must be shown before it, else decoding from the
                # key frame misses the frame.
                complete = complete and packet.pts > latest
                keys.append(packet.pts)
            elif packet.pts is not None and len(keys) > 1:
                # A wrong timestamp shifts the indices of all frames between it and the right one,
                # which seeking cannot detect.
                complete = complete and packet.pts > keys[-2]
            latest = latest if packet.pts is None else max(latest, packet.pts)
            if packet.is_discard:
                continue
            stored += 1
            complete = complete and packet.pts is not None and not packet.is_corrupt
            if packet.pts is not None:
                pts.append(packet.pts)
                # Of a frame that is stored later, a decoder's order is told, not the display's
                last = (packet.duration or 0) if packet.pts == latest else 0
                lasting += packet.duration or 0
    except CONTAINER_ERRORS:
        complete = False
    # `np.unique` and `np.median` load masked arrays: longer than decoding a short clip takes.
    shown, keyframes = (np.array(sorted(set(times)), dtype=np.int64) for times in (pts, keys))
    # Here packets have the timestamps of their frames, and decoding can start at a key frame.
    # MPEG-TS, AVI, raw streams and the like number frames only while decoding. VP8 stores frames
    # that are never shown.
    reliable = source.kind in ("mov", "matroska")
    reliable = reliable and source.codec in ("h264", "hevc", "vp9", "av1") and not source.encrypted
    seekable = complete and reliable and len(keys) > 0 and len(shown) == stored > 0
    rate, missing = float(source.rate), source.header_seconds
    missing -= source.read_seconds or stored / rate
    longest = float(np.diff(shown).max() * source.time_base) if len(shown) > 1 else 1 / rate
    if missing <= longest + 0.1:  # That rounding may add to the length in a header
        missing = 0.0
    each = float(source.time_base) if source.tells_durations else 0.0
    told, lasts = max(source.header_seconds, lasting * each), last * each
    places = np.argsort(np.argsort(np.array(pts, dtype=np.int64), kind="stable"))
    if np.any(np.abs(places - np.arange(len(pts))) > _REORDERED):
        told = 0.0  # a wrong clock, which the header has counted
    if missing and source.one_duration and not source.damaged and len(shown):
        lasts = source.header_seconds - float(shown[-1] * source.time_base)
    return Timeline(shown, keyframes, stored, digest.drawn, seekable, missing, told, lasts)


@dataclass(frozen=True, slots=True)
class FrameTimes:
    """Display times of all frames, in seconds from the first."""

    starts: NDArray[np.float64]
    typical_duration: float  # median seconds that a frame is shown
    last_duration: float  # seconds that the last frame is shown; the typical ones if not told
    tick: float  # time base in seconds; timestamps are multiples of it
    from_rate: bool = False  # without usable timestamps, times follow from the declared rate
    estimated: int = 0  # number of frames whose time is estimated from their neighbours
    left_out: float = 0.0  # seconds of the longest pause that is taken for a wrong clock

    def end_of(self, index: int) -> float:
        """Return when frame `index` ends, in seconds."""
        if index < len(self.starts) - 1:
            return float(self.starts[index + 1])
        return float(self.starts[-1]) + self.last_duration

    @property
    def seconds(self) -> float:
        """Duration of the clip in seconds."""
        return self.end_of(len(self.starts) - 1)

    @property
    def durations(self) -> NDArray[np.float64]:
        """Seconds that each frame is shown."""
        return np.diff(self.starts, append=self.seconds)

    @property
    def variable(self) -> bool:
        """Whether a frame lasts clearly longer or shorter than the median.

        Differences from rounding to ticks do not count, nor does a short last frame.
        """
        off = np.abs(self.durations - self.typical_duration)
        off[-1] = max(0.0, self.last_duration - self.typical_duration)
        slack = max(0.05 * self.typical_duration, 1.5 * self.tick)
        return len(self.starts) > 2 and bool(np.any(off > slack))


def make_frame_times(
    pts: Sequence[int | None] | NDArray[np.int64],
    time_base: Fraction,
    rate: Fraction,
    *,
    told: float = 0.0,
    last: float = 0.0,
) -> FrameTimes:
    """Return display times from timestamps in units of `time_base`.

    The timestamps are from decoded frames or from packets. A frame with a missing or wrong
    timestamp is placed between its neighbours. If at most half are usable, all times follow from
    the rate. `told` and `last` are seconds of all frames and of the last one, 0 if not told: a
    few frames far away from all others have a wrong clock, unless `told` includes the pause.
    """
    tick, frames = float(time_base), np.arange(len(pts))
    ticks = np.array(pts, np.float64)  # NaN for None
    known = np.flatnonzero(~np.isnan(ticks))
    ticks = ticks[known]
    # Most ascending times
    descends = bool(np.any(np.diff(ticks) <= 0))
    usable = _most_ascending(known, ticks) if descends else np.arange(len(ticks))
    gaps = np.diff(ticks[usable])
    limit = 20 * len(usable) * statistics.median(gaps.tolist()) if len(gaps) else math.inf
    near, left_out = max(np.split(usable, np.flatnonzero(gaps > limit) + 1), key=len), 0.0
    if len(near) < len(usable) <= len(near) / 0.9 and told < 0.99 * float(gaps.sum()) * tick:
        usable, left_out = near, float(gaps.max()) * tick
    if tick <= 0 or 2 * len(usable) <= len(pts):
        each = 1 / float(rate)
        return FrameTimes(frames / float(rate), each, each, 0.0, from_rate=True)
    kept, times = known[usable], ticks[usable]
    steps = np.diff(times).tolist()
    typical = statistics.median(steps) if steps else 1 / float(rate) / tick
    starts = np.interp(frames, kept, times)
    starts[: kept[0]] += typical * (frames[: kept[0]] - kept[0])
    starts[kept[-1] :] += typical * (frames[kept[-1] :] - kept[-1])
    ordered = np.sort(ticks)
    if len(kept) < len(ordered) == len(pts):
        # Some files store the right timestamps in another order
        uneven, other = (_unevenness(frames, each, typical) for each in (starts, ordered))
        starts = ordered if other < uneven else starts
    starts, lost = (starts - starts[0]) * tick, len(pts) - len(kept)
    last = last if last > 0 and kept[-1] == len(pts) - 1 else typical * tick
    return FrameTimes(starts, typical * tick, last, tick, estimated=lost, left_out=left_out)


def _unevenness(frames: NDArray[np.int64], times: NDArray[np.float64], typical: float) -> float:
    return float(np.abs(np.diff(times) - typical * np.diff(frames)).sum())


def _most_ascending(frames: NDArray[np.int64], times: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return positions of the longest run of ascending times.

    Of several, chooses the most even one: in 3 4 4 6 the second 4 is wrong, in 4 6 6 7 the first 6.
    """
    low = np.array(_ascending_run(times.tolist()))
    high = len(times) - 1 - np.array(_ascending_run((-times[::-1]).tolist()))[::-1]
    typical = statistics.median(np.diff(times[low]).tolist()) if len(low) > 1 else 0.0
    different = np.flatnonzero(low != high)
    stretches = np.split(different, np.flatnonzero(np.diff(different) > 1) + 1)
    for stretch in stretches if len(different) else ():
        around = slice(max(0, stretch[0] - 1), stretch[-1] + 2)
        runs = (low[around], high[around])
        of_low, of_high = (_unevenness(frames[run], times[run], typical) for run in runs)
        if of_high < of_low:
            low[stretch] = high[stretch]
    return low


def _ascending_run(values: list[float]) -> list[int]:
    """Return positions of the longest strictly ascending subsequence with lowest values."""
    ends: list[float] = []  # lowest last value of a run of each length
    positions: list[int] = []  # position of each of these values
    before: list[int] = []  # previous position in the run, for each position
    for position, value in enumerate(values):
        length = bisect_left(ends, value)
        before.append(positions[length - 1] if length else -1)
        if ends[length : length + 1] != [value]:  # keeps the first of equal values
            ends[length : length + 1], positions[length : length + 1] = [value], [position]
    run = positions[-1:]
    while before[run[-1]] >= 0:
        run.append(before[run[-1]])
    return run[::-1]
