"""A judge's sentence about one dimension, and the frames it names."""

import re
from collections.abc import Collection, Iterable, Iterator

from vrthinker_core.types import Dimension

# A point inside a number ends no sentence
_SENTENCE = re.compile(r"[^.!?\n]+(?:[.!?](?!\s|$)[^.!?\n]*)*[.!?]?")
_NAMES = {
    Dimension.TA: (r"\bTA\b", r"text[- ]alignment|\balign|\bprompt", r"\bdescri(?:be|ption)"),
    Dimension.VQ: (
        r"\bVQ\b",
        r"visual[- ]quality|picture quality|image quality",
        r"(?<!motion )(?<!motion-)\bquality|\bart[ei]fact|\bblur|\bsharp|\bnois[ey]|\bclear",
    ),
    Dimension.MQ: (
        r"\bMQ\b",
        r"motion[- ]quality|\bmotion\b|\bmovement",
        r"\bsmooth|\bjerk|\bflicker|\bjitter|\bjumps?\b|\bstutter|\bmoves?\b",
    ),
    Dimension.OA: (
        r"\bOA\b",
        r"\boverall\b|\bin all\b",
        r"\b(?:every|each|all(?: four)?) dimensions?\b",
    ),
}
"""Words that show that a sentence is about a dimension, the surest first."""
_SURENESS = {
    dimension: [re.compile(each, re.IGNORECASE) for each in words]
    for dimension, words in _NAMES.items()
}
_FRAMES = re.compile(
    r"(?:\bframes?|\bind(?:ex|ices)|#)\s*((?:\d{1,9}(?:\s*(?:,|and|to|-|–|&|#)\s*)*)+)",
    re.IGNORECASE,
)
_BARE = re.compile(
    r"(?<!\bvideo )(?<!\bvideos )(?<!\bvideo \d and )(?<!\bvideos \d and )(?<![\w.,:%=/-])\d{1,9}"
    r"(?![\w%=/:]|[.,]\d|\s(?:%|px|s|ms|fps|pixels?|seconds?|percent|frames?|times?)(?!\w))",
    re.IGNORECASE,
)
"""A number that stands alone: no part of a label, a time, a share or a video's name."""
_MAX_TEXT = 20_000  # Characters that are read, from the end of a reply
_MAX_SENTENCE = 400


def find_sentence(dimension: Dimension, texts: Iterable[str]) -> str:
    """Return the last sentence about the dimension, or "".

    The first text with such a sentence counts. A sentence with the dimension's abbreviation ("VQ:
    ...") comes first, then one with its name, then one with a word about it.
    """
    return next(
        (sentence for text in texts for sentence in _sentences_about(dimension, text[-_MAX_TEXT:])),
        "",
    )


def frame_numbers(sentence: str, shown: Collection[str]) -> list[int]:
    """Return the frames among those `shown` that a sentence names.

    Examples: "frames 10, 60 and 90", "#16", "between 14 and 18".
    """
    called = [
        (match.start(1) + digits.start(), digits[0])
        for match in _FRAMES.finditer(sentence)
        for digits in _digits(match[1])
    ]
    bare = [(match.start(), match[0]) for match in _BARE.finditer(sentence)]
    numbers = [str(int(digits)) for _, digits in sorted({*called, *bare})]
    return [int(number) for number in dict.fromkeys(numbers) if number in shown]


def _digits(text: str) -> Iterator[re.Match[str]]:
    return re.finditer(r"\d+", text)


def _sentences_about(dimension: Dimension, text: str) -> Iterator[str]:
    sentences = [sentence.strip() for sentence in reversed(_SENTENCE.findall(text))]
    for expression in _SURENESS[dimension]:
        yield from (
            sentence[:_MAX_SENTENCE] for sentence in sentences if expression.search(sentence)
        )
