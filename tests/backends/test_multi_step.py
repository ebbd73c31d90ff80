"""Multi-step decoding changes no token: every reply is the one that is decoded a token at a time."""

from __future__ import annotations

import weakref
from copy import copy
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings, strategies as st

from tests.backends.support.random_model import (
    ASK,
    OPENING,
    completions,
    conversation_with,
    generate,
    noise_frame,
    replied,
    same,
    small_config,
    user,
    write_random_checkpoint,
)
from vrthinker_core.backends.checkpoint import open_checkpoint
from vrthinker_core.backends.generation import Generation
from vrthinker_core.backends.kv_cache import GrowingLayer
from vrthinker_core.backends.transformers_local import LocalConversation, TransformersBackend
from vrthinker_core.types.messages import Message, Sampling

SLIDING = {"use_sliding_window": True, "sliding_window": 16, "max_window_layers": 1}


@settings(
    max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(steps=st.integers(1, 9), limit=st.integers(1, 40), penalty=st.sampled_from([1.0, 1.05, 1.5]))
def test_any_number_of_steps_gives_the_same_replies(
    small: TransformersBackend, steps: int, limit: int, penalty: float
) -> None:
    both = [conversation_with(small, each, repetition_penalty=penalty) for each in (0, steps)]
    messages = ASK
    for turn in range(3):
        one, other = (generate(each, messages, Sampling(limit)) for each in both)
        assert same(one, other)
        messages = [*messages, replied(one.text, one.tokens), user(noise_frame(10 + turn), "More.")]


@pytest.mark.parametrize("steps", [1, 8])
def test_stop_token_and_redirect_amid_several_steps(nano: TransformersBackend, steps: int) -> None:
    for redirect in (None, ("<tool_call>", "<Answer>")):
        sampling = Sampling(400, redirect=redirect)
        single, multi = (
            generate(conversation_with(nano, each), OPENING, sampling) for each in (0, steps)
        )
        assert single.stop == "end"
        assert same(single, multi)


def test_the_cache_holds_the_reply_and_nothing_more(small: TransformersBackend) -> None:
    """Tokens sampled beyond the end of a reply are not in the cache of the next prefill."""
    both = [conversation_with(small, steps) for steps in (0, 7)]
    for messages, limit in ((ASK, 10), ([*ASK, replied("hm")], 3), (ASK, 12)):
        assert same(*(generate(each, messages, Sampling(limit)) for each in both))


def test_cache_that_grows_amid_a_reply(
    small: TransformersBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(GrowingLayer, "block_rows", 8)
    assert same(*(generate(conversation_with(small, n), ASK, Sampling(60)) for n in (0, 5)))


def started(
    conversation: LocalConversation, messages: list[Message]
) -> tuple[Generation, list[weakref.ref[torch.Tensor]]]:
    """A reply after its first steps, and the keys and values of every layer."""
    generation = conversation.start_generation(messages, Sampling(max_new_tokens=24))
    generation.prefill()
    generation.step()
    stored = [tensor for layer in generation.cache.layers for tensor in layer.storage]
    return generation, [*map(weakref.ref, stored)]


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
    conversation.start_generation([*ASK, user("More. " * 9)], Sampling(24)).prefill()
    assert not any(tensor() is not None for tensor in keys_and_values)


def test_cancel_takes_effect_before_the_next_token(small: TransformersBackend) -> None:
    conversation = conversation_with(small, 8)
    answers = iter([False] * 6)
    cut = generate(conversation, ASK, Sampling(40), lambda: next(answers, True))
    whole = generate(conversation_with(small, 0), ASK, Sampling(40))
    assert cut.stop == "cancelled"
    assert 0 < len(cut.tokens) < 8
    assert whole.tokens[: len(cut.tokens)] == cut.tokens
    assert generate(conversation, ASK).tokens == whole.tokens[:24]


def test_sampled_replies_are_decoded_a_token_at_a_time(small: TransformersBackend) -> None:
    sampling = Sampling(max_new_tokens=20, temperature=1.0, seed=5)
    assert same(*(generate(conversation_with(small, n), ASK, sampling) for n in (8, 0)))


def test_conversation_may_decode_alone_and_then_in_a_batch(small: TransformersBackend) -> None:
    both = [conversation_with(small, 4) for _ in range(2)]
    alone = [generate(conversation_with(small, 0), messages) for messages in (ASK, OPENING)]
    assert same(generate(both[0], ASK), alone[0])
    batch = completions(small, (ASK, OPENING), Sampling(24), conversations=both)
    assert [reply.tokens for reply in batch] == [reply.tokens for reply in alone]
    assert generate(both[0], ASK).tokens == alone[0].tokens


def with_graphs(backend: TransformersBackend) -> TransformersBackend:
    """The same backend, which decodes several steps at a time."""
    several = copy(backend)
    several.loaded = replace(backend.loaded, steps_per_sync=4)
    return several


def test_batch_with_cuda_graphs_on_gives_the_same_replies(small: TransformersBackend) -> None:
    prompts = [ASK, OPENING, [*ASK, replied("hm"), user("More.")]]
    samplings = [Sampling(8 * n) for n in (1, 2, 3)]
    found = completions(with_graphs(small), prompts, *samplings)
    for reply, messages, sampling in zip(found, prompts, samplings, strict=True):
        assert same(reply, generate(conversation_with(small, 0), messages, sampling))


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


# -- placeholders --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def eager_to_show(checkpoint_folder: Path) -> TransformersBackend:
    """Weights under which one of both placeholders is always by far the likeliest token."""
    backend = TransformersBackend.load(str(checkpoint_folder))
    control, head = backend.loaded.tokenizer.control, backend.loaded.model.lm_head.weight
    with torch.no_grad():
        head[control.image_pad] = 1e4
        head[control.video_pad] = -1e4
    return backend


@pytest.mark.parametrize("steps", [0, 4])
def test_a_reply_never_holds_a_token_that_stands_for_a_picture(
    eager_to_show: TransformersBackend, steps: int
) -> None:
    """Nothing could stand in its place."""
    backend = with_graphs(eager_to_show) if steps else eager_to_show
    samplings = Sampling(12), Sampling(12, temperature=1.5, seed=3)
    replies = completions(backend, (ASK, OPENING), Sampling(8))
    replies += [generate(backend.open_conversation(), ASK, each) for each in samplings]
    control = backend.loaded.tokenizer.control
    for reply in replies:
        assert reply.tokens
        assert not {control.image_pad, control.video_pad} & set(reply.tokens)
