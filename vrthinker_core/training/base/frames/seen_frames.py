"""What a frame of the drawn world shows, as the frame code says it: things by their place in the picture, its state, the ground."""

from vrthinker_core.training.base.frames.frame_code import FrameFacts, SeenThing
from vrthinker_core.training.drawn_world.moving_scene import Scene


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
