"""Frames of video files for training: decoded and resized as the product does it, with only a few pairs open at a time."""

import threading
from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from vrthinker_core.errors import VideoError
from vrthinker_core.types import ClipInfo, Frame, FrameRef, VideoPair
from vrthinker_core.types.geometry import FrameLayout
from vrthinker_core.video import Clip, DecoderPool
from vrthinker_core.video.clip_pair import PairOpening, frame_source

MOST_OPEN = 16  # Pairs that stay open; each holds two processes


class OpenClips(AbstractContextManager["OpenClips"]):
    """Pairs of videos that are opened when a frame of theirs is asked for; the one that was not asked longest is closed.

    A closed pair is opened again when it is asked again. Safe for threads. Whoever makes one closes it.
    """

    def __init__(self, layout: FrameLayout, most: int = MOST_OPEN) -> None:
        """`layout`: of the protocol whose slots will be asked for."""
        self._layout, self._most = layout, most
        self._lock = threading.RLock()
        self._pool = DecoderPool()
        self._open: OrderedDict[VideoPair, tuple[PairOpening, tuple[Clip, Clip]]] = OrderedDict()
        self._infos: dict[VideoPair, tuple[ClipInfo, ClipInfo]] = {}

    @property
    def open_pairs(self) -> int:
        """Pairs that are open now."""
        return len(self._open)

    def frames(self, videos: VideoPair, refs: Sequence[FrameRef]) -> tuple[Frame, ...]:
        """The frames of a pair. Raises VideoError with one sentence that names the video."""
        with self._lock:
            clips = self._clips(videos)
            try:
                return frame_source(clips)(refs)
            except VideoError:
                self._close(videos)
                raise

    def infos(self, videos: VideoPair) -> tuple[ClipInfo, ClipInfo]:
        """What the two files are. Raises VideoError."""
        with self._lock:
            if videos not in self._infos:
                self._clips(videos)
            return self._infos[videos]

    def close(self) -> None:
        """Close every pair that is open. May be called again."""
        with self._lock:
            for videos in list(self._open):
                self._close(videos)
            self._pool.close()

    def __exit__(self, *_: object) -> None:
        self.close()

    def _clips(self, videos: VideoPair) -> tuple[Clip, Clip]:
        if videos not in self._open:
            while len(self._open) >= self._most:
                self._close(next(iter(self._open)))
            self._open_pair(videos)
        self._open.move_to_end(videos)
        return self._open[videos][1]

    def _open_pair(self, videos: VideoPair) -> None:
        with ThreadPoolExecutor(2) as executor:
            opening = PairOpening(videos, self._layout, self._pool, executor)
        first, second, error = opening.clips()
        if first is None or second is None:
            opening.close()
            raise error or VideoError("The videos cannot be opened.")
        self._open[videos] = opening, (first, second)
        self._infos[videos] = first.info, second.info

    def _close(self, videos: VideoPair) -> None:
        opening, _ = self._open.pop(videos)
        opening.close()


@dataclass(frozen=True, slots=True)
class ClipFrames:
    """A `ClipSource` over the two files of a pair; nothing is opened before the first frame is asked for."""

    videos: VideoPair
    among: OpenClips = field(repr=False, compare=False)

    @property
    def clips(self) -> tuple[ClipInfo, ClipInfo]:
        """What the two files are."""
        return self.among.infos(self.videos)

    def __call__(self, refs: Sequence[FrameRef]) -> tuple[Frame, ...]:
        """The frames of the refs, in their order."""
        return self.among.frames(self.videos, refs)
