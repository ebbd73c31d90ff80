"""What a judge wrote about one dimension: its own sentence, and the frames that this names."""

import re
from collections.abc import Iterable, Iterator

from vrthinker_core.types import Dimension

_SENTENCE = re.compile(r"[^.!?\n]+(?:[.!?](?!\s|$)[^.!?\n]*)*[.!?]?")  # a point inside a number ends none
_NAMED = {
    Dimension.TA: re.compile(r"\bTA\b|text[- ]alignment|\balign|\bprompt", re.IGNORECASE),
    Dimension.VQ: re.compile(r"\bVQ\b|visual[- ]quality|picture quality|image quality", re.IGNORECASE),
    Dimension.MQ: re.compile(r"\bMQ\b|motion[- ]quality|\bmotion\b|\bmovement", re.IGNORECASE),
    Dimension.OA: re.compile(r"\bOA\b|\boverall\b|in all\b", re.IGNORECASE),
}
_FRAMES = re.compile(r"(?:\bframes?|\bind(?:ex|ices)|#)\s*((?:\d{1,9}(?:\s*(?:,|and|to|-|–|&|#)\s*)*)+)", re.IGNORECASE)
_MAX_TEXT = 20_000  # characters of a reply that are looked through, from its end
_MAX_SENTENCE = 400


def find_sentence(dimension: Dimension, texts: Iterable[str]) -> str:
    """The last sentence about the dimension in the first text that has one; "" where none has.

    A sentence with the dimension's abbreviation ("VQ: …") comes before one that only has a word of it.
    """
    return next((sentence for text in texts for sentence in _sentences_about(dimension, text[-_MAX_TEXT:])), "")


def frame_numbers(sentence: str) -> list[int]:
    """The frames that a sentence names, in its order: "frames 10, 60 and 90", "index 3", "#16"."""
    return [int(digits) for match in _FRAMES.finditer(sentence) for digits in re.findall(r"\d+", match[1])]


def _sentences_about(dimension: Dimension, text: str) -> Iterator[str]:
    about = [sentence for sentence in map(str.strip, _SENTENCE.findall(text)) if _NAMED[dimension].search(sentence)]
    about.sort(key=lambda sentence: re.search(rf"\b{dimension.value}\b", sentence) is not None)
    return (sentence[:_MAX_SENTENCE] for sentence in reversed(about))
