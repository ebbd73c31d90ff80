"""Damage to the tower's pictures: of every kind, at the size of a file as often as at that of a judge's picture."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from vrthinker_core.training.base.frames.picture_damage import DAMAGE_SHARES, damage_picture, wear_picture
from vrthinker_core.training.drawn_world.rendering.textures import Pixels
from vrthinker_core.training.drawn_world.scenes import SECOND_WORLD, SceneRenderer, draw_pair

SIZE = 112


@pytest.fixture(scope="module")
def picture() -> Pixels:
    return SceneRenderer(draw_pair(3, SECOND_WORLD).first, SIZE).frame(30)


def test_a_draw_depends_on_its_numbers_alone_and_keeps_the_size(picture: Pixels) -> None:
    for seed in range(12):
        first, again = (damage_picture(picture, np.random.default_rng(seed)) for _ in range(2))
        assert first[1] == again[1]
        assert np.array_equal(first[0], again[0])
        assert first[0].shape == picture.shape
        assert not np.array_equal(first[0], picture)


def test_every_kind_comes_as_often_as_it_should(picture: Pixels) -> None:
    rng = np.random.default_rng(1)
    states = Counter(damage_picture(picture, rng)[1] for _ in range(400))
    for state, share in DAMAGE_SHARES.items():
        assert abs(states[state] / 400 - share) < 0.07, state


def test_bands_are_hard_edged_in_some_pictures_and_soft_in_others(picture: Pixels) -> None:
    """What is banded at the size of a file has tones between the bands once it is shrunk."""
    rng = np.random.default_rng(2)
    banded = [damaged for damaged, state in (damage_picture(picture, rng) for _ in range(200)) if state == "banded"]
    tones = np.array([len(np.unique(damaged)) for damaged in banded])
    assert 0.3 < np.mean(tones <= 5) < 0.7
    assert np.median(tones[tones > 5]) > 30


def test_wear_is_little(picture: Pixels) -> None:
    worn = wear_picture(picture, np.random.default_rng(0))
    assert 0 < np.abs(worn.astype(float) - picture).mean() < 8
