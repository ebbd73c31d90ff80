"""The words of the drawn world, and a reader of its judge's notes.

The first notes have a line for each video. A frame has a place, a picture and a motion:

    Video 1 shows a red ball moving right: #16 at 36%,28% clear; #48 at 52%,28% blocky, jumps; so ...

Later frames of both videos stand in one line, with the places in the frames beside in brackets:

    #32 at 52%,28% (#16 at 36%,28%, #48 at 68%,28%) clear, moves; video 2 at ... clear, moves; so ...

The judge learnt from a larger world and still writes its words: two things, several of one, a photo
as the ground, two places of a frame.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from vrthinker_core.types import Preference, Side, wording
from vrthinker_core.types.events import Started

COLOURS = {
    "red": (205, 40, 38),
    "green": (40, 140, 60),
    "blue": (44, 84, 205),
    "yellow": (235, 196, 40),
    "purple": (128, 56, 168),
    "orange": (236, 118, 28),
    "white": (236, 236, 232),
    "black": (30, 30, 34),
}
SHAPES = ("ball", "cube", "cylinder", "cone", "ring")
GROUNDS = ("wood", "tiles", "grass", "sand", "marble")
DIRECTIONS = {
    "right": (1, 0, "to the right"),
    "left": (-1, 0, "to the left"),
    "away": (0, -1, "away from the camera"),
    "closer": (0, 1, "towards the camera"),
}
"""Directions on the ground: (rightwards, towards the camera, in more words)."""
FACT_KINDS = ("colour", "shape", "direction")  # A video can be wrong in

CLEAR = "clear"  # A picture without damage
PICTURES = (CLEAR, "blurry", "noisy", "blocky", "dark", "bright", "banded")

MOVES, HARDLY, JUMPS, ODDLY = "moves", "hardly moves", "jumps", "moves oddly"
MOTIONS = (MOVES, HARDLY, JUMPS, ODDLY)
"""How a frame follows the frames that were seen around it; "" if none was."""

_PLACE = r"at \d{1,3}%,\d{1,3}%(?: and at \d{1,3}%,\d{1,3}%)?|with nothing to follow"
_BESIDE = rf"(?: \((?:#\d{{1,3}} (?:{_PLACE})(?:, )?){{1,2}}\))?"
_FACT = re.compile(
    rf"(#\d{{1,3}}|video 2) (?:{_PLACE}){_BESIDE} ({'|'.join(PICTURES)})"
    rf"(?:, ({'|'.join(MOTIONS)}))?; "
)
_HEAD = re.compile(
    r"^Video ([12]) shows ([a-z ]{1,120}): |^Video 1, then video 2: "
    r"|^Video 1, from #(\d{1,3}) on video 2: "
)
_COLOUR, _SHAPE = "|".join(COLOURS), "|".join(SHAPES)
_THING = rf"(?:an? (?:{_COLOUR}) (?:{_SHAPE})|(?:two|three|four) (?:{_COLOUR}) (?:{_SHAPE})s)"
_SCENE = re.compile(rf"{_THING}(?: and {_THING})? moving (?:{'|'.join(DIRECTIONS)})")
_GROUND = "|".join((*GROUNDS, "a photo"))
_ASKED = re.compile(  # A prompt of the drawn world, without "the" and punctuation
    rf"(?:video of )?(?:(?:on |a close shot of )?(?P<before>{_GROUND})(?: in sun| with)? )?"
    rf"(?P<things>{_THING}(?: and {_THING})?) (?:roll|mov|slid|drift|travel|glid|go)(?:s|es?|ing)? "
    r"(?P<way>(?:to )?(?:right|left)|away(?: from camera)?|closer|towards? camera)"
    rf"(?(before)| (?:over|across|on) (?P<after>{_GROUND}))(?: seen from above)?"
)

# "Colour red: video 1 red, as asked; video 2 blue, not as asked."
_COMPARED = re.compile(
    r"^(Second thing's )?(count|colour|shape|direction) ([a-z]+): "
    r"video 1 (?:none|([a-z]+), (?:not )?as asked); "
    r"video 2 (?:none|([a-z]+), (?:not )?as asked)\.$",
    re.IGNORECASE | re.MULTILINE,
)
COUNTED_FACTS = re.compile(r"\bhas [a-z]+ facts? wrong\b")  # Without saying which


@dataclass(frozen=True, slots=True)
class SceneFacts:
    """The facts of a prompt or scene: a solid moves on a ground."""

    colour: str
    shape: str
    direction: str
    ground: str

    @property
    def solid(self) -> str:
        """The solid in words: "an orange ball"."""
        return f"{'an' if self.colour[0] in 'aeiou' else 'a'} {self.colour} {self.shape}"

    @property
    def moving(self) -> str:
        """The solid and its motion: "an orange ball moving left"."""
        return f"{self.solid} moving {self.direction}"

    @property
    def scene(self) -> str:
        """All facts in words: "an orange ball moving left on sand"."""
        return f"{self.moving} on {self.ground}"

    def count_wrong(self, shown: SceneFacts) -> int:
        """Return how many facts of `shown` are not as wanted here."""
        return sum(getattr(self, kind) != getattr(shown, kind) for kind in FACT_KINDS)


@dataclass(frozen=True, slots=True)
class FrameFact:
    """The judge's note on one frame of one video."""

    frame: str  # The number that the judge gave; "" if none
    picture: str  # One of PICTURES
    motion: str  # One of MOTIONS, or ""


@dataclass(frozen=True, slots=True)
class VideoFacts:
    """The notes of a snapshot on one video."""

    side: Side
    shows: str  # "red cube left"; "" if not said
    frames: tuple[FrameFact, ...]


@dataclass(frozen=True, slots=True)
class PromptFact:
    """One fact of the prompt, and the judge's note on both videos."""

    is_second: bool  # Of the prompt's second thing
    kind: str  # "count", "colour", "shape" or "direction"
    wanted: str
    shown: tuple[str, str]  # In each video; "" for a thing that is missing


def read_prompt_facts(think: str) -> tuple[PromptFact, ...]:
    """Return the judge's comparison with the prompt, () if there is none."""
    return tuple(
        PromptFact(bool(line[1]), line[2].lower(), line[3], (line[4] or "", line[5] or ""))
        for line in _COMPARED.finditer(think[:20_000])
    )


def asked_scene(prompt: str) -> str:
    """Return a prompt's scene in the judge's words, "" if not drawn."""
    words = re.sub(r"[\s.,:;!]+", " ", prompt.lower()).split()
    asked = _ASKED.fullmatch(" ".join(word for word in words if word != "the"))
    if asked is None:
        return ""
    direction = next((each for each in DIRECTIONS if each in asked["way"]), "closer")
    return f"{asked['things']} moving {direction} on {asked['before'] or asked['after']}"


def outside_words(started: Started) -> tuple[str, str]:
    """Say why a run is outside its judge's scope, and the remedy."""
    if not all(clip is not None and clip.drawn for clip in started.clips):
        return wording.OUTSIDE_SCOPE, wording.OUTSIDE_ADVICE
    if asked_scene(started.prompt):
        return wording.ODD_NOTES, wording.ODD_NOTES_ADVICE
    return wording.ODD_PROMPT, wording.ODD_PROMPT_ADVICE


def reads_as_drawn(prompt: str, snapshot: str, frames: Mapping[Side, Sequence[str]]) -> bool:
    """Return whether first notes parse fully as a drawn scene.

    The notes must hold the prompt's scene, both videos, and each of the first `frames` in order.
    """
    scene, (asked, _, rest) = asked_scene(prompt), snapshot.strip().partition("\n")
    if not scene or asked != f"The prompt asks for {scene}." or len(rest.splitlines()) != len(Side):
        return False
    videos = [video for video in read_frame_facts(rest) if _SCENE.fullmatch(video.shows)]
    noted = {video.side: [fact.frame for fact in video.frames] for video in videos}
    return noted == {side: list(numbers) for side, numbers in frames.items()}


def read_frame_facts(snapshot: str) -> tuple[VideoFacts, ...]:
    """Return the facts of each video in a snapshot.

    Returns () if the snapshot holds anything else; 20,000 characters are read.
    """
    shows = dict.fromkeys(Side, "")
    found: dict[Side, list[FrameFact]] = {side: [] for side in Side}
    for line in snapshot[:20_000].splitlines():
        head = _HEAD.match(line)
        if head is None:
            if re.match(r"\s*Video [12]\b", line):
                return ()
            continue
        facts = list(_FACT.finditer(line, head.end()))
        rest = _FACT.sub("", line[head.end() :])
        if len(facts) > 128 or not re.fullmatch(r"so far[^\n]{0,200}", rest):
            return ()
        if head[1]:
            shows[Side(int(head[1]))] = head[2]
        number = ""
        for fact in facts:
            second = fact[1] == "video 2"
            number = number if second else fact[1][1:]
            second = second or bool(head[3] and int(number) >= int(head[3]))
            side = Side(int(head[1])) if head[1] else Side.SECOND if second else Side.FIRST
            found[side].append(FrameFact(number, fact[2], fact[3] or ""))
    if not any(found.values()):
        return ()
    return tuple(VideoFacts(side, shows[side], tuple(found[side])) for side in Side)


def prompt_reason(facts: Sequence[PromptFact], label: Preference | None) -> tuple[str, int | None]:
    """Return the reason for a TA label, and how many frames show it.

    "" if the facts do not support the label; None for all frames.
    """
    wrong = {side: [f for f in facts if f.shown[side - 1] != f.wanted] for side in Side}
    if label is Preference.TIE and facts and not any(wrong.values()):
        return "Both videos show what the prompt says.", None
    worse = Side(label).other if label else None
    if worse is None or len(wrong[worse]) <= len(wrong[worse.other]):
        return "", None
    fact = next(fact for fact in wrong[worse] if fact not in wrong[worse.other])
    return _wrong_fact(fact, facts, worse), None if fact.kind == "direction" else 1


def _wrong_fact(fact: PromptFact, facts: Sequence[PromptFact], side: Side) -> str:
    value, alike = fact.shown[side - 1], [x for x in facts if x.is_second == fact.is_second]
    said = {each.kind: each.shown[side - 1] if value else each.wanted for each in alike}
    plural = "" if said.get("count", "one") == "one" else "s"
    video, thing = f"Video {int(side)}", f"{said.get('shape', 'thing')}{plural}"
    if not value:
        return f"{video} shows no {said.get('colour', 'such')} {thing}."
    verbs = {"colour": "are" if plural else "is", "direction": "move" if plural else "moves"}
    if verb := verbs.get(fact.kind):
        return f"{video}'s {thing} {verb} {value}; the prompt says {fact.wanted}."
    return f"{video} shows {said.get('count', 'one')} {thing}; the prompt says {fact.wanted}."
