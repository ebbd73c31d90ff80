"""Prefilling only what is new gives the logits and replies of stock transformers, which computes the whole prompt."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise

import pytest
import torch

from tests.backends.support.random_model import generate, noise_frame, replied, system, user
from tests.backends.support.stock_transformers import StockModel
from vrthinker_core.backends.base import not_cancelled
from vrthinker_core.backends.chat_template import SafeTokenizer, render_prompt
from vrthinker_core.backends.kv_cache import PrefixCache
from vrthinker_core.backends.transformers_local import TransformersBackend
from vrthinker_core.backends.vision_encoder import VisionEncoder
from vrthinker_core.types import Frame
from vrthinker_core.types.messages import Completion, Image, Message, Video

OPENING = user(*map(noise_frame, range(3)), "Compare the two videos.")
WITH_VIDEOS = user(
    Video(tuple(noise_frame(n, 56, 84) for n in range(6))),
    Video((noise_frame(8), noise_frame(9), noise_frame(10))),
    "Compare.",
)
LONG_PROMPT = user(*(noise_frame(n, 112, 112) for n in range(40, 112)))
"""More tokens than one prefill chunk."""


def tool_response(turn: int, *frames: Frame) -> Message:
    return user(*frames, f"<tool_response>Retrieved {turn}</tool_response>")


def without_frames(message: Message) -> Message:
    """The message as a memory window leaves it: its text alone."""
    return replace(
        message, parts=tuple(part for part in message.parts if not isinstance(part, Image | Video))
    )


JUDGE, JUDGE_WELL = system("You judge."), system("You judge well.")
LESS = [JUDGE, OPENING, replied("less"), tool_response(2, noise_frame(7), noise_frame(0))]
HISTORY = [
    [JUDGE, OPENING],
    [JUDGE, OPENING, replied("more"), tool_response(1, noise_frame(5), noise_frame(6, 28, 28))],
    [JUDGE, without_frames(OPENING), replied("more"), tool_response(1, noise_frame(5))],
    LESS,
    LESS,
    [JUDGE, OPENING],
    [JUDGE_WELL, WITH_VIDEOS],
    [JUDGE_WELL, WITH_VIDEOS, replied("hm"), tool_response(3, noise_frame(2))],
    [JUDGE, LONG_PROMPT, replied("hm"), WITH_VIDEOS],
]


def test_prefill_after_any_edit_of_the_history_gives_the_logits_of_a_full_forward(
    stock: StockModel,
) -> None:
    vision = VisionEncoder(stock.model, stock.processor)
    tokenizer = SafeTokenizer(stock.tokenizer.backend_tokenizer)
    cache = PrefixCache(stock.model, vision)
    for messages in HISTORY:
        logits, _ = cache.prefill(
            render_prompt(messages, tokenizer, vision.vision_item), not_cancelled
        )
        torch.testing.assert_close(logits, stock.logits(messages), atol=1e-4, rtol=0)


def test_cancelled_prefill_is_continued_exactly(stock: StockModel) -> None:
    vision = VisionEncoder(stock.model, stock.processor)
    items = render_prompt(
        HISTORY[-1], SafeTokenizer(stock.tokenizer.backend_tokenizer), vision.vision_item
    )
    cache = PrefixCache(stock.model, vision)
    answers = iter([False, True])
    assert cache.prefill(items, lambda: next(answers)) == (None, 0)
    assert cache.num_tokens > 0, "a chunk was processed before the cancel"
    logits, reused = cache.prefill(items, not_cancelled)
    assert 0 < reused < cache.num_tokens
    torch.testing.assert_close(logits, stock.logits(HISTORY[-1]), atol=1e-4, rtol=0)


def replies_of(
    backend: TransformersBackend, opening: Message, turns: int = 3, window: bool = False
) -> list[tuple[list[Message], Completion]]:
    """Messages and reply of each turn of a conversation. With `window` only the opening and the last turn keep their frames."""
    conversation, messages, turns_taken = backend.open_conversation(), [opening], []
    for turn in range(turns):
        reply = generate(conversation, messages)
        turns_taken.append((list(messages), reply))
        messages = [without_frames(m) if window and m is not opening else m for m in messages]
        more = tool_response(turn, noise_frame(20 + turn), noise_frame(30 + turn))
        messages += [replied(reply.text, reply.tokens), more]
    return turns_taken


@pytest.mark.parametrize(
    ("opening", "window"),
    [(OPENING, False), (WITH_VIDEOS, True)],
    ids=["images, all frames stay", "videos, window of one"],
)
def test_replies_are_those_of_stock_generate_at_every_turn(
    small: TransformersBackend, stock: StockModel, opening: Message, window: bool
) -> None:
    for turn, (messages, reply) in enumerate(replies_of(small, opening, window=window)):
        assert list(reply.tokens) == stock.generate(messages, 24)
        assert reply.prompt_tokens == len(stock.prompt_ids(messages))
        assert (reply.reused_tokens or 0) >= (20 if turn else 0)


def test_a_turn_prefills_only_what_is_new(small: TransformersBackend) -> None:
    for (_, before), (_, after) in pairwise(replies_of(small, OPENING)):
        processed = (before.prompt_tokens or 0) + len(before.tokens)
        assert processed - 1 <= after.reused_tokens <= processed


def test_conversations_in_many_threads_do_not_mix(small: TransformersBackend) -> None:
    openings = [OPENING, WITH_VIDEOS, user("No picture at all."), user(noise_frame(77, 140, 28))]
    alone = [[reply.tokens for _, reply in replies_of(small, opening)] for opening in openings]
    with ThreadPoolExecutor(len(openings)) as pool:
        found = list(pool.map(lambda opening: replies_of(small, opening), openings))
    assert [[reply.tokens for _, reply in replies] for replies in found] == alone


# -- vision encoder ------------------------------------------------------------------------------------------------------


def test_a_frame_is_encoded_once_for_all_conversations(small: TransformersBackend) -> None:
    """A frame without its pixels can be sent again: its image features are cached by key."""
    with_pixels = generate(small.open_conversation(), [user(noise_frame(60), "Compare.")])
    without_pixels = [user(replace(noise_frame(60), rgb=b""), "Compare.")]
    assert generate(small.open_conversation(), without_pixels).tokens == with_pixels.tokens


@pytest.mark.parametrize("cache_bytes", [0, 4_000, 10_000_000])
def test_image_features_are_right_when_the_cache_is_full_and_they_are_computed_again(
    stock: StockModel, cache_bytes: int
) -> None:
    vision = VisionEncoder(stock.model, stock.processor, cache_bytes)
    unlimited = VisionEncoder(stock.model, stock.processor)
    items = [vision.vision_item("image", (noise_frame(n),)) for n in range(6)]
    found = (each.encode(items) for each in (vision, vision, unlimited))
    for features, again, alone in zip(*found, strict=True):
        torch.testing.assert_close(features, again, atol=1e-5, rtol=0)
        torch.testing.assert_close(features, alone, atol=1e-5, rtol=0)


def test_however_small_their_features_a_bounded_number_of_images_is_kept(stock: StockModel) -> None:
    vision = VisionEncoder(stock.model, stock.processor, cache_items=3)
    items = [vision.vision_item("image", (noise_frame(n),)) for n in range(6)]
    vision.encode(items)
    passes: list[int] = []
    hook = stock.model.model.visual.register_forward_hook(lambda *_: passes.append(1))
    vision.encode(items[3:])
    assert len(passes) == 0
    vision.encode(items[:3])
    assert len(passes) == 1
    hook.remove()


def test_grid_is_that_of_the_image_processor(stock: StockModel) -> None:
    vision = VisionEncoder(stock.model, stock.processor)
    for width, height in ((28, 28), (84, 56), (448, 448), (30, 97), (620, 350)):
        frame = noise_frame(1, width, height)
        item = vision.vision_item("image", (frame,))
        tokens = len(stock.prompt_ids([user(frame)])) - len(stock.prompt_ids([user()]))
        assert item.num_tokens == tokens - 2
