"""Frame facts: what the built-in judge notes of each frame in its fixed words, read into rows that can be shown as a table.

A line of its snapshot is `Video 1: 21 20 7 clear first: clear smooth 32 18 7 blurry leap: blurry leap`: the frame, where the solid
stands (two numbers), the picture and the motion of that frame, and, behind the colon, picture and motion of the video so far. In
the first turn, where every pair has the same frames, the line leaves out their numbers and says what the video shows.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from vrthinker_core.types import Side

PICTURES = ("clear", "blurry", "noisy", "blocky", "dark", "bright", "banded")
MOTIONS = ("first", "go", "stay", "leap")

_LINE = re.compile(r"^\s*Video ([12]):\s*(.*)$", re.MULTILINE)
_PICTURE, _MOTION = "|".join(PICTURES), "|".join(MOTIONS)
_FACT = re.compile(rf"(?:(\d{{1,3}}) )?(\d{{1,2}}) (\d{{1,2}}) ({_PICTURE}) ({_MOTION})(?:: \w+ \w+)?(?=\s|$)")
_SHOWS = re.compile(r"([a-z]+(?: [a-z]+){0,7})\.\s*")
_SO_FAR = re.compile(r":\s*\w+ \w+\s*$")
_MAX_TEXT = 20_000
_MAX_FACTS = 64  # of one video


@dataclass(frozen=True, slots=True)
class FrameFact:
    """What was noted of one frame of one video."""

    side: Side
    frame: str  # the number that the judge gave; "" where it gave none
    picture: str  # one of PICTURES
    motion: str  # one of MOTIONS: how the frame follows the one before


@dataclass(frozen=True, slots=True)
class VideoFacts:
    """What a snapshot says of one video."""

    side: Side
    shows: str  # "red cube left"; "" where it does not say
    frames: tuple[FrameFact, ...]


def read_frame_facts(snapshot: str, shown: Sequence[str] = ()) -> tuple[VideoFacts, ...]:
    """The facts of each video; () for a snapshot that holds anything else. `shown`: the numbers of the frames of each video."""
    lines = [(Side(int(match[1])), match[2]) for match in _LINE.finditer(snapshot[:_MAX_TEXT])]
    videos = [_video(side, text, shown) for side, text in lines]
    whole = [video for video in videos if video is not None and video.frames]
    return tuple(whole) if len(whole) == len(lines) == len({side for side, _ in lines}) == len(Side) else ()


def _video(side: Side, text: str, shown: Sequence[str]) -> VideoFacts | None:
    """None where the text holds anything besides facts."""
    subject = _SHOWS.match(text)
    rest = text[subject.end() :] if subject else text
    found = list(_FACT.finditer(rest))
    if len(found) > _MAX_FACTS or _SO_FAR.sub("", _FACT.sub("", rest)).strip():
        return None
    numbers: Iterable[str] = shown if len(shown) == len(found) else ("",) * len(found)
    facts = (FrameFact(side, match[1] or number, match[4], match[5]) for match, number in zip(found, numbers, strict=True))
    return VideoFacts(side, subject[1] if subject else "", tuple(facts))
