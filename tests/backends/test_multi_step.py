"""Writing ahead changes no token: whatever a reply meets on its way, it is the one that is written a token at a time."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.backends.support.random_model import generate, noise_frame
from tests.backends.test_conversation import ASK
from vrthinker_core.backends.base import GenerationRequest
from vrthinker_core.backends.local.conversation import LocalConversation
from vrthinker_core.backends.local.engine.kv_cache import GrowingLayer
from vrthinker_core.backends.transformers_local import TransformersBackend
from vrthinker_core.types.messages import Completion, GeneratedText, Image, Message, Sampling, Text

OPENING = [Message("user", (Image(noise_frame(3)), Text("Video of a red cube going left on wood.")))]


def opened(backend: TransformersBackend, stride: int, **changed: object) -> LocalConversation:
    return LocalConversation(replace(backend.loaded, steps_per_sync=stride, **changed))  # type: ignore[arg-type]


def same(one: Completion, other: Completion) -> bool:
    return (one.text, one.stop, one.tokens, one.prompt_tokens, one.reused_tokens) == (
        other.text, other.stop, other.tokens, other.prompt_tokens, other.reused_tokens,
    )  # fmt: skip


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(stride=st.integers(1, 9), most=st.integers(1, 40), penalty=st.sampled_from([1.0, 1.05, 1.5]))
def test_any_stride_writes_the_same(small: TransformersBackend, stride: int, most: int, penalty: float) -> None:
    plain, striding = opened(small, 0, repetition_penalty=penalty), opened(small, stride, repetition_penalty=penalty)
    messages = ASK
    for turn in range(3):
        replies = [generate(conversation, messages, Sampling(max_new_tokens=most)) for conversation in (plain, striding)]
        assert same(*replies)
        spoken = Message("assistant", (GeneratedText(replies[0].text, replies[0].tokens),))
        messages = [*messages, spoken, Message("user", (Image(noise_frame(10 + turn)), Text("More.")))]


@pytest.mark.parametrize("stride", [1, 4, 8])
def test_a_judge_that_ends_and_one_that_is_turned(nano: TransformersBackend, stride: int) -> None:
    for sampling in (Sampling(max_new_tokens=400), Sampling(max_new_tokens=400, redirect=("<tool_call>", "<Answer>"))):
        plain, striding = (generate(opened(nano, n), OPENING, sampling) for n in (0, stride))
        assert plain.stop == "end"
        assert same(plain, striding)


def test_the_reading_holds_what_was_said_and_nothing_more(small: TransformersBackend) -> None:
    """What was written ahead of a reply that ended is not there when the next question is read."""
    plain, striding = opened(small, 0), opened(small, 7)
    for messages, most in ((ASK, 10), ([*ASK, Message("assistant", (GeneratedText("hm"),))], 3), (ASK, 12)):
        replies = [generate(conversation, messages, Sampling(max_new_tokens=most)) for conversation in (plain, striding)]
        assert same(*replies)


def test_room_that_grows_in_the_middle_of_a_reply(small: TransformersBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(GrowingLayer, "block_rows", 8)
    assert same(*(generate(opened(small, n), ASK, Sampling(max_new_tokens=60)) for n in (0, 5)))


def test_a_cancel_is_heard_before_the_next_token(small: TransformersBackend) -> None:
    conversation = opened(small, 8)
    asked = iter([False] * 6)
    cut = generate(conversation, ASK, Sampling(max_new_tokens=40), lambda: next(asked, True))
    whole = generate(opened(small, 0), ASK, Sampling(max_new_tokens=40))
    assert cut.stop == "cancelled"
    assert 0 < len(cut.tokens) < 8
    assert whole.tokens[: len(cut.tokens)] == cut.tokens
    assert generate(conversation, ASK).tokens == whole.tokens[:24]


def test_sampling_goes_a_token_at_a_time(small: TransformersBackend) -> None:
    sampling = Sampling(max_new_tokens=20, temperature=1.0, seed=5)
    assert generate(opened(small, 8), ASK, sampling).tokens == generate(opened(small, 0), ASK, sampling).tokens


def test_a_conversation_may_stride_alone_and_step_among_others(small: TransformersBackend) -> None:
    judge = replace(small.loaded, steps_per_sync=4)
    both = [LocalConversation(judge) for _ in range(2)]
    alone = [generate(opened(small, 0), messages) for messages in (ASK, OPENING)]
    assert same(generate(both[0], ASK), alone[0])
    questions = [GenerationRequest(c, m, Sampling(max_new_tokens=24)) for c, m in zip(both, (ASK, OPENING), strict=True)]
    together = {n: said for n, said in small.stream_batch(questions) if isinstance(said, Completion)}
    assert [together[n].tokens for n in range(2)] == [reply.tokens for reply in alone]
    again = generate(both[0], ASK)
    assert again.tokens == alone[0].tokens


def test_a_batch_whose_steps_can_be_recorded_says_the_same(small: TransformersBackend, folder: Path) -> None:
    backend = TransformersBackend.load(str(folder))
    backend.loaded = replace(backend.loaded, steps_per_sync=4)
    asked = [ASK, OPENING, [*ASK, Message("assistant", (GeneratedText("hm"),)), Message("user", (Text("More."),))]]
    questions = [
        GenerationRequest(backend.open_conversation(), messages, Sampling(max_new_tokens=8 * n))
        for n, messages in enumerate(asked, start=1)
    ]
    together = {n: said for n, said in backend.stream_batch(questions) if isinstance(said, Completion)}
    for n, messages in enumerate(asked):
        assert same(together[n], generate(opened(small, 0), messages, Sampling(max_new_tokens=8 * (n + 1))))
