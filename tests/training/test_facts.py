"""Facts of the drawn world: wrong ones are counted, changed as asked for, and a prompt says what is wanted and no more."""

from __future__ import annotations

import re
from dataclasses import replace

import cv2
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from PIL import Image

from tests.training.test_video_files import difference
from vrthinker_core.drawn.damage import (
    DAMAGES,
    CodecNoise,
    as_the_judge_sees,
    code_h264,
    code_jpeg,
    draw_codec_noise,
)
from vrthinker_core.drawn.facts import (
    COLOURS,
    COUNT_WORDS,
    DIRECTIONS,
    SceneFacts,
    Thing,
    in_order,
    write_prompt,
)
from vrthinker_core.drawn.moving_scene import SceneRenderer
from vrthinker_core.drawn.solids import SHAPES
from vrthinker_core.drawn.textures import Pixels
from vrthinker_core.drawn.world import FULL, SIMPLE, World, draw_facts, draw_pair, with_wrong

things = st.builds(
    Thing, st.sampled_from(list(COLOURS)), st.sampled_from(SHAPES), st.integers(1, 4)
)
some_things = st.lists(things, max_size=2, unique_by=lambda thing: thing.colour).map(
    lambda found: in_order(*found)
)
some_facts = st.builds(SceneFacts, some_things, st.sampled_from(list(DIRECTIONS)), st.just("sand"))


@settings(max_examples=150, deadline=None)
@given(some_facts, some_facts)
def test_wrong_facts_are_counted_the_same_from_both_sides(
    one: SceneFacts, other: SceneFacts
) -> None:
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
    words = rf"\b({counts}) ({'|'.join(COLOURS)}) ({shapes})(s?)\b"
    found = []
    for count, colour, shape, plural in re.findall(words, prompt, re.IGNORECASE):
        one = count.lower() not in COUNT_WORDS[1:]
        assert one == (plural == "")
        assert not one or count.lower() == ("an" if colour == "orange" else "a")
        found.append(Thing(colour, shape, 1 if one else COUNT_WORDS.index(count.lower()) + 1))
    return tuple(found)


@settings(max_examples=150, deadline=None)
@given(some_facts.filter(lambda facts: facts.things), st.integers(0, 2**32))
def test_a_prompt_says_what_is_wanted_and_no_more(wanted: SceneFacts, seed: int) -> None:
    prompt = write_prompt(np.random.default_rng(seed), wanted)
    assert read_things(prompt) == wanted.things
    sides = {name: name for name in ("right", "left", "away")}
    sides["closer"] = "closer|towards the camera"
    said = [name for name, words in sides.items() if re.search(rf"\b({words})\b", prompt)]
    assert said == [wanted.direction]
    assert "sand" in prompt.lower()
    alone = sum(thing.count for thing in wanted.things) == 1
    verb = re.search(r"\b(roll|move|slide|drift|travel)(s?)\b", prompt)
    assert verb is None or (verb[2] == "s") == alone
    assert not prompt.endswith(".") or prompt[0].isupper()


@pytest.mark.parametrize("world", [SIMPLE, FULL], ids=["simple", "full"])
@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**63), st.integers(1, 3))
def test_as_many_facts_are_changed_as_are_asked_for(world: World, seed: int, wrong: int) -> None:
    rng = np.random.default_rng(seed)
    wanted = draw_facts(rng, world)
    assert wanted.count_wrong(with_wrong(rng, wanted, wrong, world)) == wrong


SIZE = 112
OPTIONS = replace(FULL, worn=0.0)


def pictures(count: int, size: int = SIZE) -> list[Pixels]:
    scenes = [draw_pair(seed, OPTIONS).first for seed in range(count)]
    clean = [replace(scene, picture_fault=None, motion_fault=None) for scene in scenes]
    return [SceneRenderer(scene, size).frame(30) for scene in clean]


def test_wear_is_smaller_than_the_faintest_damage() -> None:
    """On average: a judge can tell worn pictures from damaged ones."""
    clean, rng = pictures(12), np.random.default_rng(0)
    wears = [draw_codec_noise(rng, 0.1).apply(lambda _, one=one: one, 30, SIZE) for one in clean]
    worn = np.mean([difference(*both) for both in zip(clean, wears, strict=True)])
    for name, damage in DAMAGES.items():
        faintest = np.mean([difference(one, damage(one, -0.5, rng)) for one in clean])
        if name != "blurry":  # It takes away what is fine: most drawn pictures have little
            assert faintest > 1.5 * worn, name


@pytest.mark.parametrize(
    "codec_noise",
    [CodecNoise(160, 120, 80), CodecNoise(200, 200, 26, h264=True)],
    ids=["JPEG", "H.264"],
)
def test_a_worse_quality_wears_more(codec_noise: CodecNoise) -> None:
    (picture,) = pictures(1)
    worse = replace(codec_noise, quality=codec_noise.quality + 12 if codec_noise.h264 else 30)
    mild, strong = (
        difference(picture, each.apply(lambda _: picture, 3, SIZE)) for each in (codec_noise, worse)
    )
    assert 0 < mild < strong < 25


def test_frames_that_show_the_same_are_coded_a_little_apart() -> None:
    """As a video codec does it: a judge that knew a freeze by equal bytes would find none in a file."""
    (picture,) = pictures(1)
    first, second = (
        CodecNoise(160, 120, 80).apply(lambda _: picture, index, SIZE) for index in (40, 48)
    )
    assert 0 < difference(first, second) < 3


def test_codecs_keep_colours_and_places() -> None:
    picture = np.zeros((64, 96, 3), np.uint8)
    picture[:, 32:64] = (200, 60, 30)
    picture[:, 64:] = (30, 60, 200)
    for coded in (code_jpeg(picture, 90), *code_h264([picture, picture], 20)):
        assert difference(picture, coded) < 6


@pytest.mark.parametrize("size", [(112, 160), (224, 224), (288, 512), (480, 480)])
def test_straight_resizing_is_nearly_what_the_product_does(size: tuple[int, int]) -> None:
    for picture in pictures(3, 224):
        stored = np.asarray(cv2.resize(picture, size, interpolation=cv2.INTER_CUBIC), np.uint8)
        area = stored.shape[0] > 448 and stored.shape[1] > 448
        how = cv2.INTER_AREA if area else cv2.INTER_CUBIC
        squashed = Image.fromarray(cv2.resize(stored, (448, 448), interpolation=how))
        product = np.asarray(squashed.resize((SIZE, SIZE), Image.Resampling.BICUBIC))
        assert difference(product, as_the_judge_sees(stored, SIZE)) < 2.5
