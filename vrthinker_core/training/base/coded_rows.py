"""Conversations over coded frames as training rows: tokens, what is learnt of them and how much, positions, features."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch

from vrthinker_core.backends.local.text.chat_template import PromptItem, VisionItem, render_prompt, videos_as_images
from vrthinker_core.backends.local.text.tokenizer import SafeTokenizer
from vrthinker_core.training.base.model import token_kinds
from vrthinker_core.training.base.model.model_shape import MERGE, PATCH, SIDE
from vrthinker_core.training.frame_facts.frame_code import TOKENS
from vrthinker_core.types import Frame
from vrthinker_core.types.messages import GeneratedText, Message

GRID = SIDE // PATCH  # Patches per side
PART = 4  # Rows that are computed at once
LENGTHS = 6  # To which rows are padded; each is compiled, and torch compiles a function for eight of them at most
_WORD = np.zeros((3, 1), np.int64)  # Positions of a word from where it begins
_PICTURE = np.stack([np.zeros(TOKENS, np.int64), *np.divmod(np.arange(TOKENS), GRID // MERGE)])  # And of a picture's tokens


@dataclass(frozen=True, slots=True)
class CodedRow:
    """One conversation. Features are in the order of their placeholders."""

    ids: torch.Tensor  # What is read: [length]
    targets: torch.Tensor  # What is learnt in the place of each token, another one where it is a misread word: [length]
    weights: torch.Tensor  # Of each token in the loss, 0 where it is not learnt: [length]
    read: torch.Tensor  # Whether a place that stands there is read from a frame: [length]
    positions: torch.Tensor  # [3, length]
    features: torch.Tensor  # [image tokens, hidden]


@dataclass(frozen=True, slots=True)
class CodedBatch:
    """Rows padded on the right to one length."""

    ids: torch.Tensor  # [n, length]
    targets: torch.Tensor
    weights: torch.Tensor
    read: torch.Tensor
    positions: torch.Tensor  # [3, n, length]
    features: torch.Tensor  # [all image tokens, hidden]


def picture_item(kind: Literal["image", "video"], frames: tuple[Frame, ...]) -> VisionItem:
    """The vision item of an image of SIDE pixels, as the small model's image processor has it."""
    return VisionItem(kind, tuple(frame.key for frame in frames), (1, GRID, GRID), TOKENS, frames)


def conversation_items(messages: Sequence[Message], tokenizer: SafeTokenizer) -> tuple[list[PromptItem], set[int]]:
    """The whole conversation up to the end of its last reply, and the places of the judge's own tokens in it.

    Every frame is an image: the small model knows no video items.
    """
    messages = videos_as_images(messages)
    items: list[PromptItem] = []
    own: set[int] = set()
    for number, message in enumerate(messages):
        if message.role != "assistant":
            continue
        items = render_prompt(messages[:number], tokenizer, picture_item)
        text = "".join(part.text for part in message.parts if isinstance(part, GeneratedText))
        reply = [*tokenizer.encode(text), tokenizer.control.im_end]
        own |= set(range(len(items), len(items) + len(reply)))
        items = [*items, *reply]
    return items, own


@dataclass(frozen=True, slots=True)
class TokenWeights:
    """What tokens count in the loss."""

    of: torch.Tensor  # By token, where it is learnt: [vocabulary]
    parentheses: torch.Tensor  # See `token_kinds`: [vocabulary]
    image_pad: int

    @classmethod
    def of_tokens(cls, tokenizer: SafeTokenizer) -> "TokenWeights":
        """Those of a vocabulary."""
        return cls(token_kinds.weights(tokenizer), token_kinds.parentheses(tokenizer), tokenizer.control.image_pad)

    def count(self, tokens: torch.Tensor, learnt: torch.Tensor) -> torch.Tensor:
        """The weight of each token in the loss; 0 where it is not `learnt`."""
        return self.of[tokens] * learnt * torch.where(self.repeated(tokens, learnt), token_kinds.TOLD_AGAIN, 1.0)

    def repeated(self, tokens: torch.Tensor, learnt: torch.Tensor) -> torch.Tensor:
        """Whether each of these stands in parentheses of what is learnt."""
        return (self.parentheses[tokens] * learnt).cumsum(0) > 0


def coded_row(items: Sequence[PromptItem], own: set[int], features: torch.Tensor, weights: TokenWeights) -> CodedRow:
    """The row of a conversation. Places in parentheses are not read: they stand in the conversation already."""
    ids: list[int] = []
    learnt: list[bool] = []
    for place, item in enumerate(items):
        new = [item] if isinstance(item, int) else [weights.image_pad] * item.num_tokens
        ids += new
        learnt += [place in own] * len(new)
    tokens = torch.tensor(ids)
    own_tokens = torch.tensor(learnt)
    read = own_tokens & ~weights.repeated(tokens, own_tokens)
    return CodedRow(tokens, tokens, weights.count(tokens, own_tokens), read, rope_positions(items), features)


def rope_positions(items: Sequence[PromptItem]) -> torch.Tensor:
    """The M-RoPE positions [3, length] of a conversation, as the stock model computes them."""
    sizes = [1 if isinstance(item, int) else item.num_tokens for item in items]
    side = GRID // MERGE
    starts = np.cumsum([0, *(1 if isinstance(item, int) else side for item in items)])[:-1]
    within = np.concatenate([_WORD if isinstance(item, int) else _PICTURE for item in items], axis=1)
    return torch.from_numpy(within + np.repeat(starts, sizes))


def parts_of_batch(rows: Sequence[CodedRow], longest: int) -> list[CodedBatch]:
    """The rows in parts of PART, the short ones together: each part is padded to one of LENGTHS lengths up to `longest`."""
    step = -(-longest // LENGTHS)
    ordered = sorted(rows, key=lambda row: len(row.ids))
    parts = [ordered[start : start + PART] for start in range(0, len(ordered), PART)]
    return [stack_rows(part, min(longest, -(-len(part[-1].ids) // step) * step)) for part in parts]


def stack_rows(rows: Sequence[CodedRow], length: int) -> CodedBatch:
    """One batch; rows that are longer than `length` are an error."""
    ids = torch.zeros(len(rows), length, dtype=torch.long)
    targets = torch.zeros(len(rows), length, dtype=torch.long)
    weights = torch.zeros(len(rows), length)
    read = torch.zeros(len(rows), length, dtype=torch.bool)
    positions = torch.zeros(3, len(rows), length, dtype=torch.long)
    for number, row in enumerate(rows):
        size = len(row.ids)
        ids[number, :size], weights[number, :size], positions[:, number, :size] = row.ids, row.weights, row.positions
        read[number, :size], targets[number, :size] = row.read, row.targets
    return CodedBatch(ids, targets, weights, read, positions, torch.cat([row.features for row in rows]))
