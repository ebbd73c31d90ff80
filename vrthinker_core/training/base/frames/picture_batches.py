"""Drawn pictures and their codes, batch by batch, to train the vision tower on. A batch depends on its number alone.

A scene costs far more to draw than to look at again, so each batch brings a few new scenes and takes the others from those of the
batches before. Damage and codec wear are new every time.
"""

from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from vrthinker_core.training.base.frames.picture_damage import damage_picture, wear_picture
from vrthinker_core.training.base.model.compiled_layers import to_patches
from vrthinker_core.training.base.model.model_shape import SIDE
from vrthinker_core.training.drawn_world.faults import FRAMES
from vrthinker_core.training.drawn_world.moving_scene import Scene
from vrthinker_core.training.drawn_world.scene_renderer import SceneRenderer
from vrthinker_core.training.drawn_world.scenes import FIRST_WORLD, TRAINING_SEEDS, WorldOptions, draw_pair
from vrthinker_core.training.frame_facts.frame_code import TOKENS, FrameFacts, encode_facts
from vrthinker_core.training.frame_facts.seen_frames import seen_facts

DAMAGED, WORN = 0.7, 0.5  # Shares of pictures that are damaged and worn
FIRST, NO_THING = 0.25, 0.35  # Shares of scenes of the first world, and of the others that show no thing
HARD, HARD_COLOURS = 0.4, ("white", "black")  # Share of scenes with things that show such a one if some of TRIES do
TRIES, TRIES_APART = 6, 400_000  # Seeds between them
NEW_SCENES, KEPT_SCENES, LOOKS = 3, 5000, 4  # Scenes that a batch brings, those that are drawn from, frames of each
SERIES = 10**6  # Batches that go on from one another; the next series begins with new scenes
TRAINED_SERIES = 600  # That are trained on
SCENES_FROM = 10**8  # Seed of the first pair whose scenes are trained on
UNSEEN = TRAINING_SEEDS  # Numbers of batches that are never trained on

Picture = NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class PictureBatch:
    """Pictures, and what each of their tokens is to say."""

    patches: torch.Tensor  # [n, patches, 3 * 14 * 14]
    codes: torch.Tensor  # [n, TOKENS, SIZE]


def picture_batch(number: int, size: int, world: WorldOptions) -> PictureBatch:
    """Batch `number` of `size` pictures."""
    rng = np.random.default_rng(number)
    newest = (number + 1) * NEW_SCENES
    known = min(KEPT_SCENES, (number % SERIES + 1) * NEW_SCENES)
    pictures: list[Picture] = []
    codes: list[NDArray[Any]] = []
    for place in range(size):
        age = place if place < NEW_SCENES else int(rng.integers(known))
        looks = _looks(newest - 1 - age, world)
        picture, code = _damaged(looks[int(rng.integers(LOOKS))], rng)
        pictures.append(picture)
        codes.append(code)
    return PictureBatch(to_patches(np.stack(pictures)), torch.from_numpy(np.stack(codes)))


@lru_cache(maxsize=KEPT_SCENES)
def _looks(number: int, world: WorldOptions) -> list[tuple[Picture, FrameFacts]]:
    """LOOKS frames of scene `number`, without damage to the picture, and what they show."""
    rng = np.random.default_rng((2, number))
    scene = replace(_draw_scene(number, rng, world), picture_fault=None)
    renderer = SceneRenderer(scene, SIDE)
    indices = rng.choice(FRAMES, LOOKS, replace=False).tolist()
    return [(renderer.frame(index), seen_facts(scene, index)) for index in indices]


def _draw_scene(number: int, rng: np.random.Generator, world: WorldOptions) -> Scene:
    """Scene `number`; in the place of one with things sometimes the first of its tries with one of the HARD_COLOURS.

    Such things are the hardest to place.
    """
    options = FIRST_WORLD if rng.random() < FIRST else replace(world, no_thing=NO_THING)
    pairs = (draw_pair(SCENES_FROM + number + TRIES_APART * count, options) for count in range(TRIES))
    scenes = (pair.first if number % 2 else pair.second for pair in pairs)
    scene = next(scenes)
    wanted = scene.facts.things and rng.random() < HARD
    return next((each for each in chain((scene,), scenes) if _is_hard(each)), scene) if wanted else scene


def _is_hard(scene: Scene) -> bool:
    return any(thing.colour in HARD_COLOURS for thing in scene.facts.things)


def _damaged(look: tuple[Picture, FrameFacts], rng: np.random.Generator) -> tuple[Picture, NDArray[Any]]:
    """The frame, mirrored, damaged and worn at random, and the codes of its tokens."""
    picture, facts = _mirrored(*look) if rng.random() < 0.5 else look
    if rng.random() < DAMAGED:
        picture, state = damage_picture(picture, rng)
        facts = replace(facts, state=state)
    if rng.random() < WORN:
        picture = wear_picture(picture, rng)
    return picture, np.repeat(encode_facts(facts)[None], TOKENS, axis=0)


def _mirrored(picture: Picture, facts: FrameFacts) -> tuple[Picture, FrameFacts]:
    """Left and right exchanged."""
    things = tuple(thing and replace(thing, x=1 - thing.x) for thing in facts.things)
    light = tuple((1 - right, down) for right, down in facts.light)
    return np.ascontiguousarray(picture[:, ::-1]), replace(facts, things=things, light=light)
