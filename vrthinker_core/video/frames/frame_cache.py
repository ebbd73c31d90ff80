"""Frames of one clip, kept in memory up to a limit: as they were decoded where all of them fit, otherwise converted to RGB."""

import math
from collections.abc import Collection, Iterable

from av.video.frame import VideoFrame

from vrthinker_core.video.frames.container import VideoSource
from vrthinker_core.video.frames.convert import DisplayGeometry, FrameConverter, GreySample, Pixels
from vrthinker_core.video.frames.decode import DecodedFrame
from vrthinker_core.video.frames.plan import FramePlan, FrameRequest

_MAX_BYTES = 100_000_000  # enough for every slot of the published protocols: 128 frames of 448 x 448 pixels are 77 MB
_MAX_FRAME_BYTES = (
    _MAX_BYTES // 4
)  # a frame in 8K that is sent as it is has 100 MB: keeping one helps no other slot
_BYTES_PER_PIXEL = 1.5
"""Of a decoded frame in 4:2:0, as nearly all videos are stored. Converting every frame of 480p costs more than decoding it."""


class FrameCache:
    """Converts frames and keeps them."""

    def __init__(self, source: VideoSource, plan: FramePlan) -> None:
        """Empty. The display geometry is read from the first frame that is added."""
        self._source = source
        self._plan = plan
        self._converter: FrameConverter | None = None
        self._converted: dict[FrameRequest, Pixels] = {}
        self._frames: dict[int, VideoFrame] = {}
        self._keeps_frames = (
            plan.grid.slots * math.prod(source.size) * _BYTES_PER_PIXEL <= _MAX_BYTES
        )
        self._bytes = 0
        self.samples: dict[int, GreySample] = {}

    @property
    def geometry(self) -> DisplayGeometry:
        """How the clip is displayed; known after the first frame."""
        assert self._converter is not None
        return self._converter.geometry

    def find(self, request: FrameRequest) -> Pixels | None:
        """The frame in RGB, if it was kept converted or as it was decoded."""
        if request.index in self._frames:
            return self._convert(self._frames[request.index], [request])[request]
        return self._converted.get(request)

    def add(
        self, decoded: DecodedFrame, requests: Collection[FrameRequest]
    ) -> dict[FrameRequest, Pixels]:
        """Convert one frame for each request, and keep it unless it only replaces the one that was requested."""
        self._converter = self._converter or FrameConverter(self._source, decoded.frame)
        if decoded.index == decoded.requested and decoded.index not in self.samples:
            self.samples[decoded.index] = self._converter.grey_sample(decoded.frame)
        converted = self._convert(decoded.frame, requests)
        if decoded.index == decoded.requested and decoded.index not in self._frames:
            self._keep(decoded, converted)
        return converted

    def missing_requests(self, total: int) -> dict[int, list[FrameRequest]]:
        """By frame, the possible requests whose frame is not kept yet; only those of the first slots where not all would fit.

        A frame that will be kept as it was decoded has no requests: it is converted when it is asked for.
        """
        if self._keeps_frames:
            return {index: [] for index in self._plan.frame_indices(total) - self._frames.keys()}
        requests: Iterable[FrameRequest] = self._plan.by_request(
            range(self._plan.grid.slots), total
        )
        if (
            sum(3 * math.prod(request.sizing.size(*self._source.size)) for request in requests)
            > _MAX_BYTES
        ):
            requests = self._plan.by_request(self._plan.first, total)
        missing: dict[int, list[FrameRequest]] = {}
        for request in requests:
            if request not in self._converted:
                missing.setdefault(request.index, []).append(request)
        return missing

    def _convert(
        self, frame: VideoFrame, requests: Collection[FrameRequest]
    ) -> dict[FrameRequest, Pixels]:
        if not requests:
            return {}
        assert self._converter is not None
        converter, pixels = self._converter, self._converter.to_rgb(frame)
        return {request: converter.resize_for(pixels, request.sizing) for request in requests}

    def _keep(self, decoded: DecodedFrame, converted: dict[FrameRequest, Pixels]) -> None:
        """As it was decoded, if frames of this clip are kept so and there is room; else every conversion that finds room."""
        size = sum(plane.buffer_size for plane in decoded.frame.planes)
        if self._keeps_frames and self._converter and self._bytes + size <= _MAX_BYTES:
            self._frames[decoded.index] = self._converter.copy(decoded.frame)
            self._bytes += size
            return
        for request, pixels in converted.items():
            room = min(_MAX_BYTES - self._bytes, _MAX_FRAME_BYTES)
            if request not in self._converted and pixels.nbytes <= room:
                self._converted[request] = pixels
                self._bytes += pixels.nbytes
