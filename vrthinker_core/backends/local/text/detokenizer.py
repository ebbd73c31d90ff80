"""A reply while it is being written: whole characters only, and a turn of phrase that can be turned into another."""

from __future__ import annotations

import codecs
from collections.abc import Sequence

from vrthinker_core.backends.local.text.tokenizer import SafeTokenizer


class StreamingDetokenizer:
    """Tokens in, text out. With `redirect` (a, b), `a` is never shown: where it would first end the text, `b` is to stand."""

    def __init__(self, spelling: SafeTokenizer, redirect: tuple[str, str] | None = None) -> None:
        self.tokens: list[int] = []
        self.pieces: list[int] = []
        self._tokenizer = spelling
        self._redirect = redirect if redirect and redirect[0] else None
        self._text = ""
        self._emitted = 0
        self._text_ends = [0]
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    @property
    def text(self) -> str:
        """What was shown so far: after `rest`, the whole reply."""
        return self._text[: self._emitted]

    def append(self, tokens: Sequence[int]) -> None:
        """The judge wrote these tokens."""
        for token in tokens:
            self.tokens.append(token)
            self._text += self._decoder.decode(self._tokenizer.token_bytes(token))
            whole = not self._decoder.getstate()[0]
            self._text_ends.append(len(self._text) if whole else -1)

    def apply_redirect(self) -> bool:
        """If the text now holds `a`, take its tokens back and put `b` in its place; True when the tokens have changed.

        A token that holds the end of the kept text and the beginning of `a` goes too: the kept text is spelled anew.
        """
        if self._redirect is None:
            return False
        unwanted, wanted = self._redirect
        place = self._text.find(unwanted)
        if place < 0:
            return False
        self._redirect = None
        keep = max(n for n, end in enumerate(self._text_ends) if 0 <= end <= place)
        again = self._text[self._text_ends[keep] : place] + wanted
        self.tokens, self._text_ends = self.tokens[:keep], self._text_ends[: keep + 1]
        self._text = self._text[: self._text_ends[keep]]
        self._decoder.reset()
        self.append(self._tokenizer.encode(again))
        return True

    def next_text(self) -> str:
        """New text that may be shown: all of it but what could still become `a`."""
        return self._emit(len(self._text) - self._held_back())

    def flush(self) -> str:
        """The reply is over: everything not yet shown, a broken last character as U+FFFD."""
        self._text += self._decoder.decode(b"", final=True)
        return self._emit(len(self._text))

    def _emit(self, end: int) -> str:
        piece = self._text[self._emitted : end]
        if piece:
            self._emitted = end
            self.pieces.append(len(piece))
        return piece

    def _held_back(self) -> int:
        if self._redirect is None:
            return 0
        unwanted = self._redirect[0]
        return next((n for n in range(len(unwanted) - 1, 0, -1) if self._text.endswith(unwanted[:n])), 0)
