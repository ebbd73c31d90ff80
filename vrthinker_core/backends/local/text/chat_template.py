"""The chat template: messages become prompt tokens and vision items.

The tokens equal those of the checkpoint's own Jinja template.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from vrthinker_core.backends.local.text.tokenizer import SafeTokenizer
from vrthinker_core.types import Frame
from vrthinker_core.types.messages import GeneratedText, Image, Message, Part, Text, Video

# The system message that the template adds to a conversation without one
DEFAULT_SYSTEM = "You are a helpful assistant."


@dataclass(frozen=True, slots=True)
class VisionItem:
    """A vision input of a prompt: an image, or a video.

    A video has two or more frames. Equal items have equal image features.
    """

    kind: Literal["image", "video"]
    frame_keys: tuple[str, ...]  # `Frame.key` of each frame, in order
    grid_thw: tuple[int, int, int]  # Patches: temporal, vertical, horizontal
    num_tokens: int  # Prompt tokens that the item takes
    frames: tuple[Frame, ...] = field(repr=False, compare=False)


# A token id, or a vision item that stands for its `num_tokens` placeholder tokens
PromptItem = int | VisionItem

MakeVisionItem = Callable[[Literal["image", "video"], tuple[Frame, ...]], VisionItem]
"""The type of `VisionEncoder.vision_item`, which makes an item without reading a pixel."""


def token_count(items: Sequence[PromptItem]) -> int:
    """Return the number of prompt tokens of `items`."""
    return sum(1 if isinstance(item, int) else item.num_tokens for item in items)


def render_prompt(
    messages: Sequence[Message], tokenizer: SafeTokenizer, make_vision_item: MakeVisionItem
) -> list[PromptItem]:
    """Return the prompt of the next reply.

    The prompt holds every message, then the header of the assistant's message. Text between two
    control tokens is joined before it is tokenised, because a template renders one string.
    """
    if messages and messages[0].role != "system":
        messages = (Message("system", (Text(DEFAULT_SYSTEM),)), *messages)
    prompt, control = _PromptBuilder(tokenizer, make_vision_item), tokenizer.control
    for message in messages:
        prompt.add_tokens(control.im_start)
        prompt.add_text(message.role + "\n")
        for part in message.parts:
            prompt.add_part(part)
        prompt.add_tokens(control.im_end)
        prompt.add_text("\n")
    prompt.add_tokens(control.im_start)
    prompt.add_text("assistant\n")
    prompt.add_tokens()
    return prompt.items


def videos_as_images(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Return the messages with each video frame as an image, in order."""
    return tuple(
        replace(message, parts=tuple(image for part in message.parts for image in _as_images(part)))
        for message in messages
    )


def _as_images(part: Part) -> tuple[Part, ...]:
    return tuple(map(Image, part.frames)) if isinstance(part, Video) else (part,)


class _PromptBuilder:
    """The prompt items so far, and the text not yet tokenised."""

    def __init__(self, tokenizer: SafeTokenizer, make_vision_item: MakeVisionItem) -> None:
        self._tokenizer = tokenizer
        self._make_vision_item = make_vision_item
        self.items: list[PromptItem] = []
        self._pending_text = ""

    def add_text(self, text: str) -> None:
        self._pending_text += text

    def add_tokens(self, *tokens: int) -> None:
        """Tokenise the pending text, then add `tokens`."""
        text, self._pending_text = self._pending_text, ""
        self.items += self._tokenizer.encode(text) if text else []
        self.items += tokens

    def add_part(self, part: Part) -> None:
        match part:
            case Text(text):
                self.add_text(text)
            case GeneratedText(text, tokens):
                self._add_generated(text, tokens)
            case Image(frame):
                self._add_vision("image", (frame,))
            case Video(frames):
                self._add_vision("video", frames)

    def _add_generated(self, text: str, tokens: tuple[int, ...]) -> None:
        """Keep the sampled token ids of a reply, if they are valid.

        A trace file may lie: the ids must decode to this text and hold no control token. Otherwise
        the text is tokenised again.
        """
        control_ids, decode = self._tokenizer.control_ids, self._tokenizer.decode
        if tokens and not control_ids.intersection(tokens) and decode(tokens) == text:
            self.add_tokens(*tokens)
        else:
            self.add_text(text)

    def _add_vision(self, kind: Literal["image", "video"], frames: tuple[Frame, ...]) -> None:
        self.add_tokens(self._tokenizer.control.vision_start)
        self.items.append(self._make_vision_item(kind, frames))
        self.add_tokens(self._tokenizer.control.vision_end)
