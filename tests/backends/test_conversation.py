"""One reply: the streaming detokenizer, cancels, token limits, sampling, redirects, and errors."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings, strategies as st
from tokenizers import Tokenizer
from transformers import GenerationConfig

from tests.backends.support.random_model import ASK, generate, noise_frame, replied, user
from tests.backends.support.stock_transformers import StockModel
from vrthinker_core.backends import NANO
from vrthinker_core.backends.chat_template import SafeTokenizer, StreamingDetokenizer
from vrthinker_core.backends.transformers_local import TransformersBackend
from vrthinker_core.errors import BackendFailed, ContextFull
from vrthinker_core.types.messages import Sampling

TOKENIZER = SafeTokenizer(Tokenizer.from_file(str(NANO / "tokenizer.json")))
CALL = '<tool_call>{"name": "select_frames", "arguments": {"frame_indices": ['


def test_the_same_request_gives_the_same_reply_and_prefills_one_token(
    small: TransformersBackend,
) -> None:
    conversation = small.open_conversation()
    first, second = generate(conversation, ASK), generate(conversation, ASK)
    assert first.tokens == second.tokens
    assert (first.stop, first.new_tokens, first.reused_tokens) == ("length", 24, 0)
    assert second.reused_tokens == (second.prompt_tokens or 0) - 1


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


@pytest.mark.parametrize("calls", [0, 1, 7])
def test_conversation_continues_after_a_cancel_at_any_time(
    small: TransformersBackend, calls: int
) -> None:
    conversation = small.open_conversation()
    answers = iter([False] * calls + [True] * 100)
    cut = generate(conversation, ASK, cancelled=lambda: next(answers))
    whole = generate(small.open_conversation(), ASK)
    assert cut.stop == "cancelled"
    assert cut.tokens == whole.tokens[: len(cut.tokens)]
    assert generate(conversation, ASK).tokens == whole.tokens


# -- limits --------------------------------------------------------------------------------------------------------------


def test_prompt_longer_than_the_context_is_refused_before_prefill(
    nano: TransformersBackend,
) -> None:
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
    GenerationConfig(eos_token_id=[2, 0], pad_token_id=0, repetition_penalty=1.7).save_pretrained(
        copy
    )
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


@pytest.mark.parametrize(
    ("error", "after"),
    [
        *((error, 3) for error in OUT_OF_MEMORY),
        *((RuntimeError("a kernel\nfailed"), n) for n in (0, 3)),
    ],
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
