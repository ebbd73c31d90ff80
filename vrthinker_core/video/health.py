"""Health notes: sentences on what is unusual about a clip.

They are measured on the clip itself, for people who read a verdict on it.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import cv2
import numpy as np

from vrthinker_core.types.frames import FramePlan
from vrthinker_core.video.container import VideoSource
from vrthinker_core.video.convert import READ_MATRICES, DisplayGeometry, GreySample
from vrthinker_core.video.decode import DecodeStats
from vrthinker_core.video.timeline import FrameTimes, Timeline
from vrthinker_core.words import count


@dataclass(frozen=True, slots=True)
class ClipFacts:
    """Facts that the health notes are made from."""

    source: VideoSource
    plan: FramePlan
    times: FrameTimes
    geometry: DisplayGeometry
    timeline: Timeline
    stats: DecodeStats  # empty if the clip was not decoded as a whole
    # By index of each frame that a slot means; None if the clip was not decoded as a whole.
    samples: Mapping[int, GreySample] | None

    @property
    def frames(self) -> int:
        """Number of decodable frames."""
        return len(self.times.starts)


def health_notes(facts: ClipFacts) -> tuple[str, ...]:
    """Return a sentence per finding, most serious first."""
    parts = (_decoding, _length, _picture, _colours, _stretches, _slots)
    return tuple(note for part in parts for note in part(facts))


def _decoding(facts: ClipFacts) -> Iterator[str]:
    stored, announced = facts.timeline.stored, facts.source.header_seconds
    lost, header_frames = stored - facts.frames, facts.source.header_frames
    missing = facts.timeline.missing_seconds
    there = f"{announced - missing:.2f} of {announced:.2f} seconds"
    if missing and facts.source.one_duration and not facts.source.damaged:
        yield f"The last picture is held, or the file ends early: {there} are there."
    elif missing:
        yield f"The file ends early: {there} are there."
    elif facts.source.damaged:
        yield "The file ends early or is damaged: not everything in it can be read."
    if facts.source.encrypted:
        yield "The clip is encrypted: its pictures are decoded without the key."
    if facts.stats.refused and lost > 0:
        yield f"{lost} of {stored} frames cannot be decoded."
    # Some frames of these codecs are only references, so fewer frames than packets are no loss.
    elif lost > 0 and facts.source.codec not in ("vp8", "vp9", "av1"):
        yield f"{lost} of {stored} stored frames give no picture."
    if facts.stats.corrupt:
        what = "frame is" if facts.stats.corrupt == 1 else "frames are"
        yield f"{facts.stats.corrupt} {what} damaged and shown as far as decoding goes."
    if not missing and header_frames not in (0, stored):
        yield f"The header announces {header_frames} frames, {stored} are there to be shown."
    if (count := facts.source.video_streams) > 1:
        width, height = facts.geometry.displayed_size
        yield f"The file holds {count} video streams; the main one ({width} x {height}) is used."


def _length(facts: ClipFacts) -> Iterator[str]:
    declared = float(facts.source.rate)
    rate = f"{declared:.4g} frames per second"
    if facts.frames == 1:
        yield "The clip is a single picture: there is no motion to judge."
    elif facts.frames < 4:
        yield f"The clip has only {facts.frames} frames."
    if facts.times.from_rate:
        yield f"The file has no usable timestamps: seconds are counted at {rate}."
        return
    if count := facts.times.estimated:
        what = "timestamp is" if count == 1 else "timestamps are"
        guess = "the time of such a frame is estimated from its neighbours"
        left_out = facts.times.left_out
        pause = f"; a pause of {left_out:.1f} s is left out" if left_out else ""
        yield f"{count} {what} missing or wrong: {guess}{pause}."
    if facts.times.variable:
        shortest, longest = facts.times.durations.min(), facts.times.durations.max()
        yield f"Variable frame rate: a frame stays from {shortest:.3f} s to {longest:.3f} s."
    elif facts.frames > 3 and abs(declared * facts.times.typical_duration - 1) > 0.1:
        real = 1 / facts.times.typical_duration
        yield f"The header says {rate}, the timestamps say {real:.4g}."


def _picture(facts: ClipFacts) -> Iterator[str]:
    geometry, (width, height) = facts.geometry, facts.geometry.displayed_size
    if geometry.orientation.skewed:
        turn = "turned by an angle that is no quarter turn"
        yield f"The file asks to be {turn}; it is shown unturned."
    if geometry.orientation.clockwise:
        yield f"Turned by {geometry.orientation.clockwise}° clockwise, as the file asks."
    if geometry.orientation.reflected:
        yield "Mirrored, as the file asks."
    if any(facts.source.crop):
        cut_width, cut_height = geometry.stored_size
        yield f"Cut to {cut_width} x {cut_height}, as the file asks."
    if geometry.pixel_aspect != 1:
        aspect = f"{geometry.pixel_aspect.numerator}:{geometry.pixel_aspect.denominator}"
        yield f"Pixels are not square ({aspect}): shown as {width} x {height}."
    if (at := facts.stats.resized_at) is not None:
        change = f"The picture size changes at frame {at}"
        yield f"{change}; every frame is brought to the size of the first."
    squashed = "square" in (facts.plan.opening.mode, facts.plan.later.mode)
    if squashed and abs(width / height - 1) > 0.02:
        yield "The judge sees every frame squeezed to a square."
    if facts.stats.interlaced:
        yield "The clip is interlaced: moving edges may look like combs."


def _colours(facts: ClipFacts) -> Iterator[str]:
    geometry = facts.geometry
    if geometry.transparent:
        yield "The clip is transparent in places: the colours beneath are shown."
    if facts.source.dolby_vision == 5:
        yield "The clip is Dolby Vision profile 5, which is not read: colours look green or purple."
    if geometry.matrix not in READ_MATRICES:
        named = f"The file names colour matrix {geometry.matrix} of H.273"
        yield f"{named}, which is not read: colours may look wrong."
    if geometry.hdr:
        yield "The clip is HDR and is shown without tone mapping: colours may look pale."


def _slots(facts: ClipFacts) -> Iterator[str]:
    slots, frames = facts.plan.grid.slots, facts.frames
    uses = Counter(facts.plan.grid.indices(frames))
    counted = f"This clip has {count(frames, 'frame')}; the judge counts {slots}"
    if max(uses.values()) > 1:
        yield f"{counted}, so neighbours can be the same picture."
    if (lost := frames - len(uses)) > 0:
        yield f"{counted}, so it can never ask for {lost} of them."


def _stretches(facts: ClipFacts) -> Iterator[str]:
    """Yield where the picture is black, and whether nothing moves at all.

    Shorter freezes are for `measure`, which compares all frames with their neighbours.
    """
    if facts.samples is None:
        missed = "black or still stretches were not looked for"
        yield f"The clip is long and is read piece by piece: {missed}."
        return
    seen = sorted(facts.samples.keys() & {*facts.plan.grid.indices(facts.frames)})
    samples = [facts.samples[index] for index in seen]
    black = [*map(_is_black, samples)]
    if len(seen) > 1 and all(black):
        yield "The picture is black throughout."
        return
    # A stretch ends when the next sampled frame begins.
    edges = [*(float(facts.times.starts[index]) for index in seen), facts.times.seconds]
    flips = np.flatnonzero(np.diff([False, *black, False])).reshape(-1, 2)
    times = [(edges[start], edges[end]) for start, end in flips]
    long = [f"from {a:.2f} s to {b:.2f} s" for a, b in times if b - a >= 0.5]
    if long:
        more = f" and in {len(long) - 4} more stretches" if len(long) > 4 else ""
        yield f"The picture is black {', '.join(long[:4])}{more}."
    if len(seen) > 1 and all(_is_same(samples[0], sample) for sample in samples):
        yield "The picture stands still throughout."


def _is_black(sample: GreySample) -> bool:
    """Allow two light points per thousand: noise passes, a dot does not."""
    return int(np.count_nonzero(sample >= 24)) * 500 <= sample.size


def _is_same(one: GreySample, other: GreySample) -> bool:
    """Allow two changed points per thousand, as encoding a still changes them."""
    if one.shape != other.shape:
        return False
    return int(np.count_nonzero(cv2.absdiff(one, other) > 12)) * 500 <= one.size
