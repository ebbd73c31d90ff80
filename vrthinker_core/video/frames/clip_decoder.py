"""One clip inside the decoding process: which frame a slot means, and its picture, each decoded as rarely as possible."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from vrthinker_core.errors import VideoError
from vrthinker_core.types import ClipInfo
from vrthinker_core.video.files import open_local, shown_name
from vrthinker_core.video.frames.container import Source
from vrthinker_core.video.frames.convert import Pixels
from vrthinker_core.video.frames.decode import Seeking, Sequential, Shot, Tally, Untrue
from vrthinker_core.video.frames.frame_cache import Album
from vrthinker_core.video.frames.health import Facts, notes
from vrthinker_core.video.frames.plan import Need, Plan, Reading
from vrthinker_core.video.frames.timeline import make_clock, read_timeline
from vrthinker_core.video.limits import Budget, Limits, memory_ran_short

# Up to 640 million pixels (10 s of 1080p at 30 per second) a clip is decoded once, as a whole. Measured: 3 to 8 s of processor time
# per thousand million pixels. Generated clips mostly have a single key frame, so that reaching slot 112 of 128 means decoding 87 %
# of them anyway, and every later request is then free. Longer clips are read on demand: four frames of a minute cost a quarter.
_WHOLE_PIXELS = 640_000_000
_SECONDS_PER_PIXEL = 8e-9
STAND_IN = "nearest decodable neighbour"
_HIDES_PICTURES = ("vp8", "vp9", "av1")
"""Codecs that store pictures which are only there to be copied from: fewer frames than packets are no loss."""


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture that was asked for, and the slots it is for."""

    slots: list[int]
    index: int
    seconds: float
    until: float
    width: int
    height: int
    key: str
    note: str
    rgb: bytes


class Reel:
    """An opened clip. Not for two threads at once."""

    def __init__(self, path: Path, plan: Plan, limits: Limits, reading: Reading, budget: Budget) -> None:
        """Opens the file and prepares at least the first slots. Raises VideoError."""
        self._plan = plan
        self._limits = limits
        self._budget = budget
        self._name = shown_name(path)
        file = open_local(path)
        self._digest = hashlib.file_digest(file, "sha256").hexdigest()
        self._source = Source(file, self._name, limits)
        self._timeline = read_timeline(self._source, budget)
        self._album = Album(self._source, plan)
        self._tally = Tally()
        self._seeking: Seeking | None = None
        self._strict = True
        if self._timeline.seekable and (reading == "seek" or (reading == "auto" and self._effort > _WHOLE_PIXELS)):
            self._trust()
        else:
            self._read_whole()

    @property
    def reading(self) -> Reading:
        """How frames are found now."""
        return "seek" if self._seeking else "whole"

    def pictures(self, slots: Collection[int]) -> Iterator[Picture]:
        """What `slots` mean, in no order. If the container is caught lying, a slot may come twice: the last one counts."""
        try:
            yield from self._serve(slots)
        except Untrue:
            self._distrust()
            try:
                yield from self._serve(slots)
            except Untrue:
                raise VideoError(f"{self._name} is damaged: neither the frames asked for nor their neighbours decode.") from None

    # -- two ways of knowing a clip ----------------------------------------------------------------------------------------

    @property
    def _effort(self) -> int:
        width, height = self._source.size
        return self._timeline.stored * width * height

    def _read_whole(self) -> None:
        """One pass that keeps what slots can ever ask for; a second one only where the packets promised another count."""
        self._seeking = None
        promised = max(1, self._timeline.stored)
        self._pass(promised, self._tally)
        self._total = len(self._tally.pts)
        if not self._total and memory_ran_short():
            raise VideoError(f"{self._name} needs more memory to decode than a video may take.")
        if not self._total:
            raise VideoError(f"{self._name} is damaged: not one frame can be decoded, of {promised} stored.")
        self._clock = make_clock(self._tally.pts, self._source.time_base, self._source.rate)
        if self._total != promised:
            self._pass(self._total, Tally())
        self._info = self._describe()
        self._source.rest()

    def _pass(self, total: int, tally: Tally) -> None:
        worth = self._album.worth_making(total)
        indices = worth.keys() | (self._plan.indices(total) - self._album.thumbs.keys())
        if not indices:
            return
        for index, frame in enumerate(Sequential(self._source, self._budget).frames(tally)):
            if index in indices:
                self._album.add(Shot(index, index, frame), worth.get(index, ()))

    def _trust(self) -> None:
        """Believe the packets' timestamps; every frame that comes is held against them."""
        self._total = len(self._timeline.pts)
        self._clock = make_clock(self._timeline.pts, self._source.time_base, self._source.rate)
        self._seeking = Seeking(self._source, self._timeline, self._budget)
        for _ in self.pictures(self._plan.first or {0}):
            pass
        self._info = self._describe()

    def _distrust(self) -> None:
        """The container was caught lying: decode everything where that can be afforded, else let neighbours stand in."""
        if self._strict and self._budget.affords(self._effort * _SECONDS_PER_PIXEL):
            self._album.clear()
            self._read_whole()
        self._strict = False

    # -- pictures ----------------------------------------------------------------------------------------------------------

    def _serve(self, slots: Collection[int]) -> Iterator[Picture]:
        served = self._plan.served(slots, self._total)
        missing: dict[int, list[Need]] = {}
        for need, its in served.items():
            pixels = self._album.find(need)
            if pixels is None:
                missing.setdefault(need.index, []).append(need)
            else:
                yield self._picture(its, need, need.index, pixels)
        for shot, needs in self._decode(missing):
            for need, pixels in self._album.add(shot, needs).items():
                if need in served:
                    yield self._picture(served[need], need, shot.index, pixels)

    def _decode(self, missing: dict[int, list[Need]]) -> Iterator[tuple[Shot, set[Need]]]:
        """The frames that are missing, and those passed on the way that a slot may ask for later."""
        if not missing:
            return
        worth = self._album.worth_making(self._total)
        for shot in self._walk(list(missing)):
            also = worth.pop(shot.index, None) if shot.asked == shot.index else None
            needs = {*missing.pop(shot.asked, ()), *(also or ())}
            if needs or also is not None:
                yield shot, needs
        if missing:
            raise VideoError(f"{self._name} changed while it was read.")

    def _walk(self, indices: list[int]) -> Iterator[Shot]:
        if self._seeking is not None:
            return self._seeking.walk(indices, strict=self._strict)
        return Sequential(self._source, self._budget).walk(indices)

    def _picture(self, slots: list[int], need: Need, index: int, pixels: Pixels) -> Picture:
        height, width = pixels.shape[:2]
        return Picture(
            slots=slots,
            index=index,
            seconds=float(self._clock.starts[index]),
            until=self._clock.until(index),
            width=width,
            height=height,
            key=f"{self._digest[:32]}:{index}:{width}x{height}:{need.sizing.mode}",
            note="" if index == need.index else STAND_IN,
            rgb=pixels.tobytes(),
        )

    # -- what is known -----------------------------------------------------------------------------------------------------

    @property
    def info(self) -> ClipInfo:
        """The clip as it is known now."""
        return self._info

    def _describe(self) -> ClipInfo:
        look = self._album.look
        width, height = look.shown
        return ClipInfo(
            name=self._name,
            digest=self._digest,
            container=self._source.format,
            codec=self._source.codec,
            width=width,
            height=height,
            frames=self._total,
            fps=self._total / self._clock.seconds,
            seconds=self._clock.seconds,
            rotation=look.orientation.clockwise,
            variable_rate=self._clock.variable,
            notes=notes(self._facts()),
        )

    def _facts(self) -> Facts:
        silent = self._timeline.stored - self._total
        if self._tally.refused or self._source.codec in _HIDES_PICTURES:
            silent = 0
        indices = self._plan.indices(self._total)
        thumbs = {index: sample for index, sample in self._album.thumbs.items() if index in indices}
        return Facts(
            grid=self._plan.grid,
            frames=self._total,
            clock=self._clock,
            look=self._album.look,
            square="square" in (self._plan.opening.mode, self._plan.later.mode),
            stored=self._timeline.stored,
            announced=self._source.announced,
            silent=silent,
            tally=self._tally,
            declared_rate=float(self._source.rate),
            hdr=self._album.hdr,
            video_streams=self._source.video_streams,
            thumbs=None if self._seeking else thumbs,
        )
