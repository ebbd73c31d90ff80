"""Pictures of one clip, kept while there is room: as decoded frames where all of them fit, painted ones otherwise."""

from __future__ import annotations

from collections.abc import Iterable

from av.video.frame import VideoFrame

from vrthinker_core.video.frames.container import Source
from vrthinker_core.video.frames.convert import Look, Painter, Pixels, orientation_of
from vrthinker_core.video.frames.decode import Shot
from vrthinker_core.video.frames.health import SAMPLES, Thumb, thumb
from vrthinker_core.video.frames.plan import Need, Plan

_MOST_BYTES = 100_000_000
"""Room for the pictures of every slot of the published protocols: 128 of 448 x 448 pixels are 77 MB."""
_BYTES_PER_PIXEL = 1.5
"""Of a decoded frame, as nearly all videos store them; painting every picture of 480p costs more than decoding it."""
_HDR_TRANSFERS = (16, 18)
"""PQ and HLG, as numbered in H.273."""


class Album:
    """Makes pictures and keeps them."""

    def __init__(self, source: Source, plan: Plan) -> None:
        """Empty. How the clip is seen is taken from the first frame that is added."""
        self._source = source
        self._plan = plan
        self._painter: Painter | None = None
        self._kept: dict[Need, Pixels] = {}
        self._frames: dict[int, VideoFrame] = {}
        width, height = source.size
        self._keeps_frames = plan.grid.slots * width * height * _BYTES_PER_PIXEL <= _MOST_BYTES
        self._bytes = 0
        self.thumbs: dict[int, Thumb] = {}
        self.hdr = False

    @property
    def look(self) -> Look:
        """How the clip is seen; only after a first frame."""
        assert self._painter is not None
        return self._painter.look

    def find(self, need: Need) -> Pixels | None:
        """A picture that was kept, or is made of a frame that was kept."""
        if need.index in self._frames:
            return self._painted(self._frames[need.index], [need])[need]
        return self._kept.get(need)

    def add(self, shot: Shot, needs: Iterable[Need]) -> dict[Need, Pixels]:
        """Makes those pictures of one frame, and keeps what is no mere stand-in."""
        painter = self._painter = self._painter or self._first(shot)
        if shot.index == shot.asked and shot.index not in self.thumbs:
            self.thumbs[shot.index] = thumb(painter.points(shot.frame, SAMPLES))
        made = self._painted(shot.frame, needs)
        if shot.index == shot.asked and not self._keep_frame(shot):
            for need, picture in made.items():
                self._keep(need, picture)
        return made

    def worth_making(self, total: int) -> dict[int, list[Need]]:
        """By frame, what can be asked for and is not there yet; only what the first slots ask for where the rest has no room.

        A frame that is to be kept as it is comes without any need: whoever asks for its picture later pays for it.
        """
        if self._keeps_frames:
            return {index: [] for index in self._plan.indices(total) - self._frames.keys()}
        everything = self._plan.everything(total)
        if sum(map(self._weight, everything)) > _MOST_BYTES:
            everything = set(self._plan.served(self._plan.first, total))
        worth: dict[int, list[Need]] = {}
        for need in everything - self._kept.keys():
            worth.setdefault(need.index, []).append(need)
        return worth

    def clear(self) -> None:
        """Forget all pictures: the numbers of the frames were wrong."""
        self._kept.clear()
        self._frames.clear()
        self.thumbs.clear()
        self._bytes = 0

    def _painted(self, frame: VideoFrame, needs: Iterable[Need]) -> dict[Need, Pixels]:
        needs = list(needs)
        if not needs:
            return {}
        assert self._painter is not None
        painter, pixels = self._painter, self._painter.colours(frame)
        return {need: painter.paint(pixels, need.sizing) for need in needs}

    def _keep_frame(self, shot: Shot) -> bool:
        """Keep a frame as the decoder gave it, if that is the way here and there is room."""
        if shot.index in self._frames:
            return True
        size = sum(plane.buffer_size for plane in shot.frame.planes)
        if not self._keeps_frames or self._bytes + size > _MOST_BYTES:
            return False
        self._frames[shot.index] = shot.frame
        self._bytes += size
        return True

    def _keep(self, need: Need, picture: Pixels) -> None:
        if need not in self._kept and self._bytes + picture.nbytes <= _MOST_BYTES:
            self._kept[need] = picture
            self._bytes += picture.nbytes

    def _weight(self, need: Need) -> int:
        width, height = need.sizing.size(*self._source.size)
        return width * height * 3

    def _first(self, shot: Shot) -> Painter:
        frame = shot.frame
        self.hdr = frame.color_trc in _HDR_TRANSFERS
        look = Look((frame.width, frame.height), self._source.pixel_aspect, orientation_of(frame))
        return Painter(look, self._source.name)
