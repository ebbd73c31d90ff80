"""Token rows: what is trained is what was generated, token for token, whether its frames were kept or are read again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch

from tests.support.drawn_rollouts import DrawnPairs, look, scripted_rollout
from vrthinker_core.backends.checkpoint import open_for_rendering
from vrthinker_core.backends.judge_name import NANO
from vrthinker_core.backends.transformers_local import TransformersBackend
from vrthinker_core.errors import BadInput
from vrthinker_core.training.rollouts import Rollout, play
from vrthinker_core.training.sft import (
    IGNORED,
    TokenRow,
    bounded_rows,
    collate,
    kept_features,
    token_rows,
)
from vrthinker_core.training.traces import NotForTraining, StoredRollout, to_rollout
from vrthinker_core.types import Settings

ANSWER = "<Snapshot>a</Snapshot><Think>b</Think><Answer>TA=0, VQ=0, MQ=0, OA=0</Answer>"
Nano = TransformersBackend
labelled = DrawnPairs(0).pair


def learnt(row: TokenRow) -> list[int]:
    return [label for label in row.labels if label != IGNORED]


@pytest.fixture(scope="module")
def nano() -> Iterator[TransformersBackend]:
    backend = TransformersBackend.load(str(NANO))
    yield backend
    backend.close()


@pytest.fixture(scope="module")
def rollout(nano: Nano) -> Rollout:
    (rollout,) = play([labelled(2_000_000_000)], nano, Settings())
    return rollout


def test_sampled_tokens_are_learnt_and_greedy_ones_the_argmax(rollout: Rollout, nano: Nano) -> None:
    end, turns = nano.loaded.tokenizer.control.im_end, rollout.run.turns
    assert (rollout.correct, len(rollout.prompts)) == (True, len(turns)), "on its own world"
    (row,) = token_rows(rollout, nano.loaded)
    assert learnt(row) == [token for turn in turns for token in (*turn.completion.tokens, end)]
    assert row.turns == tuple(range(1, len(turns) + 1)) != (1,)
    batch = collate([row], nano.loaded)
    labels = batch.pop("labels")
    with torch.inference_mode():
        logits = nano.loaded.model(**batch).logits
    taught = labels[0, 1:] != IGNORED
    assert torch.equal(logits[0, :-1][taught].argmax(-1), labels[0, 1:][taught])


def test_what_a_redirect_put_there_is_not_learnt(nano: Nano) -> None:
    (rollout,) = play([labelled(2_000_000_000)], nano, Settings(max_turns=1))
    completion, tokenizer = rollout.run.turns[0].completion, nano.loaded.tokenizer
    start, end = completion.redirected or (0, 0)
    assert "<Answer>" in tokenizer.decode(list(completion.tokens[start:end]))
    (row,) = token_rows(rollout, nano.loaded)
    own = completion.tokens[:start] + completion.tokens[end:]
    assert learnt(row) == [*own, tokenizer.control.im_end]


def test_a_redirect_of_another_model_is_learnt_as_text(nano: Nano) -> None:
    """It counts tokens of a vocabulary that means nothing here."""
    rollout, tokenizer = scripted_rollout(labelled(7), look(1), ANSWER), nano.loaded.tokenizer
    *before, last = rollout.run.turns
    tokens = replace(last.completion, tokens=tuple(range(20)), redirected=(12, 16))
    run = replace(rollout.run, turns=(*before, replace(last, completion=tokens)))
    (row,) = token_rows(to_rollout(run, rollout.pair, keep_tokens=False), nano.loaded)
    said = "".join(f"{turn.completion.text}<|im_end|>" for turn in rollout.run.turns)
    assert tokenizer.decode(learnt(row)) == said


def test_rows_need_no_weights(rollout: Rollout, nano: Nano) -> None:
    shape = TransformersBackend(open_for_rendering(str(NANO)), "shape").loaded
    assert {weight.device.type for weight in shape.model.parameters()} == {"meta"}
    rows = list(token_rows(rollout, nano.loaded))
    assert list(token_rows(rollout, shape)) == rows
    pictures = [collate(rows, each)["pixel_values"] for each in (shape, nano.loaded)]
    assert torch.equal(*pictures)


@pytest.mark.parametrize(
    ("window", "turns"),
    [(None, [(1, 2, 3, 4)]), (1, [(1, 2), (3,), (4,)]), (0, [(1, 2), (3,), (4,)])],
)
def test_a_window_makes_more_rows(
    window: int | None, turns: list[tuple[int, ...]], nano: Nano
) -> None:
    replies, settings = (look(1), look(2), look(3), ANSWER), Settings(window=window)
    rows = list(token_rows(scripted_rollout(labelled(7), *replies, settings=settings), nano.loaded))
    assert [row.turns for row in rows] == turns
    decoded = [nano.loaded.tokenizer.decode(learnt(row)) for row in rows]
    said = [f"{text}<|im_end|>" for text in replies]
    assert decoded == ["".join(said[turn - 1] for turn in row.turns) for row in rows]


class Runs:
    """A run of a drawn pair, played anew when it is read; its memory window makes two rows of it."""

    def __init__(self) -> None:
        self.window, self.read = 1, 0
        self.error: Exception | None = None

    def rollout(self) -> Rollout:
        self.read += 1
        if self.error:
            raise self.error
        settings = Settings(window=self.window)
        return scripted_rollout(labelled(3), look(1), look(2), ANSWER, settings=settings)

    def rows(self, nano: Nano, frames: int) -> list[TokenRow]:
        stored = (StoredRollout(self.rollout(), self.rollout) for _ in range(2))
        return list(bounded_rows(stored, nano.loaded, frames * 112 * 112 * 3))


def pixels(row: TokenRow) -> list[bytes]:
    return [frame.rgb for item in row.items for frame in item.frames]


@pytest.mark.parametrize(("frames", "again"), [(0, 4), (15, 3), (1000, 0)])
def test_rows_are_the_same_kept_or_read_again(frames: int, again: int, nano: Nano) -> None:
    runs = Runs()
    expected = 2 * [*token_rows(runs.rollout(), nano.loaded)]
    rows = runs.rows(nano, frames)
    before = runs.read
    assert sum(len(pixels(row)) for row in rows) <= frames
    assert rows == expected
    assert [pixels(row.with_pixels()) for row in rows] == [pixels(row) for row in expected]
    assert runs.read == before + again
    known = kept_features(rows, nano.loaded.vision)
    for _ in range(2):  # Features need each row once
        collate(rows, nano.loaded, known(range(4)))
    assert runs.read == before + 2 * again


def test_a_changed_run_is_refused(nano: Nano) -> None:
    runs = Runs()
    rows = runs.rows(nano, 0)
    for window, error in ((2, None), (1, NotForTraining("it is of another pair today"))):
        runs.window, runs.error = window, error
        with pytest.raises(BadInput, match="not what it was when training began"):
            rows[1].with_pixels()
    runs.error = None
    assert pixels(rows[1].with_pixels())
