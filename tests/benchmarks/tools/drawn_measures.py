"""Unseen drawn pairs to measure a judge with: as frames, as video files, with the sides swapped, and what the first frames hide."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from vrthinker_core.drawn.faults import OPENING_FRAMES
from vrthinker_core.drawn.moving_scene import Scene
from vrthinker_core.drawn.video_files import write_video
from vrthinker_core.drawn.world import (
    SIMPLE,
    TRAINING_SEEDS,
    DrawnPair,
    World,
    draw_pair,
    verdict_from_flaws,
)
from vrthinker_core.protocols import make_protocol
from vrthinker_core.protocols.factory import frame_layout
from vrthinker_core.training.pair_set import ClipFrames, DrawnFrames, OpenClips
from vrthinker_core.training.rollouts import LabelledPair
from vrthinker_core.types import Dimension, Frame, FrameRef, Settings, Side, Verdict, VideoPair
from vrthinker_core.types.frames import FrameSource
from vrthinker_core.types.order import swap_verdict

STEP = 1_000_000  # Between the seeds of two sets
OTHER_SIDE = {Side.FIRST: Side.SECOND, Side.SECOND: Side.FIRST}


@dataclass(frozen=True)
class UnseenPairs:
    """Pairs that no training run draws, always the same for a set's number."""

    drawn: tuple[DrawnPair, ...]

    @property
    def labelled(self) -> list[LabelledPair]:
        """With their frames as they are drawn."""
        return [
            LabelledPair(pair.prompt, pair.verdict, DrawnFrames(pair), pair.seed)
            for pair in self.drawn
        ]

    def hidden(self, dimension: Dimension) -> frozenset[int]:
        """Seeds of the pairs whose label in this dimension cannot be known from the first frames."""
        return frozenset(
            pair.seed
            for pair in self.drawn
            if dict(_seen_first(pair))[dimension] is not dict(pair.verdict)[dimension]
        )

    @contextmanager
    def as_files(self, folder: Path, size: int = 224) -> Iterator[list[LabelledPair]]:
        """The same pairs as H.264 videos in the folder, decoded and resized as the product does it."""
        layout = frame_layout(make_protocol(Settings(), "paired"))
        with OpenClips(layout) as clips:
            yield [
                LabelledPair(
                    pair.prompt,
                    pair.verdict,
                    ClipFrames(_written(pair, folder, size), clips),
                    pair.seed,
                )
                for pair in self.drawn
            ]


def unseen_pairs(count: int, number: int = 0, world: World = SIMPLE) -> UnseenPairs:
    """`count` pairs of the set `number`."""
    return UnseenPairs(
        tuple(draw_pair(TRAINING_SEEDS + number * STEP + k, world) for k in range(count))
    )


def swapped(pairs: Sequence[LabelledPair]) -> list[LabelledPair]:
    """The same pairs with the sides swapped."""
    return [
        replace(pair, truth=swap_verdict(pair.truth), source=_SwappedFrames(pair.source))
        for pair in pairs
    ]


@dataclass(frozen=True)
class _SwappedFrames:
    source: FrameSource

    def __call__(self, refs: Sequence[FrameRef]) -> tuple[Frame, ...]:
        frames = self.source([replace(ref, side=OTHER_SIDE[ref.side]) for ref in refs])
        return tuple(replace(frame, ref=ref) for frame, ref in zip(frames, refs, strict=True))


def _written(pair: DrawnPair, folder: Path, size: int) -> VideoPair:
    paths = [folder / f"{pair.seed}_{int(side)}.mp4" for side in Side]
    for path, scene in zip(paths, (pair.first, pair.second), strict=True):
        if not path.exists():
            write_video(scene, path, size, supersample=1)
    return VideoPair(pair.prompt, *paths)


def _seen_first(pair: DrawnPair) -> Verdict:
    """The labels that the first frames alone show."""
    wrong = pair.wanted.count_wrong(pair.first.facts), pair.wanted.count_wrong(pair.second.facts)
    picture, motion = zip(*(_flaws_seen(scene) for scene in (pair.first, pair.second)), strict=True)
    return verdict_from_flaws(wrong, picture, motion)


def _flaws_seen(scene: Scene) -> tuple[bool, bool]:
    picture = any(scene.picture_state(index) != "clear" for index in OPENING_FRAMES)
    return picture, any(word not in ("first", "go") for word in scene.motion_words(OPENING_FRAMES))
