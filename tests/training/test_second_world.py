"""The second world: one or two things of up to four solids, places without a thing, photographs, faults of more kinds, wear."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from vrthinker_core.training.drawn_world.second_world import draw_facts, draw_second_scene, with_wrong
from vrthinker_core.training.drawn_world.varied_faults import COARSE, HINT, draw_varied_motion_fault, draw_varied_picture_fault

from vrthinker_core.training.drawn_world.drawn_frames import DrawnFrames
from vrthinker_core.training.drawn_world.facts import COLOURS, DIRECTIONS, SceneFacts, Thing, in_order
from vrthinker_core.training.drawn_world.faults import FRAMES, OPENING_FRAMES, MotionFault, PictureFault
from vrthinker_core.training.drawn_world.moving_scene import GO, LEAP, STAY, Scene
from vrthinker_core.training.drawn_world.prompts import COUNT_WORDS, write_prompt
from vrthinker_core.training.drawn_world.rendering.renderer import Renderer
from vrthinker_core.training.drawn_world.rendering.solids import SHAPES
from vrthinker_core.training.drawn_world.scenes import DrawnPair, SceneRenderer, WorldOptions, draw_pair
from vrthinker_core.types import FrameRef, Side

SIZE = 112
SECOND = WorldOptions(second=True)
THINGS = replace(SECOND, no_thing=0.0, worn=0.0)
PLACES = replace(SECOND, no_thing=1.0, worn=0.0)
SEEDS = st.integers(0, 2**63)
OTHER = {0: 0, 1: 2, 2: 1}
things = st.builds(Thing, st.sampled_from(list(COLOURS)), st.sampled_from(SHAPES), st.integers(1, 4))
some_things = st.lists(things, max_size=2, unique_by=lambda thing: thing.colour).map(lambda found: in_order(*found))
some_facts = st.builds(SceneFacts, some_things, st.sampled_from(list(DIRECTIONS)), st.just("sand"))


def pairs(options: WorldOptions, count: int) -> Iterator[DrawnPair]:
    return (draw_pair(seed, options) for seed in range(count))


def scene_of(*of: Thing, direction: str = "right", seed: int = 1) -> Scene:
    return draw_second_scene(np.random.default_rng(seed), SceneFacts(in_order(*of), direction, "sand"), THINGS)


# -- facts, prompts, labels ------------------------------------------------------------------------------------------------


@settings(max_examples=150, deadline=None)
@given(some_facts, some_facts)
def test_wrong_facts_are_counted_the_same_from_both_sides(one: SceneFacts, other: SceneFacts) -> None:
    assert one.count_wrong(one) == 0
    assert one.count_wrong(other) == other.count_wrong(one) <= 8
    assert one == other or one.count_wrong(other) > 0


@pytest.mark.parametrize(
    ("shown", "wrong"),
    [
        ((Thing("red", "ball"), Thing("blue", "cube", 2)), 0),
        ((Thing("red", "ball"),), 1),
        ((Thing("green", "ball"), Thing("blue", "cube", 2)), 1),
        ((Thing("red", "ball", 2), Thing("blue", "cube", 2)), 1),
        ((Thing("blue", "cube", 3), Thing("white", "ring")), 3),
        ((Thing("purple", "cone", 3),), 4),
        ((), 2),
    ],
)
def test_things_are_compared_with_those_that_fit_best(shown: tuple[Thing, ...], wrong: int) -> None:
    wanted = SceneFacts((Thing("red", "ball"), Thing("blue", "cube", 2)), "left", "sand")
    assert wanted.count_wrong(SceneFacts(shown, "left", "sand")) == wrong
    assert wanted.count_wrong(SceneFacts(shown, "right", "sand")) == wrong + 1


def test_things_of_one_colour_or_in_another_order_are_refused() -> None:
    for colours in (("red", "red"), ("blue", "red")):
        with pytest.raises(ValueError, match="COLOURS"):
            SceneFacts(tuple(Thing(colour, "ball") for colour in colours), "left", "sand")


def read_things(prompt: str) -> tuple[Thing, ...]:
    """The things that a prompt asks for, in the order in which it names them."""
    counts, shapes = "|".join(("an?", *COUNT_WORDS[1:])), "|".join(SHAPES)
    found = re.findall(rf"\b({counts}) ({'|'.join(COLOURS)}) ({shapes})(s?)\b", prompt, re.IGNORECASE)
    for count, colour, _, plural in found:
        assert (count.lower() in ("a", "an")) == (plural == "")
        assert count.lower() not in ("a", "an") or count.lower() == ("an" if colour == "orange" else "a")
    return tuple(
        Thing(colour, shape, COUNT_WORDS.index(count.lower()) + 1 if count.lower() in COUNT_WORDS else 1)
        for count, colour, shape, _ in found
    )


@settings(max_examples=150, deadline=None)
@given(some_facts.filter(lambda facts: facts.things), st.integers(0, 2**32))
def test_a_prompt_says_what_is_wanted_and_no_more(wanted: SceneFacts, seed: int) -> None:
    prompt = write_prompt(np.random.default_rng(seed), wanted)
    assert read_things(prompt) == wanted.things
    sides = {"right": "right", "left": "left", "away": "away", "closer": r"closer|towards the camera"}
    assert [name for name, words in sides.items() if re.search(rf"\b({words})\b", prompt)] == [wanted.direction]
    assert "sand" in prompt.lower()
    alone = sum(thing.count for thing in wanted.things) == 1
    verb = re.search(r"\b(roll|move|slide|drift|travel)(s?)\b", prompt)
    assert verb is None or (verb[2] == "s") == alone
    assert not prompt.endswith(".") or prompt[0].isupper()


@settings(max_examples=60, deadline=None)
@given(SEEDS, st.integers(1, 3))
def test_as_many_facts_are_changed_as_are_asked_for(seed: int, wrong: int) -> None:
    rng = np.random.default_rng(seed)
    wanted = draw_facts(rng, THINGS)
    assert wanted.count_wrong(with_wrong(rng, wanted, wrong)) == wrong


def test_pairs_have_all_labels_and_every_kind_of_wrong_fact() -> None:
    drawn = list(pairs(THINGS, 250))
    for name in ("TA", "VQ", "MQ"):
        shares = np.bincount([pair.verdict.labels[name] for pair in drawn], minlength=3) / len(drawn)
        assert shares.min() > 0.2
    scenes = [(pair.wanted, scene.facts) for pair in drawn for scene in pair.scenes.values()]
    assert {wanted.count_wrong(shown) for wanted, shown in scenes} == {0, 1, 2, 3}
    assert {len(wanted.things) - len(shown.things) for wanted, shown in scenes} == {0, 1}
    assert {thing.count for wanted, _ in scenes for thing in wanted.things} == {1, 2, 3, 4}


@settings(max_examples=25, deadline=None)
@given(SEEDS)
def test_labels_swap_when_the_scenes_swap(seed: int) -> None:
    pair = draw_pair(seed, SECOND)
    assert pair == draw_pair(seed, SECOND)
    swapped = replace(pair, first=pair.second, second=pair.first).verdict
    assert {name: OTHER[label] for name, label in pair.verdict.labels.items()} == swapped.labels


# -- where things are ------------------------------------------------------------------------------------------------------


def covered_by(scene: Scene, number: int, index: int) -> np.ndarray:
    """Which pixels thing `number` covers where nothing hides it, [SIZE, SIZE]."""
    alone = replace(scene, groups=(scene.groups[number],), still_solids=())
    assert scene.background is not None
    empty = Renderer(scene.background, SIZE).render(())
    painted = replace(alone.groups[0], solids=tuple(replace(solid, rgb=(255, 0, 255)) for solid in alone.groups[0].solids))
    drawn = SceneRenderer(replace(alone, groups=(painted,)), SIZE).frame(index).astype(int) - empty
    return (drawn[..., 0] - drawn[..., 1] > 40) & (drawn[..., 2] - drawn[..., 1] > 40)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("count", [1, 3, 4])
def test_a_position_is_the_middle_of_what_is_drawn(shape: str, count: int) -> None:
    scene = scene_of(Thing("red", shape, count), direction="left", seed=count)
    for index in (20, 64, 110):
        (position,) = scene.thing_positions(index)
        y, x = np.nonzero(covered_by(scene, 0, index))
        assert position == pytest.approx(((x.mean() + 0.5) / SIZE, (y.mean() + 0.5) / SIZE), abs=0.035)


def test_two_things_move_together_one_in_front_of_the_other_and_both_mostly_to_be_seen() -> None:
    scenes = [scene for pair in pairs(THINGS, 60) for scene in pair.scenes.values() if len(scene.groups) == 2]
    shares = np.array([scene.visible_shares(index) for scene in scenes for index in (8, 36, 64, 92, 120)])
    assert (shares.min(1) >= 0.4).mean() > 0.9
    assert (shares.min(1) < 0.95).mean() > 0.3
    for scene in scenes:
        places = [[scene.position(index, number) for number in (0, 1)] for index in (0, 60, 127)]
        apart = [np.subtract(first, second) for first, second in places]
        assert np.allclose(apart[0], apart[1])
        assert np.allclose(apart[0], apart[2])
        assert abs(apart[0][1]) > 0.1


def test_visible_shares_are_those_of_the_picture() -> None:
    scenes = [scene for pair in pairs(THINGS, 40) for scene in pair.scenes.values() if len(scene.groups) == 2][:8]
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
    scene = replace(scene_of(Thing("red", "ball")), motion_fault=MotionFault("jumpy", range(60, 70), 0.1, 3, turn=0.0))
    plain, shifted = (replace(scene, motion_fault=fault).thing_positions(64)[0] for fault in (None, scene.motion_fault))
    assert plain is not None
    assert shifted == pytest.approx((plain[0] + 0.1, plain[1]))
    before, after = SceneRenderer(replace(scene, motion_fault=None), SIZE).frame(64), SceneRenderer(scene, SIZE).frame(64)
    assert np.abs(before[:, :90].astype(int) - after[:, 11:101]).mean() < 3


# -- how things move -------------------------------------------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(SEEDS, st.lists(st.integers(0, FRAMES - 1), min_size=2, max_size=12, unique=True).map(sorted))
def test_without_a_fault_every_step_goes(seed: int, indices: list[int]) -> None:
    for scene in draw_pair(seed, SECOND).scenes.values():
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


@pytest.mark.parametrize("options", [THINGS, PLACES], ids=["things", "places"])
def test_every_fault_of_the_motion_shows_to_who_looks_closely(options: WorldOptions) -> None:
    scenes = [scene for pair in pairs(options, 150) for scene in pair.scenes.values() if scene.motion_fault]
    looks = {"opening": OPENING_FRAMES, "coarse": range(16, 113, COARSE), "close": range(16, 113, 4)}
    shares = {name: np.mean([set(scene.motion_words(look)) != {GO} for scene in scenes]) for name, look in looks.items()}
    assert shares["opening"] < 0.65
    assert shares["opening"] + 0.1 < shares["coarse"] < shares["close"]
    assert shares["close"] > 0.97


# -- faults ----------------------------------------------------------------------------------------------------------------


def test_windows_lie_in_many_places_and_are_short_and_long() -> None:
    rng = np.random.default_rng(2)
    faults = [draw_varied_picture_fault(rng) for _ in range(400)] + [draw_varied_motion_fault(rng, whole=False) for _ in range(400)]
    windows = [fault.window for fault in faults]
    hidden = [w for w in windows if any(a < w.start and w.stop <= b for a, b in pairwise(OPENING_FRAMES))]
    assert 0.4 < len(hidden) / len(windows) < 0.6
    assert min(map(len, hidden)) < 10 < 25 < max(map(len, hidden))
    assert len({window.start for window in hidden}) > 40
    frozen = [fault.window for fault in faults if fault.kind == "frozen" and fault.window in hidden]
    assert all(any(index % COARSE == 0 for index in window) for window in hidden)  # a coarse look shows a hint of each
    assert all(any(index % COARSE == 0 for index in window[HINT:]) for window in frozen)
    assert all(0 <= window.start < window.stop <= FRAMES for window in windows)


def test_damage_that_fades_in_is_fainter_at_the_ends_of_its_window() -> None:
    picture = SceneRenderer(scene_of(Thing("red", "ball")), SIZE).frame(64)
    fault = PictureFault("dark", range(50, 70), 0.5, 3, fade=6)
    levels = [float(fault.apply(picture, index).mean()) for index in (49, 50, 53, 60, 69, 70)]
    assert levels[0] == levels[5] > levels[1] > levels[2] > levels[3] < levels[4]
    assert {fault.state(index) for index in fault.window} == {"dark"}


# -- frames ----------------------------------------------------------------------------------------------------------------


def test_a_frame_does_not_depend_on_the_frames_drawn_before_it() -> None:
    for pair in pairs(replace(SECOND, worn=1.0, h264=0.5, no_thing=0.4), 6):
        for scene in pair.scenes.values():
            forwards, backwards = (SceneRenderer(scene, SIZE, wear=pair.wear) for _ in range(2))
            frames = {index: forwards.frame(index).tobytes() for index in (0, 64, 127)}
            assert {index: backwards.frame(index).tobytes() for index in (127, 64, 0)} == frames


def test_a_judge_is_shown_the_worn_frames_of_its_pair() -> None:
    pair = next(pair for pair in pairs(replace(THINGS, worn=1.0), 5) if pair.wear)
    refs = (FrameRef(16, Side.FIRST), FrameRef(16, Side.SECOND), FrameRef(16, Side.FIRST))
    frames = DrawnFrames(pair)(refs)
    worn = SceneRenderer(pair.first, SIZE, wear=pair.wear).frame(16)
    assert frames[0].rgb == worn.tobytes() == frames[2].rgb
    assert len({frame.key for frame in frames}) == 2
    assert DrawnFrames(draw_pair(pair.seed))(refs[:1])[0].key != frames[0].key
    assert Counter(len(frame.rgb) for frame in frames) == {3 * SIZE * SIZE: 3}
