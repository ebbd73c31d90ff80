"""Fine-tuning on ready rows: what learns, what stays, and that a training goes on where it was killed."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from tests.support.drawn_rollouts import DrawnPairs, answer, look, scripted_rollout
from vrthinker_core.backends.factory import NANO, open_backend
from vrthinker_core.backends.transformers_local import TransformersBackend
from vrthinker_core.errors import BadInput
from vrthinker_core.training.rollouts import play
from vrthinker_core.training.token_rows import TokenRow, token_rows
from vrthinker_core.training.trl import sft
from vrthinker_core.training.trl.sft import SftOptions, train_sft
from vrthinker_core.training.trl.trainer_checkpoints import TrainerPace
from vrthinker_core.types import Settings

PAIRS = DrawnPairs(31)
OPTIONS = SftOptions(steps=4, epochs=4, batch=1, accumulate=1, learning_rate=1e-4, features=True, save_minutes=0)


class Killed(Exception):
    """In the place of SIGKILL: whatever was on the disk then is all there is afterwards."""


@pytest.fixture(scope="module")
def rows() -> list[TokenRow]:
    nano = TransformersBackend.load(str(NANO))
    rollouts = (scripted_rollout(PAIRS.pair(n), look(3), answer(PAIRS.pair(n).truth)) for n in range(3))
    return [row for rollout in rollouts for row in token_rows(rollout, nano.loaded)]


@pytest.fixture(scope="module")
def trained(rows: list[TokenRow], tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[TrainerPace]]:
    paces: list[TrainerPace] = []
    return train_sft(rows, NANO, OPTIONS, tmp_path_factory.mktemp("sft"), paces.append), paces


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return {name: value for path in sorted(folder.glob("*.safetensors")) for name, value in load_file(path).items()}


def equal(first: Path, second: Path) -> bool:
    one, two = weights(first), weights(second)
    return one.keys() == two.keys() and all(torch.equal(one[name], two[name]) for name in one)


def test_the_language_half_learns_and_the_eyes_do_not(trained: tuple[Path, list[TrainerPace]]) -> None:
    before, after = weights(NANO), weights(trained[0])
    assert before.keys() == after.keys()
    moved = {name for name in before if not torch.equal(before[name], after[name])}
    assert moved
    assert not any("visual" in name for name in moved)
    losses = [pace.loss for pace in trained[1] if pace.loss is not None]
    assert losses[-1] < losses[0]


def test_how_far_it_is_is_told_after_each_step(trained: tuple[Path, list[TrainerPace]]) -> None:
    assert [(pace.step, pace.steps) for pace in trained[1]] == [(step, 4) for step in (1, 2, 3, 4)]
    assert trained[1][-1].seconds_left == 0
    assert all(pace.seconds > 0 for pace in trained[1])


def test_the_product_opens_and_plays_what_was_trained(trained: tuple[Path, list[TrainerPace]]) -> None:
    judge = open_backend(f"hf:{trained[0]}")
    (rollout,) = play([PAIRS.pair(5)], judge, Settings(max_new_tokens=16, max_turns=1))
    assert judge.protocols == ("paired",)
    assert rollout.run.turns[0].completion.tokens
    assert max(path.stat().st_size for path in trained[0].iterdir()) < 9 * 2**20


def test_a_training_that_was_killed_goes_on_to_the_same_weights(
    rows: list[TokenRow], trained: tuple[Path, list[TrainerPace]], tmp_path: Path
) -> None:
    def kill(pace: TrainerPace) -> None:
        if pace.step == 3:
            raise Killed

    with pytest.raises(Killed):
        train_sft(rows, NANO, OPTIONS, tmp_path, kill)
    whole = sorted((tmp_path / "trainer").glob("checkpoint-*"))
    assert [path.name for path in whole] == ["checkpoint-1", "checkpoint-2"]
    shutil.copytree(whole[-1], tmp_path / "trainer/checkpoint-3")  # a save that was cut short
    (tmp_path / "trainer/checkpoint-3/optimizer.pt").write_bytes(b"half")
    paces: list[TrainerPace] = []
    again = train_sft(rows, NANO, replace(OPTIONS, save_minutes=60), tmp_path, paces.append)
    assert [pace.step for pace in paces] == [3, 4]
    assert equal(again, trained[0])


def test_without_trl_the_same_rows_give_the_same_loss(
    rows: list[TokenRow], trained: tuple[Path, list[TrainerPace]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("trl")
    monkeypatch.setattr(sft, "has_trl", lambda: False)
    paces: list[TrainerPace] = []
    alone = train_sft(rows, NANO, replace(OPTIONS, steps=2), tmp_path, paces.append)
    monkeypatch.setattr(sft, "has_trl", lambda: True)
    others: list[TrainerPace] = []
    other = train_sft(rows, NANO, replace(OPTIONS, steps=2, features=False), tmp_path / "trl", others.append)
    assert [pace.loss for pace in paces[1:]] == pytest.approx([pace.loss for pace in others[1:]], rel=1e-3)
    one, two = weights(alone), weights(other)
    assert all(torch.allclose(one[name].float(), two[name].float(), atol=2e-3) for name in one)


def test_bad_input_is_one_sentence(rows: list[TokenRow], tmp_path: Path) -> None:
    for arguments, said in [
        (([], OPTIONS, tmp_path / "a"), "nothing to train on"),
        ((rows, replace(OPTIONS, frozen_eyes=False), tmp_path / "b"), "frozen eyes"),
    ]:
        found: Any = arguments
        with pytest.raises(BadInput, match=said):
            train_sft(found[0], NANO, *found[1:])


def test_a_folder_of_another_training_is_not_gone_on_with(rows: list[TokenRow], tmp_path: Path) -> None:
    def kill(pace: TrainerPace) -> None:
        if pace.step == 2:
            raise Killed

    with pytest.raises(Killed):
        train_sft(rows, NANO, OPTIONS, tmp_path, kill)
    with pytest.raises(BadInput, match="choose another --out"):
        train_sft(rows[:2], NANO, OPTIONS, tmp_path)
    assert (tmp_path / "trainer/checkpoint-1/whole.json").is_file()
