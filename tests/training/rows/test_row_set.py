"""Row sets: a row is the same whether its frames were kept or read again, and never another than it was."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pytest
import torch

from tests.support.drawn_rollouts import look, scripted_rollout
from tests.training.test_token_rows import ANSWER, labelled, nano
from vrthinker_core.backends.transformers_local import TransformersBackend
from vrthinker_core.errors import BadInput
from vrthinker_core.training.rollouts import Rollout
from vrthinker_core.training.row_set import RowSet, without_pixels
from vrthinker_core.training.sft import kept_features
from vrthinker_core.training.teaching import NotForTraining
from vrthinker_core.training.token_rows import TokenRow, collate, token_rows
from vrthinker_core.training.trace_folder import StoredRollout
from vrthinker_core.types import Settings

__all__ = ["nano"]

A_FRAME = 112 * 112 * 3


@dataclass
class Stored:
    """Runs of drawn pairs that are played anew when they are read; a memory window makes two rows of each."""

    seeds: Sequence[int]
    window: int = 1
    read: int = 0

    def rollout(self, seed: int) -> Rollout:
        self.read += 1
        replies = (look(1), look(2), ANSWER)
        return scripted_rollout(labelled(seed), *replies, settings=Settings(window=self.window))

    def rows(self, nano: TransformersBackend, kept_bytes: int) -> RowSet:
        rows = RowSet(nano.loaded, kept_bytes)
        for seed in self.seeds:
            rows.add(StoredRollout.read(lambda seed=seed: self.rollout(seed)))
        return rows

    def all_rows(self, nano: TransformersBackend) -> list[TokenRow]:
        return [row for seed in self.seeds for row in token_rows(self.rollout(seed), nano.loaded)]


def pixels(row: TokenRow) -> list[bytes]:
    return [frame.rgb for item in row.items for frame in item.frames]


@pytest.mark.parametrize("frames", [0, 15, 1000])
def test_rows_are_the_same_whether_kept_or_read_again(
    frames: int, nano: TransformersBackend
) -> None:
    stored = Stored([3, 4])
    rows, expected = stored.rows(nano, frames * A_FRAME), stored.all_rows(nano)
    assert len(rows) == len(expected) == 4
    assert list(rows) == rows[:] == expected
    assert [pixels(row) for row in rows] == [pixels(row) for row in expected]
    assert rows[-1] == expected[-1]
    with pytest.raises(IndexError):
        rows[4]


def test_frames_are_kept_up_to_the_bound_and_read_again_beyond_it(
    nano: TransformersBackend,
) -> None:
    stored = Stored([3, 4])
    first = len(pixels(stored.all_rows(nano)[0]))
    rows = stored.rows(nano, first * A_FRAME)
    before = stored.read
    assert pixels(rows[0])
    assert stored.read == before
    assert pixels(rows[1])
    assert stored.read == before + 1


def test_what_needs_no_pixels_reads_none(nano: TransformersBackend) -> None:
    stored = Stored([3, 4])
    rows = stored.rows(nano, 0)
    before = stored.read
    assert list(without_pixels(rows)) == stored.rows(nano, 0).outlines
    assert not any(pixels(row) for row in without_pixels(rows))
    assert stored.read == before + 2  # by the second set
    known = kept_features(rows, nano.loaded.vision)
    known(range(4))
    before = stored.read
    batch = collate(without_pixels(rows), nano.loaded, known(range(4)))
    assert stored.read == before
    exact = collate(stored.all_rows(nano), nano.loaded, nano.loaded.vision.encode)
    torch.testing.assert_close(batch["pixel_values"], exact["pixel_values"])
    assert torch.equal(batch["input_ids"], collate(stored.all_rows(nano), nano.loaded)["input_ids"])


def test_a_run_that_was_changed_meanwhile_is_refused(
    nano: TransformersBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    def other(_: int) -> Rollout:
        raise NotForTraining("it is of another pair today")

    stored = Stored([3])
    rows = stored.rows(nano, 0)
    first = rows[1]
    stored.window = 2
    with pytest.raises(BadInput, match="Row 2 is not what it was when training began"):
        rows[1]
    stored.window = 1
    assert rows[1] == first
    monkeypatch.setattr(stored, "rollout", other)
    with pytest.raises(BadInput, match="Row 1 is not what it was when training began"):
        rows[0]
