"""Prompts for what a scene is to show, in several wordings."""

import numpy as np

from vrthinker_core.training.drawn_world.facts import SceneFacts, Thing

PROMPTS = (
    "{things} {roll} {direction} over {ground}.",
    "{things} {move} {direction} across {ground}.",
    "{things} gliding {direction} over {ground}.",
    "On {ground}, {things} {slide} {direction}.",
    "a close shot of {ground} with {things} moving {direction}",
    "{ground} in the sun: {things} {drift} {direction}.",
    "Video of {things} going {direction} on {ground}.",
    "{things} {travel} {direction} on {ground}, seen from above.",
)
PLACE_PROMPTS = (
    "A camera moves over a real scene.",
    "A clip of a real scene.",
    "Video of a real place.",
    "A real place, filmed in one take.",
)
"""Where there is no thing to look for."""
COUNT_WORDS = ("", "two", "three", "four")  # By count - 1; a single solid has an article
DIRECTION_WORDS = {
    "right": ("right", "to the right"),
    "left": ("left", "to the left"),
    "away": ("away", "away from the camera"),
    "closer": ("closer", "towards the camera"),
}
GROUND_WORDS = {"photo": "a photo"}  # Other grounds are called what they are
VERBS = ("roll", "move", "slide", "drift", "travel")


def write_prompt(rng: np.random.Generator, wanted: SceneFacts) -> str:
    """A prompt that asks for these facts, things in their order; all but the ground's light and the wording follow from them."""
    if not wanted.things:
        return str(rng.choice(PLACE_PROMPTS))
    rolls = all(thing.shape == "ball" for thing in wanted.things)
    wordings = PROMPTS if rolls else PROMPTS[1:]
    alone = len(wanted.things) == 1 and wanted.things[0].count == 1
    text = str(rng.choice(wordings)).format(
        things=" and ".join(name_thing(thing) for thing in wanted.things),
        direction=rng.choice(DIRECTION_WORDS[wanted.direction]),
        ground=GROUND_WORDS.get(wanted.ground, wanted.ground),
        **{verb: f"{verb}s" if alone else verb for verb in VERBS},
    )
    return text[0].upper() + text[1:] if text.endswith(".") else text


def name_thing(thing: Thing) -> str:
    """A thing in words: "an orange ball", "three red cubes"."""
    if thing.count == 1:
        return f"{'an' if thing.colour[0] in 'aeiou' else 'a'} {thing.colour} {thing.shape}"
    return f"{COUNT_WORDS[thing.count - 1]} {thing.colour} {thing.shape}s"
