"""Frame facts: the built-in judge's notes on each frame, as table rows.

A line of its snapshot:

    Video 1: 21 20 7 clear first: clear smooth 32 18 7 blurry leap: blurry leap

The line holds the frame, the place of the solid (two numbers), and the picture and motion of that
frame. Behind the colon stand picture and motion of the video so far. In the first turn every pair
has the same frames: the line leaves out their numbers and says what the video shows.

The same in plain English:

    Video 1 shows a red ball moving right: #16 at 36%,28% clear; #48 at 52%,28% blocky, jumps; so
    far ...

Later frames stand in one line for both videos. They are either pairs, or one list that says from
which number on the frames are of video 2:

    #32 at ... clear, moves; video 2 at ... clear, moves; so far ...

Brackets behind a place hold the thing's place in the frames beside:

    #32 at 52%,28% (#16 at 36%,28%, #48 at 68%,28%) clear, moves;
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from vrthinker_core.types import Side

PICTURES = ("clear", "blurry", "noisy", "blocky", "dark", "bright", "banded")
MOTIONS = ("first", "go", "stay", "leap", "odd")
COLOURS = ("red", "green", "blue", "yellow", "purple", "orange", "white", "black")
SHAPES = ("ball", "cube", "cylinder", "cone", "ring")
GROUNDS = ("wood", "tiles", "grass", "sand", "marble", "photo")
DIRECTIONS = ("right", "left", "away", "closer")
COUNT_WORDS = ("one", "two", "three", "four")

_LINE = re.compile(r"^[^\S\n]*Video ([12]):\s*(.*)$", re.MULTILINE)
_PICTURE, _MOTION = "|".join(PICTURES), "|".join(MOTIONS[:-1])
_FACT = re.compile(
    rf"(?:(\d{{1,3}}) )?(\d{{1,2}}) (\d{{1,2}}) ({_PICTURE}) ({_MOTION})(?:: \w+ \w+)?(?=\s|$)"
)
_SHOWS = re.compile(r"([a-z]+(?: [a-z]+){0,7})\.\s*")
_SO_FAR = re.compile(r":\s*\w+ \w+\s*$")
_PLAIN_MOTIONS = {
    "": "first",
    "moves": "go",
    "hardly moves": "stay",
    "jumps": "leap",
    "moves oddly": "odd",
}
_PLACE = r"at \d{1,3}%,\d{1,3}%(?: and at \d{1,3}%,\d{1,3}%)?|with nothing to follow"
_BESIDE = rf"(?: \((?:#\d{{1,3}} (?:{_PLACE})(?:, )?){{1,2}}\))?"
_PLAIN_FACT = re.compile(
    rf"(#\d{{1,3}}|video 2) (?:{_PLACE}){_BESIDE} ({_PICTURE})"
    rf"(?:, ({'|'.join(filter(None, _PLAIN_MOTIONS))}))?; "
)
_PLAIN_HEAD = re.compile(
    r"^Video ([12]) shows ([a-z ]{1,120}): |^Video 1, then video 2: "
    r"|^Video 1, from #(\d{1,3}) on video 2: "
)
_COLOUR, _SHAPE = "|".join(COLOURS), "|".join(SHAPES)
_THING = (
    rf"(?:an? (?:{_COLOUR}) (?:{_SHAPE})"
    rf"|(?:{'|'.join(COUNT_WORDS[1:])}) (?:{_COLOUR}) (?:{_SHAPE})s)"
)
_SCENE = re.compile(rf"{_THING}(?: and {_THING})? moving (?:{'|'.join(DIRECTIONS)})")
_ASKED = re.compile(rf"The prompt asks for {_SCENE.pattern} on (?:a )?(?:{'|'.join(GROUNDS)})\.")
_OF_A_VIDEO = re.compile(r"\s*Video [12]\b")
_PLAIN_SO_FAR = re.compile(r"so far[^\n]{0,200}$")
_MAX_TEXT = 20_000
_MAX_FACTS = 64  # Of one video


@dataclass(frozen=True, slots=True)
class FrameFact:
    """The judge's note on one frame of one video."""

    side: Side
    frame: str  # The number that the judge gave; "" if none
    picture: str  # One of PICTURES
    motion: str  # One of MOTIONS: how the frame follows the frame before


@dataclass(frozen=True, slots=True)
class VideoFacts:
    """The notes of a snapshot on one video."""

    side: Side
    shows: str  # "red cube left"; "" if not said
    frames: tuple[FrameFact, ...]


def read_frame_facts(snapshot: str, shown: Sequence[str] = ()) -> tuple[VideoFacts, ...]:
    """Return the facts of each video in a snapshot.

    Returns () if the snapshot holds anything else. `shown` holds the numbers of each video's
    frames, for lines without numbers.
    """
    if plain := _read_plain(snapshot[:_MAX_TEXT]):
        return plain
    lines = [(Side(int(match[1])), match[2]) for match in _LINE.finditer(snapshot[:_MAX_TEXT])]
    videos = [_video(side, text, shown) for side, text in lines]
    whole = [video for video in videos if video is not None and video.frames]
    return (
        tuple(whole)
        if len(whole) == len(lines) == len({side for side, _ in lines}) == len(Side)
        else ()
    )


def reads_as_drawn(snapshot: str, frames: Mapping[Side, Sequence[str]]) -> bool:
    """Return whether first notes parse fully as a drawn scene.

    The notes must hold the prompt, both videos, and each of the first `frames` in order.
    """
    asked, _, rest = snapshot.strip().partition("\n")
    facts = (
        _read_plain(rest) if _ASKED.fullmatch(asked) and len(rest.splitlines()) == len(Side) else ()
    )
    noted = {
        video.side: [fact.frame for fact in video.frames]
        for video in facts
        if _SCENE.fullmatch(video.shows)
    }
    return noted == {side: list(numbers) for side, numbers in frames.items()}


def _video(side: Side, text: str, shown: Sequence[str]) -> VideoFacts | None:
    """Return the facts of one line; None if there is anything else."""
    subject = _SHOWS.match(text)
    rest = text[subject.end() :] if subject else text
    found = list(_FACT.finditer(rest))
    if len(found) > _MAX_FACTS or _SO_FAR.sub("", _FACT.sub("", rest)).strip():
        return None
    numbers: Iterable[str] = shown if len(shown) == len(found) else ("",) * len(found)
    facts = (
        FrameFact(side, match[1] or number, match[4], match[5])
        for match, number in zip(found, numbers, strict=True)
    )
    return VideoFacts(side, subject[1] if subject else "", tuple(facts))


def _read_plain(snapshot: str) -> tuple[VideoFacts, ...]:
    """Return the facts of a plain-English snapshot; () for any other."""
    shows = dict.fromkeys(Side, "")
    found: dict[Side, list[FrameFact]] = {side: [] for side in Side}
    for line in snapshot.splitlines():
        head = _PLAIN_HEAD.match(line)
        if head is None:
            if _OF_A_VIDEO.match(line):
                return ()
            continue
        facts = list(_PLAIN_FACT.finditer(line, head.end()))
        if len(facts) > 2 * _MAX_FACTS or not _PLAIN_SO_FAR.fullmatch(
            _PLAIN_FACT.sub("", line[head.end() :])
        ):
            return ()
        if head[1]:
            shows[Side(int(head[1]))] = head[2]
        number = ""
        for fact in facts:
            second = fact[1] == "video 2"
            number = number if second else fact[1][1:]
            side = (
                Side(int(head[1]))
                if head[1]
                else Side.SECOND
                if second or (head[3] and int(number) >= int(head[3]))
                else Side.FIRST
            )
            found[side].append(FrameFact(side, number, fact[2], _PLAIN_MOTIONS[fact[3] or ""]))
    return (
        tuple(VideoFacts(side, shows[side], tuple(found[side])) for side in Side)
        if any(found.values())
        else ()
    )
