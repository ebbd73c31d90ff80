"""The words of the teacher, in plain English. The built-in judge's vocabulary has one token for each of them."""

from collections.abc import Sequence
from types import MappingProxyType

from vrthinker_core.protocols.base import PromptProtocol
from vrthinker_core.protocols.frame_facts import COUNT_WORDS

Places = tuple[tuple[float, float], ...]
"""Places in a picture, each 0..1 rightwards and downwards."""

FACT_WORDS = tuple(
    f" {word}"
    for word in (
        "no fact",
        "one fact",
        *(f"{count} facts" for count in ("two", "three", "four", "five", "six", "seven", "eight")),
    )
)
"""How many facts of a video are not as the prompt asks."""

PLAIN, MOVES, HARDLY, JUMPS, ODDLY = "", "moves", "hardly moves", "jumps", "moves oddly"
"""How a frame follows those around it that were seen. The first one of a video follows none."""
MOTION_FLAWS = (HARDLY, JUMPS)
SMOOTHLY = "moves smoothly"

ASKS, SHOWS, REAL_SCENE = "The prompt asks for", "Video {side} shows", " a real scene"
AND_LIGHT = " and its light"  # Of a scene without a thing, what is followed
BOTH_VIDEOS, ONE_LIST = "Video 1, then video 2: ", "Video 1, from #49 on video 2: "
SO_FAR, SO_FAR_OF = "so far", "so far video {side}:"
AS_ASKED, NOT_AS_ASKED, MISSING = ", as asked", ", not as asked", " none"
BETTER = ("so neither is better", "so video 1 is better", "so video 2 is better")
"""By label."""
LEADS = ("neither leads", "video 1 leads", "video 2 leads")
TOPICS = (" on the prompt", " on the picture", " on the motion")
"""Of text alignment, visual quality and motion quality."""
MAY_HIDE = "Flaws may hide between these frames.\n"
NEAR = "Video {side} moves oddly near "
MORE = "More frames are needed.\n"
FACT_NAMES = MappingProxyType(
    {"count": "Count", "colour": "Colour", "shape": "Shape", "direction": "Direction"}
)
SECOND_THING = "Second thing's "


def fact_name(key: str, number: int) -> str:
    """What a fact of the first or the second thing is called at the start of a line."""
    return f"{SECOND_THING}{key}" if number else FACT_NAMES[key]


def alignment_head(protocol: PromptProtocol) -> str:
    """How the sentence on text alignment begins: it names the first frames, in `paired` each number once for both videos."""
    numbers = dict.fromkeys(protocol.frame_number(ref) for ref in protocol.opening_refs)
    return f"TA ({', '.join(f'#{number}' for number in numbers)}): video 1 has"


def better(label: int, *, settled: bool) -> str:
    """What a dimension's facts come to; `settled` when no further frame can change it or none will be seen."""
    return f", {BETTER[label]}{'' if settled else ' so far'}.\n"


def entry(
    number: str, places: Places, beside: Sequence[tuple[str, Places]], state: str, motion: str
) -> str:
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
