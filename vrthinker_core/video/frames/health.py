"""What is unusual about a clip, in sentences for people who read a verdict on it, measured on the clip itself."""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from vrthinker_core.types.geometry import Grid
from vrthinker_core.video.frames.convert import DisplayGeometry, Pixels
from vrthinker_core.video.frames.decode import DecodeStats
from vrthinker_core.video.frames.timeline import FrameTimes

GreySample = NDArray[np.uint8]
"""About 64 x 64 grey samples of a frame."""

SAMPLES = 64
"""Points of a grey sample across and down, at least."""

_BLACK = 24
_CHANGED = 12
_LEAST_SECONDS = 0.5
_MAX_STRETCHES = 4


@dataclass(frozen=True, slots=True)
class ClipFacts:
    """Everything the notes are made from."""

    grid: Grid
    frames: int
    times: FrameTimes
    geometry: DisplayGeometry
    square: bool
    """Frames are resized to a square, whatever their aspect, before they are sent."""
    stored: int
    """Frames in the file that are to be shown."""
    header_frames: int
    """Frames that the header announces, 0 where it does not say."""
    missing_frames: int
    """Stored frames that were not decoded although no packet was refused."""
    stats: DecodeStats
    """Of the decode of the whole clip; empty where there was none."""
    declared_rate: float
    hdr: bool
    video_streams: int
    samples: Mapping[int, GreySample] | None
    """Of every frame that some slot means; None where the clip was not decoded as a whole."""


def grey_sample(points: Pixels) -> GreySample:
    """Grey values of points of a frame: of points, not averages, so that a small movement is not lost."""
    return cv2.cvtColor(points, cv2.COLOR_RGB2GRAY).astype(np.uint8, copy=False)


def health_notes(facts: ClipFacts) -> tuple[str, ...]:
    """One sentence each, the most serious first; () for a clip with nothing unusual."""
    parts = (_decoding, _length, _picture, _stretches, _slots)
    return tuple(note for part in parts for note in part(facts))


def _decoding(facts: ClipFacts) -> Iterator[str]:
    lost = facts.stored - facts.frames
    if facts.stats.refused and lost > 0:
        yield f"{lost} of {facts.stored} frames cannot be decoded."
    elif facts.missing_frames > 0:
        yield f"{facts.missing_frames} of {facts.stored} stored frames give no picture."
    if facts.stats.corrupt:
        yield f"{facts.stats.corrupt} {_frames(facts.stats.corrupt)} damaged and shown as far as decoding goes."
    if facts.header_frames and facts.header_frames != facts.stored:
        yield f"The header announces {facts.header_frames} frames, {facts.stored} are there to be shown."
    if facts.video_streams > 1:
        width, height = facts.geometry.displayed_size
        yield f"The file holds {facts.video_streams} video streams; the main one ({width} x {height}) is used."


def _frames(count: int) -> str:
    return "frame is" if count == 1 else "frames are"


def _length(facts: ClipFacts) -> Iterator[str]:
    if facts.frames == 1:
        yield "The clip is a single picture: there is no motion to judge."
    elif facts.frames < 4:
        yield f"The clip has only {facts.frames} frames."
    if facts.times.from_rate:
        yield f"The file has no usable timestamps: seconds are counted at {facts.declared_rate:.4g} frames per second."
        return
    if facts.times.variable:
        lengths = facts.times.durations
        yield f"Variable frame rate: a frame stays from {lengths.min():.3f} s to {lengths.max():.3f} s."
    elif facts.frames > 3 and abs(facts.declared_rate * facts.times.typical_duration - 1) > 0.1:
        real = 1 / facts.times.typical_duration
        yield f"The header says {facts.declared_rate:.4g} frames per second, the timestamps say {real:.4g}."


def _picture(facts: ClipFacts) -> Iterator[str]:
    geometry, (width, height) = facts.geometry, facts.geometry.displayed_size
    if geometry.orientation.skewed:
        yield "The file asks to be turned by an angle that is no quarter turn; it is shown unturned."
    if geometry.orientation.clockwise:
        yield f"Turned by {geometry.orientation.clockwise}° clockwise, as the file asks."
    if geometry.orientation.reflected:
        yield "Mirrored, as the file asks."
    if geometry.pixel_aspect != 1:
        aspect = geometry.pixel_aspect
        yield f"Pixels are not square ({aspect.numerator}:{aspect.denominator}): shown as {width} x {height}."
    if facts.stats.resized_at is not None:
        yield f"The picture size changes at frame {facts.stats.resized_at}; every frame is brought to the size of the first."
    if facts.square and abs(width / height - 1) > 0.02:
        yield f"The picture is {_ratio(width, height)} ({width} x {height}) and is squashed into a square for the judge."
    if facts.stats.interlaced:
        yield "The clip is interlaced: moving edges may look like combs."
    if facts.hdr:
        yield "The clip is HDR and is shown without tone mapping: colours may look pale."


def _ratio(width: int, height: int) -> str:
    common = math.gcd(width, height)
    if max(width, height) // common <= 64:
        return f"{width // common}:{height // common}"
    return f"{width / height:.2f}:1"


def _slots(facts: ClipFacts) -> Iterator[str]:
    slots, frames = facts.grid.slots, facts.frames
    uses = Counter(facts.grid.index(slot, frames) for slot in range(slots))
    most = max(uses.values())
    if most > 1:
        yield f"{frames} {'frame' if frames == 1 else 'frames'} for {slots} slots: up to {most} slots show the same frame."
    if len(uses) < frames:
        yield f"{frames} frames for {slots} slots: {frames - len(uses)} frames lie between the slots and can never be asked for."


# -- black and still -------------------------------------------------------------------------------------------------------


def _stretches(facts: ClipFacts) -> Iterator[str]:
    if facts.samples is None:
        yield "The clip is long and is read piece by piece: black or still stretches were not looked for."
        return
    seen = sorted(facts.samples)
    samples = [facts.samples[index] for index in seen]
    black = list(_equal_runs(samples, lambda first, sample: _is_black(first) and _is_black(sample)))
    still = [run for run in _equal_runs(samples, _is_same) if run[0] < run[1] and not any(_within(run, dark) for dark in black)]
    yield from _describe_stretches(facts, "The picture is black", black, seen)
    yield from _describe_stretches(facts, "The picture stands still", still, seen)


def _describe_stretches(facts: ClipFacts, what: str, runs: list[tuple[int, int]], seen: list[int]) -> Iterator[str]:
    """`runs` are positions in `seen`, the indices of the sampled frames. A stretch ends where the next sampled frame begins."""
    edges = [*(float(facts.times.starts[index]) for index in seen), facts.times.seconds]
    if (0, len(seen) - 1) in runs and len(seen) > 1:
        yield f"{what} throughout."
        return
    intervals = [f"from {edges[a]:.2f} s to {edges[b + 1]:.2f} s" for a, b in runs if edges[b + 1] - edges[a] >= _LEAST_SECONDS]
    if intervals:
        more = f" and in {len(intervals) - _MAX_STRETCHES} more stretches" if len(intervals) > _MAX_STRETCHES else ""
        yield f"{what} {', '.join(intervals[:_MAX_STRETCHES])}{more}."


def _equal_runs(samples: Sequence[GreySample], same: Callable[[GreySample, GreySample], bool]) -> Iterator[tuple[int, int]]:
    """First and last position of every run whose samples all equal its FIRST one, so that a slow movement ends it."""
    start = 0
    for position in range(1, len(samples) + 1):
        if position == len(samples) or not same(samples[start], samples[position]):
            if same(samples[start], samples[start]):
                yield start, position - 1
            start = position


def _within(run: tuple[int, int], other: tuple[int, int]) -> bool:
    return other[0] <= run[0] and run[1] <= other[1]


def _is_black(sample: GreySample) -> bool:
    """At most two points in a thousand are light: noise is let pass, a dot on black is not."""
    return int(np.count_nonzero(sample >= _BLACK)) * 500 <= sample.size


def _is_same(one: GreySample, other: GreySample) -> bool:
    """At most two points in a thousand changed visibly: encoding a still picture changes as many."""
    if one.shape != other.shape:
        return False
    changed = int(np.count_nonzero(cv2.absdiff(one, other) > _CHANGED))
    return changed * 500 <= one.size
