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

from tests.support.slow import slow
from tests.training.trl.sharded_training import LAUNCHED, PAIRS, train
from tests.training.trl.support import random_judge, weights
from vrthinker_core.backends import NANO
from vrthinker_core.errors import BadInput
from vrthinker_core.training import sharding
from vrthinker_core.training.config import changed_config, preset_config
from vrthinker_core.training.pipeline import TrainingData, train_stage
from vrthinker_core.training.run_folder import Processes, RunFolder, Sitting, TrainedStage


@pytest.fixture(scope="module", params=["a head of its own", "one matrix for both heads"])
def judge(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    own = request.param == "a head of its own"
    return random_judge(tmp_path_factory.mktemp("judge")) if own else NANO


@pytest.fixture(scope="module")
def alone(judge: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, torch.Tensor]:
    return weights(train(judge, tmp_path_factory.mktemp("alone"), accumulation=4))


@slow
def test_fsdp2_trains_the_same_weights(
    judge: Path, alone: dict[str, torch.Tensor], tmp_path: Path
) -> None:
    count = 2 if judge == NANO else 1  # Processes: one wraps the weights as more do
    launch = f"-m torch.distributed.run --standalone --nproc-per-node {count}".split()
    training = ("-m", "tests.training.trl.sharded_training", str(judge), str(tmp_path / "shared"))
    done = subprocess.run(
        [sys.executable, *launch, *training],
        env={**os.environ, **LAUNCHED, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    shared, before = weights(tmp_path / "shared" / "model"), weights(judge)
    assert shared.keys() == alone.keys() == before.keys()
    for name, value in alone.items():
        assert torch.equal(shared[name], before[name]) == torch.equal(value, before[name]), name
        # AdamW makes a whole step of the smallest gradient, whichever sign rounding gave it
        moved, expected = (each.float() - before[name].float() for each in (shared[name], value))
        assert (moved - expected).norm() <= 0.1 * expected.norm(), name
    assert not torch.equal(shared["model.embed_tokens.weight"], before["model.embed_tokens.weight"])


@pytest.mark.parametrize(
    ("stage", "launched", "changes", "said"),
    [
        ("grpo", {"FSDP_VERSION": "1"}, [], "FSDP2 alone"),
        ("cold-start", {"FSDP_VERSION": "1"}, [], "FSDP2 alone"),
        ("grpo", {}, ["grpo.trl.lora=8"], "launch with data_parallel.yaml"),
        ("grpo", {}, [], "set grpo.trl.vllm to colocate"),
        ("grpo", {}, ["grpo.pairs=3"], "choose a multiple of 2"),
    ],
)
def test_what_a_launch_cannot_do_is_one_sentence(
    stage: TrainedStage,
    launched: dict[str, str],
    changes: list[str],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in {**LAUNCHED, "WORLD_SIZE": "2", **launched}.items():
        monkeypatch.setenv(name, value)
    config, processes = changed_config(preset_config("nano"), changes), Processes(2, 1)
    data, folder = TrainingData("drawn", PAIRS), RunFolder(tmp_path, processes)
    with pytest.raises(BadInput, match=said):
        train_stage(stage, str(NANO), data, config, folder, Sitting())


def test_several_gpus_without_a_launcher_are_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LOCAL_RANK", raising=False)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)
    with pytest.raises(BadInput, match=r"One process sees 4 GPUs.*accelerate launch"):
        sharding.check_launch()
    monkeypatch.setenv("LOCAL_RANK", "0")
    sharding.check_launch()


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
