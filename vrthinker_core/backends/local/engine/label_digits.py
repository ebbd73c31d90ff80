"""LabelDigits: the tokens that write 0, 1 or 2, and their probabilities."""

from collections.abc import Sequence
from typing import NamedTuple

import torch

from vrthinker_core.backends.local.text.tokenizer import SafeTokenizer
from vrthinker_core.types.messages import LabelProbabilities

DECIMALS = 6  # Of a probability: float32 logits give no more, and traces stay short
_PADDING = b" \t\r\n=:\"'*_`"  # Characters that may share a token with the digit: " 1"


class SampledToken(NamedTuple):
    """A token, and the probabilities of its possible label.

    They are the probabilities of 0, 1 and 2; None if the token writes no such digit.
    """

    token: int
    probabilities: LabelProbabilities | None = None


class LabelDigits:
    """A vocabulary's tokens that write a lone 0, 1 or 2.

    They are found once. Immutable, so threads may share it.
    """

    def __init__(self, tokenizer: SafeTokenizer) -> None:
        self.characters_after: dict[int, int] = {}  # For each token: characters after its digit
        self._tokens_of_digit: tuple[list[int], ...] = ([], [], [])
        for token in range(tokenizer.vocabulary_size):
            written = tokenizer.token_bytes(token)
            digit = written.strip(_PADDING)
            if digit in (b"0", b"1", b"2"):
                self.characters_after[token] = len(written) - written.index(digit) - 1
                self._tokens_of_digit[int(digit)].append(token)

    @torch.inference_mode()
    def with_probabilities(self, tokens: Sequence[int], scores: torch.Tensor) -> list[SampledToken]:
        """Add the digits' probabilities to each token that writes a digit.

        `scores`, (tokens, vocabulary), are the logits that the tokens were sampled from. The
        probability of a digit is the sum over all tokens that write it, in the softmax over the
        whole vocabulary. The scores of other tokens are never read, so most replies cost one table
        look-up a token.
        """
        rows = [row for row, token in enumerate(tokens) if token in self.characters_after]
        found = dict(zip(rows, self._probabilities(scores[rows]), strict=True)) if rows else {}
        return [SampledToken(token, found.get(row)) for row, token in enumerate(tokens)]

    def _probabilities(self, scores: torch.Tensor) -> list[LabelProbabilities]:
        shares = torch.softmax(scores.float(), dim=-1)
        digits = torch.stack(
            [shares[:, tokens].sum(dim=-1) for tokens in self._tokens_of_digit], dim=-1
        )
        return [
            (min(tie, 1.0), min(first, 1.0), min(second, 1.0))
            for tie, first, second in _rounded(digits)
        ]


def _rounded(values: torch.Tensor) -> list[list[float]]:
    return [[round(value, DECIMALS) for value in row] for row in values.tolist()]
