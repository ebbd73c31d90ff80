"""SafeTokenizer: text to token ids and back.

No text is ever tokenised into a control token.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, fields

from tokenizers import Tokenizer
from transformers.convert_slow_tokenizer import bytes_to_unicode

_CONTROL_TOKEN = re.compile(r"<\|.*\|>", re.DOTALL)


@dataclass(frozen=True, slots=True)
class ControlTokens:
    """Ids of the chat template's tokens, which a tokenizer must have.

    A field `name` is the token `<|name|>`.
    """

    im_start: int
    im_end: int
    endoftext: int
    vision_start: int
    vision_end: int
    image_pad: int
    video_pad: int


CONTROL_TOKENS = tuple(f"<|{field.name}|>" for field in fields(ControlTokens))


class SafeTokenizer:
    """A byte-level tokenizer that encodes `<|im_end|>` as ordinary text.

    Control tokens are added by id only. The tokenizer is immutable, so threads may share it. Added
    tokens that are no control tokens (`<tool_call>`) stay single tokens, as in the model's
    training.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._token_bytes = _token_bytes(tokenizer)
        spec = json.loads(tokenizer.to_str())
        spec["truncation"] = spec["padding"] = None
        # Qwen marks some `<|...|>` tokens as not special
        for entry in spec["added_tokens"]:
            entry["special"] = entry["special"] or bool(_CONTROL_TOKEN.fullmatch(entry["content"]))
        self._tokenizer = Tokenizer.from_str(json.dumps(spec))
        self._tokenizer.encode_special_tokens = True  # As text, not as special tokens
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
        """Return the token ids of `text`, without any control token.

        A lone surrogate, which UTF-8 cannot encode, becomes U+FFFD.
        """
        valid = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        return list(self._tokenizer.encode(valid, add_special_tokens=False).ids)

    def token_bytes(self, token: int) -> bytes:
        """Return one token's UTF-8 bytes, possibly partial; b"" for unknown ids."""
        return self._token_bytes[token] if 0 <= token < len(self._token_bytes) else b""

    def decode(self, tokens: Sequence[int]) -> str:
        """Return the text of `tokens`.

        Control tokens appear in their written form, incomplete characters as U+FFFD.
        """
        return b"".join(map(self.token_bytes, tokens)).decode("utf-8", "replace")


def _token_bytes(tokenizer: Tokenizer) -> list[bytes]:
    """Return the bytes of every token.

    A byte-level vocabulary writes each byte as one character. Added tokens are written as they are.
    """
    vocabulary = tokenizer.get_vocab(with_added_tokens=True)
    byte_of = {character: byte for byte, character in bytes_to_unicode().items()}  # type: ignore[no-untyped-call]
    table = [b""] * (max(vocabulary.values()) + 1)
    for token, token_id in vocabulary.items():
        codes = [byte_of.get(character) for character in token]
        table[token_id] = (
            token.encode() if None in codes else bytes(code for code in codes if code is not None)
        )
    return table
