"""Token rows: what is trained is what was generated, token for token."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch

from tests.support.drawn_rollouts import look, scripted_rollout
from vrthinker_core.backends.built_in import NANO
from vrthinker_core.backends.checkpoint import open_for_rendering
from vrthinker_core.backends.transformers_local import TransformersBackend
from vrthinker_core.drawn.world import draw_pair
from vrthinker_core.training.pair_set import DrawnFrames
from vrthinker_core.training.rollouts import LabelledPair, Rollout, play
from vrthinker_core.training.token_rows import IGNORED, TokenRow, collate, token_rows
from vrthinker_core.training.trace_folder import to_rollout
from vrthinker_core.types import Settings


def labelled(seed: int) -> LabelledPair:
    pair = draw_pair(seed)
    return LabelledPair(pair.prompt, pair.verdict, DrawnFrames(pair), seed)


@pytest.fixture(scope="module")
def nano() -> Iterator[TransformersBackend]:
    backend = TransformersBackend.load(str(NANO))
    yield backend
    backend.close()


@pytest.fixture(scope="module")
def rollouts(nano: TransformersBackend) -> list[Rollout]:
    return list(play(map(labelled, range(2_000_000_000, 2_000_000_003)), nano, Settings()))


def rows_of(rollout: Rollout, nano: TransformersBackend) -> list[TokenRow]:
    return list(token_rows(rollout, nano.loaded))


def learnt(row: TokenRow) -> list[int]:
    return [label for label in row.labels if label != IGNORED]


def test_the_built_in_judge_is_right_on_its_own_world(rollouts: list[Rollout]) -> None:
    assert all(rollout.correct for rollout in rollouts)
    assert all(len(rollout.prompts) == len(rollout.run.turns) > 1 for rollout in rollouts)


def test_exactly_the_tokens_that_were_sampled_are_learnt(
    rollouts: list[Rollout], nano: TransformersBackend
) -> None:
    end = nano.loaded.tokenizer.control.im_end
    for rollout in rollouts:
        (row,) = rows_of(rollout, nano)
        assert learnt(row) == [
            token for turn in rollout.run.turns for token in (*turn.completion.tokens, end)
        ]
        assert row.turns == tuple(turn.number for turn in rollout.run.turns)


def test_what_a_redirect_put_there_is_not_learnt(nano: TransformersBackend) -> None:
    pairs = map(labelled, range(2_000_000_000, 2_000_000_020))
    played = play(pairs, nano, Settings(max_turns=1))
    rollout = next(each for each in played if each.run.turns[0].completion.redirected)
    completion = rollout.run.turns[0].completion
    start, end = completion.redirected or (0, 0)
    assert "<Answer>" in nano.loaded.tokenizer.decode(list(completion.tokens[start:end]))
    (row,) = rows_of(rollout, nano)
    assert learnt(row) == [
        *completion.tokens[:start],
        *completion.tokens[end:],
        nano.loaded.tokenizer.control.im_end,
    ]


def test_where_another_model_wrote_a_run_its_redirect_is_learnt_as_text(
    nano: TransformersBackend,
) -> None:
    """It counts tokens of a vocabulary that means nothing here."""
    end = nano.loaded.tokenizer.control.im_end
    rollout = scripted_rollout(labelled(7), look(1), ANSWER)
    *before, last = rollout.run.turns
    tokens = replace(last.completion, tokens=tuple(range(20)), redirected=(12, 16))
    run = replace(rollout.run, turns=(*before, replace(last, completion=tokens)))
    (row,) = rows_of(to_rollout(run, rollout.pair, keep_tokens=False), nano)
    said = [nano.loaded.tokenizer.encode(turn.completion.text) for turn in rollout.run.turns]
    assert learnt(row) == [token for tokens in said for token in (*tokens, end)]


def test_rows_need_no_weights(rollouts: list[Rollout], nano: TransformersBackend) -> None:
    shape = TransformersBackend(open_for_rendering(str(NANO)), "shape")
    assert {weight.device.type for weight in shape.loaded.model.parameters()} == {"meta"}
    rows = rows_of(rollouts[0], nano)
    assert rows_of(rollouts[0], shape) == rows
    assert torch.equal(
        collate(rows, shape.loaded)["pixel_values"], collate(rows, nano.loaded)["pixel_values"]
    )


ANSWER = "<Snapshot>a</Snapshot><Think>b</Think><Answer>TA=0, VQ=0, MQ=0, OA=0</Answer>"


@pytest.mark.parametrize(
    ("window", "turns"),
    [(None, [(1, 2, 3, 4)]), (1, [(1, 2), (3,), (4,)]), (0, [(1, 2), (3,), (4,)])],
)
def test_a_window_makes_rows_of_their_own(
    window: int | None, turns: list[tuple[int, ...]], nano: TransformersBackend
) -> None:
    replies, settings = (look(1), look(2), look(3), ANSWER), Settings(window=window)
    rollout = scripted_rollout(labelled(7), *replies, settings=settings)
    rows = rows_of(rollout, nano)
    assert [row.turns for row in rows] == turns
    end = nano.loaded.tokenizer.control.im_end
    written = [turn.completion.text for turn in rollout.run.turns]
    assert [token for row in rows for token in learnt(row)].count(end) == 4
    decoded = [nano.loaded.tokenizer.decode(learnt(row)) for row in rows]
    said = [f"{text}<|im_end|>" for text in written]
    assert decoded == ["".join(said[turn - 1] for turn in row.turns) for row in rows]


def test_greedy_tokens_are_the_argmax_of_the_row(
    rollouts: list[Rollout], nano: TransformersBackend
) -> None:
    (row,) = rows_of(rollouts[0], nano)
    batch = collate([row], nano.loaded)
    labels = batch.pop("labels")
    with torch.inference_mode():
        logits = nano.loaded.model(**batch).logits
    taught = labels[0, 1:] != IGNORED
    assert torch.equal(logits[0, :-1][taught].argmax(-1), labels[0, 1:][taught])
