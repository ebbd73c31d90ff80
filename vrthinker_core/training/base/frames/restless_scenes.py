"""Scenes that misbehave far more often than those of drawn pairs, so that every word about them has to be read from the frames.

A restless scene's clock and picture go wrong at many frames, and no word can be guessed from what usually happens. A halting one
moves evenly and stands still at times: against its own even steps, and not those of other clips, a freeze has to be read.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from vrthinker_core.training.drawn_world.faults import CLEAR, FRAMES, MotionFault, PictureFault
from vrthinker_core.training.drawn_world.moving_scene import Scene
from vrthinker_core.training.drawn_world.rendering.damage import DAMAGES
from vrthinker_core.training.drawn_world.scenes import DrawnPair, freeze_shows

CHANGED = 0.75  # Share of the scenes of a pair that is made so
RESTLESS = 0.4  # Share of frames at which a restless scene misbehaves
STANDS, STANDING = 0.5, (10, 60)  # Share of restless scenes that stand still once, and for how many frames
BEGIN, HALTS, BETWEEN = (2, 60), (12, 52), (8, 40)  # Of a halting scene: the first halt, both lengths, frames between them


@dataclass(frozen=True, slots=True)
class RestlessMotion(MotionFault):
    """At many frames held back, ahead of time or off the way; some stand still once."""

    def time_and_offset(self, index: int) -> tuple[float, float]:
        """See `MotionFault`."""
        index = self._shown(index)
        rng = np.random.default_rng((self.seed, index))
        time, kind = index / (FRAMES - 1), rng.random() / RESTLESS
        if kind > 1:
            return time, 0.0
        if kind < 0.45:
            return max(0.0, time - rng.uniform(4, 30) / FRAMES), 0.0
        if kind < 0.65:
            return float(rng.random()), 0.0
        return time, float(rng.choice([-1, 1]) * rng.uniform(0.1, 0.34))

    def _shown(self, index: int) -> int:
        """The frame that is shown in the place of frame `index`: where the scene stands still, that with which it began to."""
        rng = np.random.default_rng((self.seed, 4))
        start, length = int(rng.integers(FRAMES)), int(rng.integers(*STANDING))
        return start if rng.random() < STANDS and start < index < start + length else index


@dataclass(frozen=True, slots=True)
class RestlessPicture(PictureFault):
    """At many frames damaged, each time in another way."""

    def state(self, index: int) -> str:
        """See `PictureFault`."""
        rng = np.random.default_rng((self.seed, 3, index))
        return str(rng.choice(list(DAMAGES))) if rng.random() < RESTLESS / 2 else CLEAR


@dataclass(frozen=True, slots=True)
class HaltingMotion(MotionFault):
    """Even but for some stretches in which it stands still, each followed by what the clock shows then."""

    def time_and_offset(self, index: int) -> tuple[float, float]:
        """See `MotionFault`."""
        begun = (start for start, stop in self._stands() if start <= index < stop)
        return next(begun, index) / (FRAMES - 1), 0.0

    def _stands(self) -> list[tuple[int, int]]:
        """Where it stands still, in ascending order: frames from and to."""
        rng = np.random.default_rng((self.seed, 5))
        first, length, moving, again = (int(rng.integers(*bounds)) for bounds in (BEGIN, HALTS, BETWEEN, HALTS))
        return [(first, first + length), (first + length + moving, first + length + moving + again)]


def make_halting(pair: DrawnPair, rng: np.random.Generator) -> DrawnPair:
    """The pair with one or two scenes that halt."""
    return _change_scenes(pair, rng, _halting)


def make_restless(pair: DrawnPair, rng: np.random.Generator) -> DrawnPair:
    """The pair with one or two restless scenes."""
    return _change_scenes(pair, rng, _restless)


def _change_scenes(pair: DrawnPair, rng: np.random.Generator, change: Callable[[Scene, np.random.Generator], Scene]) -> DrawnPair:
    scenes = [change(scene, rng) if rng.random() < CHANGED else scene for scene in (pair.first, pair.second)]
    return replace(pair, first=scenes[0], second=scenes[1])


def _halting(scene: Scene, rng: np.random.Generator) -> Scene:
    if not freeze_shows(scene.pace):
        return scene
    return replace(scene, motion_fault=HaltingMotion("frozen", range(FRAMES), 0.0, int(rng.integers(1 << 30))))


def _restless(scene: Scene, rng: np.random.Generator) -> Scene:
    seed, whole = int(rng.integers(1 << 30)), range(FRAMES)
    motion = RestlessMotion("jittery", whole, 0.3, seed) if rng.random() < 0.8 else scene.motion_fault
    picture = RestlessPicture("blurry", whole, 0.5, seed) if rng.random() < 0.5 else scene.picture_fault
    return replace(scene, motion_fault=motion, picture_fault=picture)
