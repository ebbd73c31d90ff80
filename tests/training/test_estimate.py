"""What a training of the 7B takes, told before anything is rented."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

import vrthinker_core.training as room
from vrthinker_core.backends.judge_name import NANO
from vrthinker_core.training.config import changed_config, preset_config
from vrthinker_core.training.estimate import TrainingEstimate, estimate, model_shape
from vrthinker_core.training.rollouts import LIVE
from vrthinker_core.training.run_folder import TrainedStage

SHAPE = model_shape()
RECIPES = sorted((Path(room.__file__).parent / "recipes").glob("*.yaml"))


def test_weights_are_counted_from_a_configuration() -> None:
    from safetensors.torch import load_file

    assert SHAPE.weights == pytest.approx(8.29e9, rel=0.005), "as the 7B's maker counts"
    assert (SHAPE.layers, SHAPE.kv) == (28, 1024)
    shards = [load_file(path) for path in NANO.glob("*.safetensors")]
    stored = sum(value.numel() for shard in shards for value in shard.values())
    assert model_shape(NANO).weights == stored == 7_671_296


@pytest.mark.parametrize(
    ("stage", "changes", "gpus", "gib", "hours", "counted"),
    [
        ("cold-start", [], 8, 20.6, [1.4], (14_400, 0, 228, 64)),
        ("cold-start", [], 1, 122.1, [11.0], (14_400, 0, 1_800, 8)),
        ("rejection", [], 8, 20.6, [1.9, 9.2], (20_000, 160_000, 79, 256)),
        ("rejection", ["rejection.most=null"], 8, 20.6, [3.8, 9.2], (40_000, 160_000, 157, 256)),
        ("grpo", [], 8, 48.5, [19.0, 8.8], (153_600, 153_600, 300, 512)),
        ("grpo", ["grpo.vllm_mode=server"], 8, 24.5, [19.0, 8.8], (153_600, 153_600, 300, 512)),
        ("grpo", ["grpo.lora=64", "grpo.vllm_mode="], 8, 67.3, [15.6, 8.8], (153_600, 153_600, 300, 512)),
    ],
)  # fmt: skip
def test_a_plan_takes_so_much_memory_time_and_so_many_steps(
    stage: TrainedStage, changes: list[str], gpus: int, gib: float, hours: list[float], counted: tuple[int, ...]
) -> None:  # fmt: skip
    found = estimate(stage, SHAPE, changed_config(preset_config("7b"), changes), gpus)
    assert round(found.needed, 1) == gib
    assert [round(each, 1) for each in found.hours.values()] == hours
    assert (found.problem == "") == (gib < 72)
    assert (found.rows, found.played, *found.steps) == counted
    steps = next(line.split() for line in found.lines() if "optimizer steps" in line)
    assert steps == f"optimizer steps {counted[2]:,} of {counted[3]} rows each".split()


def test_weights_gradients_and_optimizer_are_sixteen_bytes_a_weight() -> None:
    config = changed_config(preset_config("7b"), ["frozen_vision=false"])
    found = estimate("cold-start", SHAPE, config, 1).memory
    bytes_ = 2**30 * sum(found[name] for name in ("weights", "gradients", "optimizer"))
    assert bytes_ == pytest.approx(16 * SHAPE.weights)


def planned(*changes: str) -> TrainingEstimate:
    """Of GRPO with the paper's sizes."""
    return estimate("grpo", SHAPE, changed_config(preset_config("7b"), changes), 8)


def test_without_vllm_the_rollouts_that_play_at_once_keep_a_cache() -> None:
    alone, fewer = (
        planned("grpo.lora=64", "grpo.vllm_mode=", change)
        for change in ("grpo.pairs=64", "grpo.pairs=8")
    )
    caches = [each.memory["KV cache of rollouts"] for each in (alone, fewer)]
    assert caches[0] * 2**30 == LIVE * SHAPE.tokens * 28 * 1024 * 2
    assert caches[1] == pytest.approx(caches[0] * 8 / LIVE)
    assert not alone.problem
    assert "share one model cannot play rollouts" in planned("grpo.vllm_mode=").problem
    for change in ("grpo.vllm_gpu_memory_utilization=0.2", "grpo.vllm_max_model_length=132768"):
        small = planned(change)
        assert "raise grpo.vllm_gpu_memory_utilization" in small.problem, (
            "no room for weights and conversation"
        )


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_accelerate_reads_the_recipe(path: Path) -> None:
    from accelerate.commands.config.config_args import load_config_from_file
    from transformers.models.qwen2_5_vl import modeling_qwen2_5_vl as modeling

    config = load_config_from_file(str(path))
    told = yaml.safe_load(path.read_text("utf-8"))
    assert config.num_processes == told["num_processes"] == 8 * told["num_machines"]
    assert config.mixed_precision == "bf16"
    fsdp = told.get("fsdp_config", {})  # The layers that are spread are those of the model
    layers = fsdp.get("fsdp_transformer_layer_cls_to_wrap", "").split(",")
    assert all(hasattr(modeling, name) for name in layers if name)
