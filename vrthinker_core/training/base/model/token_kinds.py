"""Kinds of tokens of the teacher's texts: how much each counts in the loss, and which of them the gates look at."""

import re
from collections.abc import Iterator

import torch

from vrthinker_core.backends.local.text.tokenizer import SafeTokenizer
from vrthinker_core.dialects.reading.frame_facts import COLOURS, COUNT_WORDS, DIRECTIONS, SHAPES
from vrthinker_core.training.drawn_teacher import phrases
from vrthinker_core.training.frame_facts.frame_code import STATES

_RARE = "|".join(phrases.MOTION_FLAWS)
_DAMAGE = "|".join(STATES[1:])
_FACTS = "|".join((*COLOURS, *SHAPES, *DIRECTIONS, *COUNT_WORDS))
PATTERNS = {
    "rare motion": re.compile(rf" \w+, (?:{_RARE}); "),  # An entry whose motion is not as it usually is
    "doubtful": re.compile(rf" \w+, {phrases.ODDLY}; "),  # One that may be: so little is off that nobody sees it for sure
    "damage": re.compile(rf" (?:{_DAMAGE})(?:, [\w ]+)?; "),  # An entry whose picture is damaged
    "entry": re.compile(rf" (?:{'|'.join(STATES)})(?:, [\w ]+)?; "),
    "words": re.compile(rf" (?:{_FACTS})s?"),
    "place": re.compile(r" at \d+%|,\d+%"),
    "asked": re.compile(rf"{phrases.AS_ASKED}|{phrases.NOT_AS_ASKED}"),
    "wrong": re.compile(rf"(?:{'|'.join(phrases.FACT_WORDS)}) wrong"),
    "state": re.compile(rf" (?:{_DAMAGE}|{_RARE}|{phrases.ODDLY}|{phrases.SMOOTHLY}|clear)"),  # Of a video so far
    "better": re.compile(r", so (?:neither|video \d) is better(?: so far)?\.\n"),
    "digit": re.compile(r"[012]"),
}
WEIGHTS = {
    "rare motion": 4.0,
    "doubtful": 1.5,
    "damage": 2.0,
    "words": 1.5,
    "place": 0.6,
    "asked": 2.0,
    "wrong": 3.0,
    "state": 2.0,
    "better": 3.0,
    "digit": 1.5,
}
"""Of tokens of these kinds where they are learnt; of a token of several kinds their product, of others 1."""

TOLD_AGAIN = 0.3  # Of tokens in parentheses, which stand in the conversation already
SPREAD = 1.0  # Standard deviation, in per cent, of what is learnt in the place of one that is read from a frame


def kinds(tokenizer: SafeTokenizer) -> dict[str, torch.Tensor]:
    """Which tokens are of each kind, [vocabulary] each."""
    texts = _texts(tokenizer)
    return {name: torch.tensor([bool(pattern.fullmatch(text)) for text in texts]) for name, pattern in PATTERNS.items()}


def weights(tokenizer: SafeTokenizer) -> torch.Tensor:
    """What each token counts in the loss, [vocabulary]."""
    found = torch.ones(tokenizer.vocabulary_size)
    for name, members in kinds(tokenizer).items():
        found[members] *= WEIGHTS.get(name, 1.0)
    return found


def read_from_frames(tokenizer: SafeTokenizer) -> torch.Tensor:
    """Which tokens say what a frame shows, and nothing that follows from what was said before: [vocabulary]."""
    known = kinds(tokenizer)
    return known["entry"] | known["place"]


def parentheses(tokenizer: SafeTokenizer) -> torch.Tensor:
    """How many more parentheses each token opens than it closes, [vocabulary]."""
    return torch.tensor([text.count("(") - text.count(")") for text in _texts(tokenizer)])


def near_places(tokenizer: SafeTokenizer) -> torch.Tensor:
    """What is learnt where each token says a place, [vocabulary, vocabulary]: rows that sum to 1, of the places near it.

    That a place is nearly right is so learnt too, and each is learnt from its neighbours. Of other tokens the token itself.
    """
    shares = torch.eye(tokenizer.vocabulary_size)
    for axis in _axes(tokenizer):
        tokens = torch.tensor([axis[place] for place in sorted(axis)])
        steps = torch.arange(len(tokens))
        near = torch.exp(-0.5 * ((steps[:, None] - steps) / SPREAD) ** 2)
        shares[tokens[:, None], tokens] = near / near.sum(1, keepdim=True)
    return shares


def _axes(tokenizer: SafeTokenizer) -> Iterator[dict[int, int]]:
    """The tokens of places along either axis of a picture, by their per cent."""
    texts = _texts(tokenizer)
    for written in (r" at (\d+)%", r",(\d+)%"):
        found = [(re.fullmatch(written, text), token) for token, text in enumerate(texts)]
        yield {int(match[1]): token for match, token in found if match}


def _texts(tokenizer: SafeTokenizer) -> list[str]:
    return [tokenizer.token_bytes(token).decode("utf-8", "replace") for token in range(tokenizer.vocabulary_size)]
