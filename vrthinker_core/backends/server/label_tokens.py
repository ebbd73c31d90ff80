"""Label tokens from the `top_logprobs` of a server: how likely each of 0, 1 and 2 was where a label's digit stands."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from vrthinker_core.dialects.reading.labels import mentioned_digits
from vrthinker_core.types.messages import LabelToken

_ALL_DIGITS = re.compile(r"[0-9]")


@dataclass(frozen=True, slots=True)
class TokenChoice:
    """A token that was written, and the log probabilities of the likeliest tokens in its place."""

    text: str
    alternatives: Mapping[str, float]


def label_tokens(text: str, choices: Sequence[TokenChoice]) -> tuple[LabelToken, ...]:
    """The labels' digits in `text`, with the probabilities of 0, 1 and 2 in their place. `choices`: every token that holds a digit.

    Tokens are matched to the text by their digits alone, because a server may write half a character or a special token otherwise
    than the text has it; where even the digits differ, nothing is known. A token may hold more than its digit (" 1", "=1"): then
    what counts is the same token with another digit. An alternative that the server does not list was less likely than all it does.
    """
    places = [match.start() for match in _ALL_DIGITS.finditer(text)]
    if "".join(
        digit for choice in choices for digit in _ALL_DIGITS.findall(choice.text)
    ) != "".join(text[at] for at in places):
        return ()
    wanted = mentioned_digits(text)
    found, position = [], 0
    for choice in choices:
        digits = _ALL_DIGITS.findall(choice.text)
        if len(digits) == 1 and choice.alternatives and places[position] in wanted:
            found.append(LabelToken(places[position], _probabilities(choice, digits[0])))
        position += len(digits)
    return tuple(found)


def _probabilities(choice: TokenChoice, digit: str) -> tuple[float, float, float]:
    found = [
        choice.alternatives.get(choice.text.replace(digit, other), -math.inf) for other in "012"
    ]
    shares = [math.exp(min(0.0, value)) for value in found]
    first, second, third = (share / max(1.0, sum(shares)) for share in shares)  # a server rounds
    return first, second, third


def is_log_probability(value: object) -> bool:
    """A server writes `null` for one that is minus infinity, which JSON has no number for."""
    return isinstance(value, int | float) and not math.isnan(value)


def has_digit(text: str) -> bool:
    """It must be among the `choices` of `label_tokens`."""
    return _ALL_DIGITS.search(text) is not None
