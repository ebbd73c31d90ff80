"""What TRL needs to speak as the product does: a chat template, a processor, a reply parser.

The stock template of Qwen2.5-VL drops the pictures of tool messages, and its processor needs
torchvision for videos.
"""

from collections.abc import Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from transformers import Qwen2_5_VLProcessor
from transformers.processing_utils import ProcessorMixin

from vrthinker_core.backends.chat_template import SafeTokenizer
from vrthinker_core.backends.checkpoint import Checkpoint
from vrthinker_core.deliberation import is_unusable
from vrthinker_core.protocols.base import PromptProtocol
from vrthinker_core.training.sft import tokenizer_of
from vrthinker_core.types.messages import Completion

TOOL = "select_frames"

RESPONSE_TEMPLATE: dict[str, Any] = {
    "defaults": {"role": "assistant"},
    "start_anchor": "<|im_start|>assistant\n",
    "fields": {
        "tool_calls": {
            "open": "<tool_call>",
            "close_pattern": r"</tool_call>\s*",
            "repeats": True,
            "content": "json",
            "transform": {"type": "function", "function": "{content}"},
        },
        "content": {"close_pattern": r"<\|im_end\|>\s*", "content": "text"},
    },
}
"""Our calls as transformers' own parser reads them, well-formed ones only: see `parse_reply`."""


@cache
def chat_template() -> str:
    """The Jinja template: what `render_prompt` renders, own tokens in `{% generation %}`."""
    return Path(__file__).with_suffix(".jinja").read_text("utf-8")


class PictureProcessor(Qwen2_5_VLProcessor):
    """The processor of Qwen2.5-VL for pictures alone."""

    def __init__(
        self, image_processor: Any = None, tokenizer: Any = None, chat_template: str | None = None
    ) -> None:
        self.image_token, self.video_token = "<|image_pad|>", "<|video_pad|>"
        self.image_token_id = tokenizer.convert_tokens_to_ids(self.image_token)
        self.video_token_id = tokenizer.convert_tokens_to_ids(self.video_token)
        ProcessorMixin.__init__(self, image_processor, tokenizer, chat_template=chat_template)  # type: ignore[no-untyped-call]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Pictures as tensors, whatever is asked for: TRL multiplies grids of first prompts."""
        batch = super().__call__(*args, **kwargs)
        for name in {"pixel_values", "image_grid_thw"} & set(batch):
            batch[name] = torch.as_tensor(np.asarray(batch[name]))
        return batch


def picture_processor(checkpoint: Checkpoint, protocol: PromptProtocol) -> PictureProcessor:
    """A processor with our template, whose tokenizer reads replies as `protocol` does."""
    tokenizer = tokenizer_of(checkpoint)
    tokenizer.response_template = RESPONSE_TEMPLATE
    tokenizer.parse_response = partial(parse_reply, SafeTokenizer(checkpoint.tokenizer), protocol)
    return PictureProcessor(checkpoint.processor, tokenizer, chat_template())


def parse_reply(
    tokenizer: SafeTokenizer,
    protocol: PromptProtocol,
    ids: Sequence[int],
    prefix: Sequence[int] = (),
    tools: object = None,  # noqa: ARG001
) -> dict[str, Any]:
    """Read sampled tokens as the deliberation does: gives the message of a reply.

    Every reply that the deliberation would go on after is a call of `select_frames` with the whole
    reply as its argument, so that a call that cannot be read, or none at all, is answered in the
    protocol's own words. What ends a deliberation is no call. `prefix`: all tokens before the
    reply, of unusable replies, too.
    """
    completion = read_replies(ids, tokenizer)[0]
    text, reply = completion.text, protocol.parse(completion.text)
    message: dict[str, Any] = {"role": "assistant", "content": text}
    ends = completion.stop != "end" or reply.kind == "answer"
    if not ends and is_unusable(reply):  # the second one in a row ends it
        before = earlier_replies(prefix, tokenizer)
        ends = bool(before) and is_unusable(protocol.parse(before[-1].text))
    if not ends:
        call = {"name": TOOL, "arguments": {"reply": text}}
        message["tool_calls"] = [{"type": "function", "function": call}]
    return message


def read_replies(ids: Sequence[int], tokenizer: SafeTokenizer) -> list[Completion]:
    """The judge's replies in the tokens of a rollout after its first prompt.

    Between two replies is one message. A reply ends at its first end token; one that has none was
    cut by a token limit (`stop` is "length").
    """
    control, ids = tokenizer.control, list(ids)
    header = len(tokenizer.encode("\n")) + 1 + len(tokenizer.encode("assistant\n"))
    replies: list[Completion] = []
    start = 0
    while start <= len(ids):
        end = _first(ids, start, (control.im_end, control.endoftext))
        tokens = tuple(ids[start:end])
        text = tokenizer.decode(tokens)
        stop: Literal["end", "length"] = "end" if end < len(ids) else "length"
        replies.append(Completion(text, stop, tokens, (len(text),), new_tokens=len(tokens)))
        start = _first(ids, end + 1, (control.im_end,)) + 1 + header
    return replies


def earlier_replies(prompt: Sequence[int], tokenizer: SafeTokenizer) -> list[Completion]:
    """The replies that a prompt holds, which ends with the header of the reply to come."""
    header = [tokenizer.control.im_start, *tokenizer.encode("assistant\n")]
    for start in range(len(prompt)):
        if list(prompt[start : start + len(header)]) == header:
            return read_replies(prompt[start + len(header) :], tokenizer)[:-1]
    return []


def _first(ids: Sequence[int], start: int, wanted: tuple[int, ...]) -> int:
    """The first position from `start` on of a wanted token, else the number of tokens."""
    found = (position for position in range(start, len(ids)) if ids[position] in wanted)
    return next(found, len(ids))
