"""How a reply is written: whole characters, cancels, limits, sampling, redirects, and what happens after a failure."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer
from transformers import GenerationConfig

from tests.backends.support.random_model import generate, noise_frame
from tests.backends.support.stock_transformers import StockModel
from vrthinker_core.backends import NANO
from vrthinker_core.backends.base import Backend, Conversation
from vrthinker_core.backends.local.text.detokenizer import StreamingDetokenizer
from vrthinker_core.backends.local.text.tokenizer import SafeTokenizer
from vrthinker_core.backends.transformers_local import TransformersBackend
from vrthinker_core.errors import BackendFailed, ContextFull
from vrthinker_core.types.messages import Completion, GeneratedText, Image, Message, Sampling, Text

SPELLING = SafeTokenizer(Tokenizer.from_file(str(NANO / "tokenizer.json")))
ASK = [Message("system", (Text("You judge."),)), Message("user", (Image(noise_frame(1)), Text("Compare the two videos.")))]
CALL = '<tool_call>{"name": "select_frames", "arguments": {"frame_indices": ['


def test_the_backend_keeps_the_seam(small: TransformersBackend) -> None:
    backend: Backend = small
    conversation: Conversation = backend.open_conversation()
    assert (backend.name, backend.protocol, conversation.context_length) == ("small", None, 2048)


def test_the_same_question_gives_the_same_reply_and_reads_one_token(small: TransformersBackend) -> None:
    conversation = small.open_conversation()
    first, second = generate(conversation, ASK), generate(conversation, ASK)
    assert first.tokens == second.tokens
    assert (first.stop, first.new_tokens, first.reused_tokens) == ("length", 24, 0)
    assert second.reused_tokens == (second.prompt_tokens or 0) - 1


# -- characters ----------------------------------------------------------------------------------------------------------


@settings(max_examples=150, deadline=None)
@given(st.lists(st.integers(7, 913) | st.integers(170, 260), max_size=30))
def test_pieces_of_any_tokens_spell_their_text_and_split_no_character(tokens: list[int]) -> None:
    said = StreamingDetokenizer(SPELLING)
    pieces = []
    for token in tokens:
        said.append([token])
        pieces.append(said.next_text())
    pieces.append(said.flush())
    assert "".join(pieces) == said.text == SPELLING.decode(tokens)


@pytest.mark.parametrize("text", ["naïve", "判断两个视频", "🙂🙃 — ok"])
def test_a_character_arrives_whole_or_not_at_all(text: str) -> None:
    said = StreamingDetokenizer(SPELLING)
    pieces = []
    for token in SPELLING.encode(text):
        said.append([token])
        pieces.append(said.next_text())
    assert len(SPELLING.encode(text)) > len([piece for piece in pieces if piece]), "some characters take several tokens"
    assert "".join(pieces) == text
    assert "\ufffd" not in "".join(pieces)


# -- cancels -------------------------------------------------------------------------------------------------------------


def test_a_cancel_ends_the_stream_within_a_fifth_of_a_second_and_the_next_call_is_exact(nano: TransformersBackend) -> None:
    conversation, event = nano.open_conversation(), threading.Event()
    stream = conversation.stream(ASK, Sampling(max_new_tokens=400), event.is_set)
    shown = "".join(str(next(stream)) for _ in range(5))
    event.set()
    began = time.perf_counter()
    (last,) = stream
    assert time.perf_counter() - began < 0.2
    assert isinstance(last, Completion)
    assert (last.stop, last.text) == ("cancelled", shown)
    more = [*ASK, Message("assistant", (GeneratedText(last.text, last.tokens),)), Message("user", (Text("Go on."),))]
    assert generate(conversation, more).tokens == generate(nano.open_conversation(), more).tokens


@pytest.mark.parametrize("calls", [0, 1, 2, 7])
def test_a_cancel_at_any_time_leaves_a_conversation_that_can_go_on(small: TransformersBackend, calls: int) -> None:
    conversation = small.open_conversation()
    asked = iter([False] * calls + [True] * 100)
    cut = generate(conversation, ASK, cancelled=lambda: next(asked))
    whole = generate(small.open_conversation(), ASK)
    assert cut.stop == "cancelled"
    assert cut.tokens == whole.tokens[: len(cut.tokens)]
    assert generate(conversation, ASK).tokens == whole.tokens


def test_a_reader_who_walks_away_leaves_a_conversation_that_can_go_on(small: TransformersBackend) -> None:
    conversation = small.open_conversation()
    stream = conversation.stream(ASK, Sampling())
    next(stream)
    del stream
    assert generate(conversation, ASK).tokens == generate(small.open_conversation(), ASK).tokens


# -- limits --------------------------------------------------------------------------------------------------------------


def test_a_prompt_that_does_not_fit_is_refused_before_it_is_read(nano: TransformersBackend) -> None:
    conversation = nano.open_conversation()
    long = [Message("user", (Text("blue ball " * 3000),))]
    assert conversation.count_tokens(long) > conversation.context_length == 4096
    with pytest.raises(ContextFull, match=f"{conversation.count_tokens(long):,} tokens.*4,096"):
        next(conversation.stream(long, Sampling()))


def test_a_reply_ends_where_the_context_does(small: TransformersBackend) -> None:
    conversation = small.open_conversation()
    few = [Message("user", (Text("blue"),))]
    word = conversation.count_tokens([Message("user", (Text("blue blue"),))]) - conversation.count_tokens(few)
    times = (conversation.context_length - 4 - conversation.count_tokens(few)) // word
    long = [Message("user", (Text("blue" + " blue" * times),))]
    left = conversation.context_length - conversation.count_tokens(long)
    reply = generate(conversation, long, Sampling(max_new_tokens=99))
    assert (reply.stop, len(reply.tokens)) == ("length", left)
    assert 0 < left < 99


def test_no_room_is_no_word(small: TransformersBackend) -> None:
    reply = generate(small.open_conversation(), ASK, Sampling(max_new_tokens=0))
    assert (reply.text, reply.stop, reply.tokens) == ("", "length", ())


# -- choosing ------------------------------------------------------------------------------------------------------------


def test_a_seed_repeats_a_sampled_reply_and_another_one_changes_it(small: TransformersBackend) -> None:
    def sampled(seed: int, temperature: float = 1.5) -> tuple[int, ...]:
        return generate(small.open_conversation(), ASK, Sampling(max_new_tokens=16, temperature=temperature, seed=seed)).tokens

    assert sampled(1) == sampled(1)
    assert sampled(1) != sampled(2)
    assert sampled(3, 1e-4) == generate(small.open_conversation(), ASK, Sampling(max_new_tokens=16)).tokens


def test_the_checkpoint_s_own_repetition_penalty_counts_as_in_stock_generate(
    folder: Path, stock: StockModel, small: TransformersBackend, tmp_path: Path
) -> None:
    copy = shutil.copytree(folder, tmp_path / "penalised")
    GenerationConfig(eos_token_id=[2, 0], pad_token_id=0, repetition_penalty=1.7).save_pretrained(copy)
    reply = generate(TransformersBackend.load(str(copy)).open_conversation(), ASK)
    assert list(reply.tokens) == StockModel(copy).generate(ASK, 24)
    assert reply.tokens != generate(small.open_conversation(), ASK).tokens


# -- redirects -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("start", "length"), [(3, 4), (0, 9), (17, 1), (30, 12)])
def test_a_redirect_writes_b_for_a_and_goes_on_from_there(
    small: TransformersBackend, stock: StockModel, start: int, length: int
) -> None:
    plain = generate(small.open_conversation(), ASK, Sampling(max_new_tokens=40)).text
    unwanted = plain[start : start + length]
    kept = plain[: plain.index(unwanted)]
    conversation = small.open_conversation()
    reply = generate(conversation, ASK, Sampling(max_new_tokens=40, redirect=(unwanted, "<Answer>TA=")))
    assert reply.text.startswith(kept + "<Answer>TA=")
    assert SPELLING.decode(reply.tokens) == reply.text
    known = next(n for n in range(41) if SPELLING.decode(reply.tokens[:n]) == kept + "<Answer>TA=")
    assert list(reply.tokens[known:]) == stock.generate(ASK, 40 - known, reply.tokens[:known])
    more = [*ASK, Message("assistant", (GeneratedText(reply.text, reply.tokens),)), Message("user", (Text("Go on."),))]
    assert generate(conversation, more).tokens == generate(small.open_conversation(), more).tokens


def test_a_redirect_that_never_comes_up_changes_nothing(small: TransformersBackend) -> None:
    assert (
        generate(small.open_conversation(), ASK, Sampling(24, redirect=("no such words", "b"))).text
        == generate(small.open_conversation(), ASK, Sampling(24)).text
    )


def test_the_whole_call_is_one_token_and_still_becomes_an_answer() -> None:
    said = StreamingDetokenizer(SPELLING, ("<tool_call>", "<Answer>"))
    said.append(SPELLING.encode("clear\n"))
    assert not said.apply_redirect()
    said.append(SPELLING.encode(CALL))
    assert len(SPELLING.encode(CALL)) == 1
    assert said.apply_redirect()
    assert said.next_text() + said.flush() == said.text == "clear\n<Answer>"
    assert list(said.tokens) == SPELLING.encode("clear\n<Answer>")


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet="ab<", max_size=20), st.text(alphabet="ab<", min_size=1, max_size=4), st.text(alphabet="xy", max_size=3))
def test_what_is_redirected_was_never_shown(text: str, unwanted: str, wanted: str) -> None:
    said = StreamingDetokenizer(SPELLING, (unwanted, wanted))
    for letter in text:
        said.append(SPELLING.encode(letter))
        if said.apply_redirect():
            break
        assert unwanted not in said.text + said.next_text()
    said.flush()
    before, found, _ = text.partition(unwanted)
    assert said.text == (before + wanted if found else text)
    assert sum(said.pieces) == len(said.text)


# -- failures ------------------------------------------------------------------------------------------------------------


def raising(error: BaseException, after: int) -> Callable[[], bool]:
    """A `cancelled` that fails in the middle of a reply, as a model may."""
    left = iter([False] * after)

    def ask() -> bool:
        for answer in left:
            return answer
        raise error

    return ask


@pytest.mark.parametrize("after", [0, 3])
@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (MemoryError(), "ran out of memory at .* tokens"),
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate"), "ran out of memory at .* tokens"),
        (RuntimeError("the kernel\nfailed"), "stopped while it was speaking: the kernel$"),
    ],
    ids=["memory", "GPU memory", "runtime"],
)
def test_a_failure_is_one_sentence_and_the_conversation_lives(
    small: TransformersBackend, error: Exception, sentence: str, after: int
) -> None:
    conversation = small.open_conversation()
    with pytest.raises(BackendFailed, match=sentence):
        list(conversation.stream(ASK, Sampling(24), raising(error, after)))
    again = generate(conversation, ASK)
    assert again.tokens == generate(small.open_conversation(), ASK).tokens
    assert again.reused_tokens == 0


def test_an_interrupt_stays_an_interrupt(small: TransformersBackend) -> None:
    with pytest.raises(KeyboardInterrupt):
        list(small.open_conversation().stream(ASK, Sampling(24), raising(KeyboardInterrupt(), 2)))


def test_frames_that_are_no_pictures_are_named(small: TransformersBackend) -> None:
    torn = Message("user", (Image(replace(noise_frame(99), key="torn", rgb=b"123")),))
    with pytest.raises(BackendFailed, match="not enough image data"):
        list(small.open_conversation().stream([torn], Sampling(4)))
    thread = Message("user", (Image(replace(noise_frame(99), key="thread", width=28, height=28_000)),))
    with pytest.raises(BackendFailed, match="cannot take a frame"):
        small.open_conversation().count_tokens([thread])


def test_a_closed_conversation_says_so(small: TransformersBackend) -> None:
    conversation = small.open_conversation()
    conversation.close()
    with pytest.raises(BackendFailed, match="closed"):
        list(conversation.stream(ASK, Sampling(4)))


def test_a_backend_that_gave_its_features_back_still_speaks(small: TransformersBackend) -> None:
    before = generate(small.open_conversation(), ASK)
    small.close()
    assert generate(small.open_conversation(), ASK).tokens == before.tokens
