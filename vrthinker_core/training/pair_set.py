"""Pair sets: labelled pairs known by their numbers, so that where a training run stands in its data is one integer."""

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Protocol

import numpy as np

from vrthinker_core.batch import in_their_order
from vrthinker_core.drawn.faults import FRAMES
from vrthinker_core.drawn.frames import EVERY_FRAME, DrawnFrames
from vrthinker_core.drawn.video_files import FRAME_RATE
from vrthinker_core.drawn.world import TRAINING_SEEDS, DrawnPair, draw_pair
from vrthinker_core.errors import BadInput, VideoError
from vrthinker_core.results.layout import EvaluationPair
from vrthinker_core.results.run_file import pairs_digest
from vrthinker_core.traces import load
from vrthinker_core.training.filters import Outcome
from vrthinker_core.training.outcome_file import read_outcomes
from vrthinker_core.training.rollouts import LabelledPair, Rollout
from vrthinker_core.training.teaching import NotForTraining
from vrthinker_core.training.trace_folder import StoredRollout, to_rollout
from vrthinker_core.types import ClipInfo, Frame, FrameRef, ProtocolName, Side, VideoPair
from vrthinker_core.types.frames import FrameLayout, Grid
from vrthinker_core.types.progress import count
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


Layouts = Mapping[ProtocolName, FrameLayout]
"""Which frames each protocol asks for."""


class VideoPairSet(AbstractContextManager["VideoPairSet"]):
    """A pair set over video files. Whoever makes one closes it."""

    def __init__(self, rows: Sequence[EvaluationPair], layouts: Layouts) -> None:
        """`layouts`: of the protocols that are trained, which rows take in turn.

        Raises BadInput where a row cannot be used, or none has a label.
        """
        self.rows = labelled_rows(rows)
        self._clips = [(protocol, OpenClips(layout)) for protocol, layout in layouts.items()]

    @property
    def size(self) -> int:
        """How many pairs there are."""
        return len(self.rows)

    @property
    def digest(self) -> str:
        """Of all pairs with their labels, in their order, by which they are divided between the stages."""
        return pairs_digest(self.rows, ordered=True)

    def pair(self, number: int) -> LabelledPair:
        """The pair of a row; its videos are opened when a frame is asked for."""
        if not 0 <= number < len(self.rows):
            raise IndexError(number)
        row = self.rows[number]
        protocol, clips = self._clips[number % len(self._clips)]
        return LabelledPair(
            row.prompt, row.labels, ClipFrames(row.videos, clips), number, protocol, row.row
        )

    def close(self) -> None:
        """Close all videos that are open."""
        for _, clips in self._clips:
            clips.close()

    def __exit__(self, *_: object) -> None:
        self.close()


def labelled_rows(rows: Sequence[EvaluationPair]) -> tuple[EvaluationPair, ...]:
    """The rows that hold a label. Those that people could not judge, or repeat another one, are left out.

    Raises BadInput where a row is broken, with the first one and how many there are: training never goes on with a part of the data
    that nobody has chosen.
    """
    broken = [row for row in rows if row.fault and not row.id.partition("-again")[1]]
    if broken:
        more = (
            f"; {count(len(broken), 'row')} of {len(rows):,} cannot be used"
            if len(broken) > 1
            else ""
        )
        raise BadInput(
            f"Row {broken[0].row}: {broken[0].fault.rstrip('.')}{more}. Mend the data or leave these rows out."
        )
    usable = tuple(row for row in rows if not row.fault and not row.left_out and row.labels.labels)
    if not usable:
        raise BadInput(
            f"The data hold no pair with a label ({count(len(rows), 'row')} read): there is nothing to train with."
        )
    return usable


class PairSet(Protocol):
    """Labelled pairs by number. The same number always gives the same pair."""

    @property
    def size(self) -> int | None:
        """How many pairs there are, numbered from 0; None where they never end."""

    def pair(self, number: int) -> LabelledPair:
        """The pair of a number. Raises IndexError where there is none."""


class DrawnClips:
    """A `ClipSource` over a drawn pair: its frames, and a name and a digest for each of its clips, which are in no file."""

    def __init__(self, drawn: DrawnPair, size: int, grid: Grid) -> None:
        """`size`: pixels per side of a frame; `grid`: which frame a slot is."""
        self._drawn, self._size, self._frames = drawn, size, DrawnFrames(drawn, size, grid)

    @property
    def clips(self) -> tuple[ClipInfo, ClipInfo]:
        """The two clips as a trace names them."""
        first, second = (self._clip(side) for side in Side)
        return first, second

    def __call__(self, refs: Sequence[FrameRef]) -> tuple[Frame, ...]:
        """The frames of the refs, in their order."""
        return self._frames(refs)

    def _clip(self, side: Side) -> ClipInfo:
        name = f"drawn-{self._drawn.seed}-{'ab'[side - 1]}"
        digest = hashlib.sha256(f"{name}-{self._size}".encode()).hexdigest()
        return ClipInfo(
            name,
            digest,
            "drawn",
            "none",
            self._size,
            self._size,
            FRAMES,
            FRAME_RATE,
            FRAMES / FRAME_RATE,
            drawn=True,
        )


@dataclass(frozen=True, slots=True)
class DrawnPairSet:
    """Drawn pairs without end, never those that judges are measured with."""

    seed: int  # Sets of other seeds have other pairs
    frame_size: int = 112  # Pixels per side of a frame
    draw: Callable[[int], DrawnPair] = draw_pair  # Gives the drawn pair of a seed
    grids: tuple[tuple[ProtocolName | None, Grid], ...] = ((None, EVERY_FRAME),)
    """The protocols that pairs speak, which they take in turn (None leaves it to the judge), and which frame a slot is in each."""

    @property
    def size(self) -> None:
        """Drawn pairs never end."""
        return None

    def pair(self, number: int) -> LabelledPair:
        """The pair of a number from 0 on."""
        drawn = self.drawn(number)
        protocol, grid = self.grids[number % len(self.grids)]
        return LabelledPair(
            drawn.prompt, drawn.verdict, DrawnClips(drawn, self.frame_size, grid), number, protocol
        )

    def protocol(self, number: int) -> ProtocolName | None:
        """That of the pair of a number."""
        return self.grids[number % len(self.grids)][0]

    def drawn(self, number: int) -> DrawnPair:
        """The same pair with all that is known of it."""
        if number < 0:
            raise IndexError(number)
        state = int(np.random.SeedSequence((self.seed, number)).generate_state(1, np.uint64)[0])
        return self.draw(state % TRAINING_SEEDS)


@dataclass(frozen=True, slots=True)
class ShuffledPairs:
    """A finite set over and over: pair k of epoch e is number e * size + k, and every epoch has an order of its own."""

    pairs: PairSet
    seed: int

    @property
    def size(self) -> None:
        """Epochs never end."""
        return None

    def pair(self, number: int) -> LabelledPair:
        """The pair whose turn it is at `number`. Each time it comes again, other replies are sampled."""
        count = self.pairs.size
        if number < 0 or not count:
            raise IndexError(number)
        epoch, place = divmod(number, count)
        return replace(self.pairs.pair(_epoch_order(self.seed, epoch, count)[place]), seed=number)


def in_training_order(pairs: PairSet, seed: int) -> PairSet:
    """The set as training goes through it: epochs of a finite one, each in an order that follows from seed and epoch."""
    return pairs if pairs.size is None else ShuffledPairs(pairs, seed)


@lru_cache(maxsize=4)
def _epoch_order(seed: int, epoch: int, count: int) -> tuple[int, ...]:
    return tuple(np.random.default_rng((seed, epoch)).permutation(count).tolist())


READERS = 2  # Threads that read stored rollouts, and draw or decode their frames


def kept_rollouts(
    out: Path, pairs: PairSet, chosen: Sequence[Outcome] | None = None, *, keep_tokens: bool
) -> Iterator[StoredRollout]:
    """The rollouts of the outcomes that are kept, or of `chosen`; `keep_tokens` as in `to_rollout`.

    Raises BadInput, TraceError, and NotForTraining where `pairs` are not those that they are of.
    """

    def read(outcome: Outcome) -> StoredRollout:
        return StoredRollout.read(
            partial(_read_rollout, out / outcome.file, pairs, outcome.pair, keep_tokens)
        )

    outcomes = chosen if chosen is not None else [each for each in read_outcomes(out) if each.kept]
    with ThreadPoolExecutor(READERS, "rollout") as executor:
        yield from in_their_order(
            lambda outcome: executor.submit(read, outcome), outcomes, READERS + 1
        )


def _read_rollout(path: Path, pairs: PairSet, number: int, keep_tokens: bool) -> Rollout:
    try:
        pair = pairs.pair(number)
    except IndexError:
        raise NotForTraining(
            "the data hold fewer pairs today than there were: give them as they were"
        ) from None
    return to_rollout(load(path), pair, keep_tokens=keep_tokens)
