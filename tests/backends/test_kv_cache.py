"""Reading only what is new gives what reading everything gives: stock transformers, from nothing, is the judge of that."""

from __future__ import annotations

import threading
from dataclasses import replace
from itertools import pairwise

import pytest
import torch

from tests.backends.support.random_model import generate, noise_frame
from tests.backends.support.stock_transformers import StockModel
from vrthinker_core.backends.base import not_cancelled
from vrthinker_core.backends.local.engine.kv_cache import PrefixCache
from vrthinker_core.backends.local.engine.vision_encoder import VisionEncoder
from vrthinker_core.backends.local.text.chat_template import render_prompt
from vrthinker_core.backends.local.text.tokenizer import SafeTokenizer
from vrthinker_core.backends.transformers_local import TransformersBackend
from vrthinker_core.types import Frame
from vrthinker_core.types.messages import Completion, GeneratedText, Image, Message, Sampling, Text, Video

OPENING = Message("user", (*(Image(noise_frame(n)) for n in range(3)), Text("Compare the two videos.")))
FILMED = Message("user", (Video(tuple(noise_frame(n, 56, 84) for n in range(6))), Video((noise_frame(8), noise_frame(9), noise_frame(10))), Text("Compare.")))
MANY = tuple(Image(noise_frame(n, 112, 112)) for n in range(40, 112))
"""More tokens than are read at once."""


def answered(turn: int, *frames: Frame) -> Message:
    return Message("user", (*(Image(frame) for frame in frames), Text(f"<tool_response>Retrieved {turn}</tool_response>")))


def windowed(message: Message) -> Message:
    """The message as a memory window leaves it: its frames gone, its text there."""
    return replace(message, parts=tuple(part for part in message.parts if not isinstance(part, Image | Video)))


HISTORY = [
    [Message("system", (Text("You judge."),)), OPENING],
    [
        Message("system", (Text("You judge."),)),
        OPENING,
        Message("assistant", (GeneratedText("more"),)),
        answered(1, noise_frame(5), noise_frame(6, 28, 28)),
    ],
    [
        Message("system", (Text("You judge."),)),
        windowed(OPENING),
        Message("assistant", (GeneratedText("more"),)),
        answered(1, noise_frame(5)),
    ],
    [
        Message("system", (Text("You judge."),)),
        OPENING,
        Message("assistant", (GeneratedText("less"),)),
        answered(2, noise_frame(7), noise_frame(0)),
    ],
    [
        Message("system", (Text("You judge."),)),
        OPENING,
        Message("assistant", (GeneratedText("less"),)),
        answered(2, noise_frame(7), noise_frame(0)),
    ],
    [Message("system", (Text("You judge."),)), OPENING],
    [Message("system", (Text("You judge well."),)), FILMED],
    [Message("system", (Text("You judge well."),)), FILMED, Message("assistant", (GeneratedText("hm"),)), answered(3, noise_frame(2))],
    [Message("system", (Text("You judge."),)), Message("user", MANY), Message("assistant", (GeneratedText("hm"),)), FILMED],
]


def test_every_edit_of_the_history_gives_the_logits_of_a_full_reading(stock: StockModel) -> None:
    sight = VisionEncoder(stock.model, stock.processor)
    spelling = SafeTokenizer(stock.tokenizer.backend_tokenizer)
    reading = PrefixCache(stock.model, sight)
    for messages in HISTORY:
        logits, _ = reading.prefill(render_prompt(messages, spelling, sight.vision_item), not_cancelled)
        assert logits is not None
        torch.testing.assert_close(logits, stock.logits(messages), atol=1e-4, rtol=0)


def test_a_reading_that_was_cut_short_goes_on_exactly(stock: StockModel) -> None:
    sight = VisionEncoder(stock.model, stock.processor)
    items = render_prompt(HISTORY[-1], SafeTokenizer(stock.tokenizer.backend_tokenizer), sight.vision_item)
    reading = PrefixCache(stock.model, sight)
    asked = iter([False, True])
    assert reading.prefill(items, lambda: next(asked)) == (None, 0)
    assert reading.num_tokens > 0, "a part was read before the cancel"
    logits, reused = reading.prefill(items, not_cancelled)
    assert logits is not None
    assert 0 < reused < reading.num_tokens
    torch.testing.assert_close(logits, stock.logits(HISTORY[-1]), atol=1e-4, rtol=0)


def talk(
    backend: TransformersBackend, opening: Message, turns: int = 3, window: bool = False
) -> list[tuple[list[Message], Completion]]:
    """A conversation of several turns; with `window` the frames of the turn before the last leave."""
    conversation, messages, told = backend.open_conversation(), [opening], []
    for turn in range(turns):
        reply = generate(conversation, messages)
        told.append((list(messages), reply))
        messages = [windowed(m) if window and m is not opening else m for m in messages]
        messages += [
            Message("assistant", (GeneratedText(reply.text, reply.tokens),)),
            answered(turn, noise_frame(20 + turn), noise_frame(30 + turn)),
        ]
    return told


@pytest.mark.parametrize("window", [False, True], ids=["all frames stay", "window of one"])
@pytest.mark.parametrize("opening", [OPENING, FILMED], ids=["images", "videos"])
def test_replies_are_those_of_stock_generate_at_every_turn(
    small: TransformersBackend, stock: StockModel, opening: Message, window: bool
) -> None:
    for turn, (messages, reply) in enumerate(talk(small, opening, window=window)):
        assert list(reply.tokens) == stock.generate(messages, 24)
        assert reply.prompt_tokens == len(stock.prompt_ids(messages))
        assert (reply.reused_tokens or 0) >= (20 if turn else 0)


def test_a_turn_reads_only_what_is_new(small: TransformersBackend) -> None:
    told = talk(small, OPENING)
    for (_, before), (_, after) in pairwise(told):
        known = (before.prompt_tokens or 0) + len(before.tokens)
        assert after.reused_tokens is not None
        assert known - 1 <= after.reused_tokens <= known


def test_conversations_in_many_threads_do_not_mix(small: TransformersBackend) -> None:
    openings = [OPENING, FILMED, Message("user", (Text("No picture at all."),)), Message("user", (Image(noise_frame(77, 140, 28)),))]
    alone = [[reply.tokens for _, reply in talk(small, opening)] for opening in openings]
    found: list[list[tuple[int, ...]]] = [[] for _ in openings]

    def run(n: int) -> None:
        found[n] = [reply.tokens for _, reply in talk(small, openings[n])]

    threads = [threading.Thread(target=run, args=(n,)) for n in range(len(openings))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == alone


def test_nothing_is_left_on_the_model(stock: StockModel) -> None:
    sight = VisionEncoder(stock.model, stock.processor)
    spelling = SafeTokenizer(stock.tokenizer.backend_tokenizer)
    stock.model.model.rope_deltas = None
    PrefixCache(stock.model, sight).prefill(render_prompt(HISTORY[0], spelling, sight.vision_item), not_cancelled)
    assert stock.model.model.rope_deltas is None


def test_two_replies_taking_turns_token_by_token_do_not_mix(small: TransformersBackend) -> None:
    alone = [generate(small.open_conversation(), [opening]).tokens for opening in (OPENING, FILMED)]
    first, second = (small.open_conversation().stream([opening], Sampling(max_new_tokens=24)) for opening in (OPENING, FILMED))
    ends: list[tuple[int, ...]] = []
    for pair in _in_step(first, second):
        ends += [piece.tokens for piece in pair if isinstance(piece, Completion)]
    assert sorted(ends) == sorted(alone)


def _in_step(*streams: object) -> list[list[object]]:
    live, rounds = [iter(s) for s in streams], []  # type: ignore[call-overload]
    while live:
        step = [(stream, next(stream, None)) for stream in live]
        live = [stream for stream, piece in step if piece is not None]
        rounds.append([piece for _, piece in step])
    return rounds


# -- frames --------------------------------------------------------------------------------------------------------------


def test_a_frame_is_encoded_once_for_all_conversations(small: TransformersBackend) -> None:
    """A frame whose pixels are gone can still be shown, if its key was."""
    messages = [Message("user", (Image(noise_frame(60)), Text("Compare.")))]
    whole = generate(small.open_conversation(), messages)
    gone = [Message("user", (Image(replace(noise_frame(60), rgb=b"")), Text("Compare.")))]
    assert generate(small.open_conversation(), gone).tokens == whole.tokens


@pytest.mark.parametrize("room", [0, 4_000, 10_000_000])
def test_features_stay_within_their_bytes_and_are_right_when_made_again(stock: StockModel, room: int) -> None:
    sight, fresh = VisionEncoder(stock.model, stock.processor, room), VisionEncoder(stock.model, stock.processor)
    pictures = [sight.vision_item("image", (noise_frame(n),)) for n in range(6)]
    for features, again, alone in zip(sight.encode(pictures), sight.encode(pictures), fresh.encode(pictures), strict=True):
        torch.testing.assert_close(features, again, atol=1e-5, rtol=0)
        torch.testing.assert_close(features, alone, atol=1e-5, rtol=0)


def test_the_grid_is_that_of_the_image_processor(stock: StockModel) -> None:
    sight = VisionEncoder(stock.model, stock.processor)
    for width, height in ((28, 28), (84, 56), (448, 448), (30, 97), (620, 350)):
        frame = noise_frame(1, width, height)
        messages = [Message("user", (Image(frame),))]
        picture = sight.vision_item("image", (frame,))
        assert picture.num_tokens == len(stock.prompt_ids(messages)) - len(stock.prompt_ids([Message("user", ())])) - 2
