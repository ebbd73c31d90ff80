"""The teacher's words, in plain English: each is one token of the built-in judge's vocabulary."""

from collections.abc import Sequence

from vrthinker_core.protocols.base import PromptProtocol

Places = tuple[tuple[float, float], ...]
"""Places in a picture, each 0..1 rightwards and downwards."""

_COUNTS = ("two", "three", "four", "five", "six", "seven", "eight")
FACT_WORDS = (" no fact", " one fact", *(f" {count} facts" for count in _COUNTS))
"""How many facts of a video are not as the prompt asks."""

PLAIN, MOVES, HARDLY, JUMPS, ODDLY = "", "moves", "hardly moves", "jumps", "moves oddly"
"""How a frame follows those around it that were seen. The first one of a video follows none."""
MOTION_FLAWS = (HARDLY, JUMPS)
SMOOTHLY = "moves smoothly"

REAL_SCENE = " a real scene"
BOTH_VIDEOS, ONE_LIST = "Video 1, then video 2: ", "Video 1, from #49 on video 2: "
AS_ASKED, NOT_AS_ASKED, MISSING = ", as asked", ", not as asked", " none"
# By label
LEADS = ("neither leads", "video 1 leads", "video 2 leads")
# Of text alignment, visual quality and motion quality
TOPICS = (" on the prompt", " on the picture", " on the motion")
MAY_HIDE = "Flaws may hide between these frames.\n"
MORE = "More frames are needed.\n"


def fact_name(key: str, number: int) -> str:
    """Return the name of a fact at the start of a line."""
    return f"Second thing's {key}" if number else key.capitalize()


def alignment_head(protocol: PromptProtocol) -> str:
    """Begin the sentence on text alignment, naming the first frames once."""
    numbers = dict.fromkeys(protocol.frame_number(ref) for ref in protocol.opening_refs)
    return f"TA ({', '.join(f'#{number}' for number in numbers)}): video 1 has"


def better(label: int, *, settled: bool) -> str:
    """Return a dimension's conclusion; `settled` if no further frame will change it."""
    which = ("neither", "video 1", "video 2")[label]
    return f", so {which} is better{'' if settled else ' so far'}.\n"


def entry(
    number: str, places: Places, beside: Sequence[tuple[str, Places]], state: str, motion: str
) -> str:
    """Describe one frame: number, places, picture and motion.

    The places in the frames `beside` are repeated, so that what is compared stands side by side.
    """
    told = ", ".join(f"#{near}{where(there)}" for near, there in beside)
    around = f" ({told})" if told else ""
    return f"{number}{where(places)}{around} {state}{f', {motion}' if motion else ''}; "


def where(places: Places) -> str:
    """Return places of a thing, or of light, in per cent."""
    shares = [[min(max(round(100 * share), 0), 100) for share in place] for place in places]
    return " and".join(f" at {x}%,{y}%" for x, y in shares) or " with nothing to follow"
