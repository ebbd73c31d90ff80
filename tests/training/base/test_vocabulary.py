"""The small model's vocabulary: any text can be encoded, and what is always said alike is one token."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer
from transformers import AutoTokenizer

from vrthinker_core.backends.built_in import NANO
from vrthinker_core.backends.local.text.tokenizer import SafeTokenizer
from vrthinker_core.training.base.model.vocabulary import PROTOCOLS, fixed_phrases, make_tokenizer, save_tokenizer
from vrthinker_core.training.drawn_teacher.phrases import words
from vrthinker_core.training.drawn_teacher.replies import write_replies
from vrthinker_core.training.drawn_world.scenes import WorldOptions, draw_pair

PAIRS = [draw_pair(seed, WorldOptions(second=True)) for seed in range(20)]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    replies = [text for pair in PAIRS for text in (pair.prompt, *write_replies(pair, "paired"))]
    return make_tokenizer(replies)


@given(st.text())
def test_any_text_comes_back(tokenizer: Tokenizer, text: str) -> None:
    safe = SafeTokenizer(tokenizer)
    assert safe.decode(safe.encode(text)) == text.encode("utf-8", "replace").decode()


def test_phrases_and_words_are_one_token(tokenizer: Tokenizer) -> None:
    safe = SafeTokenizer(tokenizer)
    for text in (*fixed_phrases(), *words()):
        assert len(safe.encode(text)) == 1, text


def test_a_reply_takes_few_tokens_and_comes_back(tokenizer: Tokenizer) -> None:
    safe = SafeTokenizer(tokenizer)
    for pair in PAIRS:
        for protocol in PROTOCOLS:
            for text in write_replies(pair, protocol):
                tokens = safe.encode(text)
                assert safe.decode(tokens) == text
                assert len(tokens) < 400  # Also of six frame pairs; with 512 a reply is cut


def test_stock_code_opens_what_is_written(tokenizer: Tokenizer, tmp_path: Path) -> None:
    template = (NANO / "chat_template.jinja").read_text("utf-8")
    save_tokenizer(tokenizer, tmp_path, template)
    stock, safe = AutoTokenizer.from_pretrained(tmp_path), SafeTokenizer(tokenizer)
    text = f"{write_replies(PAIRS[0], 'concat')[0]} Zürich"
    assert stock(text)["input_ids"] == safe.encode(text)
    assert stock.eos_token_id == safe.control.im_end
    assert stock.chat_template == template
