"""Token rows: what is trained is what was generated, token for token, whether its frames were kept or are read again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

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


def test_the_built_in_judge_is_right_on_its_own_world(rollout: Rollout) -> None:
    assert rollout.correct
    assert len(rollout.prompts) == len(rollout.run.turns) > 1


def test_sampled_tokens_are_learnt(rollout: Rollout, nano: Nano) -> None:
    end, turns = nano.loaded.tokenizer.control.im_end, rollout.run.turns
    (row,) = token_rows(rollout, nano.loaded)
    assert learnt(row) == [token for turn in turns for token in (*turn.completion.tokens, end)]
    assert row.turns == tuple(turn.number for turn in turns)


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


def test_greedy_tokens_are_the_argmax(rollout: Rollout, nano: Nano) -> None:
    (row,) = token_rows(rollout, nano.loaded)
    batch = collate([row], nano.loaded)
    labels = batch.pop("labels")
    with torch.inference_mode():
        logits = nano.loaded.model(**batch).logits
    taught = labels[0, 1:] != IGNORED
    assert torch.equal(logits[0, :-1][taught].argmax(-1), labels[0, 1:][taught])


A_FRAME = 112 * 112 * 3


@dataclass
class Runs:
    """Runs of drawn pairs, played anew when they are read; a memory window makes two rows of each."""

    seeds: Sequence[int]
    window: int = 1
    read: int = 0
    error: Exception | None = None

    def rollout(self, seed: int) -> Rollout:
        self.read += 1
        if self.error:
            raise self.error
        replies = (look(1), look(2), ANSWER)
        return scripted_rollout(labelled(seed), *replies, settings=Settings(window=self.window))

    def rows(self, nano: Nano, room: int) -> list[TokenRow]:
        stored = (StoredRollout.read(partial(self.rollout, seed)) for seed in self.seeds)
        return list(bounded_rows(stored, nano.loaded, room))


def pixels(row: TokenRow) -> list[bytes]:
    return [frame.rgb for item in row.items for frame in item.frames]


@pytest.mark.parametrize(("frames", "again"), [(0, 4), (15, 3), (1000, 0)])
def test_rows_are_the_same_kept_or_read_again(frames: int, again: int, nano: Nano) -> None:
    runs = Runs([3, 4])
    expected = [row for seed in (3, 4) for row in token_rows(runs.rollout(seed), nano.loaded)]
    rows = runs.rows(nano, frames * A_FRAME)
    before = runs.read
    assert sum(len(rgb) for row in rows for rgb in pixels(row)) <= frames * A_FRAME
    assert rows == expected
    assert [pixels(row.with_pixels()) for row in rows] == [pixels(row) for row in expected]
    assert runs.read == before + again


def test_kept_features_need_each_row_once(nano: Nano) -> None:
    runs = Runs([3, 4])
    rows = runs.rows(nano, 0)
    known = kept_features(rows, nano.loaded.vision)
    for _ in range(2):
        collate(rows, nano.loaded, known(range(4)))
    assert runs.read == 2 + 4


def test_a_changed_run_is_refused(nano: Nano) -> None:
    runs = Runs([3])
    rows = runs.rows(nano, 0)
    runs.window = 2
    with pytest.raises(BadInput, match="not what it was when training began"):
        rows[1].with_pixels()
    runs.window = 1
    assert pixels(rows[1].with_pixels())
    runs.error = NotForTraining("it is of another pair today")
    with pytest.raises(BadInput, match="not what it was when training began"):
        rows[0].with_pixels()
