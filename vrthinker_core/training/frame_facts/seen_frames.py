"""What a frame of the drawn world shows, as the frame code says it: things by their place in the picture, its state, the ground."""

from dataclasses import replace
from functools import lru_cache

from vrthinker_core.training.drawn_world.moving_scene import Scene
from vrthinker_core.training.drawn_world.scene_renderer import SceneRenderer
from vrthinker_core.training.frame_facts.frame_code import FrameFacts, Places, SeenThing, light_of

SMALL = 32  # Pixels per side of the pictures in which the light of a view is looked for
KEPT_SCENES, KEPT_PLACES = 64, 1024


def seen_facts(scene: Scene, index: int) -> FrameFacts:
    """What frame `index` of the scene shows."""
    places = scene.thing_positions(index)
    things = tuple(
        None if place is None else SeenThing(thing.colour, thing.shape, thing.count, *place)
        for thing, place in zip(scene.facts.things, places, strict=True)
    )
    return FrameFacts(things, scene.picture_state(index), scene.facts.ground, light=view_light(scene, index))


def thing_place(scene: Scene, index: int) -> Places:
    """Where in the picture the first thing is that can be seen; () where none is."""
    seen = tuple(place for place in scene.thing_positions(index) if place is not None)
    return seen[:1]


def view_light(scene: Scene, index: int) -> Places:
    """Where the light of both halves of a view is in frame `index`, whatever is done to its picture; () in a scene of things."""
    return _light(replace(scene, picture_fault=None), index) if scene.view else ()


@lru_cache(maxsize=KEPT_PLACES)
def _light(scene: Scene, index: int) -> Places:
    return light_of(_small_renderer(scene).frame(index))


@lru_cache(maxsize=KEPT_SCENES)
def _small_renderer(scene: Scene) -> SceneRenderer:
    return SceneRenderer(scene, SMALL)
