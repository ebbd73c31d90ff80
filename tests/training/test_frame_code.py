"""The frame code: facts that go in can be read again, and it knows all words of the drawn world."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from vrthinker_core.training.drawn_world import facts, faults
from vrthinker_core.training.drawn_world.moving_scene import Scene
from vrthinker_core.training.drawn_world.rendering import damage, photographs, solids, textures
from vrthinker_core.training.drawn_world.scene_renderer import SceneRenderer
from vrthinker_core.training.drawn_world.scenes import WorldOptions, draw_pair
from vrthinker_core.training.frame_facts.frame_code import (
    COLOURS,
    GROUNDS,
    PARTS,
    SHAPES,
    SIZE,
    STATES,
    basis,
    bumps,
    encode_facts,
    light_of,
    place_of,
    read_light,
)
from vrthinker_core.training.frame_facts.seen_frames import seen_facts, view_light

VIEWS = WorldOptions(second=True, no_thing=1.0)


def test_it_has_a_number_for_every_word_of_the_world() -> None:
    assert tuple(facts.COLOURS) == COLOURS
    assert tuple(solids.SHAPES) == SHAPES
    assert (faults.CLEAR, *damage.DAMAGES) == STATES
    assert (*textures.GROUNDS, photographs.PHOTO) == GROUNDS


def test_an_unsure_place_is_a_lower_wider_bump_around_the_same_place() -> None:
    places = np.linspace(0.3, 0.7, 9)
    sure, unsure = bumps(places), bumps(places, 0.1)
    assert (np.abs(place_of(unsure) - places) < 0.02).all()
    assert (unsure.max(-1) < 0.8 * sure.max(-1)).all()
    drawn = np.random.default_rng(0).normal(places[:, None], 0.1, (9, 4000))
    assert np.abs(bumps(drawn).mean(1) - unsure).max() < 0.03


def test_its_directions_are_orthonormal_and_always_the_same() -> None:
    directions = basis(192)
    assert torch.allclose(directions @ directions.T, torch.eye(SIZE), atol=1e-5)
    assert torch.equal(directions, basis(192))


def test_the_facts_of_a_frame_can_be_read_from_its_code() -> None:
    for seed in range(40):
        for scene in draw_pair(seed, WorldOptions(second=True)).scenes.values():
            seen = seen_facts(scene, 40)
            code = encode_facts(seen)
            assert STATES[int(code[PARTS["state"]].argmax())] == seen.state
            for suffix, thing in zip(("", " 2"), seen.things, strict=False):
                assert code[PARTS[f"present{suffix}"]].item() == (thing is not None)
                if thing is None:
                    continue
                assert COLOURS[int(code[PARTS[f"colour{suffix}"]].argmax())] == thing.colour
                assert SHAPES[int(code[PARTS[f"shape{suffix}"]].argmax())] == thing.shape
                assert int(code[PARTS[f"count{suffix}"]].argmax()) + 1 == thing.count
                inside = np.clip((thing.x, thing.y), 0, 1)
                read = [place_of(code[PARTS[f"{axis}{suffix}"]][None])[0] for axis in "xy"]
                assert np.abs(inside - read).max() < 0.01


def test_the_light_of_a_picture_stays_where_it_is_at_another_level_and_goes_to_the_middle_with_less_contrast() -> None:
    for seed in range(8):
        view = draw_pair(seed, VIEWS).first
        picture = SceneRenderer(replace(view, picture_fault=None, motion_fault=None), 112).frame(40)
        full, paler = np.array(light_of(picture)), np.array(light_of(picture // 2))
        assert full.shape == (2, 2)
        assert np.allclose(paler, light_of(picture // 2 + 60), atol=1e-4)
        assert (abs(paler - 0.5) <= abs(full - 0.5)).all()
        assert np.allclose(light_of(picture[:, ::-1]), full * (-1, 1) + (1, 0), atol=1e-4)
        assert np.allclose(light_of(picture[::-1]), full[::-1] * (1, -1) + (0, 1), atol=1e-4)


def test_the_light_of_a_view_is_followed_and_stands_still_where_the_view_does() -> None:
    frozen = [scene for seed in range(60) for scene in draw_pair(seed, VIEWS).scenes.values() if _kind(scene) == "frozen"]
    assert frozen
    for scene in frozen:
        window = scene.motion_fault.window if scene.motion_fault else range(0)
        assert view_light(scene, window[0]) == view_light(scene, window[-1])
        code = encode_facts(seen_facts(scene, window[0]))
        assert np.allclose(read_light(code[None])[0], view_light(scene, window[0]), atol=0.01)
        assert not code[PARTS["present"]].any()
        assert not code[PARTS["present 2"]].any()
    assert view_light(draw_pair(0, WorldOptions(second=True, no_thing=0.0)).first, 40) == ()


def _kind(scene: Scene) -> str:
    return scene.motion_fault.kind if scene.motion_fault else ""
