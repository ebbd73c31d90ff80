"""One clip in its worker process: find, convert and cache frames.

The first request opens the clip, each later one reads frames. The process ends when the parent is
gone.
"""

import hashlib
import math
import os
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator
from dataclasses import asdict
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Literal

import av.logging
import cv2
from av.video.frame import VideoFrame

from vrthinker_core.errors import VideoError
from vrthinker_core.types import ClipInfo, FrameRef, Side
from vrthinker_core.types.frames import FramePlan, Grid, ReadMode, Sizing
from vrthinker_core.video.container import VideoSource
from vrthinker_core.video.convert import DisplayGeometry, FrameConverter, GreySample, Pixels
from vrthinker_core.video.decode import (
    DecodedFrame,
    DecodeStats,
    SeekingReader,
    TimestampMismatch,
    no_frame_error,
    read_all,
)
from vrthinker_core.video.files import open_local, shown_name
from vrthinker_core.video.health import ClipFacts, health_notes
from vrthinker_core.video.limits import CpuBudget, Limits, confine_process, near_memory_limit
from vrthinker_core.video.motion import measure_clip
from vrthinker_core.video.process import Header, connect_to_parent, respond
from vrthinker_core.video.timeline import read_timeline
from vrthinker_core.words import encodable

REPORT_SECONDS = 0.5  # at least, between two reports
QUIET_CPU_SECONDS = 0.5  # of processor time before the first report; most clips are open by then

Phase = Literal["digest", "packets", "frames"]

# Start and end of each phase as shares of the whole. Digest and packets are read from the disk,
# frames are decoded.
_PHASES: dict[Phase, tuple[float, float]] = {
    "digest": (0.0, 0.05),
    "packets": (0.05, 0.1),
    "frames": (0.1, 1.0),
}


class OpeningProgress:
    """Reporter of the share done, 0 to 1, which never falls."""

    def __init__(self, report: Callable[[float], None]) -> None:
        self._report = report
        self._share = 0.0
        self._next_time = time.monotonic() + REPORT_SECONDS
        self._quiet_until = time.process_time() + QUIET_CPU_SECONDS

    def update(self, phase: Phase, done: int, total: int) -> None:
        """Note that `done` of about `total` steps of a phase are done.

        Call it for every step; reports come at most every `REPORT_SECONDS`.
        """
        if time.monotonic() < self._next_time or time.process_time() < self._quiet_until:
            return
        self._next_time = time.monotonic() + REPORT_SECONDS
        start, end = _PHASES[phase]
        share = start + (end - start) * min(1.0, max(0, done) / max(1, total))
        self._share = max(self._share, share)
        self._report(self._share)

    def finish(self) -> None:
        """Stop the reports: the clip is open."""
        self._next_time = math.inf


# Enough for every slot of the published protocols: 128 frames of 448 x 448 pixels take 77 MB.
_MAX_BYTES = 100_000_000


class FrameCache:
    """Cache of frames, either as decoded or as converted pixels.

    Converting every frame of 480p costs more than decoding it, so decoded frames are kept if all
    slots fit.
    """

    def __init__(self, source: VideoSource, side: Side, plan: FramePlan) -> None:
        """Start empty; the first added frame sets the display geometry."""
        self._source, self._side, self._plan = source, side, plan
        self._converter: FrameConverter | None = None
        self._converted: dict[tuple[int, Sizing], Pixels] = {}
        self._frames: dict[int, VideoFrame] = {}
        # 1.5 bytes per pixel in 4:2:0, the format of nearly all videos
        self._keeps_frames = plan.grid.slots * math.prod(source.size) * 1.5 <= _MAX_BYTES
        self._bytes = 0
        self.samples: dict[int, GreySample] = {}

    @property
    def geometry(self) -> DisplayGeometry:
        """Display geometry of the clip, known after the first frame."""
        assert self._converter is not None
        return self._converter.geometry

    def find(self, index: int, sizing: Sizing) -> Pixels | None:
        """Return the frame in RGB, or None if not cached."""
        if index in self._frames:
            return self._convert(self._frames[index], [sizing])[sizing]
        return self._converted.get((index, sizing))

    def add(self, decoded: DecodedFrame, sizings: Collection[Sizing]) -> dict[Sizing, Pixels]:
        """Convert a frame to each sizing, and cache it.

        Caches the decoded frame if possible, else every conversion that fits. A neighbour in place
        of the requested frame is not cached.
        """
        index, frame = decoded.index, decoded.frame
        self._converter = self._converter or FrameConverter(self._source, frame)
        requested = index == decoded.requested
        if requested and index not in self.samples:
            self.samples[index] = self._converter.grey_sample(frame)
        converted = self._convert(frame, sizings)
        if not requested or index in self._frames:
            return converted
        size = sum(plane.buffer_size for plane in frame.planes)
        if self._keeps_frames and self._bytes + size <= _MAX_BYTES:
            self._frames[index] = self._converter.copy(frame)
            self._bytes += size
            return converted
        for sizing, pixels in converted.items():
            # An 8K frame at native size takes 100 MB; caching it would help no other slot.
            room = min(_MAX_BYTES - self._bytes, _MAX_BYTES // 4)
            if (index, sizing) not in self._converted and pixels.nbytes <= room:
                self._converted[index, sizing] = pixels
                self._bytes += pixels.nbytes
        return converted

    def missing(self, total: int) -> dict[int, list[Sizing]]:
        """Return the uncached sizings of all slots, by frame index.

        If the cache has no room for all slots, returns those of the first slots. A frame that is
        cached as decoded needs no sizings: it is converted on demand.
        """
        side, plan = self._side, self._plan
        if self._keeps_frames:
            return {index: [] for index in {*plan.grid.indices(total)} - self._frames.keys()}
        pictures = plan.pictures(side, range(plan.grid.slots), total)
        sizes = (sizing.size(*self._source.size) for _, sizing in pictures)
        if sum(3 * math.prod(size) for size in sizes) > _MAX_BYTES:
            pictures = plan.pictures(side, plan.first_slots(side), total)
        missing: dict[int, list[Sizing]] = {}
        for index, sizing in pictures.keys() - self._converted.keys():
            missing.setdefault(index, []).append(sizing)
        return missing

    def _convert(self, frame: VideoFrame, sizings: Collection[Sizing]) -> dict[Sizing, Pixels]:
        converter = self._converter
        if converter is None or not sizings:
            return {}
        pixels = converter.to_rgb(frame)
        return {sizing: converter.resize_for(pixels, sizing) for sizing in sizings}


# Up to 640 million pixels (10 s of 1080p at 30 per second), a clip is decoded once, as a whole.
# Measured: 3 to 8 s of processor time per 1000 million pixels. Most generated clips have a single
# key frame: reaching slot 112 of 128 decodes 87 % of the clip anyway, and later requests then cost
# nothing. Longer clips are read on demand: four frames of a minute cost a quarter.
_MAX_WHOLE_PIXELS = 640_000_000


class ClipDecoder:
    """An opened clip; not thread-safe."""

    def __init__(
        self,
        path: Path,
        side: Side,
        plan: FramePlan,
        read_mode: ReadMode,
        budget: CpuBudget,
        progress: OpeningProgress,
    ) -> None:
        """Open and decode at least the first slots; raises `VideoError`."""
        self._side, self._plan, self.budget, self._progress = side, plan, budget, progress
        file, digest = open_local(path), hashlib.sha256()
        size = os.fstat(file.fileno()).st_size
        while block := file.read(1 << 20):
            digest.update(block)
            self._progress.update("digest", file.tell(), size)
        self._digest = digest.hexdigest()
        self._source = VideoSource(file, budget)
        self._timeline = read_timeline(
            self._source, lambda packet: self._progress.update("packets", packet.pos or 0, size)
        )
        self._pixels = self._timeline.stored * math.prod(self._source.size)
        self._cache = FrameCache(self._source, side, plan)
        self._stats = DecodeStats()
        self._seeking_reader: SeekingReader | None = None
        self._strict = True
        self._opened = False
        self._recount = ""  # note of frames after a change of the frame count
        long = self._pixels > _MAX_WHOLE_PIXELS
        if self._timeline.seekable and (read_mode == "seek" or (read_mode == "auto" and long)):
            # Finds frames by packet timestamps, which every decoded frame must match
            pts = self._timeline.pts
            self._total = len(pts)
            self._times = self._timeline.frame_times(pts, self._source)
            self._source.report_damage()
            self._seeking_reader = SeekingReader(self._source, self._timeline)
            deque(self.read(plan.first_slots(side) or {0}), maxlen=0)
            self.info = self._describe()
        else:
            self._decode_all()
        self._progress.finish()
        self._opened = True

    @property
    def read_mode(self) -> ReadMode:
        """Way in which frames are found from now on."""
        return "seek" if self._seeking_reader else "whole"

    def read(self, slots: Collection[int]) -> Iterator[tuple[Header, memoryview]]:
        """Yield (header, RGB pixels) of the frames of `slots`, in any order.

        If timestamps prove wrong, a slot may come twice; the last frame counts.

        Raises `VideoError`.
        """
        try:
            yield from self._read_slots(slots)
        except TimestampMismatch:
            self._fall_back()
            try:
                yield from self._read_slots(slots)
            except TimestampMismatch:
                none = "neither the frames asked for nor their neighbours decode"
                raise VideoError(f"{self._source.name} is damaged: {none}.") from None

    def _decode_all(self) -> None:
        """Decode the whole clip, and cache what slots can request.

        Decodes it again if the packets announced another number of frames.
        """
        self._seeking_reader = None
        announced, source = max(1, self._timeline.stored), self._source
        self._decode_pass(announced, self._stats)
        self._total = len(self._stats.pts)
        if not self._total:
            raise no_frame_error(source, announced)
        self._times = self._timeline.frame_times(self._stats.pts, source)
        if self._total != announced:
            self._decode_pass(self._total, DecodeStats())
        self.info = self._describe()
        source.container.close()

    def _decode_pass(self, total: int, stats: DecodeStats) -> None:
        missing = self._cache.missing(total)
        sampled = {*self._plan.grid.indices(total)} - self._cache.samples.keys()
        indices = missing.keys() | sampled
        for decoded in read_all(self._source, stats) if indices else ():
            self._progress.update("frames", decoded.index, total)
            if decoded.index in indices:
                self._cache.add(decoded, missing.get(decoded.index, ()))

    def _fall_back(self) -> None:
        """Recover from wrong timestamps.

        Decodes everything if the budget allows it, else lets neighbours replace missing frames.
        """
        # At 8 ns of processor time per pixel
        if self._strict and self._pixels * 8e-9 < self.budget.limits.cpu_seconds:
            # The old cache has wrong frame indices.
            self._cache = FrameCache(self._source, self._side, self._plan)
            before = self._total
            self._decode_all()
            if self._opened and self._total != before:
                now = f"counted among the {self._total:,} frames that decode"
                self._recount = f"{now}, earlier ones among {before:,}"
        else:
            self._source.reopen()  # the new decoder shows damaged frames as far as it can
            self._seeking_reader = SeekingReader(self._source, self._timeline)
        self._strict = False

    def _read_slots(self, slots: Collection[int]) -> Iterator[tuple[Header, memoryview]]:
        slots_of = self._plan.pictures(self._side, slots, self._total)
        missing: dict[int, list[Sizing]] = {}
        for (index, sizing), found in slots_of.items():
            pixels = self._cache.find(index, sizing)
            if pixels is None:
                missing.setdefault(index, []).append(sizing)
            else:
                yield self._response(found, index, pixels, self._recount)
        if not missing:
            return
        # Frames on the way are cached for later requests
        later = self._cache.missing(self._total)
        frames, total = read_all(self._source, DecodeStats()), self._total
        if reader := self._seeking_reader:
            frames, total = reader.read(list(missing), strict=self._strict), reader.cost(missing)
        for count, decoded in enumerate(frames):
            self._progress.update("frames", count, total)
            index, exact = decoded.requested, decoded.requested == decoded.index
            note = self._recount if exact else "nearest decodable neighbour"
            also = later.pop(index, None) if exact else None
            sizings = {*missing.pop(index, ()), *(also or ())}
            keep = sizings or also is not None
            converted = self._cache.add(decoded, sizings) if keep else {}
            while converted:  # holds no frame while the next one decodes: in 8K it takes 100 MB
                sizing, pixels = converted.popitem()
                if (index, sizing) in slots_of:
                    yield self._response(slots_of[index, sizing], decoded.index, pixels, note)
                del pixels
            if not missing:
                return
        raise VideoError(f"{self._source.name} changed while it was read.")

    def _response(
        self, slots: list[int], index: int, pixels: Pixels, note: str
    ) -> tuple[Header, memoryview]:
        (height, width), rgb = pixels.shape[:2], pixels.data.cast("B")
        header: Header = {
            "slots": slots,
            "index": index,
            "seconds": float(self._times.starts[index]),
            "until": self._times.end_of(index),
            "width": width,
            "height": height,
            # A hash of the pixels: wrong timestamps change an index, and damaged frames vary.
            "key": f"{hashlib.blake2b(rgb, digest_size=16).hexdigest()}:{width}x{height}",
            "note": note,
        }
        return header, rgb

    def _describe(self) -> ClipInfo:
        source, times, geometry = self._source, self._times, self._cache.geometry
        samples = None if self._seeking_reader else self._cache.samples
        facts = ClipFacts(source, self._plan, times, geometry, self._timeline, self._stats, samples)
        width, height = geometry.displayed_size
        return ClipInfo(
            name=encodable(source.name),
            digest=self._digest,
            container=source.format,
            codec=source.codec,
            width=width,
            height=height,
            frames=self._total,
            fps=self._total / times.seconds,
            seconds=times.seconds,
            rotation=geometry.orientation.clockwise,
            variable_rate=times.variable,
            notes=health_notes(facts),
            drawn=self._timeline.drawn,
        )


def main(handle: int) -> None:
    """Serve one clip over the connection with the descriptor `handle`."""
    av.logging.set_level(av.logging.PANIC)
    cv2.setNumThreads(1)
    parent, requests = connect_to_parent(handle)
    decoder, name = None, ""
    while True:
        request = requests.get()
        name = name or shown_name(Path(request["path"]))
        try:
            if decoder is not None:
                decoder.budget.restart()
                for frame, rgb in decoder.read(request["slots"]):
                    respond(parent, {"frame": frame, "done": False}, rgb)
                    del rgb  # frees the pixels before the next frame is decoded
            elif request["plan"] is None:
                respond(parent, *_measure(request, name))
                continue
            else:
                decoder = _open(parent, request, name)
        except VideoError as error:
            respond(parent, {"error": str(error), "died": False})
        except Exception as error:  # noqa: BLE001 - any error of a hostile file is one sentence
            # Decoders raise many kinds of errors when memory runs out.
            full = isinstance(error, MemoryError) or near_memory_limit()
            cause = f"cannot be decoded ({type(error).__name__})"
            cause = "needs more memory to decode than a video may take" if full else cause
            respond(parent, {"error": f"{name} {cause}.", "died": full})
        else:
            info, read_mode = asdict(decoder.info), decoder.read_mode
            respond(parent, {"info": info, "read_mode": read_mode, "done": True})


def _measure(request: Header, name: str) -> tuple[Header, bytes]:
    limits = Limits(**request["limits"])
    confine_process(limits)
    with open_local(Path(request["path"])) as file:
        return measure_clip(VideoSource(file, CpuBudget(name, limits)))


def _open(parent: Connection, request: Header, name: str) -> ClipDecoder:
    limits, sent = Limits(**request["limits"]), request["plan"]
    confine_process(limits)
    sizings = Sizing(**sent["opening"]), Sizing(**sent["later"])
    first = tuple(FrameRef(**ref) for ref in sent["first"])
    plan = FramePlan(Grid(**sent["grid"]), *sizings, first)
    progress = OpeningProgress(lambda share: respond(parent, {"share": share, "done": False}))
    path, side, budget = Path(request["path"]), Side(request["side"]), CpuBudget(name, limits)
    return ClipDecoder(path, side, plan, request["read_mode"], budget, progress)
