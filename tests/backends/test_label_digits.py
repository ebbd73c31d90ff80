"""Label probabilities of a local judge: the softmax of the logits that a label was sampled from, however it was decoded."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest
import torch
from hypothesis import given, strategies as st

from tests.backends.support.random_model import (
    VOCABULARY_SIZE,
    asks,
    completions,
    conversation_with,
    generate,
    same,
)
from tests.backends.test_conversation import TOKENIZER
from vrthinker_core.backends.base import not_cancelled
from vrthinker_core.backends.chat_template import StreamingDetokenizer, render_prompt
from vrthinker_core.backends.generation import LabelDigits
from vrthinker_core.backends.kv_cache import PrefixCache
from vrthinker_core.backends.transformers_local import TransformersBackend
from vrthinker_core.drawn.world import TRAINING_SEEDS, draw_pair
from vrthinker_core.protocols import make_protocol
from vrthinker_core.training.pair_set import DrawnFrames
from vrthinker_core.types import Settings
from vrthinker_core.types.messages import LabelToken, Message, Sampling

DIGITS = LabelDigits(enumerate(TOKENIZER.vocabulary))
ANSWER_NOW = Sampling(max_new_tokens=400, redirect=("<tool_call>", "<Answer>"))


@cache
def opening(number: int) -> tuple[Message, ...]:
    """What a judge is asked first of an unseen drawn pair: any judge of that world answers it with labels."""
    protocol, pair = make_protocol(Settings(), "paired"), draw_pair(TRAINING_SEEDS + number)
    return tuple(protocol.opening_messages(pair.prompt, DrawnFrames(pair)(protocol.opening_refs)))


TOLERANCE = 1e-4
"""Of a probability: a step of a batch, or over fixed tensors, adds up in another order."""


def probabilities(tokens: tuple[LabelToken, ...]) -> list[float]:
    return [share for token in tokens for share in token.probabilities]


def test_the_digits_of_a_vocabulary_are_those_that_stand_alone() -> None:
    written = {TOKENIZER.token_bytes(token) for token in DIGITS.characters_after}
    assert written == {b"0", b"1", b"2", b" 0", b" 1", b" 2"}
    assert set(DIGITS.characters_after.values()) == {0}


@given(st.lists(st.integers(0, VOCABULARY_SIZE - 1), min_size=1, max_size=6), st.integers(0, 10**6))
def test_probabilities_come_with_digits_alone_and_are_a_softmax(
    tokens: list[int], seed: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    scores = 8 * torch.randn(len(tokens), VOCABULARY_SIZE, generator=generator)
    found = DIGITS.with_probabilities(tokens, scores)
    for sampled, token, row in zip(found, tokens, scores, strict=True):
        assert sampled.token == token
        digit = TOKENIZER.token_bytes(token).strip() in (b"0", b"1", b"2")
        assert (sampled.probabilities is not None) == digit
        if sampled.probabilities is not None:
            shares = torch.softmax(row.double(), dim=-1)
            for digit, share in zip("012", sampled.probabilities, strict=True):
                (bare,), (spaced,) = TOKENIZER.encode(digit), TOKENIZER.encode(f" {digit}")
                assert share == pytest.approx(float(shares[bare] + shares[spaced]), abs=2e-6)


@pytest.mark.parametrize(("temperature", "penalty"), [(0.0, 1.0), (0.0, 1.3), (0.4, 1.0)])
def test_each_label_has_the_softmax_of_the_logits_before_it(
    nano: TransformersBackend, temperature: float, penalty: float
) -> None:
    """Computed again from a prefill of all that stands before the label, without a temperature."""
    sampling = replace(ANSWER_NOW, temperature=temperature)
    conversation = conversation_with(nano, 0, repetition_penalty=penalty)
    reply = generate(conversation, opening(1), sampling)
    assert len(reply.label_tokens) >= (1 if temperature else 4)
    prompt = render_prompt(opening(1), nano.loaded.tokenizer, nano.loaded.vision.vision_item)
    generation = conversation.start_generation(opening(1), sampling)
    lengths = [len(TOKENIZER.decode(reply.tokens[: n + 1])) for n in range(len(reply.tokens))]
    for label in reply.label_tokens:
        assert reply.text[label.offset] in "012"
        before = sum(length <= label.offset for length in lengths)
        logits, _ = PrefixCache(nano.loaded.model, nano.loaded.vision).prefill(
            [*prompt, *reply.tokens[:before]], not_cancelled
        )
        scores = logits.clone()
        written = generation.sampler.prompt_tokens | {*reply.tokens[:before]}
        seen = sorted(written) if penalty != 1 else []
        scores[seen] = torch.where(scores[seen] < 0, scores[seen] * penalty, scores[seen] / penalty)
        expected = DIGITS.with_probabilities([reply.tokens[before]], scores[None])[0].probabilities
        assert label.probabilities == pytest.approx(expected, abs=TOLERANCE)
        if temperature == 0:  # Greedy writes the likeliest
            likeliest = label.probabilities[int(reply.text[label.offset])]
            assert max(label.probabilities) == likeliest


def test_single_steps_several_steps_and_a_batch_tell_the_same(nano: TransformersBackend) -> None:
    prompts = [opening(1), opening(2)]
    alone = [generate(conversation_with(nano, 0), messages, ANSWER_NOW) for messages in prompts]
    assert all(reply.label_tokens for reply in alone)
    several = generate(conversation_with(nano, 5), prompts[0], ANSWER_NOW)
    batched = completions(nano, asks(nano, prompts, ANSWER_NOW))
    for reply, other in zip((alone[0], *alone), (several, *batched), strict=True):
        assert same(reply, other)
        offsets = [[token.offset for token in each.label_tokens] for each in (reply, other)]
        assert offsets[0] == offsets[1]
        expected = pytest.approx(probabilities(reply.label_tokens), abs=TOLERANCE)
        assert probabilities(other.label_tokens) == expected


def test_a_redirect_takes_the_digits_behind_it_along() -> None:
    detokenizer = StreamingDetokenizer(TOKENIZER, ("TA=2", "<Answer>TA="))
    written = "é 2 OA=1, TA=2"
    for token in TOKENIZER.encode(written):
        detokenizer.append([token])
        if token in DIGITS.characters_after:
            detokenizer.mark_digit((0.25, 0.5, 0.25), DIGITS.characters_after[token])
    offsets = [written.index("2"), written.index("1"), written.rindex("2")]
    assert [token.offset for token in detokenizer.label_tokens] == offsets
    assert detokenizer.apply_redirect()
    assert [token.offset for token in detokenizer.label_tokens] == offsets[:2]
    assert detokenizer.flush() == "é 2 OA=1, <Answer>TA="
    assert [token.offset for token in detokenizer.labels()] == offsets[1:2], "of labels alone"
