"""Checkpoints of our own loops: the newest whole one is found, and a run that goes on from it ends with the same weights."""

from __future__ import annotations

import errno
import os
import random
from pathlib import Path

import numpy as np
import pytest
import torch

from vrthinker_core.errors import BadInput
from vrthinker_core.training.run.checkpoints import CheckpointFiles, LoopState


def new_state() -> LoopState:
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Dropout(0.5), torch.nn.Linear(4, 1))
    model[0].bias.requires_grad_(False)
    weights = [each for each in model.parameters() if each.requires_grad]
    return LoopState(model, torch.optim.AdamW(weights, lr=0.1))


def step(state: LoopState) -> None:
    """One that draws from every source of chance."""
    inputs = torch.tensor(np.random.rand(5, 3) + random.random(), dtype=torch.float32)
    state.model(inputs).square().mean().backward()
    state.optimizer.step()
    state.optimizer.zero_grad()
    state.step, state.position = state.step + 1, state.position + 8


def weights(state: LoopState) -> list[torch.Tensor]:
    return [each.detach().clone() for each in state.model.parameters()]


def test_a_run_that_goes_on_ends_with_the_same_weights(tmp_path: Path) -> None:
    files = CheckpointFiles(tmp_path, minutes=1)
    torch.manual_seed(0)
    first = new_state()
    for _ in range(2):
        step(first)
    files.save(first)
    for _ in range(3):
        step(first)
    torch.manual_seed(5)
    random.seed(5)
    second = new_state()
    second.model[0].bias.data.copy_(first.model[0].bias)  # type: ignore[index]
    assert files.restore(second)
    assert (second.step, second.position) == (2, 16)
    for _ in range(3):
        step(second)
    assert all(torch.equal(one, other) for one, other in zip(weights(first), weights(second), strict=True))


def test_the_last_two_stay(tmp_path: Path) -> None:
    files, state = CheckpointFiles(tmp_path, minutes=1), new_state()
    assert not files.restore(state)
    for _ in range(4):
        step(state)
        files.save(state)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-00000003.pt", "step-00000004.pt"]


def test_a_damaged_one_is_passed_over(tmp_path: Path) -> None:
    files, state = CheckpointFiles(tmp_path, minutes=1), new_state()
    for _ in range(2):
        step(state)
        files.save(state)
    newest = tmp_path / "step-00000002.pt"
    newest.write_bytes(newest.read_bytes()[:-300])
    again = new_state()
    assert files.restore(again)
    assert again.step == 1
    (tmp_path / "step-00000001.pt").write_bytes(b"")
    with pytest.raises(BadInput, match="No checkpoint in"):
        files.restore(again)


def test_the_checkpoint_of_another_model_is_not_taken(tmp_path: Path) -> None:
    files = CheckpointFiles(tmp_path, minutes=1)
    files.save(new_state())
    other = new_state()
    other.model.requires_grad_(True)
    with pytest.raises(BadInput):
        files.restore(other)


def test_a_full_disk_leaves_the_last_good_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files, state = CheckpointFiles(tmp_path, minutes=1), new_state()
    step(state)
    files.save(state)
    step(state)

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(BadInput) as caught:
            files.save(state)
    assert str(caught.value) == (
        f"The checkpoint of step 2 cannot be written to {tmp_path}, the disk is full; "
        "that of step 1 is there: make room and go on with --resume."
    )
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000001.pt"]


def test_time_says_when_the_next_one_is_due(tmp_path: Path) -> None:
    assert not CheckpointFiles(tmp_path, minutes=60).due
    files = CheckpointFiles(tmp_path, minutes=1e-9)
    assert files.due
