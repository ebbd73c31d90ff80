"""The tokenizer: text to token ids and back. No text is ever tokenised into a control token."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, fields

from tokenizers import Tokenizer
from transformers.convert_slow_tokenizer import bytes_to_unicode

_CONTROL_TOKEN = re.compile(r"<\|.*\|>", re.DOTALL)


@dataclass(frozen=True, slots=True)
class ControlTokens:
    """Ids of the tokens of the chat template, which a tokenizer must have: a field `name` is the token `<|name|>`."""

    im_start: int
    im_end: int
    endoftext: int
    vision_start: int
    vision_end: int
    image_pad: int
    video_pad: int


CONTROL_TOKENS = tuple(f"<|{field.name}|>" for field in fields(ControlTokens))


class SafeTokenizer:
    """A byte-level tokenizer that encodes `<|im_end|>` and its like as ordinary text: control tokens are added by id only.

    Immutable, so threads may share it. Added tokens that are no control tokens (`<tool_call>`) stay single tokens, as the model
    was trained.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._token_bytes = _token_bytes(tokenizer)
        spec = json.loads(tokenizer.to_str())
        spec["truncation"] = spec["padding"] = None
        for entry in spec[
            "added_tokens"
        ]:  # Qwen marks some `<|…|>` tokens as not special: here all of them are
            entry["special"] = entry["special"] or bool(_CONTROL_TOKEN.fullmatch(entry["content"]))
        self._tokenizer = Tokenizer.from_str(json.dumps(spec))
        self._tokenizer.encode_special_tokens = True  # as text, not as special tokens
        ids = {
            entry["content"]: int(entry["id"]) for entry in spec["added_tokens"] if entry["special"]
        }
        self.control = ControlTokens(*(ids[token] for token in CONTROL_TOKENS))
        self.control_ids = frozenset(ids.values())

    @property
    def vocabulary_size(self) -> int:
        """One more than the largest token id."""
        return len(self._token_bytes)

    def encode(self, text: str) -> list[int]:
        """Token ids of `text`, none of them a control token. A lone surrogate, which UTF-8 cannot encode, becomes U+FFFD."""
        valid = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        return list(self._tokenizer.encode(valid, add_special_tokens=False).ids)

    def token_bytes(self, token: int) -> bytes:
        """The UTF-8 bytes of one token, which may be a part of a character; b"" for an id that is no token."""
        return self._token_bytes[token] if 0 <= token < len(self._token_bytes) else b""

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of `tokens`, control tokens in their written form, incomplete characters as U+FFFD."""
        return b"".join(map(self.token_bytes, tokens)).decode("utf-8", "replace")


def _token_bytes(tokenizer: Tokenizer) -> list[bytes]:
    """The bytes of every token. A byte-level vocabulary writes each byte as one character; added tokens are written as they are."""
    vocabulary = tokenizer.get_vocab(with_added_tokens=True)
    byte_of = {character: byte for byte, character in bytes_to_unicode().items()}  # type: ignore[no-untyped-call]
    table = [b""] * (max(vocabulary.values()) + 1)
    for token, token_id in vocabulary.items():
        codes = [byte_of.get(character) for character in token]
        table[token_id] = (
            token.encode() if None in codes else bytes(code for code in codes if code is not None)
        )
    return table
