"""The drawn world: labels follow from the scenes, frames depend on nothing else, faults stay in their windows."""

from __future__ import annotations

from dataclasses import replace
from itertools import filterfalse, pairwise

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from vrthinker_core.training.drawn_world.faults import (
    CLEAR,
    FRAMES,
    OPENING_FRAMES,
    PICTURE_FAULTS,
    MotionFault,
    PictureFault,
)
from vrthinker_core.training.drawn_world.rendering.damage import DAMAGES
from vrthinker_core.training.drawn_world.rendering.renderer import Renderer, draw_background
from vrthinker_core.training.drawn_world.rendering.solids import SHAPES, Solid
from vrthinker_core.training.drawn_world.rendering.textures import GROUNDS, Pixels, texture
from vrthinker_core.training.drawn_world.scenes import (
    COLOURS,
    DIRECTIONS,
    DrawnPair,
    Scene,
    SceneFacts,
    SceneRenderer,
    draw_pair,
    draw_scene,
    verdict_from_flaws,
)
from vrthinker_core.types import Preference

SIZE = 112
SEEDS = st.integers(0, 2**63)
OTHER = {Preference.TIE: Preference.TIE, Preference.FIRST: Preference.SECOND, Preference.SECOND: Preference.FIRST}


def scene(direction: str = "right", shape: str = "ball", ground: str = "sand", seed: int = 3) -> Scene:
    return draw_scene(np.random.default_rng(seed), SceneFacts.of_one("red", shape, direction, ground), None, None)


def difference(one: Pixels, other: Pixels) -> float:
    return float(np.abs(one.astype(float) - other).mean())


# -- labels --------------------------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(SEEDS)
def test_labels_swap_when_the_scenes_swap(seed: int) -> None:
    pair = draw_pair(seed)
    swapped = replace(pair, first=pair.second, second=pair.first).verdict
    assert list(swapped) == [(dimension, OTHER[label]) for dimension, label in pair.verdict]


def flaws(pair: DrawnPair, scene: Scene) -> tuple[int, bool, bool]:
    """(number of wrong facts, a frame is damaged, the motion is damaged) as the 128 frames show them."""
    (wanted,), (shown,) = pair.wanted.things, scene.facts.things
    facts = (wanted.colour, wanted.shape, pair.wanted.direction), (shown.colour, shown.shape, scene.facts.direction)
    wrong = sum(one != other for one, other in zip(*facts, strict=True))
    damaged = scene.picture_fault is not None and any(scene.picture_fault.state(index) != CLEAR for index in range(FRAMES))
    faultless = replace(scene, motion_fault=None)
    return wrong, damaged, any(scene.position(index) != faultless.position(index) for index in range(FRAMES))


def is_hidden(window: range) -> bool:
    """Whether the window lies strictly between two neighbouring opening frames."""
    return any(before < window.start and window.stop <= after for before, after in pairwise(OPENING_FRAMES))


@settings(max_examples=60, deadline=None)
@given(SEEDS)
def test_labels_agree_with_what_the_frames_show(seed: int) -> None:
    pair = draw_pair(seed)
    lead = [np.sign(second - first) for first, second in zip(flaws(pair, pair.first), flaws(pair, pair.second), strict=True)]
    overall = np.sign(1.5 * lead[0] + lead[1] + lead[2])
    expected = [{0: 0, 1: 1, -1: 2}[int(sign)] for sign in (*lead, overall)]
    assert [pair.verdict.labels[name] for name in ("TA", "VQ", "MQ", "OA")] == expected


@pytest.mark.parametrize(
    ("wrong", "picture", "motion", "overall"),
    [
        ((0, 1), (False, False), (False, False), 1),
        ((0, 3), (True, False), (False, False), 1),
        ((0, 1), (True, False), (True, False), 2),
        ((2, 2), (True, False), (False, True), 0),
        ((1, 1), (True, True), (False, True), 1),
    ],
)
def test_the_overall_label_weighs_the_other_three(
    wrong: tuple[int, int], picture: tuple[bool, bool], motion: tuple[bool, bool], overall: int
) -> None:
    assert verdict_from_flaws(wrong, picture, motion).labels["OA"] == overall


def test_every_label_and_both_kinds_of_tie_are_drawn() -> None:
    pairs = [draw_pair(seed) for seed in range(400)]
    for name in ("TA", "VQ", "MQ"):
        shares = np.bincount([pair.verdict.labels[name] for pair in pairs], minlength=3) / len(pairs)
        assert shares.min() > 0.25
    ties = [pair.first.picture_fault is not None for pair in pairs if pair.verdict.VQ is Preference.TIE]
    assert 0.1 < np.mean(ties) < 0.4


@settings(max_examples=60, deadline=None)
@given(SEEDS)
def test_a_prompt_names_all_wanted_facts(seed: int) -> None:
    pair = draw_pair(seed)
    (thing,) = pair.wanted.things
    assert all(word in pair.prompt for word in (thing.colour, thing.shape, pair.wanted.direction, pair.wanted.ground))
    assert {scene.facts.ground for scene in pair.scenes.values()} == {pair.wanted.ground}


# -- faults --------------------------------------------------------------------------------------------------------------


def test_half_of_the_faults_lie_between_the_opening_frames() -> None:
    scenes = [scene for seed in range(300) for scene in draw_pair(seed).scenes.values()]
    windows = [fault.window for scene in scenes for fault in (scene.picture_fault, scene.motion_fault) if fault]
    assert 0.4 < np.mean([is_hidden(window) for window in windows]) < 0.6
    for window in filter(is_hidden, windows):
        before_start = sum(index < window.start for index in OPENING_FRAMES)
        assert not any(index in window for index in OPENING_FRAMES)
        assert before_start == sum(index < window.stop for index in OPENING_FRAMES) in (1, 2, 3)
    for window in filterfalse(is_hidden, windows):
        assert any(index in window for index in OPENING_FRAMES)


@pytest.mark.parametrize("kind", PICTURE_FAULTS)
def test_a_picture_fault_changes_only_the_frames_in_its_window(kind: str) -> None:
    fault = PictureFault(kind, range(50, 60), 0.1, 8)
    clean, damaged = SceneRenderer(scene(), SIZE), SceneRenderer(replace(scene(), picture_fault=fault), SIZE)
    for index in (0, 49, 60, 127):
        assert np.array_equal(clean.frame(index), damaged.frame(index))
        assert fault.state(index) == CLEAR
    for index in (50, 55, 59):
        assert difference(clean.frame(index), damaged.frame(index)) > 2
        assert fault.state(index) in ({"dark", "bright"} if kind == "flicker" else {kind})


@pytest.mark.parametrize("kind", ["jittery", "jumpy", "frozen"])
@pytest.mark.parametrize("direction", list(DIRECTIONS))
def test_a_motion_fault_changes_only_the_frames_in_its_window(kind: str, direction: str) -> None:
    faultless = scene(direction)
    damaged = replace(faultless, motion_fault=MotionFault(kind, range(50, 60), 0.3, 8))
    changed = [index for index in range(FRAMES) if damaged.position(index) != faultless.position(index)]
    assert changed == [index for index in range(50, 60) if (kind, index) != ("frozen", 50)]


def test_a_frozen_solid_neither_moves_nor_rotates() -> None:
    renderer = SceneRenderer(replace(scene(shape="cube"), motion_fault=MotionFault("frozen", range(50, 60), 0.3, 8)), SIZE)
    assert np.array_equal(renderer.frame(50), renderer.frame(59))
    assert not np.array_equal(renderer.frame(59), renderer.frame(60))


@pytest.mark.parametrize("kind", list(DAMAGES))
def test_damage_is_as_coarse_in_a_large_picture(kind: str) -> None:
    """Shrunk to what the judge sees, a large damaged picture differs from the undamaged one as much as a small one."""
    drawn, fault = scene(), PictureFault(kind, range(0, FRAMES), 0.5, 8)
    small, large = SceneRenderer(drawn, SIZE).frame(5), SceneRenderer(drawn, 4 * SIZE).frame(5)
    shrunk, shrunk_damaged = (
        cv2.resize(picture, (SIZE, SIZE), interpolation=cv2.INTER_AREA) for picture in (large, fault.apply(large, 5))
    )
    assert difference(shrunk, shrunk_damaged) == pytest.approx(difference(small, fault.apply(small, 5)), rel=0.2)


# -- frames --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [1, 2])
def test_a_frame_does_not_depend_on_the_frames_drawn_before_it(seed: int) -> None:
    drawn = draw_pair(seed).first
    indices = (0, 21, 64, 127)
    forwards, backwards = SceneRenderer(drawn, SIZE, supersample=2), SceneRenderer(drawn, SIZE, supersample=2)
    frames = {index: forwards.frame(index).tobytes() for index in indices}
    assert {index: backwards.frame(index).tobytes() for index in reversed(indices)} == frames
    assert forwards.frame(21).tobytes() == frames[21]
    assert draw_pair(seed) == draw_pair(seed)


def middle_of_solid(scene: Scene, index: int) -> tuple[float, float]:
    """The mean x and y, 0..1, of the pixels that are redder than the empty ground."""
    assert scene.background is not None
    ground, picture = Renderer(scene.background, SIZE).render(()).astype(int), SceneRenderer(scene, SIZE).frame(index).astype(int)
    change = picture - ground
    y, x = np.nonzero(change[..., 0] - change[..., 2] > 40)
    return float(x.mean() / SIZE), float(y.mean() / SIZE)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("direction", list(DIRECTIONS))
def test_the_solid_moves_in_the_direction_of_its_facts(direction: str, shape: str) -> None:
    drawn = replace(scene(direction, shape, "marble"), still_solids=())
    (x0, y0), (x1, y1) = middle_of_solid(drawn, 4), middle_of_solid(drawn, 123)
    right, down = DIRECTIONS[direction]
    assert (x1 - x0) * right + (y1 - y0) * down > 0.2


def name_of(colour: NDArray[np.floating]) -> str:
    """The name in COLOURS that comes closest."""
    if np.ptp(colour) < 40:
        return "white" if colour.min() > 128 else "black"
    tints = {name: np.array(rgb) / np.linalg.norm(rgb) for name, rgb in COLOURS.items() if name not in ("white", "black")}
    return max(tints, key=lambda name: float(tints[name] @ colour))


@pytest.mark.parametrize("colour", list(COLOURS))
def test_the_solid_has_the_colour_of_its_facts(colour: str) -> None:
    drawn = draw_scene(np.random.default_rng(0), SceneFacts.of_one(colour, "cylinder", "right", "tiles"), None, None)
    (group,) = drawn.groups
    (solid,) = group.solids
    inverted = replace(group, solids=(replace(solid, rgb=tuple(255 - level for level in solid.rgb)),))
    picture, other = SceneRenderer(drawn, SIZE).frame(64), SceneRenderer(replace(drawn, groups=(inverted,)), SIZE).frame(64)
    pixels = picture[(picture != other).any(-1)]
    assert len(pixels) > 400
    assert name_of(np.median(pixels, axis=0)) == colour


def test_supersampling_comes_close_to_a_much_larger_picture() -> None:
    drawn = scene(shape="cube", ground="tiles")
    true = cv2.resize(SceneRenderer(drawn, 8 * SIZE).frame(64), (SIZE, SIZE), interpolation=cv2.INTER_AREA)
    supersampled, plain = SceneRenderer(drawn, SIZE, supersample=4).frame(64), SceneRenderer(drawn, SIZE).frame(64)
    assert difference(supersampled, true) < 0.5 * difference(plain, true)


@pytest.mark.parametrize("shape", SHAPES)
def test_rays_hit_solids_where_they_stand(shape: str) -> None:
    solid = Solid(shape, (200, 40, 40), 0.8, 0.5, -1.0, 0.3)
    rng = np.random.default_rng(4)
    eye = np.array([0.3, 5.0, 9.0], np.float32)
    towards = solid.base + rng.uniform([-1, 0, -1], [1, 1.8, 1], (4000, 3)).astype(np.float32) - eye
    rays = (towards / np.linalg.norm(towards, axis=1, keepdims=True)).astype(np.float32)
    distance, normals = solid.intersect(eye, rays)
    hit = np.isfinite(distance)
    positions = eye + distance[hit, None] * rays[hit]
    assert hit.mean() > 0.3
    assert np.allclose(np.linalg.norm(normals[hit], axis=1), 1, atol=1e-3)
    assert ((normals[hit] * rays[hit]).sum(1) < 0.2).all()
    assert (positions >= solid.corners.min(0) - 1e-3).all()
    assert (positions <= solid.corners.max(0) + 1e-3).all()


@pytest.mark.parametrize("ground", GROUNDS)
def test_grounds_fill_the_picture_and_differ(ground: str) -> None:
    rng = np.random.default_rng(6)
    pictures = [Renderer(draw_background(rng, ground), SIZE).render(()) for _ in range(2)]
    assert all(picture.shape == (SIZE, SIZE, 3) and picture.dtype == np.uint8 for picture in pictures)
    assert difference(*pictures) > 1
    assert not texture(ground, 0).flags.writeable
