"""One reply: detokenizer, cancels, limits, sampling, redirects and errors, decoded a token or several at a time."""

from __future__ import annotations

import shutil
import threading
import weakref
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, example, given, settings, strategies as st
from tokenizers import Tokenizer
from transformers import GenerationConfig

from tests.backends.support.random_model import (
    ASK,
    OPENING,
    asks,
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
from tests.backends.support.stock_transformers import StockModel
from vrthinker_core.backends import NANO
from vrthinker_core.backends.chat_template import SafeTokenizer, StreamingDetokenizer
from vrthinker_core.backends.checkpoint import open_checkpoint
from vrthinker_core.backends.generation import Generation
from vrthinker_core.backends.kv_cache import GrowingLayer
from vrthinker_core.backends.transformers_local import LocalConversation, TransformersBackend
from vrthinker_core.errors import BackendFailed, ContextFull
from vrthinker_core.types.messages import Message, Sampling

TOKENIZER = SafeTokenizer(Tokenizer.from_file(str(NANO / "tokenizer.json")))
CALL = '<tool_call>{"name": "select_frames", "arguments": {"frame_indices": ['


# -- detokenizer ---------------------------------------------------------------------------------------------------------


def pieces_of(tokens: Sequence[int]) -> list[str]:
    """The pieces in which these tokens arrive, the last one flushed."""
    detokenizer = StreamingDetokenizer(TOKENIZER)
    pieces = []
    for token in tokens:
        detokenizer.append([token])
        pieces.append(detokenizer.next_text())
    pieces.append(detokenizer.flush())
    assert "".join(pieces) == detokenizer.text
    return pieces


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(7, 913) | st.integers(170, 260), max_size=30))
def test_pieces_of_any_tokens_join_to_their_text(tokens: list[int]) -> None:
    assert "".join(pieces_of(tokens)) == TOKENIZER.decode(tokens)


def test_characters_of_several_tokens_are_emitted_whole() -> None:
    text = "naïve 判断两个视频 🙂🙃 — ok"
    pieces = pieces_of(TOKENIZER.encode(text))
    assert len(TOKENIZER.encode(text)) > len([piece for piece in pieces if piece])
    assert "".join(pieces) == text
    assert "\ufffd" not in "".join(pieces)


# -- cancels -------------------------------------------------------------------------------------------------------------


def test_cancel_ends_the_stream_before_its_next_piece_and_the_next_call_is_exact(
    nano: TransformersBackend,
) -> None:
    conversation, event = nano.open_conversation(), threading.Event()
    stream = conversation.stream(ASK, Sampling(max_new_tokens=400), event.is_set)
    shown = "".join(str(next(stream)) for _ in range(5))
    event.set()
    (last,) = stream
    assert (last.stop, last.text) == ("cancelled", shown)
    more = [*ASK, replied(last.text, last.tokens), user("Go on.")]
    assert generate(conversation, more).tokens == generate(nano.open_conversation(), more).tokens


@pytest.mark.parametrize(("calls", "steps"), [(0, 0), (1, 0), (7, 0), (6, 8)])
def test_conversation_continues_after_a_cancel_at_any_time(
    small: TransformersBackend, calls: int, steps: int
) -> None:
    conversation, answers = conversation_with(small, steps), iter([False] * calls)
    cut = generate(conversation, ASK, cancelled=lambda: next(answers, True))
    whole = generate(small.open_conversation(), ASK)
    assert cut.stop == "cancelled"
    assert len(cut.tokens) <= calls
    assert cut.tokens == whole.tokens[: len(cut.tokens)]
    again = generate(conversation, ASK)
    assert again.tokens == whole.tokens
    assert again.reused_tokens == (bool(calls) and (again.prompt_tokens or 0) - 1)


# -- limits --------------------------------------------------------------------------------------------------------------


def test_prompt_longer_than_the_context_is_refused_at_once(nano: TransformersBackend) -> None:
    conversation = nano.open_conversation()
    long = [user("blue ball " * 3000)]
    assert conversation.count_tokens(long) > conversation.context_length == 4096
    with pytest.raises(ContextFull, match=f"{conversation.count_tokens(long):,} tokens.*4,096"):
        next(conversation.stream(long, Sampling()))


def test_reply_ends_at_the_context_length(small: TransformersBackend) -> None:
    conversation = small.open_conversation()
    short = conversation.count_tokens([user("blue")])
    per_word = conversation.count_tokens([user("blue blue")]) - short
    words = (conversation.context_length - 4 - short) // per_word
    long = [user("blue" + " blue" * words)]
    left = conversation.context_length - conversation.count_tokens(long)
    reply = generate(conversation, long, Sampling(max_new_tokens=99))
    assert (reply.stop, len(reply.tokens)) == ("length", left)
    assert 0 < left < 99


def test_no_token_is_sampled_at_max_new_tokens_0(small: TransformersBackend) -> None:
    reply = generate(small.open_conversation(), ASK, Sampling(max_new_tokens=0))
    assert (reply.text, reply.stop, reply.tokens) == ("", "length", ())


# -- sampling ------------------------------------------------------------------------------------------------------------


def test_a_seed_repeats_a_sampled_reply_and_another_seed_changes_it(
    small: TransformersBackend,
) -> None:
    def sampled(seed: int, temperature: float = 1.5) -> tuple[int, ...]:
        sampling = Sampling(max_new_tokens=16, temperature=temperature, seed=seed)
        return generate(small.open_conversation(), ASK, sampling).tokens

    assert sampled(1) == sampled(1)
    assert sampled(1) != sampled(2)
    greedy = generate(small.open_conversation(), ASK, Sampling(max_new_tokens=16)).tokens
    assert sampled(3, 1e-4) == sampled(3, 1e-320) == greedy


def test_the_checkpoint_s_repetition_penalty_is_applied_as_in_stock_generate(
    checkpoint_folder: Path, stock: StockModel, small: TransformersBackend, tmp_path: Path
) -> None:
    copy = shutil.copytree(checkpoint_folder, tmp_path / "penalised")
    penalty = GenerationConfig(eos_token_id=[2, 0], pad_token_id=0, repetition_penalty=1.7)
    penalty.save_pretrained(copy)
    reply = generate(TransformersBackend.load(str(copy)).open_conversation(), ASK)
    assert list(reply.tokens) == StockModel(copy).generate(ASK, 24)
    assert reply.tokens != generate(small.open_conversation(), ASK).tokens


# -- redirects -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("start", "length"), [(3, 4), (0, 9), (30, 12)])
def test_redirect_writes_b_for_a_and_decoding_goes_on_from_there(
    small: TransformersBackend, stock: StockModel, start: int, length: int
) -> None:
    plain = generate(small.open_conversation(), ASK, Sampling(max_new_tokens=40)).text
    unwanted = plain[start : start + length]
    kept = plain[: plain.index(unwanted)]
    conversation, wanted = small.open_conversation(), "<Answer>TA="
    reply = generate(conversation, ASK, Sampling(40, redirect=(unwanted, wanted)))
    assert reply.text.startswith(kept + wanted)
    assert TOKENIZER.decode(reply.tokens) == reply.text
    redirected = next(n for n in range(41) if TOKENIZER.decode(reply.tokens[:n]) == kept + wanted)
    first, end = reply.redirected or (0, 0)
    assert end == redirected
    assert kept.startswith(TOKENIZER.decode(reply.tokens[:first]))
    rest = stock.generate(ASK, 40 - redirected, reply.tokens[:redirected])
    assert list(reply.tokens[redirected:]) == rest
    more = [*ASK, replied(reply.text, reply.tokens), user("Go on.")]
    assert generate(conversation, more).tokens == generate(small.open_conversation(), more).tokens


@pytest.mark.parametrize("more", [3, 1])
def test_a_redirect_in_reasoning_is_made_again_once_the_reasoning_is_closed(more: int) -> None:
    """What stands in reasoning is a quotation, so the reader would otherwise find a call on the last turn."""
    detokenizer = StreamingDetokenizer(TOKENIZER, ("<tool_call>", "<Answer>"))
    for piece in ("I might ", CALL, "x", CALL, "\n</think>\n", *[CALL] * more):
        detokenizer.append(TOKENIZER.encode(piece))
        detokenizer.apply_redirect()
        detokenizer.next_text()
    detokenizer.flush()
    assert detokenizer.text == f"I might <Answer>x{CALL}\n</think>\n<Answer>{CALL * (more - 1)}"
    assert len(TOKENIZER.encode(CALL)) == 1
    assert TOKENIZER.decode(detokenizer.tokens) == detokenizer.text
    first, end = detokenizer.redirected or (0, 0)
    written = TOKENIZER.decode(detokenizer.tokens[first:end]).strip()
    assert written == f"<Answer>x{CALL}\n</think>\n<Answer>"


@settings(max_examples=100, deadline=None)
@given(
    st.text(alphabet="ab<", max_size=20),
    st.text(alphabet="ab<", min_size=1, max_size=4),
    st.text(alphabet="xy", max_size=3),
)
def test_redirected_text_is_never_emitted(text: str, unwanted: str, wanted: str) -> None:
    detokenizer = StreamingDetokenizer(TOKENIZER, (unwanted, wanted))
    for character in text:
        detokenizer.append(TOKENIZER.encode(character))
        if detokenizer.apply_redirect():
            break
        assert unwanted not in detokenizer.text + detokenizer.next_text()
    detokenizer.flush()
    before, found, _ = text.partition(unwanted)
    assert detokenizer.text == (before + wanted if found else text)
    assert sum(detokenizer.pieces) == len(detokenizer.text)


# -- errors --------------------------------------------------------------------------------------------------------------


def raising(error: BaseException, after: int) -> Callable[[], bool]:
    """A `cancelled` that raises after some calls, in the middle of a reply, as a model may."""
    answers = iter([False] * after)

    def cancelled() -> bool:
        for answer in answers:
            return answer
        raise error

    return cancelled


OUT_OF_MEMORY = [
    MemoryError(),
    torch.OutOfMemoryError("CUDA out of memory. Tried to allocate"),
    RuntimeError("[enforce fail at alloc_cpu.cpp:127] DefaultCPUAllocator: can't allocate"),
    RuntimeError("CUDA error: out of memory\nCUDA kernel errors might be"),
    RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED in `cublasCreate`"),
]


FAILED = RuntimeError("a kernel\nfailed")


@pytest.mark.parametrize(
    ("error", "after"),
    [*((error, 3) for error in OUT_OF_MEMORY), (FAILED, 0), (FAILED, 3)],
    ids=repr,
)
def test_error_is_one_sentence_and_the_next_call_prefills_from_the_start(
    small: TransformersBackend, error: Exception, after: int
) -> None:
    sentence = "stopped while it was generating: a kernel$"
    if error in OUT_OF_MEMORY:
        sentence = "ran out of memory at .* tokens"
    conversation = small.open_conversation()
    with pytest.raises(BackendFailed, match=sentence):
        list(conversation.stream(ASK, Sampling(24), raising(error, after)))
    again = generate(conversation, ASK)
    assert again.tokens == generate(small.open_conversation(), ASK).tokens
    assert again.reused_tokens == 0


def test_keyboard_interrupt_is_not_converted(small: TransformersBackend) -> None:
    with pytest.raises(KeyboardInterrupt):
        list(small.open_conversation().stream(ASK, Sampling(24), raising(KeyboardInterrupt(), 2)))


def test_frames_that_cannot_be_encoded_are_refused(small: TransformersBackend) -> None:
    odd = replace(noise_frame(99), key="odd", rgb=b"123")
    with pytest.raises(BackendFailed, match="not enough image data"):
        generate(small.open_conversation(), [user(odd)])
    with pytest.raises(BackendFailed, match="cannot take a frame"):
        small.open_conversation().count_tokens([user(replace(odd, width=28, height=28_000))])


def test_backend_generates_after_its_image_features_were_freed(small: TransformersBackend) -> None:
    before = generate(small.open_conversation(), ASK)
    small.close()
    assert generate(small.open_conversation(), ASK).tokens == before.tokens


# -- several steps change no token -------------------------------------------------------------------------------------


SLIDING = {"use_sliding_window": True, "sliding_window": 16, "max_window_layers": 1}


@settings(max_examples=8, deadline=None, suppress_health_check=[*HealthCheck])
@example(steps=7, limit=10, penalty=1.0)
@given(steps=st.integers(1, 9), limit=st.integers(1, 40), penalty=st.sampled_from([1.0, 1.05, 1.5]))
def test_any_number_of_steps_gives_the_same_replies(
    small: TransformersBackend, steps: int, limit: int, penalty: float
) -> None:
    both = [conversation_with(small, each, repetition_penalty=penalty) for each in (0, steps)]
    messages = ASK
    for turn in range(3):
        # Tokens sampled beyond the end of a reply are not in the cache of the next prefill
        one, other = (generate(each, messages, Sampling(limit)) for each in both)
        assert same(one, other)
        messages = [*messages, replied(one.text, one.tokens), user(noise_frame(10 + turn), "More.")]


@pytest.mark.parametrize("steps", [1, 8])
def test_stop_token_and_redirect_amid_several_steps(nano: TransformersBackend, steps: int) -> None:
    for redirect in (None, ("<tool_call>", "<Answer>")):
        sampling = Sampling(400, redirect=redirect)
        both = (conversation_with(nano, each) for each in (0, steps))
        single, multi = (generate(each, OPENING, sampling) for each in both)
        assert single.stop == "end"
        assert same(single, multi)


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
    assert None in generation.run()
    generation.process()
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


def test_sampled_replies_are_those_of_single_steps(small: TransformersBackend) -> None:
    sampling = Sampling(max_new_tokens=20, temperature=1.0, seed=5)
    assert same(*(generate(conversation_with(small, n), ASK, sampling) for n in (8, 0)))


def test_conversation_may_decode_alone_and_then_in_a_batch(small: TransformersBackend) -> None:
    both = [conversation_with(small, 4) for _ in range(2)]
    alone = [generate(small.open_conversation(), messages) for messages in (ASK, OPENING)]
    assert same(generate(both[0], ASK), alone[0])
    batch = completions(small, asks(small, (ASK, OPENING), Sampling(24), conversations=both))
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
    backend = with_graphs(small)
    found = completions(backend, asks(backend, prompts, *samplings))
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
    replies = completions(backend, asks(backend, (ASK, OPENING), Sampling(8)))
    replies += [generate(backend.open_conversation(), ASK, each) for each in samplings]
    control = backend.loaded.tokenizer.control
    for reply in replies:
        assert reply.tokens
        assert not {control.image_pad, control.video_pad} & set(reply.tokens)
