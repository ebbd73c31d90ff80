"""Pair sets: labelled pairs by number, so that a run's place in its data is one integer."""

from __future__ import annotations

import hashlib
import math
import re
import threading
from bisect import bisect
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate
from typing import Literal, get_args

import numpy as np

from vrthinker_core.drawn.renderer import SceneRenderer
from vrthinker_core.drawn.video_files import FRAME_RATE
from vrthinker_core.drawn.world import FRAMES, TRAINING_SEEDS, DrawnPair, draw_pair, pair_of
from vrthinker_core.errors import BadInput, VideoError, VrThinkerError
from vrthinker_core.results.layout import EvaluationPair
from vrthinker_core.results.result import pairs_digest
from vrthinker_core.training.config import PartsConfig
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
        self.pair, self._size, self._grid = pair, size, grid
        self._frames: dict[FrameRef, Frame] = {}
        self._lock = threading.Lock()  # Samples of one pair are played side by side

    @classmethod
    def of_clip(cls, clip: ClipInfo | None, grid: Grid) -> DrawnFrames | None:
        """Return the frames of the pair that a trace's clip names; None for a file."""
        found = re.fullmatch(r"drawn-(\d{1,19})-a", clip.name) if clip else None
        return cls(draw_pair(int(found[1])), grid=grid) if found else None

    @cached_property
    def _renderers(self) -> dict[Side, SceneRenderer]:
        return {side: SceneRenderer(self.pair.scenes[side], self._size) for side in Side}

    @property
    def clips(self) -> tuple[ClipInfo, ClipInfo]:
        """The two clips as a trace names them; they are in no file."""

        def clip(letter: str) -> ClipInfo:
            name, size = f"drawn-{self.pair.seed}-{letter}", self._size
            digest = hashlib.sha256(f"{name}-{size}".encode()).hexdigest()
            length = FRAMES, FRAME_RATE, FRAMES / FRAME_RATE
            return ClipInfo(name, digest, "drawn", "none", size, size, *length, drawn=True)

        return clip("a"), clip("b")

    def __call__(self, refs: Sequence[FrameRef]) -> tuple[Frame, ...]:
        """Return the frames of the refs, in their order."""
        with self._lock:
            return tuple(map(self._frame, refs))

    def _frame(self, ref: FrameRef) -> Frame:
        if ref not in self._frames:
            size, index = self._size, self._grid.index(ref.slot, FRAMES)
            pixels = np.ascontiguousarray(self._renderers[ref.side].frame(index)).tobytes()
            key = f"drawn {self.pair.seed}:{int(ref.side)}:{index}:{size}"
            times = index / FRAME_RATE, (index + 1) / FRAME_RATE
            self._frames[ref] = Frame(ref, index, *times, size, size, key, pixels)
        return self._frames[ref]


class OpenClips(AbstractContextManager["OpenClips"]):
    """Pairs of videos, opened when a frame is asked for; safe for threads.

    The pair that was not asked for longest is closed, until it is asked again.
    """

    def __init__(self, plan: FramePlan, most: int = 16) -> None:
        """`plan`: of the protocol that asks; `most`: open pairs, of two processes each."""
        self._plan, self._most = plan, most
        self._lock, self._pool = threading.RLock(), DecoderPool()
        self._open: OrderedDict[VideoPair, PairOpening] = OrderedDict()

    @contextmanager
    def opened(self, videos: VideoPair) -> Iterator[tuple[Clip, Clip]]:
        """Hold both clips of a pair. Raises VideoError with one sentence that names the video."""
        with self._lock:
            if videos not in self._open:
                self._keep(self._most - 1)
                with ThreadPoolExecutor(2) as executor:
                    self._open[videos] = PairOpening(videos, self._plan, self._pool, executor)
            self._open.move_to_end(videos)
            try:
                first, second, error = self._open[videos].clips()
                if first is None or second is None:
                    raise error or VideoError("The videos cannot be opened.")
                yield first, second
            except VrThinkerError:
                self._open.pop(videos).close()
                raise

    def close(self) -> None:
        """Close every pair that is open. May be called again."""
        with self._lock:
            self._keep(0)
            self._pool.close()

    def __exit__(self, *_: object) -> None:
        self.close()

    def _keep(self, most: int) -> None:
        while len(self._open) > most:
            self._open.popitem(last=False)[1].close()


@dataclass(frozen=True, slots=True)
class ClipFrames:
    """A `FrameSource` over the files of a pair."""

    videos: VideoPair
    among: OpenClips = field(repr=False, compare=False)

    @property
    def clips(self) -> tuple[ClipInfo, ClipInfo]:
        """What the two files are."""
        with self.among.opened(self.videos) as (first, second):
            return first.info, second.info

    def __call__(self, refs: Sequence[FrameRef]) -> tuple[Frame, ...]:
        """Return the frames of the refs, in their order."""
        with self.among.opened(self.videos) as clips:
            return frame_source(clips)(refs)


FramePlans = Mapping[ProtocolName, FramePlan]  # Which frames each protocol asks for
PartName = Literal["cold-start", "rejection", "grpo", "held-out"]
PARTS: tuple[PartName, ...] = get_args(PartName)
FEW_PROMPTS = 8  # Fewer are not divided between the stages
GOLDEN = (math.sqrt(5) - 1) / 2  # Multiples of it, modulo 1, fill every share evenly


@dataclass(frozen=True, slots=True)
class PairSet(AbstractContextManager["PairSet"]):
    """Labelled pairs by number, from 0 on. Equal numbers give equal pairs.

    Whoever opens one closes it; sets that are made from it share its videos.
    """

    pair: Callable[[int], LabelledPair]  # Of a number; raises IndexError if there is none
    size: int | None = None  # None if they never end
    digest: str | None = None  # Of pairs and labels, in order; None for drawn ones
    members: tuple[tuple[PairSet, float], ...] = ()  # Of a mixture, with their weights
    seed: int = 0  # Of a mixture
    clips: tuple[OpenClips, ...] = ()

    @classmethod
    def of_rows(cls, rows: Sequence[EvaluationPair], plans: FramePlans, name: str = "") -> PairSet:
        """Keep the rows that have a label, and no earlier row repeats; pairs take `plans` in turn.

        `name` stands in errors. Raises BadInput for a broken row, because nobody has chosen to
        train without it, and if no row has a label.
        """
        of = f" of {name}" if name else ""
        broken = [row for row in rows if row.fault and "-again" not in row.id]
        if broken:
            more = f"; {count(len(broken), 'row')} of {len(rows):,} cannot be used"
            raise BadInput(
                f"Row {broken[0].row}{of}: {broken[0].fault.rstrip('.')}"
                f"{more if broken[1:] else ''}. Mend the data or leave these rows out."
            )
        known = [row for row in rows if not row.fault and not row.left_out and row.labels.labels]
        if not known:
            raise BadInput(
                f"The data{of} hold no pair with a label ({count(len(rows), 'row')} read): there "
                "is nothing to train with."
            )
        opened = [(protocol, OpenClips(plan)) for protocol, plan in plans.items()]

        def pair(number: int) -> LabelledPair:
            row = known[number]
            protocol, clips = opened[number % len(opened)]
            source = ClipFrames(row.videos, clips)
            return LabelledPair(row.prompt, row.labels, source, number, protocol, f"{row.row}{of}")

        digest = pairs_digest(known, ordered=True)
        return cls(pair, len(known), digest, clips=tuple(clips for _, clips in opened))

    @classmethod
    def drawn(cls, seed: int, plans: FramePlans | None = None) -> PairSet:
        """Draw pairs without end, never those that judges are measured with.

        Pairs take the protocols of `plans` in turn; without any they take the judge's.
        """
        grids: dict[ProtocolName | None, Grid] = {None: EVERY_FRAME}
        if plans:
            grids = {protocol: plan.grid for protocol, plan in plans.items()}

        def pair(number: int) -> LabelledPair:
            drawn = pair_of(seed, number, below=TRAINING_SEEDS)
            protocol = list(grids)[number % len(grids)]
            source = DrawnFrames(drawn, grid=grids[protocol])
            return LabelledPair(drawn.prompt, drawn.verdict, source, number, protocol)

        return cls(pair)

    @classmethod
    def mixed(cls, members: Sequence[tuple[PairSet, float]], seed: int) -> PairSet:
        """Draw from several sets without end, each by its weight's share.

        A set is gone through in shuffled epochs, so a small one comes again sooner.
        """
        sets = [each.shuffled(seed + number) for number, (each, _) in enumerate(members)]
        weights = np.array([weight for _, weight in members])
        ends = np.cumsum(weights / weights.sum())[:-1]
        start = np.random.default_rng(seed).random()

        def pair(number: int) -> LabelledPair:
            places = (start + np.arange(number + 1) * GOLDEN) % 1
            turns = np.searchsorted(ends, places, side="right")
            turn, before = int(turns[-1]), int(np.count_nonzero(turns[:-1] == turns[-1]))
            return replace(sets[turn].pair(before), seed=number)

        known = [each.digest or "" for each, _ in members]
        digest = hashlib.sha256("\n".join(known).encode()).hexdigest() if any(known) else None
        clips = tuple(opened for each, _ in members for opened in each.clips)
        return cls(pair, None, digest, tuple(members), seed, clips)

    def _finite_pairs(self) -> Iterator[LabelledPair]:
        """Yield each pair of the finite sets once."""
        for each in [member for member, _ in self.members] or [self]:
            yield from map(each.pair, range(each.size or 0))

    def _divide(self, config: PartsConfig) -> dict[PartName, set[str]]:
        """Divide the prompts by hash: in every data set, a prompt is in the same part.

        At least one of several prompts is held out. The stages share the others if there are few,
        or too few for each stage.
        """

        def place(prompt: str) -> int:
            text = f"{config.seed} {prompt}".encode("utf-8", "replace")
            return int.from_bytes(hashlib.sha256(text).digest()[:8])

        known = sorted({pair.prompt for pair in self._finite_pairs()}, key=place)
        last = known[1:][-1:]
        shares = config.cold_start, config.rejection, config.grpo, config.held_out
        ends = [end / sum(shares) * 2**64 for end in accumulate(shares)][:-1]
        parts = {prompt: PARTS[bisect(ends, place(prompt))] for prompt in known}
        parts |= dict.fromkeys(last, PARTS[-1])
        found = {name: {prompt for prompt in known if parts[prompt] == name} for name in PARTS}
        if len(known) < FEW_PROMPTS or not all(found.values()):
            found = {**dict.fromkeys(PARTS, {*known} - {*last}), PARTS[-1]: {*last}}
        return found

    def part(self, name: PartName, config: PartsConfig) -> PairSet:
        """Return the pairs of a part; drawn pairs have ranges of numbers.

        Raises BadInput if all pairs have one prompt, and held-out ones are wanted.
        """
        prompts, members = self._divide(config)[name], self.members or [(self, 1.0)]
        divided = [(each._part(name, prompts), weight) for each, weight in members]
        parts = [(part, weight) for part, weight in divided if part.size != 0]
        if not parts:
            raise BadInput(
                "All pairs of the data have one prompt, and those of one prompt are held out to "
                "measure with: give pairs of two prompts or more."
            )
        return PairSet.mixed(parts, self.seed) if self.members else parts[0][0]

    def _part(self, name: PartName, prompts: Collection[str]) -> PairSet:
        if self.size is None:
            first = PARTS.index(name) * 10_000_000  # Pairs of each part
            return replace(self, pair=lambda number: self.pair(first + number))
        numbers = [number for number in range(self.size) if self.pair(number).prompt in prompts]
        return replace(self, pair=lambda number: self.pair(numbers[number]), size=len(numbers))

    def outside(self, name: PartName, config: PartsConfig) -> Iterator[LabelledPair]:
        """Yield the pairs of finite sets that do not belong to the part."""
        own = self._divide(config)[name]
        return (pair for pair in self._finite_pairs() if pair.prompt not in own)

    def sharing(self, config: PartsConfig) -> str:
        """Say that the stages share the pairs; "" if each stage has its own."""
        found = self._divide(config)
        if not found["held-out"] or found["grpo"] != found["cold-start"]:
            return ""
        return (
            f"The data hold {count(len(found['grpo']) + 1, 'prompt')}, too few to divide: the "
            "stages share all but one, which is held out to measure with."
        )

    def shuffled(self, seed: int) -> PairSet:
        """Return a finite set over and over, each epoch in another order; others as they are.

        Pair k of epoch e has the number e * size + k. Each time, other replies are sampled.
        """
        if (size := self.size) is None:
            return self

        def pair(number: int) -> LabelledPair:
            epoch, place = divmod(number, size)
            order = np.random.default_rng((seed, epoch)).permutation(size)
            return replace(self.pair(int(order[place])), seed=number)

        return replace(self, pair=pair, size=None)

    def close(self) -> None:
        """Close all videos that are open."""
        for clips in self.clips:
            clips.close()

    def __exit__(self, *_: object) -> None:
        self.close()
