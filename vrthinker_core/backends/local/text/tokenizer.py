"""The tokenizer: text to token ids and back. No text is ever tokenised into a control token."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from tokenizers import Tokenizer

_CONTROL_TOKEN = re.compile(r"<\|.*\|>", re.DOTALL)


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
    """A byte-level tokenizer that encodes `<|im_end|>` and its like as ordinary text: control tokens are added by id only.

    Immutable, so threads may share it. Added tokens that are no control tokens (`<tool_call>`) stay single tokens, as the model
    was trained.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = _without_control_tokens(tokenizer)
        self._token_bytes = _token_bytes(tokenizer)
        ids = _control_token_ids(tokenizer)
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
        """Token ids of `text`, none of them a control token. A lone surrogate, which UTF-8 cannot encode, becomes U+FFFD."""
        valid = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        ids: list[int] = self._tokenizer.encode(valid, add_special_tokens=False).ids
        return ids

    def token_bytes(self, token: int) -> bytes:
        """The UTF-8 bytes of one token, which may be a part of a character; b"" for an id that is no token."""
        return self._token_bytes[token] if 0 <= token < len(self._token_bytes) else b""

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of `tokens`, control tokens in their written form, incomplete characters as U+FFFD."""
        return b"".join(map(self.token_bytes, tokens)).decode("utf-8", "replace")


def _control_token_ids(tokenizer: Tokenizer) -> dict[str, int]:
    added = json.loads(tokenizer.to_str())["added_tokens"]
    return {entry["content"]: int(entry["id"]) for entry in added if entry["special"] or _CONTROL_TOKEN.fullmatch(entry["content"])}


def _without_control_tokens(tokenizer: Tokenizer) -> Tokenizer:
    """A copy that encodes control tokens as text. Qwen marks some `<|…|>` tokens as not special: here all of them are."""
    spec = json.loads(tokenizer.to_str())
    for entry in spec["added_tokens"]:
        entry["special"] = entry["special"] or bool(_CONTROL_TOKEN.fullmatch(entry["content"]))
    spec["truncation"] = spec["padding"] = None
    copy = Tokenizer.from_str(json.dumps(spec))
    copy.encode_special_tokens = True  # as text, not as special tokens
    return copy


def _token_bytes(tokenizer: Tokenizer) -> list[bytes]:
    """The bytes of every token. A byte-level vocabulary writes each byte as one character; added tokens are written as they are."""
    vocabulary = tokenizer.get_vocab(with_added_tokens=True)
    byte_of = _byte_of_character()
    table = [b""] * (max(vocabulary.values()) + 1)
    for token, token_id in vocabulary.items():
        codes = [byte_of.get(character) for character in token]
        table[token_id] = token.encode() if None in codes else bytes(code for code in codes if code is not None)
    return table


def _byte_of_character() -> dict[str, int]:
    """GPT-2's byte alphabet: a printable byte is written as itself, the others as characters from U+0100 on."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(0x100 + n): byte for n, byte in enumerate(others)}
