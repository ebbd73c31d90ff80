"""Messages become tokens and pictures, token for token as the checkpoint's chat template would write them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from vrthinker_core.backends.local.text.tokenizer import SafeTokenizer
from vrthinker_core.types import Frame
from vrthinker_core.types.messages import GeneratedText, Image, Message, Part, Text, Video

DEFAULT_SYSTEM = "You are a helpful assistant."
"""What the template says where a conversation begins without a system message."""


@dataclass(frozen=True, slots=True)
class VisionItem:
    """One vision item of a prompt: an image, or a video of two or more frames. Equal pictures have equal features."""

    kind: Literal["image", "video"]
    keys: tuple[str, ...]
    """The frames' keys, in order."""
    grid: tuple[int, int, int]
    """Patches: temporal, vertical, horizontal."""
    tokens: int
    """Places it takes in the prompt."""
    frames: tuple[Frame, ...] = field(repr=False, compare=False)


PromptItem = int | VisionItem
"""A token id, or a picture that stands for its `tokens` many places."""

MakeVisionItem = Callable[[Literal["image", "video"], tuple[Frame, ...]], VisionItem]


def token_count(items: Sequence[PromptItem]) -> int:
    """Tokens that `items` come to."""
    return sum(1 if isinstance(item, int) else item.tokens for item in items)


def render_prompt(messages: Sequence[Message], spelling: SafeTokenizer, measure: MakeVisionItem) -> list[PromptItem]:
    """The prompt for the next reply: every message, then the opening of the judge's turn.

    Text is joined between control tokens before it is tokenised, because that is what a template does.
    """
    if messages and messages[0].role != "system":
        messages = (Message("system", (Text(DEFAULT_SYSTEM),)), *messages)
    page = _PromptBuilder(spelling, measure)
    for message in messages:
        page.control(spelling.control.im_start)
        page.text(message.role + "\n")
        for part in message.parts:
            page.part(part)
        page.control(spelling.control.im_end)
        page.text("\n")
    page.control(spelling.control.im_start)
    page.text("assistant\n")
    return page.items()


class _PromptBuilder:
    """Items written so far, and the text that waits to be tokenised in one piece."""

    def __init__(self, spelling: SafeTokenizer, measure: MakeVisionItem) -> None:
        self._spelling = spelling
        self._measure = measure
        self._items: list[PromptItem] = []
        self._waiting = ""

    def text(self, text: str) -> None:
        self._waiting += text

    def control(self, *ids: int) -> None:
        self._items.extend(self._tokenised())
        self._items.extend(ids)

    def part(self, part: Part) -> None:
        match part:
            case Text(text):
                self.text(text)
            case GeneratedText(text, tokens):
                self._spoken(text, tokens)
            case Image(frame):
                self._picture("image", (frame,))
            case Video(frames):
                self._picture("video", frames)

    def items(self) -> list[PromptItem]:
        self.control()
        return self._items

    def _spoken(self, text: str, tokens: tuple[int, ...]) -> None:
        """Tokens stay as the judge chose them, but only if they spell this text and hold no control token: a trace may lie."""
        honest = bool(tokens) and not self._spelling.control_ids.intersection(tokens) and self._spelling.decode(tokens) == text
        if honest:
            self.control(*tokens)
        else:
            self.text(text)

    def _picture(self, kind: Literal["image", "video"], frames: tuple[Frame, ...]) -> None:
        control = self._spelling.control
        self.control(control.vision_start)
        self._items.append(self._measure(kind, frames))
        self.control(control.vision_end)

    def _tokenised(self) -> list[int]:
        text, self._waiting = self._waiting, ""
        return self._spelling.encode(text) if text else []
