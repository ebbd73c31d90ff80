"""StreamingDetokenizer: sampled tokens become whole characters of text.

One phrase can be redirected to another.
"""

import codecs
from collections.abc import Sequence

from vrthinker_core.backends.base import RedirectState
from vrthinker_core.backends.local.text.tokenizer import SafeTokenizer
from vrthinker_core.types.messages import LabelProbabilities, LabelToken


class StreamingDetokenizer:
    """The text of one reply, token by token.

    With `redirect` (a, b), `apply_redirect` replaces `a` with `b` once the tokens spell `a`; `a` is
    never emitted. `tokens`, `pieces`, `redirected` and `label_tokens` go into the `Completion`.
    """

    def __init__(self, tokenizer: SafeTokenizer, redirect: tuple[str, str] | None = None) -> None:
        self.tokens: list[int] = []  # The reply's token ids
        self.pieces: list[int] = []  # Lengths of the pieces of text that were emitted
        self.label_tokens: list[LabelToken] = []  # Filled by `mark_digit`
        self._tokenizer = tokenizer
        self.redirected: tuple[int, int] | None = None  # See `Completion`
        self._redirect = RedirectState(redirect)
        self._text, self._emitted = "", 0  # The text, and how many characters were emitted
        # Length of the text after each number of tokens, -1 if a character is incomplete
        self._text_ends = [0]
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    @property
    def text(self) -> str:
        """The text emitted so far; after `flush`, the whole reply."""
        return self._text[: self._emitted]

    def append(self, tokens: Sequence[int]) -> None:
        """Add sampled tokens."""
        for token in tokens:
            self.tokens.append(token)
            self._text += self._decoder.decode(self._tokenizer.token_bytes(token))
            complete = not self._decoder.getstate()[0]
            self._text_ends.append(len(self._text) if complete else -1)

    def mark_digit(self, probabilities: LabelProbabilities, characters_after: int) -> None:
        """Mark the last token's digit, `characters_after` characters before its end."""
        self.label_tokens.append(LabelToken(len(self._text) - characters_after - 1, probabilities))

    def apply_redirect(self) -> bool:
        """If the text has `a`, replace `a` and all after it.

        `b` is the replacement. Returns True if `tokens` have changed. A token that spells the end
        of the kept text and the beginning of `a` is dropped, too; that end is then tokenised again.
        """
        start = self._redirect.cut(self._text)
        if start < 0:
            return False
        kept = max(count for count, end in enumerate(self._text_ends) if 0 <= end <= start)
        replacement = self._text[self._text_ends[kept] : start] + self._redirect.wanted
        self.tokens, self._text_ends = self.tokens[:kept], self._text_ends[: kept + 1]
        self._text = self._text[: self._text_ends[kept]]
        self.label_tokens = [token for token in self.label_tokens if token.offset < len(self._text)]
        self._decoder.reset()
        self.append(self._tokenizer.encode(replacement))
        self.redirected = self.redirected[0] if self.redirected else kept, len(self.tokens)
        return True

    def next_text(self) -> str:
        """Return the new text, without an end that may become `a`."""
        return self._emit(len(self._text) - self._redirect.held_back(self._text))

    def flush(self) -> str:
        """Return the rest; an incomplete last character becomes U+FFFD."""
        self._text += self._decoder.decode(b"", final=True)
        return self._emit(len(self._text))

    def _emit(self, end: int) -> str:
        piece = self._text[self._emitted : end]
        if piece:
            self._emitted = end
            self.pieces.append(len(piece))
        return piece
