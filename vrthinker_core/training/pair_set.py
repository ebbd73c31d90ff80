"""Pair sets: labelled pairs by number, so that a run's place in its data is one integer."""

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import ClassVar, Protocol

import numpy as np

from vrthinker_core.drawn.faults import FRAMES
from vrthinker_core.drawn.moving_scene import SceneRenderer
from vrthinker_core.drawn.video_files import FRAME_RATE
from vrthinker_core.drawn.world import TRAINING_SEEDS, DrawnPair, draw_pair
from vrthinker_core.errors import BadInput, VideoError
from vrthinker_core.results.layout import EvaluationPair
from vrthinker_core.results.result import pairs_digest
from vrthinker_core.training.rollouts import LabelledPair
from vrthinker_core.types import ClipInfo, Frame, FrameRef, ProtocolName, Side, VideoPair
from vrthinker_core.types.frames import FramePlan, Grid
from vrthinker_core.video import Clip, DecoderPool
from vrthinker_core.video.clip import PairOpening, frame_source
from vrthinker_core.words import count

EVERY_FRAME = Grid(FRAMES, "floor")  # As in `paired`: slot i is frame i


class DrawnFrames:
    """A `FrameSource` over both scenes of a pair that draws once."""

    def __init__(self, pair: DrawnPair, size: int = 112, grid: Grid = EVERY_FRAME) -> None:
        """Draw frames of `size` pixels a side; `grid` maps slots to frames."""
        self._pair, self._size, self._grid = pair, size, grid
        self._renderers: dict[Side, SceneRenderer] = {}
        self._frames: dict[FrameRef, Frame] = {}
        self._lock = threading.Lock()  # Samples of one pair are played side by side

    @property
    def clips(self) -> tuple[ClipInfo, ClipInfo]:
        """The two clips as a trace names them; they are in no file."""

        def clip(letter: str) -> ClipInfo:
            name, size = f"drawn-{self._pair.seed}-{letter}", self._size
            digest = hashlib.sha256(f"{name}-{size}".encode()).hexdigest()
            length = FRAMES, FRAME_RATE, FRAMES / FRAME_RATE
            return ClipInfo(name, digest, "drawn", "none", size, size, *length, drawn=True)

        return clip("a"), clip("b")

    def __call__(self, refs: Sequence[FrameRef]) -> tuple[Frame, ...]:
        """Return the frames of the refs, in their order."""
        with self._lock:
            for ref in refs:
                if ref not in self._frames:
                    self._frames[ref] = self._draw(ref)
        return tuple(self._frames[ref] for ref in refs)

    def _draw(self, ref: FrameRef) -> Frame:
        side, size, index = ref.side, self._size, self._grid.index(ref.slot, FRAMES)
        if side not in self._renderers:
            self._renderers[side] = SceneRenderer(self._pair.scenes[side], size)
        pixels = np.ascontiguousarray(self._renderers[side].frame(index)).tobytes()
        key = f"drawn {self._pair.seed}:{int(side)}:{index}:{size}"
        times = index / FRAME_RATE, (index + 1) / FRAME_RATE
        return Frame(ref, index, *times, size, size, key, pixels)


class OpenClips(AbstractContextManager["OpenClips"]):
    """Pairs of videos, opened when a frame is asked for; the least recently asked one is closed.

    A closed pair is opened again when it is asked again. Safe for threads. Whoever makes one closes
    it.
    """

    def __init__(self, plan: FramePlan, most: int = 16) -> None:
        """`plan`: of the protocol that asks; `most`: open pairs, of two processes each."""
        self._plan, self._most = plan, most
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
            while self._open:
                self._close(next(iter(self._open)))
            self._pool.close()

    def __exit__(self, *_: object) -> None:
        self.close()

    def _clips(self, videos: VideoPair) -> tuple[Clip, Clip]:
        if videos not in self._open:
            while len(self._open) >= self._most:
                self._close(next(iter(self._open)))
            with ThreadPoolExecutor(2) as executor:
                opening = PairOpening(videos, self._plan, self._pool, executor)
            first, second, error = opening.clips()
            if first is None or second is None:
                opening.close()
                raise error or VideoError("The videos cannot be opened.")
            self._open[videos] = opening, (first, second)
            self._infos[videos] = first.info, second.info
        self._open.move_to_end(videos)
        return self._open[videos][1]

    def _close(self, videos: VideoPair) -> None:
        self._open.pop(videos)[0].close()


@dataclass(frozen=True, slots=True)
class ClipFrames:
    """A `FrameSource` over the two files of a pair, opened when the first frame is asked for."""

    videos: VideoPair
    among: OpenClips = field(repr=False, compare=False)

    @property
    def clips(self) -> tuple[ClipInfo, ClipInfo]:
        """What the two files are."""
        return self.among.infos(self.videos)

    def __call__(self, refs: Sequence[FrameRef]) -> tuple[Frame, ...]:
        """The frames of the refs, in their order."""
        return self.among.frames(self.videos, refs)


FramePlans = Mapping[ProtocolName, FramePlan]
"""Which frames each protocol asks for."""


class VideoPairSet(AbstractContextManager["VideoPairSet"]):
    """A pair set over video files. Whoever makes one closes it."""

    def __init__(self, rows: Sequence[EvaluationPair], plans: FramePlans) -> None:
        """Keep the rows with a label; those that nobody could judge, or repeat one, are left out.

        `plans`: of the protocols that are trained, which rows take in turn. Raises BadInput if a
        row is broken, since training never goes on with a part of the data that nobody has chosen,
        or if no row has a label.
        """
        broken = [row for row in rows if row.fault and not row.id.partition("-again")[1]]
        if broken:
            more = f"; {count(len(broken), 'row')} of {len(rows):,} cannot be used"
            raise BadInput(
                f"Row {broken[0].row}: {broken[0].fault.rstrip('.')}{more if broken[1:] else ''}. "
                "Mend the data or leave these rows out."
            )
        self.rows = [
            row for row in rows if not row.fault and not row.left_out and row.labels.labels
        ]
        if not self.rows:
            raise BadInput(
                f"The data hold no pair with a label ({count(len(rows), 'row')} read): there is "
                "nothing to train with."
            )
        self.size = len(self.rows)
        self._clips = [(protocol, OpenClips(plan)) for protocol, plan in plans.items()]

    @property
    def digest(self) -> str:
        """Digest of all pairs with their labels, in the order that divides them between stages."""
        return pairs_digest(self.rows, ordered=True)

    def pair(self, number: int) -> LabelledPair:
        """The pair of a row; its videos are opened when a frame is asked for."""
        row = self.rows[number]
        protocol, clips = self._clips[number % len(self._clips)]
        source = ClipFrames(row.videos, clips)
        return LabelledPair(row.prompt, row.labels, source, number, protocol, row.row)

    def close(self) -> None:
        """Close all videos that are open."""
        for _, clips in self._clips:
            clips.close()

    def __exit__(self, *_: object) -> None:
        self.close()


class PairSet(Protocol):
    """Labelled pairs by number. The same number always gives the same pair."""

    @property
    def size(self) -> int | None:
        """How many pairs there are, numbered from 0; None if they never end."""

    def pair(self, number: int) -> LabelledPair:
        """The pair of a number. Raises IndexError if there is none."""


@dataclass(frozen=True, slots=True)
class DrawnPairSet:
    """Drawn pairs without end, never those that judges are measured with."""

    seed: int  # Sets of other seeds have other pairs
    grids: tuple[tuple[ProtocolName | None, Grid], ...] = ((None, EVERY_FRAME),)
    """The protocols that pairs take in turn (None: the judge's), and which frame a slot is."""
    size: ClassVar[None] = None  # They never end

    def pair(self, number: int) -> LabelledPair:
        """The pair of a number from 0 on."""
        drawn = self.drawn(number)
        protocol, grid = self.grids[number % len(self.grids)]
        source = DrawnFrames(drawn, grid=grid)
        return LabelledPair(drawn.prompt, drawn.verdict, source, number, protocol)

    def protocol(self, number: int) -> ProtocolName | None:
        """The protocol of the pair of a number."""
        return self.grids[number % len(self.grids)][0]

    def drawn(self, number: int) -> DrawnPair:
        """The drawn pair of a number, with all that is known of it."""
        if number < 0:
            raise IndexError(number)
        state = int(np.random.SeedSequence((self.seed, number)).generate_state(1, np.uint64)[0])
        return draw_pair(state % TRAINING_SEEDS)


@dataclass(frozen=True, slots=True)
class ShuffledPairs:
    """A finite set over and over, each epoch shuffled: pair k of epoch e is e * size + k."""

    pairs: PairSet
    seed: int
    size: ClassVar[None] = None  # Epochs never end

    def pair(self, number: int) -> LabelledPair:
        """The pair whose turn it is; each time it comes again, other replies are sampled."""
        count = self.pairs.size or 0
        epoch, place = divmod(number, count)
        return replace(self.pairs.pair(_epoch_order(self.seed, epoch, count)[place]), seed=number)


def in_training_order(pairs: PairSet, seed: int) -> PairSet:
    """The set as training goes through it: shuffled epochs of a finite one."""
    return pairs if pairs.size is None else ShuffledPairs(pairs, seed)


@lru_cache(maxsize=4)
def _epoch_order(seed: int, epoch: int, count: int) -> tuple[int, ...]:
    return tuple(np.random.default_rng((seed, epoch)).permutation(count).tolist())
