"""A reply never holds a token that stands for a picture, whatever the weights: nothing could stand in its place."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tests.backends.support.random_model import generate
from tests.backends.test_conversation import ASK
from tests.backends.test_multi_step import OPENING, conversation_with
from vrthinker_core.backends.base import GenerationRequest
from vrthinker_core.backends.transformers_local import TransformersBackend
from vrthinker_core.types.messages import Completion, Sampling


@pytest.fixture(scope="module")
def eager_to_show(checkpoint_folder: Path) -> TransformersBackend:
    """Weights under which one of both placeholders is always by far the likeliest token."""
    backend = TransformersBackend.load(str(checkpoint_folder))
    control, head = backend.loaded.tokenizer.control, backend.loaded.model.lm_head.weight
    with torch.no_grad():
        head[control.image_pad] = 1e4
        head[control.video_pad] = -1e4
    return backend


def placeholders(backend: TransformersBackend) -> set[int]:
    return {backend.loaded.tokenizer.control.image_pad, backend.loaded.tokenizer.control.video_pad}


@pytest.mark.parametrize("steps", [0, 4])
@pytest.mark.parametrize(
    "sampling", [Sampling(max_new_tokens=12), Sampling(max_new_tokens=12, temperature=1.5, seed=3)]
)
def test_alone(eager_to_show: TransformersBackend, steps: int, sampling: Sampling) -> None:
    completion = generate(conversation_with(eager_to_show, steps), ASK, sampling)
    assert completion.tokens
    assert not placeholders(eager_to_show) & set(completion.tokens)


@pytest.mark.parametrize("steps", [0, 4])
def test_in_a_batch(eager_to_show: TransformersBackend, steps: int) -> None:
    backend = copy(eager_to_show)
    backend.loaded = replace(eager_to_show.loaded, steps_per_sync=steps)
    requests = [
        GenerationRequest(backend.open_conversation(), messages, Sampling(max_new_tokens=8))
        for messages in (ASK, OPENING)
    ]
    replies = [item for _, item in backend.stream_batch(requests) if isinstance(item, Completion)]
    assert len(replies) == 2
    for reply in replies:
        assert reply.tokens
        assert not placeholders(backend) & set(reply.tokens)
