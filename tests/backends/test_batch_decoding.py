"""Batch decoding: each reply is the one its request has alone, whatever becomes of the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tests.backends.support.random_model import generate, noise_frame
from tests.backends.test_kv_cache import OPENING, WITH_VIDEOS, tool_response, without_frames
from vrthinker_core.backends.base import BatchBackend, GenerationRequest, StreamItem, not_cancelled
from vrthinker_core.backends.local.checkpoint.loader import open_checkpoint
from vrthinker_core.backends.local.engine import batch_decoding
from vrthinker_core.backends.local.engine.batch_decoding import BatchedCache
from vrthinker_core.backends.local.engine.decode_step import StaticLayer
from vrthinker_core.backends.local.engine.kv_cache import PrefixCache
from vrthinker_core.backends.local.engine.vision_encoder import VisionEncoder
from vrthinker_core.backends.local.text.chat_template import render_prompt
from vrthinker_core.backends.transformers_local import TransformersBackend
from vrthinker_core.errors import BackendFailed, ContextFull
from vrthinker_core.types.messages import Completion, GeneratedText, Image, Message, Sampling, Text

OPENINGS = (
    OPENING,
    WITH_VIDEOS,
    Message("user", (Text("No picture at all."),)),
    Message("user", (Image(noise_frame(77, 140, 28)), Text("One."))),
    Message("user", (*(Image(noise_frame(n, 28, 28)) for n in range(5)), Text("Five small ones."))),
)


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
    return (
        replace(end, seconds=0.0, pieces=(), label_tokens=())
        if isinstance(end, Completion)
        else (type(end), str(end))
    )


def in_window(messages: list[Message], window: int | None) -> list[Message]:
    """The messages, of which only the last `window` tool responses keep their frames."""
    responses = [n for n, message in enumerate(messages) if n and message.role == "user"]
    old = responses[: max(0, len(responses) - window)] if window is not None else []
    return [without_frames(message) if n in old else message for n, message in enumerate(messages)]


@pytest.mark.parametrize("window", [None, 1, 2])
@pytest.mark.parametrize("which", ["small", "nano"])
def test_each_reply_of_a_batch_is_the_one_its_request_has_alone(
    request: pytest.FixtureRequest, which: str, window: int | None
) -> None:
    """Several turns; replies of different lengths; a memory window; conversations that sit a turn out."""
    backend: TransformersBackend = request.getfixturevalue(which)
    batched, single = (
        [backend.open_conversation() for _ in OPENINGS],
        [backend.open_conversation() for _ in OPENINGS],
    )
    histories = [[opening] for opening in OPENINGS]
    for turn in range(4):
        live = [n for n in range(len(OPENINGS)) if (n + turn) % 4]
        samplings = [Sampling(max_new_tokens=6 + 5 * n) for n in live]
        prompts = [in_window(histories[n], window) for n in live]
        ends = last_items(
            backend,
            [
                GenerationRequest(batched[n], m, s)
                for n, m, s in zip(live, prompts, samplings, strict=True)
            ],
        )
        for n, messages, sampling, end in zip(live, prompts, samplings, ends, strict=True):
            alone = generate(single[n], messages, sampling)
            assert comparable(end) == comparable(alone)
            histories[n] += [
                Message("assistant", (GeneratedText(alone.text, alone.tokens),)),
                tool_response(turn, noise_frame(20 + turn), noise_frame(n)),
            ]


def test_logits_of_a_batched_step_are_those_of_a_step_alone(small: TransformersBackend) -> None:
    loaded = small.loaded
    batched, alone = (
        [PrefixCache(loaded.model, loaded.vision) for _ in OPENINGS] for _ in range(2)
    )
    for opening, *both in zip(OPENINGS, batched, alone, strict=True):
        for cache in both:
            cache.prefill(
                render_prompt([opening], loaded.tokenizer, loaded.vision.vision_item), not_cancelled
            )
    batch = BatchedCache(loaded.model, batched)
    for step in range(8):
        live = [n for n in range(len(batched)) if (n + step) % 3]
        logits = batch.decode({id(batched[n]): 100 + 7 * step + n for n in live})
        for n in live:
            torch.testing.assert_close(
                logits[id(batched[n])], alone[n].decode(100 + 7 * step + n), atol=1e-4, rtol=0
            )


def test_redirects_and_sampling_of_each_request_are_its_own(small: TransformersBackend) -> None:
    plain = [
        generate(small.open_conversation(), [opening], Sampling(max_new_tokens=24)).text
        for opening in OPENINGS
    ]
    samplings = [
        Sampling(24, redirect=(plain[0][3:6], "<Answer>TA=")),
        Sampling(24, temperature=1.5, seed=3),
        Sampling(24, redirect=(plain[2][:4], "")),
        Sampling(24),
        Sampling(24, redirect=(plain[4][8:10], "no ")),
    ]
    ends = last_items(
        small,
        [
            GenerationRequest(small.open_conversation(), [o], s)
            for o, s in zip(OPENINGS, samplings, strict=True)
        ],
    )
    alone = [
        generate(small.open_conversation(), [o], s)
        for o, s in zip(OPENINGS, samplings, strict=True)
    ]
    assert [comparable(end) for end in ends] == [comparable(end) for end in alone]
    assert plain[0] != alone[0].text


def test_cancel_ends_one_request_and_no_other(small: TransformersBackend) -> None:
    answers = iter([False] * 6 + [True] * 100)
    requests = [
        GenerationRequest(small.open_conversation(), [opening], Sampling(20))
        for opening in OPENINGS
    ]
    requests[1] = replace(requests[1], cancelled=lambda: next(answers))
    ends = last_items(small, requests)
    whole = [generate(small.open_conversation(), [opening], Sampling(20)) for opening in OPENINGS]
    cut = ends[1]
    assert isinstance(cut, Completion)
    assert cut.stop == "cancelled"
    assert 0 < len(cut.tokens) < 20
    assert whole[1].tokens[: len(cut.tokens)] == cut.tokens
    assert [comparable(end) for n, end in enumerate(ends) if n != 1] == [
        comparable(end) for n, end in enumerate(whole) if n != 1
    ]
    assert (
        generate(requests[1].conversation, [OPENINGS[1]], Sampling(20)).tokens == whole[1].tokens
    ), "the conversation continues"


def test_request_that_fails_fails_alone(small: TransformersBackend) -> None:
    too_few_bytes = [
        Message("user", (Image(replace(noise_frame(99), key="too few bytes", rgb=b"123")),))
    ]
    long = [Message("user", (Text("blue ball " * 3000),))]
    closed, failing = small.open_conversation(), small.open_conversation()
    closed.close()

    def fails(calls: list[int] = []) -> bool:  # noqa: B006 - counts
        calls.append(0)
        if len(calls) > 5:
            raise RuntimeError("the kernel failed")
        return False

    ends = last_items(
        small,
        [
            GenerationRequest(small.open_conversation(), too_few_bytes, Sampling(9)),
            GenerationRequest(small.open_conversation(), [OPENING], Sampling(9)),
            GenerationRequest(small.open_conversation(), long, Sampling(9)),
            GenerationRequest(closed, [OPENING], Sampling(9)),
            GenerationRequest(failing, [OPENING], Sampling(9), fails),
            GenerationRequest(small.open_conversation(), [WITH_VIDEOS], Sampling(9)),
        ],
    )
    assert [type(end) for end in ends] == [
        BackendFailed,
        Completion,
        ContextFull,
        BackendFailed,
        BackendFailed,
        Completion,
    ]
    assert comparable(ends[1]) == comparable(
        generate(small.open_conversation(), [OPENING], Sampling(9))
    )
    assert comparable(ends[5]) == comparable(
        generate(small.open_conversation(), [WITH_VIDEOS], Sampling(9))
    )
    assert "the kernel failed" in str(ends[4])
    assert generate(failing, [OPENING], Sampling(9)).reused_tokens == 0


def test_conversations_continue_after_their_stream_was_abandoned(
    small: TransformersBackend,
) -> None:
    requests = [
        GenerationRequest(small.open_conversation(), [opening], Sampling(20))
        for opening in OPENINGS
    ]
    stream = small.stream_batch(requests)
    for _ in range(12):
        next(stream)
    del stream
    for request, opening in zip(requests, OPENINGS, strict=True):
        again = generate(request.conversation, [opening], Sampling(20))
        assert again.tokens == generate(small.open_conversation(), [opening], Sampling(20)).tokens


@pytest.mark.parametrize(
    ("device_map", "most"),
    [({"": 0}, 1), ({"model": 0, "lm_head": 1}, 0)],
    ids=["one GPU", "two GPUs"],
)
def test_a_batched_step_that_fails_is_tried_once_and_over_several_gpus_never(
    small: TransformersBackend,
    monkeypatch: pytest.MonkeyPatch,
    device_map: dict[str, int],
    most: int,
) -> None:
    tries = []

    def fail(*_: object, **__: object) -> None:
        tries.append(1)
        raise RuntimeError("out of memory")

    alone = [generate(small.open_conversation(), [opening], Sampling(9)) for opening in OPENINGS]
    monkeypatch.setattr(StaticLayer, "update", fail)
    monkeypatch.setattr(small.loaded.model, "hf_device_map", device_map, raising=False)
    ends = last_items(
        small,
        [
            GenerationRequest(small.open_conversation(), [opening], Sampling(9))
            for opening in OPENINGS
        ],
    )
    assert [comparable(end) for end in ends] == [comparable(end) for end in alone]
    assert len(tries) == most


def test_frames_of_all_requests_are_encoded_in_one_pass(small: TransformersBackend) -> None:
    passes = []
    hook = small.loaded.model.model.visual.register_forward_hook(lambda *_: passes.append(1))
    prompts = [
        [Message("user", (Image(noise_frame(200 + n)), Image(noise_frame(300)), Text("Compare.")))]
        for n in range(4)
    ]
    last_items(
        small,
        [
            GenerationRequest(small.open_conversation(), messages, Sampling(3))
            for messages in prompts
        ],
    )
    hook.remove()
    assert len(passes) == 1


def test_more_frames_than_the_cache_holds_are_encoded_once_in_passes_of_bounded_size(
    checkpoint_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint = open_checkpoint(str(checkpoint_folder))
    backend = TransformersBackend(checkpoint, "small")
    (one,) = backend.loaded.vision.encode(
        [backend.loaded.vision.vision_item("image", (noise_frame(400),))]
    )
    vision = VisionEncoder(checkpoint.model, checkpoint.processor, cache_bytes=5 * one.nbytes)
    backend.loaded, patches = replace(backend.loaded, vision=vision), 4 * len(one)
    monkeypatch.setattr(batch_decoding, "PATCHES_AT_ONCE", 5 * patches)
    passes: list[int] = []
    hook = checkpoint.model.model.visual.register_forward_hook(
        lambda _, given, __: passes.append(len(given[0]))
    )
    frames = [[Image(noise_frame(400 + 2 * n)), Image(noise_frame(401 + 2 * n))] for n in range(8)]
    prompts = [[Message("user", (*images, Text("Compare.")))] for images in frames]
    ends = last_items(
        backend,
        [
            GenerationRequest(backend.open_conversation(), messages, Sampling(3))
            for messages in prompts
        ],
    )
    hook.remove()
    assert all(isinstance(end, Completion) for end in ends)
    assert sum(passes) == 16 * patches
    assert max(passes) <= 5 * patches


def test_backend_is_a_batch_backend(small: TransformersBackend) -> None:
    assert isinstance(small, BatchBackend)
