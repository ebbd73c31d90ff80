"""Frames as codes: what the language model learns from has the errors of a tower that reads."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import Tensor

from vrthinker_core.backends.built_in import NANO
from vrthinker_core.dialects.base import Dialect
from vrthinker_core.training.base.conversations import dialect_of, new_source
from vrthinker_core.training.base.frames.coded_frames import NOISES, PairCodes
from vrthinker_core.training.base.frames.seen_features import PairFeatures
from vrthinker_core.training.base.model.base_checkpoint import open_checkpoint
from vrthinker_core.training.base.model.model_shape import HIDDEN
from vrthinker_core.training.drawn_world.faults import FRAMES
from vrthinker_core.training.drawn_world.scenes import SECOND_WORLD, TRAINING_SEEDS, DrawnPair, draw_pair
from vrthinker_core.training.frame_facts.frame_code import PARTS, STATES, basis


@pytest.fixture(scope="module")
def dialect() -> Dialect:
    """Of the frames."""
    return dialect_of("paired")


def _numbers(pair: DrawnPair, dialect: Dialect) -> Tensor:
    """The numbers that the tokens of a pair's first frames carry, [images, TOKENS, SIZE]."""
    frames = [(ref.side, dialect.grid.index(ref.slot, FRAMES)) for ref in dialect.opening_refs]
    return PairCodes(pair, basis(HIDDEN), np.random.default_rng(pair.seed)).features(frames) @ basis(HIDDEN).T


def test_some_pairs_are_read_surely_and_some_hardly(dialect: Dialect) -> None:
    """Real pictures are read far less surely than drawn ones, and a judge of both has to be used to either."""
    pairs = [draw_pair(TRAINING_SEEDS + number, SECOND_WORLD) for number in range(40)]
    spreads = [float(_numbers(pair, dialect).std(1).mean()) for pair in pairs]
    least, most = NOISES
    assert least * 0.5 < min(spreads) < 1.5 * least
    assert 0.8 * most < max(spreads) < 1.5 * most


def test_the_state_of_a_picture_can_be_read_though_it_is_often_unsure(dialect: Dialect) -> None:
    """The word is still the likeliest in nearly every frame, but in many with another one close behind it."""
    pairs = [draw_pair(TRAINING_SEEDS + number, SECOND_WORLD) for number in range(40)]
    right, unsure = [], []
    for pair in pairs:
        states = _numbers(pair, dialect).mean(1)[:, PARTS["state"]]
        frames = new_source(pair, dialect)(dialect.opening_refs)
        names = [pair.scenes[frame.ref.side].picture_state(frame.index) for frame in frames]
        first, second = states.topk(2).values.unbind(1)
        right += [STATES[int(numbers.argmax())] == name for numbers, name in zip(states, names, strict=True)]
        unsure += (first - second < 0.5).tolist()
    assert np.mean(right) > 0.9
    assert 0.1 < np.mean(unsure) < 0.5


def test_frames_of_a_freeze_are_read_alike_and_others_are_not() -> None:
    """A tower gives the same for the same picture, so a freeze shows even where hardly anything moves."""
    directions = basis(HIDDEN)
    apart: dict[bool, list[float]] = {False: [], True: []}
    for number in range(60):
        pair = draw_pair(TRAINING_SEEDS + number, SECOND_WORLD)
        frozen = [side for side, scene in pair.scenes.items() if scene.motion_fault and scene.motion_fault.kind == "frozen"]
        codes = PairCodes(pair, directions, np.random.default_rng(number))
        for side in frozen:
            scene = pair.scenes[side]
            for before, after in pairwise(range(0, FRAMES, 8)):
                first, second = codes.features([(side, before), (side, after)])
                same = scene.time_and_offset(before) == scene.time_and_offset(after)
                same = same and scene.picture_state(before) == scene.picture_state(after)
                apart[same].append(float((first - second).norm()))
    assert len(apart[True]) > 20
    assert max(apart[True]) < 0.4 < np.quantile(apart[False], 0.1)


@pytest.mark.parametrize("no_thing", [0.0, 1.0])
def test_frames_of_a_clip_are_as_far_apart_as_a_tower_sees_them(no_thing: float) -> None:
    """Else what breaks an even motion would be learnt from steps that no clip has."""
    directions, visual = basis(HIDDEN), open_checkpoint(NANO)[0].model.visual
    seen: list[Tensor] = []
    coded: list[Tensor] = []
    for number in range(24):
        pair = draw_pair(TRAINING_SEEDS + number, replace(SECOND_WORLD, no_thing=no_thing))
        for side in [side for side, scene in pair.scenes.items() if not (scene.motion_fault or scene.picture_fault)]:
            frames = [(side, index) for index in (16, 24, 48, 112)]
            codes = PairCodes(pair, directions, np.random.default_rng(number))
            for features, found in ((PairFeatures(pair, visual).features(frames), seen), (codes.features(frames), coded)):
                found.append(features.flatten(1).diff(dim=0).norm(dim=1))
    ratios = torch.stack(coded).median(0).values / torch.stack(seen).median(0).values
    assert ratios.min() > 0.6
    assert ratios.max() < 1.6
