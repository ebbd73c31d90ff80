"""One clip in its worker process: finds the frame of each slot and converts it, and decodes every frame as rarely as possible."""

import hashlib
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from vrthinker_core.errors import VideoError
from vrthinker_core.types import ClipInfo
from vrthinker_core.video.files import open_local, shown_name
from vrthinker_core.video.frames.container import VideoSource
from vrthinker_core.video.frames.convert import Pixels
from vrthinker_core.video.frames.decode import DecodedFrame, DecodeStats, SeekingReader, SequentialReader, TimestampMismatch
from vrthinker_core.video.frames.frame_cache import FrameCache
from vrthinker_core.video.frames.health import ClipFacts, health_notes
from vrthinker_core.video.frames.plan import FramePlan, FrameRequest, ReadMode
from vrthinker_core.video.frames.timeline import make_frame_times, read_timeline
from vrthinker_core.video.limits import CpuBudget, Limits, near_memory_limit

# Up to 640 million pixels (10 s of 1080p at 30 per second) a clip is decoded once, as a whole. Measured: 3 to 8 s of processor time
# per thousand million pixels. Generated clips mostly have a single key frame, so that reaching slot 112 of 128 means decoding 87 %
# of them anyway, and every later request costs nothing. Longer clips are read on demand: four frames of a minute cost a quarter.
_MAX_WHOLE_PIXELS = 640_000_000
_SECONDS_PER_PIXEL = 8e-9
NEAREST_NOTE = "nearest decodable neighbour"
_HIDDEN_FRAME_CODECS = ("vp8", "vp9", "av1")
"""Codecs with frames that are only referred to and never shown: fewer frames than packets are no loss."""


@dataclass(frozen=True, slots=True)
class ConvertedFrame:
    """A frame as it is sent, and the slots that it is for."""

    slots: list[int]
    index: int
    seconds: float
    until: float
    width: int
    height: int
    key: str
    note: str
    rgb: bytes


class ClipDecoder:
    """An opened clip. Not safe for threads."""

    def __init__(self, path: Path, plan: FramePlan, limits: Limits, read_mode: ReadMode, budget: CpuBudget) -> None:
        """Opens the file and decodes at least the frames of the first slots. Raises VideoError."""
        self._plan = plan
        self._budget = budget
        self._name = shown_name(path)
        file = open_local(path)
        self._digest = hashlib.file_digest(file, "sha256").hexdigest()
        self._source = VideoSource(file, self._name, limits)
        self._timeline = read_timeline(self._source, budget)
        self._cache = FrameCache(self._source, plan)
        self._stats = DecodeStats()
        self._seeking_reader: SeekingReader | None = None
        self._strict = True
        if self._timeline.seekable and (read_mode == "seek" or (read_mode == "auto" and self._total_pixels > _MAX_WHOLE_PIXELS)):
            self._use_timestamps()
        else:
            self._decode_all()

    @property
    def read_mode(self) -> ReadMode:
        """How frames are found from now on."""
        return "seek" if self._seeking_reader else "whole"

    def read(self, slots: Collection[int]) -> Iterator[ConvertedFrame]:
        """The frames of `slots`, in any order. Where timestamps prove wrong, a slot may come twice: the last one counts."""
        try:
            yield from self._read_slots(slots)
        except TimestampMismatch:
            self._fall_back()
            try:
                yield from self._read_slots(slots)
            except TimestampMismatch:
                raise VideoError(f"{self._name} is damaged: neither the frames asked for nor their neighbours decode.") from None

    # -- read modes --------------------------------------------------------------------------------------------------------

    @property
    def _total_pixels(self) -> int:
        width, height = self._source.size
        return self._timeline.stored * width * height

    def _decode_all(self) -> None:
        """One pass that keeps what slots can ask for; a second one where the packets announced another number of frames."""
        self._seeking_reader = None
        announced = max(1, self._timeline.stored)
        self._decode_pass(announced, self._stats)
        self._total = len(self._stats.pts)
        if not self._total and near_memory_limit():
            raise VideoError(f"{self._name} needs more memory to decode than a video may take.")
        if not self._total:
            raise VideoError(f"{self._name} is damaged: not one frame can be decoded, of {announced} stored.")
        self._times = make_frame_times(self._stats.pts, self._source.time_base, self._source.rate)
        if self._total != announced:
            self._decode_pass(self._total, DecodeStats())
        self._info = self._describe()
        self._source.close_decoder()

    def _decode_pass(self, total: int, stats: DecodeStats) -> None:
        missing = self._cache.missing_requests(total)
        indices = missing.keys() | (self._plan.frame_indices(total) - self._cache.samples.keys())
        if not indices:
            return
        for index, frame in enumerate(SequentialReader(self._source, self._budget).read_all(stats)):
            if index in indices:
                self._cache.add(DecodedFrame(index, index, frame), missing.get(index, ()))

    def _use_timestamps(self) -> None:
        """Find frames by the packets' timestamps; every decoded frame is checked against them."""
        self._total = len(self._timeline.pts)
        self._times = make_frame_times(self._timeline.pts, self._source.time_base, self._source.rate)
        self._seeking_reader = SeekingReader(self._source, self._timeline, self._budget)
        for _ in self.read(self._plan.first or {0}):
            pass
        self._info = self._describe()

    def _fall_back(self) -> None:
        """The timestamps are wrong: decode everything where the budget allows it, else let neighbours replace missing frames."""
        if self._strict and self._budget.can_afford(self._total_pixels * _SECONDS_PER_PIXEL):
            self._cache.clear()
            self._decode_all()
        self._strict = False

    # -- frames ------------------------------------------------------------------------------------------------------------

    def _read_slots(self, slots: Collection[int]) -> Iterator[ConvertedFrame]:
        slots_of = self._plan.by_request(slots, self._total)
        missing: dict[int, list[FrameRequest]] = {}
        for request in slots_of:
            pixels = self._cache.find(request)
            if pixels is None:
                missing.setdefault(request.index, []).append(request)
            else:
                yield self._converted(slots_of[request], request, request.index, pixels)
        for decoded, requests in self._decode_missing(missing):
            for request, pixels in self._cache.add(decoded, requests).items():
                if request in slots_of:
                    yield self._converted(slots_of[request], request, decoded.index, pixels)

    def _decode_missing(self, missing: dict[int, list[FrameRequest]]) -> Iterator[tuple[DecodedFrame, set[FrameRequest]]]:
        """The frames that are missing, and those decoded to reach them that a slot may ask for later."""
        if not missing:
            return
        later = self._cache.missing_requests(self._total)
        for decoded in self._read_indices(list(missing)):
            also = later.pop(decoded.index, None) if decoded.requested == decoded.index else None
            requests = {*missing.pop(decoded.requested, ()), *(also or ())}
            if requests or also is not None:
                yield decoded, requests
        if missing:
            raise VideoError(f"{self._name} changed while it was read.")

    def _read_indices(self, indices: list[int]) -> Iterator[DecodedFrame]:
        if self._seeking_reader is not None:
            return self._seeking_reader.read(indices, strict=self._strict)
        return SequentialReader(self._source, self._budget).read_until(indices)

    def _converted(self, slots: list[int], request: FrameRequest, index: int, pixels: Pixels) -> ConvertedFrame:
        height, width = pixels.shape[:2]
        return ConvertedFrame(
            slots=slots,
            index=index,
            seconds=float(self._times.starts[index]),
            until=self._times.end_of(index),
            width=width,
            height=height,
            key=f"{self._digest[:32]}:{index}:{width}x{height}:{request.sizing.mode}",
            note="" if index == request.index else NEAREST_NOTE,
            rgb=pixels.tobytes(),
        )

    # -- information -------------------------------------------------------------------------------------------------------

    @property
    def info(self) -> ClipInfo:
        """What is known about the clip now."""
        return self._info

    def _describe(self) -> ClipInfo:
        geometry = self._cache.geometry
        width, height = geometry.displayed_size
        return ClipInfo(
            name=self._name,
            digest=self._digest,
            container=self._source.format,
            codec=self._source.codec,
            width=width,
            height=height,
            frames=self._total,
            fps=self._total / self._times.seconds,
            seconds=self._times.seconds,
            rotation=geometry.orientation.clockwise,
            variable_rate=self._times.variable,
            notes=health_notes(self._facts()),
        )

    def _facts(self) -> ClipFacts:
        missing = self._timeline.stored - self._total
        if self._stats.refused or self._source.codec in _HIDDEN_FRAME_CODECS:
            missing = 0
        indices = self._plan.frame_indices(self._total)
        samples = {index: sample for index, sample in self._cache.samples.items() if index in indices}
        return ClipFacts(
            grid=self._plan.grid,
            frames=self._total,
            times=self._times,
            geometry=self._cache.geometry,
            square="square" in (self._plan.opening.mode, self._plan.later.mode),
            stored=self._timeline.stored,
            header_frames=self._source.header_frames,
            missing_frames=missing,
            stats=self._stats,
            declared_rate=float(self._source.rate),
            hdr=self._cache.hdr,
            video_streams=self._source.video_streams,
            samples=None if self._seeking_reader else samples,
        )
