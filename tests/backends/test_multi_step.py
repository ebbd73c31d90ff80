"""Multi-step decoding changes no token: every reply is the one that is decoded a token at a time."""

from __future__ import annotations

import weakref
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings, strategies as st

from tests.backends.support.random_model import (
    generate,
    noise_frame,
    small_config,
    write_random_checkpoint,
)
from tests.backends.test_conversation import ASK
from vrthinker_core.backends.base import GenerationRequest
from vrthinker_core.backends.checkpoint import open_checkpoint
from vrthinker_core.backends.generation import Generation
from vrthinker_core.backends.kv_cache import GrowingLayer
from vrthinker_core.backends.transformers_local import LocalConversation, TransformersBackend
from vrthinker_core.types.messages import Completion, GeneratedText, Image, Message, Sampling, Text

OPENING = [
    Message("user", (Image(noise_frame(3)), Text("Video of a red cube going left on wood.")))
]

SLIDING = {"use_sliding_window": True, "sliding_window": 16, "max_window_layers": 1}


def conversation_with(
    backend: TransformersBackend, steps_per_sync: int, **changed: object
) -> LocalConversation:
    return LocalConversation(replace(backend.loaded, steps_per_sync=steps_per_sync, **changed))  # type: ignore[arg-type]


def same(one: Completion, other: Completion) -> bool:
    return (one.text, one.stop, one.tokens, one.prompt_tokens, one.reused_tokens) == (
        other.text, other.stop, other.tokens, other.prompt_tokens, other.reused_tokens,
    )  # fmt: skip


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(steps=st.integers(1, 9), limit=st.integers(1, 40), penalty=st.sampled_from([1.0, 1.05, 1.5]))
def test_any_number_of_steps_gives_the_same_replies(
    small: TransformersBackend, steps: int, limit: int, penalty: float
) -> None:
    both = [conversation_with(small, each, repetition_penalty=penalty) for each in (0, steps)]
    messages = ASK
    for turn in range(3):
        replies = [
            generate(conversation, messages, Sampling(max_new_tokens=limit))
            for conversation in both
        ]
        assert same(*replies)
        reply = Message("assistant", (GeneratedText(replies[0].text, replies[0].tokens),))
        more = Message("user", (Image(noise_frame(10 + turn)), Text("More.")))
        messages = [*messages, reply, more]


@pytest.mark.parametrize("steps", [1, 4, 8])
def test_stop_token_and_redirect_amid_several_steps(nano: TransformersBackend, steps: int) -> None:
    for sampling in (
        Sampling(max_new_tokens=400),
        Sampling(max_new_tokens=400, redirect=("<tool_call>", "<Answer>")),
    ):
        single, multi = (
            generate(conversation_with(nano, each), OPENING, sampling) for each in (0, steps)
        )
        assert single.stop == "end"
        assert same(single, multi)


def test_the_cache_holds_the_reply_and_nothing_more(small: TransformersBackend) -> None:
    """Tokens sampled beyond the end of a reply are not in the cache of the next prefill."""
    both = [conversation_with(small, steps) for steps in (0, 7)]
    for messages, limit in (
        (ASK, 10),
        ([*ASK, Message("assistant", (GeneratedText("hm"),))], 3),
        (ASK, 12),
    ):
        replies = [
            generate(conversation, messages, Sampling(max_new_tokens=limit))
            for conversation in both
        ]
        assert same(*replies)


def test_cache_that_grows_amid_a_reply(
    small: TransformersBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(GrowingLayer, "block_rows", 8)
    assert same(
        *(generate(conversation_with(small, n), ASK, Sampling(max_new_tokens=60)) for n in (0, 5))
    )


def started(
    conversation: LocalConversation, messages: list[Message]
) -> tuple[Generation, list[weakref.ref[torch.Tensor]]]:
    """A reply after its first steps, and the keys and values of every layer."""
    generation = conversation.start_generation(messages, Sampling(max_new_tokens=24))
    generation.prefill()
    generation.step()
    return generation, [
        weakref.ref(tensor) for layer in generation.cache.layers for tensor in layer.storage
    ]


def test_keys_and_values_are_freed_after_an_error(small: TransformersBackend) -> None:
    conversation = conversation_with(small, 4)
    generation, keys_and_values = started(conversation, ASK)
    conversation.error_after(generation, MemoryError())
    assert not any(tensor() is not None for tensor in keys_and_values)


def test_a_cache_that_grows_for_a_prompt_exists_once(
    small: TransformersBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(GrowingLayer, "block_rows", 8)
    conversation = conversation_with(small, 4)
    _, keys_and_values = started(conversation, ASK)
    conversation.start_generation(
        [*ASK, Message("user", (Text("More. " * 9),))], Sampling(max_new_tokens=24)
    ).prefill()
    assert not any(tensor() is not None for tensor in keys_and_values)


def test_cancel_takes_effect_before_the_next_token(small: TransformersBackend) -> None:
    conversation = conversation_with(small, 8)
    answers = iter([False] * 6)
    cut = generate(conversation, ASK, Sampling(max_new_tokens=40), lambda: next(answers, True))
    whole = generate(conversation_with(small, 0), ASK, Sampling(max_new_tokens=40))
    assert cut.stop == "cancelled"
    assert 0 < len(cut.tokens) < 8
    assert whole.tokens[: len(cut.tokens)] == cut.tokens
    assert generate(conversation, ASK).tokens == whole.tokens[:24]


def test_sampled_replies_are_decoded_a_token_at_a_time(small: TransformersBackend) -> None:
    sampling = Sampling(max_new_tokens=20, temperature=1.0, seed=5)
    assert (
        generate(conversation_with(small, 8), ASK, sampling).tokens
        == generate(conversation_with(small, 0), ASK, sampling).tokens
    )


def test_conversation_may_decode_alone_and_then_in_a_batch(small: TransformersBackend) -> None:
    both = [conversation_with(small, 4) for _ in range(2)]
    alone = [generate(conversation_with(small, 0), messages) for messages in (ASK, OPENING)]
    assert same(generate(both[0], ASK), alone[0])
    requests = [
        GenerationRequest(c, m, Sampling(max_new_tokens=24))
        for c, m in zip(both, (ASK, OPENING), strict=True)
    ]
    completions = {
        n: item for n, item in small.stream_batch(requests) if isinstance(item, Completion)
    }
    assert [completions[n].tokens for n in range(2)] == [reply.tokens for reply in alone]
    again = generate(both[0], ASK)
    assert again.tokens == alone[0].tokens


def test_batch_with_cuda_graphs_on_gives_the_same_replies(
    small: TransformersBackend, checkpoint_folder: Path
) -> None:
    backend = TransformersBackend.load(str(checkpoint_folder))
    backend.loaded = replace(backend.loaded, steps_per_sync=4)
    prompts = [
        ASK,
        OPENING,
        [*ASK, Message("assistant", (GeneratedText("hm"),)), Message("user", (Text("More."),))],
    ]
    requests = [
        GenerationRequest(backend.open_conversation(), messages, Sampling(max_new_tokens=8 * n))
        for n, messages in enumerate(prompts, start=1)
    ]
    completions = {
        n: item for n, item in backend.stream_batch(requests) if isinstance(item, Completion)
    }
    for n, messages in enumerate(prompts):
        assert same(
            completions[n],
            generate(conversation_with(small, 0), messages, Sampling(max_new_tokens=8 * (n + 1))),
        )


@pytest.mark.parametrize(
    ("layers", "device_map", "zero_gpu", "several"),
    [
        ({}, {"": 0}, "", True),
        (SLIDING, {"": 0}, "", False),
        ({}, {"a": 0, "b": 1}, "", False),
        *(({}, {"": 0}, lent, False) for lent in ("1", "true")),
        *(({}, {"": 0}, lent, True) for lent in ("0", "false")),
    ],
)
def test_several_steps_at_a_time_are_for_one_gpu_of_ones_own_and_layers_that_read_all_rows(
    layers: dict[str, object], device_map: dict[str, int], zero_gpu: str, several: bool,
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    folder = write_random_checkpoint(tmp_path / "judge", config=small_config(layers))
    checkpoint = open_checkpoint(str(folder))
    checkpoint.model.hf_device_map = device_map
    monkeypatch.setattr(type(checkpoint.model), "device", torch.device("cuda"))
    monkeypatch.setenv("SPACES_ZERO_GPU", zero_gpu)
    assert (TransformersBackend(checkpoint, "judge").loaded.steps_per_sync > 0) == several
