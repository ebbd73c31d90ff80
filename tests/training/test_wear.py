"""Wear: what codec and resizing do to a picture is little beside a fault, and is what the product itself does."""

from __future__ import annotations

from dataclasses import replace

import cv2
import numpy as np
import pytest
from PIL import Image

from vrthinker_core.drawn.textures import Pixels
from vrthinker_core.drawn.wear import (
    DAMAGES,
    Wear,
    as_the_judge_sees,
    code_h264,
    code_jpeg,
    draw_wear,
)
from vrthinker_core.drawn.world import FULL, SceneRenderer, draw_pair

SIZE = 112
OPTIONS = replace(FULL, worn=0.0)


def pictures(count: int, size: int = SIZE) -> list[Pixels]:
    scenes = [draw_pair(seed, OPTIONS).first for seed in range(count)]
    clean = [replace(scene, picture_fault=None, motion_fault=None) for scene in scenes]
    return [SceneRenderer(scene, size).frame(30) for scene in clean]


def difference(one: Pixels, other: Pixels) -> float:
    return float(np.abs(one.astype(float) - other).mean())


def test_wear_is_smaller_than_the_faintest_damage() -> None:
    """On average: a judge can tell worn pictures from damaged ones."""
    clean, rng = pictures(12), np.random.default_rng(0)
    wears = [draw_wear(rng, 0.1).apply(lambda _, one=one: one, 30, SIZE) for one in clean]
    worn = np.mean([difference(*both) for both in zip(clean, wears, strict=True)])
    for name, damage in DAMAGES.items():
        faintest = np.mean([difference(one, damage(one, -0.5, rng)) for one in clean])
        if name != "blurry":  # It takes away what is fine: most drawn pictures have little
            assert faintest > 1.5 * worn, name


@pytest.mark.parametrize(
    "wear", [Wear(160, 120, 80), Wear(200, 200, 26, h264=True)], ids=["JPEG", "H.264"]
)
def test_a_worse_quality_wears_more(wear: Wear) -> None:
    (picture,) = pictures(1)
    worse = replace(wear, quality=wear.quality + 12 if wear.h264 else 30)
    mild, strong = (
        difference(picture, each.apply(lambda _: picture, 3, SIZE)) for each in (wear, worse)
    )
    assert 0 < mild < strong < 25


def test_frames_that_show_the_same_are_coded_a_little_apart() -> None:
    """As a video codec does it: a judge that knew a freeze by equal bytes would find none in a file."""
    (picture,) = pictures(1)
    first, second = (Wear(160, 120, 80).apply(lambda _: picture, index, SIZE) for index in (40, 48))
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
