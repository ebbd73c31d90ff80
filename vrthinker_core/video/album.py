"""Pictures of one clip: made once, kept while there is room."""

from __future__ import annotations

from collections.abc import Iterable

from vrthinker_core.video.container import Source
from vrthinker_core.video.decode import Shot
from vrthinker_core.video.health import Thumb, thumb
from vrthinker_core.video.picture import Look, Painter, Pixels, orientation_of
from vrthinker_core.video.plan import Need, Plan

_MOST_BYTES = 100_000_000
"""Room for the pictures of every slot of the published protocols: 128 of 448 x 448 pixels are 77 MB."""
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
        self._bytes = 0
        self.thumbs: dict[int, Thumb] = {}
        self.hdr = False

    @property
    def look(self) -> Look:
        """How the clip is seen; only after a first frame."""
        assert self._painter is not None
        return self._painter.look

    def find(self, need: Need) -> Pixels | None:
        """A kept picture."""
        return self._kept.get(need)

    def add(self, shot: Shot, needs: Iterable[Need]) -> dict[Need, Pixels]:
        """Makes those pictures of one frame, and keeps the ones that are not mere stand-ins."""
        painter = self._painter = self._painter or self._first(shot)
        pixels = painter.colours(shot.frame)
        made = {need: painter.paint(pixels, need.sizing) for need in needs}
        if shot.index == shot.asked:
            self.thumbs.setdefault(shot.index, thumb(pixels))
            for need, picture in made.items():
                self._keep(need, picture)
        return made

    def worth_making(self, total: int) -> dict[int, list[Need]]:
        """By frame, what can be asked for and is not there yet; only what the first slots ask for where the rest has no room."""
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
        self.thumbs.clear()
        self._bytes = 0

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
