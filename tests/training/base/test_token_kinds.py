"""What tokens count in the loss: rare words more, what stands in the conversation already less; near places of light are near."""

from __future__ import annotations

import pytest
import torch

from vrthinker_core.backends.local.text.tokenizer import SafeTokenizer
from vrthinker_core.training.base.coded_rows import TokenWeights
from vrthinker_core.training.base.model.token_kinds import TOLD_AGAIN, kinds, near_places, weights
from vrthinker_core.training.base.model.vocabulary import make_tokenizer
from vrthinker_core.training.drawn_teacher.phrases import PLACES

ENTRY = "#60 at 50%,66% and at 42%,62% (#48 at 50%,64% and at 42%,62%) clear, hardly moves; "


@pytest.fixture(scope="module")
def tokenizer() -> SafeTokenizer:
    return SafeTokenizer(make_tokenizer([ENTRY]))


def test_rare_words_count_more_and_what_is_repeated_less(tokenizer: SafeTokenizer) -> None:
    tokens = torch.tensor(tokenizer.encode(ENTRY))
    found = TokenWeights.of_tokens(tokenizer).count(tokens, torch.ones(len(tokens), dtype=torch.bool)).tolist()
    texts = [tokenizer.token_bytes(token).decode() for token in tokens.tolist()]
    by_text = dict(zip(texts, found, strict=True))
    own = weights(tokenizer)[tokens].tolist()
    assert by_text[",66%"] == own[texts.index(",66%")]
    assert by_text[",64%"] == pytest.approx(TOLD_AGAIN * own[texts.index(",64%")])
    assert by_text[" clear, hardly moves; "] == own[-1] > 1


def test_what_is_not_learnt_counts_nothing_and_opens_no_parenthesis(tokenizer: SafeTokenizer) -> None:
    asked, entry = tokenizer.encode("(a ball"), tokenizer.encode(ENTRY)
    learnt = torch.tensor([False] * len(asked) + [True] * len(entry))
    count = TokenWeights.of_tokens(tokenizer).count
    found = count(torch.tensor([*asked, *entry]), learnt)
    assert not found[: len(asked)].any()
    assert torch.equal(found[len(asked) :], count(torch.tensor(entry), learnt[len(asked) :]))


def test_a_place_is_learnt_with_its_neighbours_on_the_same_axis(tokenizer: SafeTokenizer) -> None:
    near = near_places(tokenizer)
    assert torch.allclose(near.sum(1), torch.ones(len(near)))
    across, below = ([tokenizer.encode(f"{start}{place}%")[0] for place in PLACES] for start in (" at ", ","))
    for axis in (across, below):
        row = near[axis[10], axis]
        assert row.argmax() == 10
        assert row[9] == row[11] > row[8] > 0
        assert row.sum() == pytest.approx(1.0)
    others = ~kinds(tokenizer)["place"]
    assert torch.equal(near[others], torch.eye(len(near))[others])
