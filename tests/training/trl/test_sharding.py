"""Processes that share one model train what one process does that holds it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from accelerate.utils import parse_flag_from_env
from transformers import Qwen2_5_VLForConditionalGeneration

from tests.training.trl.sharded_training import LAUNCHED, PAIRS, train
from tests.training.trl.support import needs_trl, weights
from vrthinker_core.backends import NANO
from vrthinker_core.errors import BadInput
from vrthinker_core.training.trl import sharding
from vrthinker_core.training.trl.grpo import TrlGrpoOptions, train_grpo


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> dict[str, torch.Tensor]:
    return weights(train(tmp_path_factory.mktemp("alone"), accumulate=4))


@pytest.mark.parametrize("count", [1, 2])
def test_fsdp2_trains_the_same_weights(count: int, alone: dict[str, torch.Tensor], tmp_path: Path) -> None:
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(count)]
    environment = {**os.environ, **LAUNCHED, "OMP_NUM_THREADS": "1"}
    command = [*launch, "-m", "tests.training.trl.sharded_training", str(tmp_path / "shared")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "did not run forward" not in done.stderr, "every weight is in a unit whose hooks run"
    shared, before = weights(tmp_path / "shared" / "model"), weights(NANO)
    assert shared.keys() == alone.keys()
    assert any(not torch.equal(shared[name], before[name]) for name in before)
    for name, value in alone.items():
        torch.testing.assert_close(shared[name].float(), value.float(), atol=2e-3, rtol=1e-2)


@needs_trl
def test_processes_that_share_a_model_do_not_play_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACCELERATE_USE_FSDP", "true")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(BadInput, match=r"set grpo.trl.vllm to colocate or server"):
        train_grpo(PAIRS, NANO, TrlGrpoOptions(steps=1, pairs=2, samples=4, batch=2), tmp_path / "run")


def test_a_model_is_asked_as_ever_where_nothing_is_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    ask = Qwen2_5_VLForConditionalGeneration.get_output_embeddings
    with sharding.heads_in_root():
        assert Qwen2_5_VLForConditionalGeneration.get_output_embeddings is ask
    monkeypatch.setenv("ACCELERATE_USE_FSDP", "true")
    with sharding.heads_in_root(), sharding.weights_in_every_process():
        assert Qwen2_5_VLForConditionalGeneration.get_output_embeddings is not ask
        assert not parse_flag_from_env(sharding.EFFICIENT_LOADING)
    assert Qwen2_5_VLForConditionalGeneration.get_output_embeddings is ask
    assert sharding.EFFICIENT_LOADING not in os.environ
