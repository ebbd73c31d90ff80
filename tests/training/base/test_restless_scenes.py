"""Scenes that misbehave often: restless ones at many frames, halting ones in stretches, between which they go as they should."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from vrthinker_core.training.base.conversations import PairShares, dialect_of, draw_training_pair
from vrthinker_core.training.base.frames.restless_scenes import HaltingMotion, RestlessMotion, make_halting, make_restless
from vrthinker_core.training.drawn_teacher.evidence import Evidence
from vrthinker_core.training.drawn_teacher.phrases import HARDLY
from vrthinker_core.training.drawn_world.faults import FRAMES
from vrthinker_core.training.drawn_world.moving_scene import Scene
from vrthinker_core.training.drawn_world.scenes import FREEZES, SECOND_WORLD, TRAINING_SEEDS, WorldOptions, draw_pair

VIEWS = WorldOptions(second=True, no_thing=1.0, worn=0.0)


@pytest.fixture(scope="module")
def halting() -> list[Scene]:
    pairs = [make_halting(draw_pair(TRAINING_SEEDS + number, VIEWS), np.random.default_rng(number)) for number in range(60)]
    scenes = [scene for pair in pairs for scene in pair.scenes.values()]
    return [scene for scene in scenes if isinstance(scene.motion_fault, HaltingMotion)]


def test_a_halting_scene_stands_still_in_stretches_and_is_in_time_between_them(halting: list[Scene]) -> None:
    assert len(halting) > 30
    still = [float(np.mean([before == after for before, after in pairwise(_times(scene))])) for scene in halting]
    assert min(still) > 0.15
    assert max(still) < 0.85
    for scene in halting:
        due = [index / (FRAMES - 1) for index in range(FRAMES)]
        assert all(time <= should for time, should in zip(_times(scene), due, strict=True)), "never ahead of time"
        assert np.mean([time == should for time, should in zip(_times(scene), due, strict=True)]) > 0.1


def test_a_camera_that_is_too_slow_for_a_freeze_to_be_seen_does_not_halt(halting: list[Scene]) -> None:
    assert all(np.linalg.norm(scene.pace) >= FREEZES for scene in halting)


def test_the_first_frames_show_many_a_halt() -> None:
    dialect, shown = dialect_of("paired"), 0
    for number in range(40):
        evidence = Evidence(make_halting(draw_pair(TRAINING_SEEDS + number, VIEWS), np.random.default_rng(number)), dialect)
        evidence.look(dialect.opening_refs)
        shown += any(frame.motion == HARDLY for side in evidence.pair.scenes for frame in evidence.frames(side))
    assert 8 < shown < 32


@pytest.mark.parametrize(("shares", "kind"), [((1.0, 0.0), RestlessMotion), ((0.0, 1.0), HaltingMotion)])
def test_a_training_run_says_how_many_views_are_of_which_kind(shares: tuple[float, float], kind: type) -> None:
    wanted = PairShares(no_thing=1.0, restless_views=shares[0], halting_views=shares[1])
    pairs = [draw_training_pair(number, SECOND_WORLD, wanted) for number in range(1, 61, 2)]
    faults = [scene.motion_fault for pair in pairs for scene in pair.scenes.values()]
    own = [fault for fault in faults if isinstance(fault, RestlessMotion | HaltingMotion)]
    assert len(own) > len(faults) / 4
    assert all(isinstance(fault, kind) for fault in own)


def test_some_restless_scenes_stand_still_once() -> None:
    """So that equal frames are met often: without things to follow a freeze is seen by nothing else."""
    standing, scenes = 0, 0
    for number in range(100):
        pair = make_restless(draw_pair(TRAINING_SEEDS + number, SECOND_WORLD), np.random.default_rng(number))
        for scene in pair.scenes.values():
            if scene.motion_fault and isinstance(scene.motion_fault, RestlessMotion):
                times = _times(scene)
                standing += (
                    max(times.count(time) for time in set(times) if time) >= 5
                )  # What is held back often shows the first frame
                scenes += 1
    assert 0.35 < standing / scenes < 0.6


def _times(scene: Scene) -> list[float]:
    """What the clock of each frame shows."""
    return [scene.time_and_offset(index)[0] for index in range(FRAMES)]
