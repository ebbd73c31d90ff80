"""The drawn world: labels follow from the scenes, frames are pure, faults stay in their windows."""

from __future__ import annotations

from dataclasses import replace

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from vrthinker_core.training.drawn_world.faults import (
    CLEAR,
    DAMAGES,
    FIRST_LOOK,
    FRAMES,
    PICTURE_FAULTS,
    MotionFault,
    PictureFault,
    Window,
)
from vrthinker_core.training.drawn_world.renderer import Renderer, draw_background
from vrthinker_core.training.drawn_world.scenes import (
    COLOURS,
    WAYS,
    DrawnPair,
    Scene,
    SceneFacts,
    SceneRenderer,
    draw_pair,
    draw_scene,
    labels,
    verdict_on,
)
from vrthinker_core.training.drawn_world.solids import SHAPES, Solid
from vrthinker_core.training.drawn_world.textures import GROUNDS, Pixels, texture
from vrthinker_core.types import Preference

SIZE = 112
SEEDS = st.integers(0, 2**63)
OTHER = {Preference.TIE: Preference.TIE, Preference.FIRST: Preference.SECOND, Preference.SECOND: Preference.FIRST}


def scene(way: str = "right", shape: str = "ball", ground: str = "sand", seed: int = 3) -> Scene:
    return draw_scene(np.random.default_rng(seed), SceneFacts("red", shape, way, ground), None, None)


def difference(one: Pixels, other: Pixels) -> float:
    return float(np.abs(one.astype(float) - other).mean())


# -- labels --------------------------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(SEEDS)
def test_labels_swap_when_the_scenes_swap(seed: int) -> None:
    pair = draw_pair(seed)
    swapped = labels(pair.wanted, pair.second, pair.first)
    assert list(swapped) == [(dimension, OTHER[label]) for dimension, label in pair.verdict]


def flaws(pair: DrawnPair, shown: Scene) -> tuple[int, bool, bool]:
    """Wrong facts, damaged pictures, damaged motion, as far as all the frames show them."""
    wrong = sum(getattr(pair.wanted, name) != getattr(shown.facts, name) for name in ("colour", "shape", "way"))
    damaged = shown.picture is not None and any(shown.picture.state(index) != CLEAR for index in range(FRAMES))
    steady = replace(shown, motion=None)
    return wrong, damaged, any(shown.position(index) != steady.position(index) for index in range(FRAMES))


@settings(max_examples=60, deadline=None)
@given(SEEDS)
def test_labels_say_what_the_scenes_show(seed: int) -> None:
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
def test_overall_weighs_the_three(
    wrong: tuple[int, int], picture: tuple[bool, bool], motion: tuple[bool, bool], overall: int
) -> None:
    assert verdict_on(wrong, picture, motion).labels["OA"] == overall


def test_every_label_and_both_kinds_of_tie_are_drawn() -> None:
    pairs = [draw_pair(seed) for seed in range(400)]
    for name in ("TA", "VQ", "MQ"):
        shares = np.bincount([pair.verdict.labels[name] for pair in pairs], minlength=3) / len(pairs)
        assert shares.min() > 0.25
    ties = [pair.first.picture is not None for pair in pairs if pair.verdict.VQ is Preference.TIE]
    assert 0.1 < np.mean(ties) < 0.4


@settings(max_examples=60, deadline=None)
@given(SEEDS)
def test_a_prompt_names_what_is_wanted(seed: int) -> None:
    pair = draw_pair(seed)
    assert all(word in pair.prompt for word in (pair.wanted.colour, pair.wanted.shape, pair.wanted.way, pair.wanted.ground))
    assert {shown.facts.ground for shown in pair.scenes.values()} == {pair.wanted.ground}


# -- faults --------------------------------------------------------------------------------------------------------------


def test_half_of_the_faults_are_hidden_from_the_first_look() -> None:
    scenes = [shown for seed in range(300) for shown in draw_pair(seed).scenes.values()]
    faults = [fault for shown in scenes for fault in (shown.picture, shown.motion) if fault]
    assert 0.4 < np.mean([fault.window.hidden for fault in faults]) < 0.6
    for window in (fault.window for fault in faults if fault.window.hidden):
        assert not any(index in window for index in FIRST_LOOK)
        assert sum(index < window.start for index in FIRST_LOOK) == sum(index < window.end for index in FIRST_LOOK) in (1, 2, 3)
    for window in (fault.window for fault in faults if not fault.window.hidden):
        assert any(index in window for index in FIRST_LOOK)


@pytest.mark.parametrize("kind", PICTURE_FAULTS)
def test_a_picture_fault_changes_only_the_frames_in_its_window(kind: str) -> None:
    whole = scene()
    fault = PictureFault(kind, Window(50, 60), 0.1, 8)
    broken = replace(whole, picture=fault)
    clean, damaged = SceneRenderer(whole, SIZE), SceneRenderer(broken, SIZE)
    for index in (0, 49, 60, 127):
        assert np.array_equal(clean.frame(index), damaged.frame(index))
        assert fault.state(index) == CLEAR
    for index in (50, 55, 59):
        assert difference(clean.frame(index), damaged.frame(index)) > 2
        assert fault.state(index) in ({"dark", "bright"} if kind == "flicker" else {kind})


@pytest.mark.parametrize("kind", ["jittery", "jumpy", "frozen"])
@pytest.mark.parametrize("way", list(WAYS))
def test_a_motion_fault_changes_only_the_frames_in_its_window(kind: str, way: str) -> None:
    whole = scene(way)
    broken = replace(whole, motion=MotionFault(kind, Window(50, 60), 0.3, 8))
    off = [index for index in range(FRAMES) if broken.position(index) != whole.position(index)]
    assert off == [index for index in range(50, 60) if (kind, index) != ("frozen", 50)]


def test_a_frozen_thing_stands_still_whole() -> None:
    shot = SceneRenderer(replace(scene(shape="cube"), motion=MotionFault("frozen", Window(50, 60), 0.3, 8)), SIZE)
    assert np.array_equal(shot.frame(50), shot.frame(59))
    assert not np.array_equal(shot.frame(59), shot.frame(60))


@pytest.mark.parametrize("kind", list(DAMAGES))
def test_damage_is_as_coarse_in_a_large_picture(kind: str) -> None:
    """Shrunk to what the judge sees, a large damaged picture has lost as much as a small one."""
    shown, fault = scene(), PictureFault(kind, Window(0, FRAMES), 0.5, 8)
    small, large = SceneRenderer(shown, SIZE).frame(5), SceneRenderer(shown, 4 * SIZE).frame(5)
    shrunk, shrunk_damaged = (
        cv2.resize(picture, (SIZE, SIZE), interpolation=cv2.INTER_AREA) for picture in (large, fault.apply(large, 5))
    )
    assert difference(shrunk, shrunk_damaged) == pytest.approx(difference(small, fault.apply(small, 5)), rel=0.2)


# -- frames --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [1, 2])
def test_frames_are_pure(seed: int) -> None:
    shown = draw_pair(seed).first
    indices = (0, 21, 64, 127)
    forth, back = SceneRenderer(shown, SIZE, fine=2), SceneRenderer(shown, SIZE, fine=2)
    frames = {index: forth.frame(index).tobytes() for index in indices}
    assert {index: back.frame(index).tobytes() for index in reversed(indices)} == frames
    assert forth.frame(21).tobytes() == frames[21]
    assert draw_pair(seed) == draw_pair(seed)


def middle_of_thing(shown: Scene, index: int) -> tuple[float, float]:
    """Where the picture differs from bare ground by red: x and y in 0..1."""
    bare, picture = Renderer(shown.background, SIZE).render(()).astype(int), SceneRenderer(shown, SIZE).frame(index).astype(int)
    change = picture - bare
    y, x = np.nonzero(change[..., 0] - change[..., 2] > 40)
    return float(x.mean() / SIZE), float(y.mean() / SIZE)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("way", list(WAYS))
def test_the_thing_goes_the_way_of_its_facts(way: str, shape: str) -> None:
    shown = replace(scene(way, shape, "marble"), standing=())
    (x0, y0), (x1, y1) = middle_of_thing(shown, 4), middle_of_thing(shown, 123)
    right, down = WAYS[way]
    assert (x1 - x0) * right + (y1 - y0) * down > 0.2


def name_of(colour: NDArray[np.floating]) -> str:
    """What a person would call it."""
    if np.ptp(colour) < 40:
        return "white" if colour.min() > 128 else "black"
    tints = {name: np.array(rgb) / np.linalg.norm(rgb) for name, rgb in COLOURS.items() if name not in ("white", "black")}
    return max(tints, key=lambda name: float(tints[name] @ colour))


@pytest.mark.parametrize("colour", list(COLOURS))
def test_the_thing_has_the_colour_of_its_facts(colour: str) -> None:
    shown = draw_scene(np.random.default_rng(0), SceneFacts(colour, "cylinder", "right", "tiles"), None, None)
    negative = replace(shown.thing, rgb=tuple(255 - level for level in shown.thing.rgb))
    picture, other = SceneRenderer(shown, SIZE).frame(64), SceneRenderer(replace(shown, thing=negative), SIZE).frame(64)
    thing = picture[(picture != other).any(-1)]
    assert len(thing) > 400
    assert name_of(np.median(thing, axis=0)) == colour


def test_fine_samples_come_close_to_a_much_larger_picture() -> None:
    shown = scene(shape="cube", ground="tiles")
    true = cv2.resize(SceneRenderer(shown, 8 * SIZE).frame(64), (SIZE, SIZE), interpolation=cv2.INTER_AREA)
    assert difference(SceneRenderer(shown, SIZE, fine=4).frame(64), true) < 0.5 * difference(
        SceneRenderer(shown, SIZE).frame(64), true
    )


@pytest.mark.parametrize("shape", SHAPES)
def test_rays_meet_solids_where_they_stand(shape: str) -> None:
    solid = Solid(shape, (200, 40, 40), 0.8, 0.5, -1.0, 0.3)
    rng = np.random.default_rng(4)
    eye = np.array([0.3, 5.0, 9.0], np.float32)
    towards = solid.foot + rng.uniform([-1, 0, -1], [1, 1.8, 1], (4000, 3)).astype(np.float32) - eye
    rays = (towards / np.linalg.norm(towards, axis=1, keepdims=True)).astype(np.float32)
    distance, normals = solid.hit(eye, rays)
    met = np.isfinite(distance)
    spots = eye + distance[met, None] * rays[met]
    assert met.mean() > 0.3
    assert np.allclose(np.linalg.norm(normals[met], axis=1), 1, atol=1e-3)
    assert ((normals[met] * rays[met]).sum(1) < 0.2).all()
    assert (spots >= solid.corners.min(0) - 1e-3).all()
    assert (spots <= solid.corners.max(0) + 1e-3).all()


@pytest.mark.parametrize("ground", GROUNDS)
def test_grounds_fill_the_picture(ground: str) -> None:
    rng = np.random.default_rng(6)
    pictures = [Renderer(draw_background(rng, ground), SIZE).render(()) for _ in range(2)]
    assert all(picture.shape == (SIZE, SIZE, 3) and picture.dtype == np.uint8 for picture in pictures)
    assert difference(*pictures) > 1
    assert not texture(ground, 0).flags.writeable
