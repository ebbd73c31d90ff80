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
from collections.abc import Iterable, Mapping, Sequence
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
# A video can be wrong in
FACT_KINDS = {"colour": tuple(COLOURS), "shape": SHAPES, "direction": tuple(DIRECTIONS)}

CLEAR = "clear"  # A picture without damage
PICTURES = (CLEAR, "blurry", "noisy", "blocky", "dark", "bright", "banded")

MOVES, HARDLY, JUMPS, ODDLY = "moves", "hardly moves", "jumps", "moves oddly"
MOTIONS = (MOVES, HARDLY, JUMPS, ODDLY)
"""How a frame follows the frames that were seen around it; "" if none was."""

_PLACE = r"(?:at \d{1,3}%,\d{1,3}%(?: and at \d{1,3}%,\d{1,3}%)?|with nothing to follow)"
_FACT = (
    rf"(?:#(\d{{1,3}})|video 2) {_PLACE}(?: \((?:#\d{{1,3}} {_PLACE}(?:, )?){{1,2}}\))? "
    rf"({'|'.join(PICTURES)})(?:, ({'|'.join(MOTIONS)}))?; "
)
_LINE = re.compile(
    r"Video (?:(?P<video>[12]) shows (?P<shows>[a-z ]{1,120})|1, then video 2"
    rf"|1, from #(?P<split>\d{{1,3}}) on video 2): (?P<facts>(?:{_FACT}){{0,128}})so far[^%]{{0,200}}"
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
    def scene(self) -> str:
        """All facts in words: "an orange ball moving left on sand"."""
        return f"{self.solid} moving {self.direction} on {self.ground}"


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
        if not re.match(r"\s*Video [12]\b", line):
            continue
        if (read := _LINE.fullmatch(line)) is None:
            return ()
        if read["video"]:
            shows[Side(int(read["video"]))] = read["shows"]
        number = ""
        for given, picture, motion in re.findall(_FACT, read["facts"]):
            number = given or number
            second = not given or bool(read["split"] and int(number) >= int(read["split"]))
            side = Side(int(read["video"] or 1 + second))
            found[side].append(FrameFact(number, picture, motion))
    if not any(found.values()):
        return ()
    return tuple(VideoFacts(side, shows[side], tuple(found[side])) for side in Side)


def prompt_reason(thoughts: Iterable[str], label: Preference | None) -> tuple[str, int | None]:
    """Return the reason for a TA label, and how many frames show it.

    The first of the thoughts that compares facts counts. "" if it does not support the label; None
    for all frames.
    """
    read = next(filter(None, (_COMPARED.findall(each[:20_000]) for each in thoughts)), [])
    # (wanted, shown by video 1, by video 2), "" for a thing that is missing
    facts = {(bool(second), kind.lower()): tuple(values) for second, kind, *values in read}
    wrong = {side: [key for key, fact in facts.items() if fact[side] != fact[0]] for side in Side}
    if label is Preference.TIE and facts and not any(wrong.values()):
        return "Both videos show what the prompt says.", None
    worse = Side(label).other if label else None
    if worse is None or len(wrong[worse]) <= len(wrong[worse.other]):
        return "", None
    second, kind = next(key for key in wrong[worse] if key not in wrong[worse.other])
    wanted, value = facts[second, kind][0], facts[second, kind][worse]
    said = {key[1]: fact[worse if value else 0] for key, fact in facts.items() if key[0] == second}
    count = said.get("count", "one")
    plural = "" if count == "one" else "s"
    video, thing = f"Video {int(worse)}", f"{said.get('shape', 'thing')}{plural}"
    verbs = {"colour": "are" if plural else "is", "direction": "move" if plural else "moves"}
    if not value:
        reason = f"{video} shows no {said.get('colour', 'such')} {thing}."
    elif kind in verbs:
        reason = f"{video}'s {thing} {verbs[kind]} {value}; the prompt says {wanted}."
    else:
        reason = f"{video} shows {count} {thing}; the prompt says {wanted}."
    return reason, None if kind == "direction" else 1
