"""Pictures of one clip, kept while there is room: as decoded frames where all of them fit, painted ones otherwise."""

from __future__ import annotations

from collections.abc import Iterable

from av.video.frame import VideoFrame

from vrthinker_core.video.frames.container import VideoSource
from vrthinker_core.video.frames.convert import DisplayGeometry, FrameConverter, Pixels, read_orientation
from vrthinker_core.video.frames.decode import DecodedFrame
from vrthinker_core.video.frames.health import SAMPLES, GreySample, grey_sample
from vrthinker_core.video.frames.plan import FramePlan, FrameRequest

_MOST_BYTES = 100_000_000
"""Room for the pictures of every slot of the published protocols: 128 of 448 x 448 pixels are 77 MB."""
_BYTES_PER_PIXEL = 1.5
"""Of a decoded frame, as nearly all videos store them; painting every picture of 480p costs more than decoding it."""
_HDR_TRANSFERS = (16, 18)
"""PQ and HLG, as numbered in H.273."""


class FrameCache:
    """Makes pictures and keeps them."""

    def __init__(self, source: VideoSource, plan: FramePlan) -> None:
        """Empty. How the clip is seen is taken from the first frame that is added."""
        self._source = source
        self._plan = plan
        self._converter: FrameConverter | None = None
        self._pictures: dict[FrameRequest, Pixels] = {}
        self._frames: dict[int, VideoFrame] = {}
        width, height = source.size
        self._keeps_frames = plan.grid.slots * width * height * _BYTES_PER_PIXEL <= _MOST_BYTES
        self._bytes = 0
        self.samples: dict[int, GreySample] = {}
        self.hdr = False

    @property
    def geometry(self) -> DisplayGeometry:
        """How the clip is seen; only after a first frame."""
        assert self._converter is not None
        return self._converter.geometry

    def find(self, need: FrameRequest) -> Pixels | None:
        """A picture that was kept, or is made of a frame that was kept."""
        if need.index in self._frames:
            return self._convert(self._frames[need.index], [need])[need]
        return self._pictures.get(need)

    def add(self, shot: DecodedFrame, needs: Iterable[FrameRequest]) -> dict[FrameRequest, Pixels]:
        """Makes those pictures of one frame, and keeps what is no mere stand-in."""
        painter = self._converter = self._converter or self._make_converter(shot)
        if shot.index == shot.requested and shot.index not in self.samples:
            self.samples[shot.index] = grey_sample(painter.sample_points(shot.frame, SAMPLES))
        made = self._convert(shot.frame, needs)
        if shot.index == shot.requested and not self._keep_frame(shot):
            for need, picture in made.items():
                self._keep_picture(need, picture)
        return made

    def missing_requests(self, total: int) -> dict[int, list[FrameRequest]]:
        """By frame, what can be asked for and is not there yet; only what the first slots ask for where the rest has no room.

        A frame that is to be kept as it is comes without any need: whoever asks for its picture later pays for it.
        """
        if self._keeps_frames:
            return {index: [] for index in self._plan.frame_indices(total) - self._frames.keys()}
        everything = self._plan.all_requests(total)
        if sum(map(self._picture_bytes, everything)) > _MOST_BYTES:
            everything = set(self._plan.by_request(self._plan.first, total))
        worth: dict[int, list[FrameRequest]] = {}
        for need in everything - self._pictures.keys():
            worth.setdefault(need.index, []).append(need)
        return worth

    def clear(self) -> None:
        """Forget all pictures: the numbers of the frames were wrong."""
        self._pictures.clear()
        self._frames.clear()
        self.samples.clear()
        self._bytes = 0

    def _convert(self, frame: VideoFrame, needs: Iterable[FrameRequest]) -> dict[FrameRequest, Pixels]:
        needs = list(needs)
        if not needs:
            return {}
        assert self._converter is not None
        painter, pixels = self._converter, self._converter.to_rgb(frame)
        return {need: painter.resize_for(pixels, need.sizing) for need in needs}

    def _keep_frame(self, shot: DecodedFrame) -> bool:
        """Keep a frame as the decoder gave it, if that is the way here and there is room."""
        if shot.index in self._frames:
            return True
        size = sum(plane.buffer_size for plane in shot.frame.planes)
        if not self._keeps_frames or self._bytes + size > _MOST_BYTES:
            return False
        self._frames[shot.index] = shot.frame
        self._bytes += size
        return True

    def _keep_picture(self, need: FrameRequest, picture: Pixels) -> None:
        if need not in self._pictures and self._bytes + picture.nbytes <= _MOST_BYTES:
            self._pictures[need] = picture
            self._bytes += picture.nbytes

    def _picture_bytes(self, need: FrameRequest) -> int:
        width, height = need.sizing.size(*self._source.size)
        return width * height * 3

    def _make_converter(self, shot: DecodedFrame) -> FrameConverter:
        frame = shot.frame
        self.hdr = frame.color_trc in _HDR_TRANSFERS
        look = DisplayGeometry((frame.width, frame.height), self._source.pixel_aspect, read_orientation(frame))
        return FrameConverter(look, self._source.name)
