"""When each frame is shown, from one pass over the packets, without decoding any."""

from __future__ import annotations

import math
import statistics
from array import array
from collections.abc import Callable
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


@dataclass(frozen=True, slots=True)
class Timeline:
    """Timestamps according to the packets; what the decoder gives may differ."""

    pts: NDArray[np.int64]  # timestamps of the frames in display order, in units of the stream's time base
    keyframes: NDArray[np.int64]  # timestamps of the key frames, ascending
    stored: int  # packets of frames to be shown: without those that an edit list hides
    drawn: bool  # the mark of a drawn video is there and names these packets
    seekable: bool  # frames can be found by timestamp: one per packet, key frames in order, in a container with reliable timestamps

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
    seekable = complete and reliable and not source.encrypted and len(keys) > 0 and len(shown) == stored > 0
    return Timeline(shown, _ascending(keys), stored, digest.drawn, seekable)


def _ascending(times: array[int]) -> NDArray[np.int64]:
    """Each value once. NumPy's `unique` and `median` load its masked arrays, which takes longer than decoding a short clip."""
    return np.array(sorted(set(times)), dtype=np.int64)


@dataclass(frozen=True, slots=True)
class FrameTimes:
    """When every frame is shown, in seconds from the first."""

    starts: NDArray[np.float64]
    typical_duration: float  # median seconds that a frame is shown; also assumed for the last one
    tick: float  # the time base in seconds: timestamps are multiples of it
    from_rate: bool = False  # the file has no usable timestamps: these follow from the declared rate

    def end_of(self, index: int) -> float:
        """When the next frame replaces frame `index`."""
        last = len(self.starts) - 1
        return float(self.starts[index + 1]) if index < last else float(self.starts[last]) + self.typical_duration

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
        return bool(np.any(np.abs(self.durations - self.typical_duration) > max(0.05 * self.typical_duration, 1.5 * self.tick)))


def make_frame_times(pts: list[int | None] | NDArray[np.int64], time_base: Fraction, rate: Fraction) -> FrameTimes:
    """From the timestamps of the decoded frames or of the packets, in units of `time_base`."""
    tick = float(time_base)
    usable = tick > 0 and not any(value is None for value in pts)
    starts = np.asarray((np.array(pts, dtype=np.int64) - int(pts[0] or 0)) * tick if usable else (), dtype=np.float64)
    if not usable or bool(np.any(np.diff(starts) <= 0)):
        return FrameTimes(np.arange(len(pts)) / float(rate), 1 / float(rate), 0.0, from_rate=True)
    typical = statistics.median(np.diff(starts).tolist()) if len(starts) > 1 else 1 / float(rate)
    return FrameTimes(starts, typical, tick)
