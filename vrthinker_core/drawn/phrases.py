"""The teacher's words, in plain English: each is one token of the built-in judge's vocabulary."""

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


def better(label: int, *, settled: bool) -> str:
    """Return a dimension's conclusion; `settled` if no further frame will change it."""
    which = ("neither", "video 1", "video 2")[label]
    return f", so {which} is better{'' if settled else ' so far'}.\n"
