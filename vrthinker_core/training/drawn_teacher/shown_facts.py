"""What a prompt asks for and what a video shows, in sentences: things, their number and the direction in which they move."""

from collections.abc import Sequence
from itertools import permutations

from vrthinker_core.dialects.reading.frame_facts import COUNT_WORDS
from vrthinker_core.training.drawn_teacher import phrases
from vrthinker_core.training.drawn_world.scenes import DrawnPair, SceneFacts
from vrthinker_core.types import Side

Words = tuple[str, str, str]  # Count, colour and shape of a thing


def restate(wanted: SceneFacts) -> str:
    """What the prompt asks for."""
    if not _things(wanted):
        return f"{phrases.ASKS}{phrases.REAL_SCENE}.\n"
    ground = "a photo" if wanted.ground == "photo" else wanted.ground
    return f"{phrases.ASKS}{_named(wanted)} on {ground}.\n"


def describe(side: Side, shown: SceneFacts) -> str:
    """What a video shows."""
    return phrases.SHOWS.format(side=int(side)) + (
        _named(shown) if _things(shown) else phrases.REAL_SCENE + phrases.AND_LIGHT
    )


def compare_facts(pair: DrawnPair) -> str:
    """Fact by fact, what the prompt asks for and what both videos show; things are held against those they fit best."""
    wanted = _things(pair.wanted)
    shown = [_matched(wanted, _things(scene.facts)) for scene in pair.scenes.values()]
    lines = []
    for number, thing in enumerate(wanted):
        for place, key in enumerate(("count", "colour", "shape")):
            values = [
                None if (found := things[number]) is None else found[place] for things in shown
            ]
            lines.append(_line(phrases.fact_name(key, number), thing[place], values))
    if wanted:
        directions = [scene.facts.direction for scene in pair.scenes.values()]
        lines.append(_line(phrases.fact_name("direction", 0), pair.wanted.direction, directions))
    return "".join(lines)


def _things(facts: SceneFacts) -> list[Words]:
    return [(COUNT_WORDS[thing.count - 1], thing.colour, thing.shape) for thing in facts.things]


def _named(facts: SceneFacts) -> str:
    counts = COUNT_WORDS
    things = " and".join(
        phrases.name_thing(colour, shape, 1 + counts.index(count))
        for count, colour, shape in _things(facts)
    )
    return f"{things} moving {facts.direction}"


def _matched(wanted: list[Words], shown: list[Words]) -> list[Words | None]:
    """Of what is shown, what stands for each wanted thing: as it fits best; None for one that is missing."""
    padded = [*shown, *[None] * (len(wanted) - len(shown))]
    return list(
        min(permutations(padded, len(wanted)), key=lambda some: sum(map(_difference, wanted, some)))
    )


def _difference(wanted: Words, shown: Words | None) -> int:
    return 1 if shown is None else sum(a != b for a, b in zip(wanted, shown, strict=True))


def _line(name: str, wanted: str, shown: Sequence[str | None]) -> str:
    said = [
        phrases.MISSING if each is None else f" {each}{_fits(each == wanted)}" for each in shown
    ]
    return f"{name} {wanted}: video 1{said[0]}; video 2{said[1]}.\n"


def _fits(fits: bool) -> str:
    return phrases.AS_ASKED if fits else phrases.NOT_AS_ASKED
