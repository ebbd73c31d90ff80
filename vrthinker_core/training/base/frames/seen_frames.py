"""What a frame of the drawn world shows, as the frame code says it: things by their place in the picture, its state, the ground."""

from dataclasses import replace
from functools import lru_cache

from vrthinker_core.training.base.frames.frame_code import Floats, FrameFacts, SeenThing, fingerprints, print_change
from vrthinker_core.training.drawn_world.moving_scene import Scene
from vrthinker_core.training.drawn_world.scene_renderer import SceneRenderer

SMALL = 32  # Pixels per side of the pictures that fingerprints are taken of
KEPT_SCENES, KEPT_PRINTS = 64, 1024


def seen_facts(scene: Scene, index: int) -> FrameFacts:
    """What frame `index` of the scene shows."""
    places = scene.thing_positions(index)
    things = tuple(
        None if place is None else SeenThing(thing.colour, thing.shape, thing.count, *place)
        for thing, place in zip(scene.facts.things, places, strict=True)
    )
    return FrameFacts(things, scene.picture_state(index), scene.facts.ground)


def followed_place(scene: Scene, index: int) -> tuple[float, float] | None:
    """Where in the picture the first thing is that can be seen; None where there is none."""
    return next((place for place in scene.thing_positions(index) if place is not None), None)


def view_change(scene: Scene, before: int, after: int) -> float:
    """How far a scene that shows no thing changes from one frame to another, 0..1, whatever is done to its picture."""
    undamaged = replace(scene, picture_fault=None)
    return print_change(view_prints(undamaged, before), view_prints(undamaged, after))


@lru_cache(maxsize=KEPT_PRINTS)
def view_prints(scene: Scene, index: int) -> Floats:
    """The fingerprints of frame `index` of a scene that shows no thing, and whose picture is not damaged."""
    prints = fingerprints(_small_renderer(scene).frame(index))
    prints.setflags(write=False)
    return prints


@lru_cache(maxsize=KEPT_SCENES)
def _small_renderer(scene: Scene) -> SceneRenderer:
    return SceneRenderer(scene, SMALL)
