"""The words of the teacher, in plain English. The small model's vocabulary has one token for each of them."""

from collections.abc import Sequence
from types import MappingProxyType

from vrthinker_core.dialects.base import Dialect
from vrthinker_core.dialects.reading.frame_facts import COLOURS, COUNT_WORDS, DIRECTIONS, GROUNDS, SHAPES
from vrthinker_core.training.frame_facts.frame_code import STATES, Places

FACT_WORDS = tuple(
    f" {word}"
    for word in ("no fact", "one fact", *(f"{count} facts" for count in ("two", "three", "four", "five", "six", "seven", "eight")))
)
"""How many facts of a video are not as the prompt asks."""

PLAIN, MOVES, HARDLY, JUMPS, ODDLY = "", "moves", "hardly moves", "jumps", "moves oddly"
MOTIONS = (PLAIN, MOVES, HARDLY, JUMPS, ODDLY)
"""How a frame follows those around it that were seen. The first one of a video follows none."""
MOTION_FLAWS = (HARDLY, JUMPS)
SMOOTHLY = "moves smoothly"
PLACES = tuple(range(101))  # In per cent: what moves towards the camera moves by as little as 3 between two frames

ASKS, SHOWS, REAL_SCENE = "The prompt asks for", "Video {side} shows", " a real scene"
AND_LIGHT = " and its light"  # Of a scene without a thing, what is followed
BOTH_VIDEOS, ONE_LIST = "Video 1, then video 2: ", "Video 1, from #49 on video 2: "
SO_FAR, SO_FAR_OF = "so far", "so far video {side}:"
AS_ASKED, NOT_AS_ASKED, MISSING, NO_THING = ", as asked", ", not as asked", " none", "none"
BETTER = ("so neither is better", "so video 1 is better", "so video 2 is better")
"""By label."""
LEADS = ("neither leads", "video 1 leads", "video 2 leads")
TOPICS = (" on the prompt", " on the picture", " on the motion")
"""Of text alignment, visual quality and motion quality."""
MAY_HIDE = "Flaws may hide between these frames.\n"
NEAR = "Video {side} moves oddly near "
MORE = "More frames are needed.\n"
FACT_NAMES = MappingProxyType({"count": "Count", "colour": "Colour", "shape": "Shape", "direction": "Direction"})
SECOND_THING = "Second thing's "


def fact_name(key: str, number: int) -> str:
    """What a fact of the first or the second thing is called at the start of a line."""
    return f"{SECOND_THING}{key}" if number else FACT_NAMES[key]


def alignment_head(dialect: Dialect) -> str:
    """How the sentence on text alignment begins: it names the first frames, in `paired` each number once for both videos."""
    numbers = dict.fromkeys(dialect.frame_number(ref) for ref in dialect.opening_refs)
    return f"TA ({', '.join(f'#{number}' for number in numbers)}): video 1 has"


def better(label: int, *, settled: bool) -> str:
    """What a dimension's facts come to; `settled` when no further frame can change it or none will be seen."""
    return f", {BETTER[label]}{'' if settled else ' so far'}.\n"


def entry(number: str, places: Places, beside: Sequence[tuple[str, Places]], state: str, motion: str) -> str:
    """One frame: its number, where the thing or the light is, where it was in the frames beside, picture and motion."""
    return f"{number}{where(places)}{_among(beside)} {state}{f', {motion}' if motion else ''}; "


def _among(beside: Sequence[tuple[str, Places]]) -> str:
    """The frames that a motion is read from, once more: what is to be compared then stands side by side."""
    told = ", ".join(f"#{number}{where(places)}" for number, places in beside)
    return f" ({told})" if told else ""


def where(places: Places) -> str:
    """Places in the picture in per cent, rightwards and downwards: of one thing, or of the light of both halves."""
    return " and".join(_where(*place) for place in places) or " with nothing to follow"


def _where(right: float, down: float) -> str:
    across, below = (min(max(round(100 * share), 0), 100) for share in (right, down))
    return f" at {across}%,{below}%"


def name_thing(colour: str, shape: str, count: int) -> str:
    """A thing in words: " an orange ball", " three red balls"."""
    if count == 1:
        return f" {'an' if colour[0] in 'aeiou' else 'a'} {colour} {shape}"
    return f" {COUNT_WORDS[count - 1]} {colour} {shape}s"


def all_phrases() -> tuple[str, ...]:
    """Everything that is to be one token, but for words and numbers that stand alone."""
    sides = (1, 2)
    fixed = [ASKS, REAL_SCENE, AND_LIGHT, BOTH_VIDEOS, ONE_LIST, SO_FAR, AS_ASKED, NOT_AS_ASKED, MAY_HIDE, MORE]
    fixed += [
        "VQ: video 1",
        "MQ: video 1",
        ", video 2",
        ": video 1",
        "; video 2",
        "video 2",
        "; so far video 2:",
        " at ",
        f" {SMOOTHLY}",
    ]
    fixed += [f" {word}" for word in (*MOTION_FLAWS, ODDLY)] + [f"{count} wrong" for count in FACT_WORDS]
    fixed += [f"{start}{lead}{topic}" for lead in LEADS for start, topic in zip(("OA: ", ", ", ", "), TOPICS, strict=True)]
    fixed += [phrase.format(side=side) for phrase in (SHOWS, SO_FAR_OF, NEAR) for side in sides]
    fixed += [better(label, settled=settled) for label in range(3) for settled in (True, False)]
    entries = [f" {state}{f', {motion}' if motion else ''}; " for state in STATES for motion in MOTIONS]
    places = [f" at {place}%" for place in PLACES] + [f",{place}%" for place in PLACES] + [" with nothing", " to follow"]
    facts = [fact_name(key, number) for key in FACT_NAMES for number in (0, 1)]
    return (*fixed, *entries, *places, *facts)


def words() -> tuple[str, ...]:
    """Words that are to be one token with the blank before them."""
    shapes = [form for shape in SHAPES for form in (shape, f"{shape}s")]
    pools = (COLOURS, shapes, GROUNDS, STATES, DIRECTIONS, COUNT_WORDS)
    return tuple(f" {word}" for pool in pools for word in pool)
