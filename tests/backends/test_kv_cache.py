"""Prefilling only what is new gives what stock transformers gives for the whole prompt, alone and in a batch."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tests.backends.support.random_model import (
    asks,
    completions,
    generate,
    noise_frame,
    replied,
    system,
    user,
)
from tests.backends.support.stock_transformers import StockModel
from vrthinker_core.backends import transformers_local as batch_decoding
from vrthinker_core.backends.base import GenerationRequest, StreamItem, not_cancelled
from vrthinker_core.backends.chat_template import SafeTokenizer, render_prompt
from vrthinker_core.backends.checkpoint import open_checkpoint
from vrthinker_core.backends.kv_cache import PrefixCache
from vrthinker_core.backends.transformers_local import TransformersBackend
from vrthinker_core.backends.vision_encoder import VisionEncoder
from vrthinker_core.errors import BackendFailed, ContextFull
from vrthinker_core.types import Frame
from vrthinker_core.types.messages import Completion, Image, Message, Sampling, Video

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
    kept = (part for part in message.parts if not isinstance(part, Image | Video))
    return replace(message, parts=tuple(kept))


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
        items = render_prompt(messages, tokenizer, vision.vision_item)
        logits, _ = cache.prefill(items, not_cancelled)
        torch.testing.assert_close(logits, stock.logits(messages), atol=1e-4, rtol=0)


def test_cancelled_prefill_is_continued_exactly(stock: StockModel) -> None:
    vision = VisionEncoder(stock.model, stock.processor)
    tokenizer = SafeTokenizer(stock.tokenizer.backend_tokenizer)
    items = render_prompt(HISTORY[-1], tokenizer, vision.vision_item)
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
    processed = 0
    for messages, reply in replies_of(small, opening, window=window):
        assert list(reply.tokens) == stock.generate(messages, 24)
        assert reply.prompt_tokens == len(stock.prompt_ids(messages))
        assert window or processed - 1 <= reply.reused_tokens <= processed, "what is new is read"
        assert reply.reused_tokens >= min(20, processed)
        processed = reply.prompt_tokens + len(reply.tokens)


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


# -- batches: each reply is the one its request has alone, whatever becomes of the others ------------------------------


MESSAGES = (
    OPENING,
    WITH_VIDEOS,
    user("No picture at all."),
    user(noise_frame(77, 140, 28), "One."),
    user(*(noise_frame(n, 28, 28) for n in range(5)), "Five small ones."),
)
OPENINGS = [[message] for message in MESSAGES]


def alone(backend: TransformersBackend, request: GenerationRequest) -> object:
    """What a request is answered in a conversation of its own, to be compared."""
    return comparable(generate(backend.open_conversation(), request.messages, request.sampling))


def last_items(
    backend: TransformersBackend, requests: Sequence[GenerationRequest]
) -> list[StreamItem]:
    """The last item of each request; asserts that the pieces join to the reply and that nothing follows a last item."""
    texts: dict[int, str] = {}
    ends: dict[int, StreamItem] = {}
    for index, item in backend.stream_batch(requests):
        assert index not in ends
        if isinstance(item, str):
            texts[index] = texts.get(index, "") + item
        else:
            ends[index] = item
    for index, end in ends.items():
        if isinstance(end, Completion):
            assert texts.get(index, "") == end.text
    return [ends[index] for index in range(len(requests))]


def comparable(end: StreamItem) -> object:
    """A completion without its time, its pieces and the digits of its probabilities; type and text of an error."""
    if isinstance(end, Completion):
        return replace(end, seconds=0.0, pieces=(), label_tokens=())
    return type(end), str(end)


def in_window(messages: list[Message], window: int | None) -> list[Message]:
    """The messages, of which only the last `window` tool responses keep their frames."""
    responses = [n for n, message in enumerate(messages) if n and message.role == "user"]
    old = responses[: max(0, len(responses) - window)] if window is not None else []
    return [without_frames(message) if n in old else message for n, message in enumerate(messages)]


@pytest.mark.parametrize(("which", "window"), [("small", None), ("nano", 2)])
def test_each_reply_of_a_batch_is_the_one_its_request_has_alone(
    request: pytest.FixtureRequest, which: str, window: int | None
) -> None:
    """Several turns; replies of different lengths; a memory window; conversations that sit a turn out."""
    backend: TransformersBackend = request.getfixturevalue(which)
    batched, single = ([backend.open_conversation() for _ in OPENINGS] for _ in range(2))
    histories = [list(opening) for opening in OPENINGS]
    for turn in range(4):
        live = [n for n in range(len(OPENINGS)) if (n + turn) % 4]
        samplings = [Sampling(max_new_tokens=6 + 5 * n) for n in live]
        prompts = [in_window(histories[n], window) for n in live]
        given = list(zip(live, prompts, samplings, strict=True))
        ends = last_items(backend, [GenerationRequest(batched[n], m, s) for n, m, s in given])
        for (n, messages, sampling), end in zip(given, ends, strict=True):
            one = generate(single[n], messages, sampling)
            assert comparable(end) == comparable(one)
            frames = noise_frame(20 + turn), noise_frame(n)
            histories[n] += [replied(one.text, one.tokens), tool_response(turn, *frames)]


def test_redirects_and_sampling_of_each_request_are_its_own(small: TransformersBackend) -> None:
    plain = [generate(small.open_conversation(), each, Sampling(24)).text for each in OPENINGS]
    samplings = [
        Sampling(24, redirect=(plain[0][3:6], "<Answer>TA=")),
        Sampling(24, temperature=1.5, seed=3),
        Sampling(24, redirect=(plain[2][:4], "")),
        Sampling(24),
        Sampling(24, redirect=(plain[4][8:10], "no ")),
    ]
    requests = asks(small, OPENINGS, *samplings)
    ends = last_items(small, requests)
    assert [comparable(end) for end in ends] == [alone(small, each) for each in requests]
    assert plain[0] != ends[0].text


def test_cancel_ends_one_request_and_no_other(small: TransformersBackend) -> None:
    answers = iter([False] * 6 + [True] * 100)
    requests = asks(small, OPENINGS, Sampling(20))
    requests[1] = replace(requests[1], cancelled=lambda: next(answers))
    ends = last_items(small, requests)
    whole = generate(small.open_conversation(), OPENINGS[1], Sampling(20)).tokens
    cut = ends.pop(1)
    assert cut.stop == "cancelled"
    assert 0 < len(cut.tokens) < 20
    assert whole[: len(cut.tokens)] == cut.tokens
    again = generate(requests.pop(1).conversation, OPENINGS[1], Sampling(20))
    assert again.tokens == whole, "the conversation continues"
    assert [comparable(end) for end in ends] == [alone(small, each) for each in requests]


def test_request_that_fails_fails_alone(small: TransformersBackend) -> None:
    too_few_bytes = [user(replace(noise_frame(99), key="too few bytes", rgb=b"123"))]
    long = [user("blue ball " * 3000)]
    closed, failing = small.open_conversation(), small.open_conversation()
    closed.close()

    def fails(calls: list[int] = []) -> bool:  # noqa: B006 - counts
        calls.append(0)
        if len(calls) > 5:
            raise RuntimeError("the kernel failed")
        return False

    prompts = too_few_bytes, [OPENING], long, [OPENING], [OPENING], [WITH_VIDEOS]
    requests = asks(small, prompts, Sampling(9))
    requests[3] = replace(requests[3], conversation=closed)
    requests[4] = replace(requests[4], conversation=failing, cancelled=fails)
    ends = last_items(small, requests)
    broken = BackendFailed
    kinds = [broken, Completion, ContextFull, broken, broken, Completion]
    assert list(map(type, ends)) == kinds
    for n in (1, 5):
        assert comparable(ends[n]) == alone(small, requests[n])
    assert "closed" in str(ends[3])
    assert "the kernel failed" in str(ends[4])
    assert generate(failing, [OPENING], Sampling(9)).reused_tokens == 0


def test_conversations_continue_after_their_stream_was_abandoned(
    small: TransformersBackend,
) -> None:
    requests = asks(small, OPENINGS, Sampling(20))
    stream = small.stream_batch(requests)
    for _ in range(12):
        next(stream)
    del stream
    for request in requests[:2]:
        again = generate(request.conversation, request.messages, Sampling(20))
        assert comparable(replace(again, reused_tokens=0)) == alone(small, request)


@pytest.mark.parametrize("spread", [False, True])
def test_a_batched_step_that_fails_is_tried_once_and_over_several_gpus_never(
    small: TransformersBackend, monkeypatch: pytest.MonkeyPatch, spread: bool
) -> None:
    tries = []

    def fail(*_: object, **__: object) -> None:
        tries.append(1)
        raise RuntimeError("out of memory")

    backend = copy(small)
    if spread:
        backend.loaded = replace(small.loaded, step=None)
    requests = asks(backend, OPENINGS, Sampling(9))
    expected = [alone(small, request) for request in requests]
    monkeypatch.setattr(batch_decoding, "decode_together", fail)
    assert [comparable(end) for end in last_items(backend, requests)] == expected
    assert len(tries) == (0 if spread else 1)


def test_more_frames_than_the_cache_holds_are_encoded_once_in_passes_of_bounded_size(
    checkpoint_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint = open_checkpoint(str(checkpoint_folder))
    backend = TransformersBackend(checkpoint, "small")
    encoder = backend.loaded.vision
    (one,) = encoder.encode([encoder.vision_item("image", (noise_frame(400),))])
    vision = VisionEncoder(checkpoint.model, checkpoint.processor, cache_bytes=5 * one.nbytes)
    backend.loaded, patches = replace(backend.loaded, vision=vision), 4 * len(one)
    monkeypatch.setattr(batch_decoding, "PATCHES_AT_ONCE", 5 * patches)
    passes: list[int] = []
    visual = checkpoint.model.model.visual
    visual.register_forward_hook(lambda _, given, __: passes.append(len(given[0])))
    frames = [noise_frame(400 + n) for n in range(16)]
    prompts = [[user(*frames[n : n + 2], "Compare.")] for n in range(0, 16, 2)]
    assert completions(backend, asks(backend, prompts, Sampling(3)))
    assert passes == [4 * patches] * 4, "the frames of two requests at once"
