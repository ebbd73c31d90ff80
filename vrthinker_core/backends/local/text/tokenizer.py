"""Text to tokens and back. Text is only ever text: no character of it becomes a control token."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from tokenizers import Tokenizer

_CONTROL = re.compile(r"<\|.*\|>", re.DOTALL)


@dataclass(frozen=True, slots=True)
class ControlTokens:
    """Ids of the tokens that give a conversation its structure."""

    im_start: int
    im_end: int
    vision_start: int
    vision_end: int
    image_pad: int
    video_pad: int


class SafeTokenizer:
    """A byte-level tokenizer in which control tokens are inserted by id and never read out of text.

    Stateless once made, so any number of threads may share it. Tokens that are no control tokens (`<tool_call>`) stay single
    tokens, as the judge learnt them.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._plain = _plain(tokenizer)
        self._bytes = _byte_table(tokenizer)
        ids = _control_tokens(tokenizer)
        self.control = ControlTokens(
            im_start=ids["<|im_start|>"],
            im_end=ids["<|im_end|>"],
            vision_start=ids["<|vision_start|>"],
            vision_end=ids["<|vision_end|>"],
            image_pad=ids["<|image_pad|>"],
            video_pad=ids["<|video_pad|>"],
        )
        self.end_of_text: int = ids["<|endoftext|>"]
        self.control_ids: frozenset[int] = frozenset(ids.values())

    def encode(self, text: str) -> list[int]:
        """Ids of `text`, none of them a control token. Half a surrogate pair, which no UTF-8 can hold, becomes U+FFFD."""
        whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        ids: list[int] = self._plain.encode(whole, add_special_tokens=False).ids
        return ids

    def token_bytes(self, token: int) -> bytes:
        """What one token adds to the text, in UTF-8: it may be a part of a character. Nothing for an id that is no token."""
        return self._bytes[token] if 0 <= token < len(self._bytes) else b""

    def decode(self, tokens: Sequence[int]) -> str:
        """What `tokens` spell, control tokens in their written form, broken characters as U+FFFD."""
        return b"".join(map(self.token_bytes, tokens)).decode("utf-8", "replace")


def _control_tokens(tokenizer: Tokenizer) -> dict[str, int]:
    added = json.loads(tokenizer.to_str())["added_tokens"]
    return {entry["content"]: int(entry["id"]) for entry in added if entry["special"] or _CONTROL.fullmatch(entry["content"])}


def _plain(tokenizer: Tokenizer) -> Tokenizer:
    """A copy that reads control tokens as letters. Qwen marks some `<|…|>` tokens as ordinary: they count as control here."""
    spec = json.loads(tokenizer.to_str())
    for entry in spec["added_tokens"]:
        entry["special"] = entry["special"] or bool(_CONTROL.fullmatch(entry["content"]))
    spec["truncation"] = spec["padding"] = None
    plain = Tokenizer.from_str(json.dumps(spec))
    plain.encode_special_tokens = True
    return plain


def _byte_table(tokenizer: Tokenizer) -> list[bytes]:
    """The bytes of every token. Byte-level vocabularies write each byte as one letter; added tokens are written as they are."""
    vocabulary = tokenizer.get_vocab(with_added_tokens=True)
    alphabet = _alphabet()
    table = [b""] * (max(vocabulary.values()) + 1)
    for token, place in vocabulary.items():
        letters = [alphabet.get(letter) for letter in token]
        table[place] = token.encode() if None in letters else bytes(n for n in letters if n is not None)
    return table


def _alphabet() -> dict[str, int]:
    """The letter that stands for each byte in a byte-level vocabulary: itself where it can be seen, else one from U+0100 on."""
    seen = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    unseen = [byte for byte in range(256) if byte not in set(seen)]
    return {chr(byte): byte for byte in seen} | {chr(0x100 + n): byte for n, byte in enumerate(unseen)}
