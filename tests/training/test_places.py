"""Places of the full world: no thing, a camera over photographs of a folder or over clouds, the same place twice at times."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest
from PIL import Image

from vrthinker_core.drawn.facts import PLACE_PROMPTS
from vrthinker_core.drawn.faults import MotionFault
from vrthinker_core.drawn.moving_scene import Scene, SceneRenderer
from vrthinker_core.drawn.world import FREEZES, FULL, draw_pair
from vrthinker_core.errors import BadInput
from vrthinker_core.types import Preference

SIZE = 112
PLACES = replace(FULL, no_thing=1.0, worn=0.0)


def faultless(scene: Scene) -> Scene:
    return replace(scene, picture_fault=None, motion_fault=None)


def test_a_place_has_no_thing_and_is_the_same_in_both_videos_at_times() -> None:
    drawn = [draw_pair(seed, PLACES) for seed in range(60)]
    assert {pair.prompt for pair in drawn} == set(PLACE_PROMPTS)
    assert all(pair.verdict.TA is Preference.TIE for pair in drawn)
    assert 0.3 < np.mean([pair.first.view == pair.second.view for pair in drawn]) < 0.7
    same = next(pair for pair in drawn if pair.first.view == pair.second.view)
    first, second = (SceneRenderer(faultless(scene), SIZE) for scene in same.scenes.values())
    assert np.array_equal(first.frame(40), second.frame(40))
    assert not np.array_equal(first.frame(40), first.frame(80))
    assert same.first.thing_positions(40) == ()


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    for number, size in enumerate([(300, 200), (220, 260)]):
        small = rng.integers(0, 40 + 200 * number, (12, 12, 3), np.uint8)
        large = cv2.resize(small, size, interpolation=cv2.INTER_CUBIC)
        Image.fromarray(large).save(tmp_path / f"{number}.{('jpg', 'png')[number]}")
    return tmp_path


def test_photographs_of_a_folder_are_grounds_and_places(photos: Path) -> None:
    options = replace(PLACES, photos=photos, photo_ground=1.0, no_thing=0.5)
    frames = {}
    for pair in (draw_pair(seed, options) for seed in range(8)):
        shown, clouds = (
            SceneRenderer(draw_pair(pair.seed, o).first, SIZE).frame(5)
            for o in (options, replace(options, photos=None))
        )
        frames[pair.seed] = shown
        assert pair.first.view is not None or "a photo" in pair.prompt.lower()
        assert not np.array_equal(shown, clouds) or (
            pair.first.view is not None and pair.first.view.picture != "photo"
        )
    assert len({frame.tobytes() for frame in frames.values()}) == 8


def test_some_cameras_hardly_move_and_none_that_does_not_move_far_freezes() -> None:
    scenes = [scene for seed in range(300) for scene in draw_pair(seed, PLACES).scenes.values()]
    travels = [scene.view.travel for scene in scenes if scene.view and any(scene.view.travel)]
    assert 0.1 < np.mean(np.linalg.norm(travels, axis=1) < 0.12) < 0.3
    faulty = [scene for scene in scenes if scene.motion_fault]
    frozen = [scene for scene in faulty if scene.motion_fault.kind == "frozen"]
    assert frozen
    assert all(np.linalg.norm(scene.pace) >= FREEZES for scene in frozen)


def test_a_folder_without_photographs_is_refused(tmp_path: Path) -> None:
    options = replace(PLACES, photos=tmp_path)
    with pytest.raises(BadInput, match="no picture"):
        [draw_pair(seed, options) for seed in range(5)]
    (tmp_path / "torn.jpg").write_bytes(b"torn")
    anew = replace(options, photos=tmp_path / ".")
    with pytest.raises(BadInput, match=r"no picture|torn\.jpg"):
        [SceneRenderer(draw_pair(seed, anew).first, SIZE) for seed in range(5)]


def test_a_still_camera_sees_something_pass_and_stops_with_a_freeze() -> None:
    scenes = [draw_pair(seed, PLACES).first for seed in range(80)]
    photos = [scene for scene in scenes if scene.view and scene.view.picture == "photo"]
    still = next(scene for scene in photos if not any(scene.view.travel))
    plain = replace(faultless(still), view=replace(still.view, sway=0.0))
    frozen = replace(plain, motion_fault=MotionFault("frozen", range(40, 100), 0.2, 3))
    moving, stopped = SceneRenderer(plain, SIZE), SceneRenderer(frozen, SIZE)
    assert not np.array_equal(moving.frame(40), moving.frame(99))
    assert np.array_equal(stopped.frame(40), stopped.frame(99))
    assert plain.motion_words((16, 48, 80, 112)) == ("go", "go", "go")
    assert frozen.motion_words((16, 48, 80, 112)) == ("go", "stay", "leap")
