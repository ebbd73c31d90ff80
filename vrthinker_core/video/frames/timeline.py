"""When each frame is shown, from one walk over the packets, without decoding any."""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from vrthinker_core.errors import VideoError
from vrthinker_core.video.frames.container import CONTAINER_ERRORS, VideoSource
from vrthinker_core.video.limits import CpuBudget

# Where a packet's timestamp is the frame's own, and a key frame is a place to start. MPEG-TS, AVI, raw streams and the like number
# their frames only while decoding; VP8 stores pictures that are never shown.
_TRUE_FORMATS = ("mov", "matroska")
_TRUE_CODECS = ("h264", "hevc", "vp9", "av1")


@dataclass(frozen=True, slots=True)
class Timeline:
    """What the packets promise; only a decoder knows whether it is true."""

    pts: NDArray[np.int64]
    """Timestamps of the frames in the order they are shown, in units of the stream's time base."""
    keyframes: NDArray[np.int64]
    """Timestamps of the key frames, ascending."""
    stored: int
    """Packets that are to be shown: those that an edit list hides are not counted."""
    seekable: bool
    """Frames can be found by timestamp: one per packet, none missing, in a container that tells the truth about this."""

    def interval_start(self, index: int) -> int:
        """Index of the first frame that is shown at or after the key frame from which frame `index` can be decoded."""
        key = int(np.searchsorted(self.keyframes, self.pts[index], "right")) - 1
        return int(np.searchsorted(self.pts, self.keyframes[key])) if key >= 0 else 0

    def index_of(self, pts: int) -> int | None:
        """The frame that is shown at `pts`, None where there is none."""
        place = int(np.searchsorted(self.pts, pts))
        return place if place < len(self.pts) and int(self.pts[place]) == pts else None


def read_timeline(source: VideoSource, budget: CpuBudget) -> Timeline:
    """Walk over all packets of an opened source. Leaves it at its end."""
    pts, keys = array("q"), array("q")
    stored = 0
    whole = True
    try:
        for packet in source.container.demux(source.stream):
            if not packet.size:
                continue
            if packet.pts is not None and packet.is_keyframe:
                keys.append(packet.pts)
            if packet.is_discard:
                continue
            stored += 1
            whole = whole and packet.pts is not None and not packet.is_corrupt
            if packet.pts is not None:
                pts.append(packet.pts)
            if stored % 1024 == 0:
                budget.check()
    except MemoryError:
        raise VideoError(f"{source.name} needs more memory than a video may take.") from None
    except CONTAINER_ERRORS:
        whole = False
    shown = _ascending(pts)
    honest = source.format.split(",")[0] in _TRUE_FORMATS and source.codec in _TRUE_CODECS
    seekable = whole and honest and len(keys) > 0 and len(shown) == stored > 0
    return Timeline(shown, _ascending(keys), stored, seekable)


def _ascending(times: array[int]) -> NDArray[np.int64]:
    """Each once. NumPy's own `unique` and `median` load its masked arrays first, which takes longer than decoding a short clip."""
    return np.array(sorted(set(times)), dtype=np.int64)


@dataclass(frozen=True, slots=True)
class FrameTimes:
    """Seconds of every frame, 0 for the first."""

    starts: NDArray[np.float64]
    typical_duration: float
    """Seconds that a frame usually lasts; the last one is taken to last as long."""
    tick: float
    """The time base: what timestamps are rounded to."""
    counted: bool = False
    """The file has no usable timestamps: the declared rate was counted."""

    def end_of(self, index: int) -> float:
        """When frame `index` is replaced."""
        last = len(self.starts) - 1
        return float(self.starts[index + 1]) if index < last else float(self.starts[last]) + self.typical_duration

    @property
    def seconds(self) -> float:
        """Length of the clip."""
        return self.end_of(len(self.starts) - 1)

    @property
    def durations(self) -> NDArray[np.float64]:
        """Seconds that each frame but the last is shown."""
        return np.diff(self.starts)

    @property
    def variable(self) -> bool:
        """Some frame lasts clearly longer or shorter than usual, beyond what rounding to ticks explains."""
        if len(self.starts) < 3:
            return False
        return bool(np.any(np.abs(self.durations - self.typical_duration) > max(0.05 * self.typical_duration, 1.5 * self.tick)))


def make_frame_times(pts: list[int | None] | NDArray[np.int64], time_base: Fraction, rate: Fraction) -> FrameTimes:
    """From the timestamps of the frames as they come out of the decoder, or from the packets'."""
    tick = float(time_base)
    usable = tick > 0 and not any(value is None for value in pts)
    starts = np.asarray((np.array(pts, dtype=np.int64) - int(pts[0] or 0)) * tick if usable else (), dtype=np.float64)
    if not usable or bool(np.any(np.diff(starts) <= 0)):
        return FrameTimes(np.arange(len(pts)) / float(rate), 1 / float(rate), 0.0, counted=True)
    typical = _median(np.diff(starts)) if len(starts) > 1 else 1 / float(rate)
    return FrameTimes(starts, typical, tick)


def _median(values: NDArray[np.float64]) -> float:
    ordered = np.sort(values)
    return float(ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2
