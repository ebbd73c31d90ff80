"""The chat template: messages become prompt tokens and vision items."""

import codecs
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Literal

from tokenizers import Tokenizer
from transformers.convert_slow_tokenizer import bytes_to_unicode

from vrthinker_core.backends.base import ReplyText
from vrthinker_core.types import Frame
from vrthinker_core.types.messages import GeneratedText, Image, Message, Part, Text, Video


@dataclass(frozen=True, slots=True)
class ControlTokens:
    """Ids of the control tokens; the field `name` is `<|name|>`."""

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
        # A byte-level vocabulary writes a byte as one character; added tokens are as they are
        byte_of = {character: byte for byte, character in bytes_to_unicode().items()}  # type: ignore[no-untyped-call]
        ids = tokenizer.get_vocab(with_added_tokens=True)
        self.vocabulary = [b""] * (max(ids.values()) + 1)  # The bytes of every token
        for token, token_id in ids.items():
            written = all(character in byte_of for character in token)
            self.vocabulary[token_id] = (
                bytes(map(byte_of.__getitem__, token)) if written else token.encode()
            )
        spec = json.loads(tokenizer.to_str())
        spec["truncation"] = spec["padding"] = None
        # Qwen marks some `<|...|>` tokens as not special
        for entry in spec["added_tokens"]:
            like_control = re.fullmatch(r"<\|.*\|>", entry["content"], re.DOTALL)
            entry["special"] = entry["special"] or like_control is not None
        self._tokenizer = Tokenizer.from_str(json.dumps(spec))
        self._tokenizer.encode_special_tokens = True  # As text, not as special tokens
        ids = {
            entry["content"]: int(entry["id"]) for entry in spec["added_tokens"] if entry["special"]
        }
        self.control = ControlTokens(*(ids[token] for token in CONTROL_TOKENS))
        self.control_ids = frozenset(ids.values())

    def encode(self, text: str) -> list[int]:
        """Return the token ids of `text`, without any control token.

        A lone surrogate, which UTF-8 cannot encode, becomes U+FFFD.
        """
        valid = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        return list(self._tokenizer.encode(valid, add_special_tokens=False).ids)

    def token_bytes(self, token: int) -> bytes:
        """Return one token's UTF-8 bytes, possibly partial; b"" for unknown ids."""
        return self.vocabulary[token] if 0 <= token < len(self.vocabulary) else b""

    def decode(self, tokens: Sequence[int]) -> str:
        """Return the text of `tokens`; incomplete characters become U+FFFD."""
        return b"".join(map(self.token_bytes, tokens)).decode("utf-8", "replace")


@dataclass(frozen=True, slots=True)
class VisionItem:
    """A vision input of a prompt; equal items have equal image features."""

    kind: Literal["image", "video"]
    frame_keys: tuple[str, ...]  # `Frame.key` of each frame, in order
    grid_thw: tuple[int, int, int]  # Patches: temporal, vertical, horizontal
    num_tokens: int  # Prompt tokens that the item takes
    frames: tuple[Frame, ...] = field(repr=False, compare=False)


# A token id, or a vision item that stands for its `num_tokens` placeholder tokens
PromptItem = int | VisionItem


def token_count(items: Sequence[PromptItem]) -> int:
    """Return the number of prompt tokens of `items`."""
    return sum(1 if isinstance(item, int) else item.num_tokens for item in items)


def render_prompt(
    messages: Sequence[Message],
    tokenizer: SafeTokenizer,
    make_vision_item: Callable[[Literal["image", "video"], tuple[Frame, ...]], VisionItem],
) -> list[PromptItem]:
    """Return the prompt of the next reply.

    The prompt holds every message, then the header of the assistant's message. Its tokens equal
    those of the checkpoint's own Jinja template. The template renders one string, so all text
    between two control tokens is tokenised together.
    """
    if messages and messages[0].role != "system":
        messages = (Message("system", (Text("You are a helpful assistant."),)), *messages)
    items: list[PromptItem] = []
    control, text = tokenizer.control, ""

    def add(*new: PromptItem) -> None:
        nonlocal text
        items.extend(tokenizer.encode(text) if text else [])
        items.extend(new)
        text = ""

    for message in messages:
        add(control.im_start)
        text += message.role + "\n"
        for part in message.parts:
            match part:
                case Image(frame):
                    item = make_vision_item("image", (frame,))
                    add(control.vision_start, item, control.vision_end)
                case Video(frames):
                    item = make_vision_item("video", frames)
                    add(control.vision_start, item, control.vision_end)
                # A trace file may lie: a reply's token ids count only if they decode to its text
                case GeneratedText(said, tokens) if (
                    tokens
                    and not tokenizer.control_ids.intersection(tokens)
                    and tokenizer.decode(tokens) == said
                ):
                    add(*tokens)
                case Text(said) | GeneratedText(said):
                    text += said
        add(control.im_end)
        text += "\n"
    add(control.im_start)
    text = "assistant\n"
    add()
    return items


def videos_as_images(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Return the messages with each video frame as an image, in order."""

    def split(message: Message) -> Iterator[Part]:
        for part in message.parts:
            yield from map(Image, part.frames) if isinstance(part, Video) else (part,)

    return tuple(replace(message, parts=tuple(split(message))) for message in messages)


class StreamingDetokenizer(ReplyText):
    """A `ReplyText` from tokens; `apply_redirect` replaces `a` once the tokens spell it."""

    def __init__(self, tokenizer: SafeTokenizer, redirect: tuple[str, str] | None = None) -> None:
        super().__init__(redirect)
        self.tokens: list[int] = []  # The reply's token ids
        self._tokenizer = tokenizer
        self.redirected: tuple[int, int] | None = None  # See `Completion`
        # Length of the text after each number of tokens, -1 if a character is incomplete
        self._text_ends = [0]
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def append(self, tokens: Sequence[int]) -> None:
        """Add sampled tokens."""
        for token in tokens:
            self.tokens.append(token)
            self.written += self._decoder.decode(self._tokenizer.token_bytes(token))
            complete = not self._decoder.getstate()[0]
            self._text_ends.append(len(self.written) if complete else -1)

    def apply_redirect(self) -> bool:
        """Replace `a` and the rest with `b`; return whether `tokens` changed.

        A token that spells the end of the kept text and the beginning of `a` is dropped, too; that
        end is then tokenised again.
        """
        if (start := self.replace_phrase()) < 0:
            return False
        kept = max(count for count, end in enumerate(self._text_ends) if 0 <= end <= start)
        end = self._text_ends[kept]
        del self.tokens[kept:], self._text_ends[kept + 1 :]
        self.label_tokens = [token for token in self.label_tokens if token.offset < end]
        self._decoder.reset()
        self.written, replacement = self.written[:end], self.written[end:]
        self.append(self._tokenizer.encode(replacement))
        self.redirected = self.redirected[0] if self.redirected else kept, len(self.tokens)
        return True

    def next_text(self) -> str:
        """Return the new text, without an end that may become `a`."""
        return self.emit(self.safe_end())

    def flush(self) -> str:
        """Return the rest; an incomplete last character becomes U+FFFD."""
        self.written += self._decoder.decode(b"", final=True)
        return self.emit(len(self.written))
