"""Kinds of tokens of the teacher's texts: how much each counts in the loss, and which of them the gates look at."""

import re

import torch

from vrthinker_core.backends.local.text.tokenizer import SafeTokenizer
from vrthinker_core.training.base.frames.frame_code import COLOURS, SHAPES, STATES
from vrthinker_core.training.drawn_teacher import phrases

_RARE = "|".join(phrases.MOTION_FLAWS)
_DAMAGE = "|".join(STATES[1:])
_FACTS = "|".join((*COLOURS, *SHAPES, *phrases.DIRECTIONS, *phrases.COUNT_WORDS))
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
    "rare motion": 3.0,
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


def kinds(tokenizer: SafeTokenizer) -> dict[str, torch.Tensor]:
    """Which tokens are of each kind, [vocabulary] each."""
    texts = [tokenizer.token_bytes(token).decode("utf-8", "replace") for token in range(tokenizer.vocabulary_size)]
    return {name: torch.tensor([bool(pattern.fullmatch(text)) for text in texts]) for name, pattern in PATTERNS.items()}


def weights(tokenizer: SafeTokenizer) -> torch.Tensor:
    """What each token counts in the loss, [vocabulary]."""
    found = torch.ones(tokenizer.vocabulary_size)
    for name, members in kinds(tokenizer).items():
        found[members] *= WEIGHTS.get(name, 1.0)
    return found
