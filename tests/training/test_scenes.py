"""The drawn world: labels follow from the scenes, frames depend on nothing else, faults stay in their windows."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import pairwise

import cv2
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from numpy.typing import NDArray

from tests.training.test_video_files import difference
from vrthinker_core.drawn.damage import DAMAGES
from vrthinker_core.drawn.facts import COLOURS, DIRECTIONS, SceneFacts, Thing, in_order
from vrthinker_core.drawn.faults import (
    CLEAR,
    COARSE,
    FRAMES,
    HINT,
    OPENING_FRAMES,
    PICTURE_FAULTS,
    MotionFault,
    PictureFault,
)
from vrthinker_core.drawn.moving_scene import GO, LEAP, STAY, Scene, SceneRenderer
from vrthinker_core.drawn.renderer import Renderer
from vrthinker_core.drawn.solids import SHAPES
from vrthinker_core.drawn.world import FULL, SIMPLE, DrawnPair, World, draw_pair, draw_scene
from vrthinker_core.training.pair_set import DrawnFrames
from vrthinker_core.types import FrameRef, Preference, Side

SIZE = 112
THINGS = replace(FULL, no_thing=0.0, worn=0.0)
PLACES = replace(FULL, no_thing=1.0, worn=0.0)
SEEDS = st.integers(0, 2**63)
OTHER = {
    Preference.TIE: Preference.TIE,
    Preference.FIRST: Preference.SECOND,
    Preference.SECOND: Preference.FIRST,
}
every_world = pytest.mark.parametrize("world", [SIMPLE, FULL], ids=["simple", "full"])


def scenes_of(world: World, pairs: int) -> list[Scene]:
    return [scene for seed in range(pairs) for scene in draw_pair(seed, world).scenes.values()]


def scene_of(*of: Thing, direction: str = "right", ground: str = "sand", seed: int = 1) -> Scene:
    return draw_scene(
        np.random.default_rng(seed),
        SceneFacts(in_order(*(of or (Thing("red", "ball"),))), direction, ground),
        FULL,
    )


# -- labels ------------------------------------------------------------------------------------------------------------


@every_world
@settings(max_examples=40, deadline=None)
@given(SEEDS)
def test_labels_swap_when_the_scenes_swap(world: World, seed: int) -> None:
    pair = draw_pair(seed, world)
    assert pair == draw_pair(seed, world)
    swapped = replace(pair, first=pair.second, second=pair.first).verdict
    assert list(swapped) == [(dimension, OTHER[label]) for dimension, label in pair.verdict]


def flaws(pair: DrawnPair, scene: Scene) -> tuple[int, bool, bool]:
    """(number of wrong facts, a frame is damaged, the motion is damaged) as the 128 frames show them."""
    (wanted,), (shown,) = pair.wanted.things, scene.facts.things
    wrong = [
        wanted.colour != shown.colour,
        wanted.shape != shown.shape,
        pair.wanted.direction != scene.facts.direction,
    ]
    fault, even = scene.picture_fault, replace(scene, motion_fault=None)
    damaged = fault is not None and any(fault.state(index) != CLEAR for index in range(FRAMES))
    odd = any(scene.position(index) != even.position(index) for index in range(FRAMES))
    return sum(wrong), damaged, odd


def is_hidden(window: range) -> bool:
    """Whether the window lies strictly between two neighbouring opening frames."""
    return any(
        before < window.start and window.stop <= after for before, after in pairwise(OPENING_FRAMES)
    )


@settings(max_examples=60, deadline=None)
@given(SEEDS)
def test_labels_agree_with_what_the_frames_show(seed: int) -> None:
    pair = draw_pair(seed)
    both = zip(flaws(pair, pair.first), flaws(pair, pair.second), strict=True)
    lead = [np.sign(second - first) for first, second in both]
    overall = np.sign(1.5 * lead[0] + lead[1] + lead[2])
    expected = [{0: 0, 1: 1, -1: 2}[int(sign)] for sign in (*lead, overall)]
    assert [pair.verdict.labels[name] for name in ("TA", "VQ", "MQ", "OA")] == expected


@pytest.mark.parametrize(
    ("world", "most_wrong", "missing", "counts"),
    [(SIMPLE, 1, {0}, {1}), (THINGS, 3, {0, 1}, {1, 2, 3, 4})],
    ids=["simple", "full"],
)
def test_every_label_both_kinds_of_tie_and_every_wrong_fact_are_drawn(
    world: World, most_wrong: int, missing: set[int], counts: set[int]
) -> None:
    pairs = [draw_pair(seed, world) for seed in range(300)]
    for name in ("TA", "VQ", "MQ"):
        counts_of = np.bincount([pair.verdict.labels[name] for pair in pairs], minlength=3)
        assert counts_of.min() > 0.2 * len(pairs)
    ties = [pair for pair in pairs if pair.verdict.VQ is Preference.TIE]
    assert 0.1 < np.mean([pair.first.picture_fault is not None for pair in ties]) < 0.4
    facts = [(pair.wanted, scene.facts) for pair in pairs for scene in pair.scenes.values()]
    assert all(wanted.ground == shown.ground for wanted, shown in facts)
    things = [(pair.prompt, thing) for pair in pairs for thing in pair.wanted.things]
    assert all(f"{thing.colour} {thing.shape}" in prompt for prompt, thing in things)
    assert {wanted.count_wrong(shown) for wanted, shown in facts} == set(range(most_wrong + 1))
    assert {len(wanted.things) - len(shown.things) for wanted, shown in facts} == missing
    assert {thing.count for wanted, _ in facts for thing in wanted.things} == counts


# -- where things are --------------------------------------------------------------------------------------------------


def covered_by(scene: Scene, number: int, index: int) -> np.ndarray:
    """Which pixels thing `number` covers where nothing hides it, [SIZE, SIZE]."""
    empty, group = Renderer(scene.background, SIZE).render(()), scene.groups[number]
    solids = tuple(replace(solid, rgb=(255, 0, 255)) for solid in group.solids)
    alone = replace(scene, groups=(replace(group, solids=solids),), still_solids=())
    drawn = SceneRenderer(alone, SIZE).frame(index).astype(int) - empty
    return (drawn[..., 0] - drawn[..., 1] > 40) & (drawn[..., 2] - drawn[..., 1] > 40)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("direction", list(DIRECTIONS))
def test_the_solid_moves_in_the_direction_of_its_facts(direction: str, shape: str) -> None:
    scene = scene_of(Thing("red", shape), direction=direction, ground="marble", seed=3)
    before, after = (
        np.mean(np.nonzero(covered_by(scene, 0, index)), axis=1)[::-1] / SIZE for index in (4, 123)
    )
    assert (after - before) @ DIRECTIONS[direction] > 0.2


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("count", [1, 3, 4])
def test_a_position_is_the_middle_of_what_is_drawn(shape: str, count: int) -> None:
    scene = scene_of(Thing("red", shape, count), direction="left", seed=count)
    for index in (20, 64, 110):
        (position,) = scene.thing_positions(index)
        y, x = np.nonzero(covered_by(scene, 0, index))
        middle = (x.mean() + 0.5) / SIZE, (y.mean() + 0.5) / SIZE
        assert position == pytest.approx(middle, abs=0.035)


def test_two_things_move_together_one_in_front_of_the_other_and_both_mostly_to_be_seen() -> None:
    scenes = [scene for scene in scenes_of(THINGS, 60) if len(scene.groups) == 2]
    looks = (8, 36, 64, 92, 120)
    shares = np.array([scene.visible_shares(index) for scene in scenes for index in looks])
    assert (shares.min(1) >= 0.4).mean() > 0.9
    assert (shares.min(1) < 0.95).mean() > 0.3
    for scene in scenes:
        places = [[scene.position(index, number) for number in (0, 1)] for index in (0, 60, 127)]
        apart = [np.subtract(first, second) for first, second in places]
        assert np.allclose(apart[0], apart[1])
        assert np.allclose(apart[0], apart[2])
        assert abs(apart[0][1]) > 0.1


def test_visible_shares_are_those_of_the_picture() -> None:
    scenes = [scene for scene in scenes_of(THINGS, 40) if len(scene.groups) == 2][:8]
    errors = []
    for scene in scenes:
        clean = replace(scene, picture_fault=None, motion_fault=None)
        far = int(clean.position(64, 0)[1] > clean.position(64, 1)[1])
        behind, front = covered_by(clean, far, 64), covered_by(clean, 1 - far, 64)
        errors.append((behind & ~front).sum() / behind.sum() - clean.visible_shares(64)[far])
    assert np.abs(errors).mean() < 0.12


def test_what_is_hidden_has_no_position() -> None:
    scene = scene_of(Thing("red", "ball"), Thing("blue", "cube", 2))
    gone = replace(scene.groups[0], start=(3.0, 0.5))
    positions = replace(scene, groups=(gone, scene.groups[1])).thing_positions(64)
    assert positions[0] is None
    assert positions[1] is not None


def test_a_shift_of_the_picture_moves_positions_with_it() -> None:
    scene = scene_of(Thing("red", "ball"))
    moved = replace(scene, motion_fault=MotionFault("jumpy", range(60, 70), 0.1, 3, turn=0.0))
    plain, shifted = (each.thing_positions(64)[0] for each in (scene, moved))
    assert shifted == pytest.approx((plain[0] + 0.1, plain[1]))
    before, after = (SceneRenderer(each, SIZE).frame(64) for each in (scene, moved))
    assert np.abs(before[:, :90].astype(int) - after[:, 11:101]).mean() < 3


# -- how things move ---------------------------------------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(
    SEEDS, st.lists(st.integers(0, FRAMES - 1), min_size=2, max_size=12, unique=True).map(sorted)
)
def test_without_a_fault_every_step_goes(seed: int, indices: list[int]) -> None:
    for scene in draw_pair(seed, FULL).scenes.values():
        words = replace(scene, motion_fault=None).motion_words(indices)
        assert words == (GO,) * (len(indices) - 1)


@pytest.mark.parametrize("direction", list(DIRECTIONS))
@pytest.mark.parametrize("turn", [None, 0.4])
def test_faults_of_the_motion_have_their_words(direction: str, turn: float | None) -> None:
    scene = scene_of(Thing("red", "ball"), direction=direction)
    jump = replace(scene, motion_fault=MotionFault("jumpy", range(60, 70), 0.2, 3, turn=turn))
    assert jump.motion_words((40, 56, 64, 80, 96)) == (GO, LEAP, LEAP, GO)
    frozen = replace(scene, motion_fault=MotionFault("frozen", range(50, 90), 0.2, 3, turn=turn))
    assert frozen.motion_words((16, 48, 64, 80, 96, 112)) == (GO, STAY, STAY, LEAP, GO)
    skip = replace(scene, motion_fault=MotionFault("jumpy", range(60, 70), 0.0, 3, skip=0.3))
    assert skip.motion_words((40, 56, 64, 80, 96)) == (GO, LEAP, LEAP, GO)


@pytest.mark.parametrize("world", [THINGS, PLACES], ids=["things", "places"])
def test_every_fault_of_the_motion_shows_to_who_looks_closely(world: World) -> None:
    scenes = [scene for scene in scenes_of(world, 150) if scene.motion_fault]
    opening, coarse, close = (
        np.mean([set(scene.motion_words(look)) != {GO} for scene in scenes])
        for look in (OPENING_FRAMES, range(16, 113, COARSE), range(16, 113, 4))
    )
    assert opening < 0.65
    assert opening + 0.1 < coarse < close
    assert close > 0.97


# -- faults ------------------------------------------------------------------------------------------------------------


@every_world
def test_half_of_the_faults_lie_between_the_opening_frames(world: World) -> None:
    scenes = scenes_of(world, 300)
    drawn = [fault for scene in scenes for fault in (scene.picture_fault, scene.motion_fault)]
    faults = [fault for fault in drawn if fault]
    hidden = [fault for fault in faults if is_hidden(fault.window)]
    assert 0.4 < len(hidden) / len(faults) < 0.6
    for fault in faults:
        assert 0 <= fault.window.start < fault.window.stop <= FRAMES
        assert any(index in fault.window for index in OPENING_FRAMES) == (fault not in hidden)
    for fault in hidden:  # A coarse look shows a hint of each
        hints = fault.window[HINT if fault.kind == "frozen" else 0 :]
        assert any(index % COARSE == 0 for index in hints)
    if world is FULL:
        lengths = [len(fault.window) for fault in hidden]
        assert min(lengths) < 10 < 25 < max(lengths)
        assert len({fault.window.start for fault in hidden}) > 40


@pytest.mark.parametrize("kind", PICTURE_FAULTS)
def test_a_picture_fault_changes_only_the_frames_in_its_window(kind: str) -> None:
    fault = PictureFault(kind, range(50, 60), 0.1, 8)
    clean = SceneRenderer(scene_of(), SIZE)
    damaged = SceneRenderer(replace(scene_of(), picture_fault=fault), SIZE)
    for index in (0, 49, 60, 127):
        assert np.array_equal(clean.frame(index), damaged.frame(index))
        assert fault.state(index) == CLEAR
    for index in (50, 55, 59):
        assert difference(clean.frame(index), damaged.frame(index)) > 2
        assert fault.state(index) in ({"dark", "bright"} if kind == "flicker" else {kind})


@pytest.mark.parametrize("kind", ["jittery", "jumpy", "frozen"])
@pytest.mark.parametrize("direction", list(DIRECTIONS))
def test_a_motion_fault_changes_only_the_frames_in_its_window(kind: str, direction: str) -> None:
    faultless = scene_of(direction=direction)
    damaged = replace(faultless, motion_fault=MotionFault(kind, range(50, 60), 0.3, 8))
    changed = [n for n in range(FRAMES) if damaged.position(n) != faultless.position(n)]
    assert changed == list(range(51 if kind == "frozen" else 50, 60))


def test_a_frozen_solid_neither_moves_nor_rotates() -> None:
    fault = MotionFault("frozen", range(50, 60), 0.3, 8)
    renderer = SceneRenderer(replace(scene_of(Thing("red", "cube")), motion_fault=fault), SIZE)
    assert np.array_equal(renderer.frame(50), renderer.frame(59))
    assert not np.array_equal(renderer.frame(59), renderer.frame(60))


@pytest.mark.parametrize("kind", list(DAMAGES))
def test_damage_is_as_coarse_in_a_large_picture(kind: str) -> None:
    """Shrunk to what the judge sees, a large damaged picture differs from the undamaged one as much as a small one."""
    drawn, fault = scene_of(), PictureFault(kind, range(0, FRAMES), 0.5, 8)
    small, large = SceneRenderer(drawn, SIZE).frame(5), SceneRenderer(drawn, 4 * SIZE).frame(5)
    shrunk, shrunk_damaged = (
        cv2.resize(picture, (SIZE, SIZE), interpolation=cv2.INTER_AREA)
        for picture in (large, fault.apply(large, 5))
    )
    assert difference(shrunk, shrunk_damaged) == pytest.approx(
        difference(small, fault.apply(small, 5)), rel=0.2
    )


def test_damage_that_fades_in_is_fainter_at_the_ends_of_its_window() -> None:
    picture = SceneRenderer(scene_of(Thing("red", "ball")), SIZE).frame(64)
    fault = PictureFault("dark", range(50, 70), 0.5, 3, fade=6)
    levels = [float(fault.apply(picture, index).mean()) for index in (49, 50, 53, 60, 69, 70)]
    assert levels[0] == levels[5] > levels[1] > levels[2] > levels[3] < levels[4]
    assert {fault.state(index) for index in fault.window} == {"dark"}


# -- frames ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "world", [SIMPLE, replace(FULL, worn=1.0, h264=0.5, no_thing=0.4)], ids=["simple", "full"]
)
@pytest.mark.parametrize("supersample", [1, 2])
def test_a_frame_does_not_depend_on_the_frames_drawn_before_it(
    world: World, supersample: int
) -> None:
    for pair in (draw_pair(seed, world) for seed in range(4)):
        for scene in pair.scenes.values():
            forwards, backwards = (
                SceneRenderer(scene, SIZE, supersample, codec_noise=pair.codec_noise)
                for _ in range(2)
            )
            frames = {index: forwards.frame(index).tobytes() for index in (0, 64, 127)}
            assert {index: backwards.frame(index).tobytes() for index in (127, 64, 0)} == frames


def test_a_judge_is_shown_the_worn_frames_of_its_pair() -> None:
    pair = next(
        pair
        for seed in range(5)
        if (pair := draw_pair(seed, replace(THINGS, worn=1.0))).codec_noise
    )
    refs = (FrameRef(16, Side.FIRST), FrameRef(16, Side.SECOND), FrameRef(16, Side.FIRST))
    frames = DrawnFrames(pair)(refs)
    worn = SceneRenderer(pair.first, SIZE, codec_noise=pair.codec_noise).frame(16)
    assert frames[0].rgb == worn.tobytes() == frames[2].rgb
    assert len({frame.key for frame in frames}) == 2
    assert DrawnFrames(draw_pair(pair.seed))(refs[:1])[0].key != frames[0].key
    assert Counter(len(frame.rgb) for frame in frames) == {3 * SIZE * SIZE: 3}


def name_of(colour: NDArray[np.floating]) -> str:
    """The name in COLOURS that comes closest."""
    if np.ptp(colour) < 40:
        return "white" if colour.min() > 128 else "black"
    tints = [name for name in COLOURS if name not in ("white", "black")]
    return max(tints, key=lambda name: COLOURS[name] @ colour / np.linalg.norm(COLOURS[name]))


@pytest.mark.parametrize("colour", list(COLOURS))
def test_the_solid_has_the_colour_of_its_facts(colour: str) -> None:
    drawn = scene_of(Thing(colour, "cylinder"), ground="tiles")
    (group,) = drawn.groups
    (solid,) = group.solids
    inverse = replace(solid, rgb=tuple(255 - level for level in solid.rgb))
    inverted = replace(drawn, groups=(replace(group, solids=(inverse,)),))
    picture, other = (SceneRenderer(each, SIZE).frame(64) for each in (drawn, inverted))
    pixels = picture[(picture != other).any(-1)]
    assert len(pixels) > 400
    assert name_of(np.median(pixels, axis=0)) == colour


def test_supersampling_comes_close_to_a_much_larger_picture() -> None:
    drawn = scene_of(Thing("red", "cube"), ground="tiles")
    large = SceneRenderer(drawn, 8 * SIZE).frame(64)
    true = cv2.resize(large, (SIZE, SIZE), interpolation=cv2.INTER_AREA)
    fine, plain = (SceneRenderer(drawn, SIZE, supersample=n).frame(64) for n in (4, 1))
    assert difference(fine, true) < 0.5 * difference(plain, true)
