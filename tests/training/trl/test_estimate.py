"""What a training of the 7B takes, told before anything is rented."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest
import yaml
from accelerate.commands.config.config_args import load_config_from_file
from safetensors.torch import load_file

import vrthinker_core.training as room
from vrthinker_core.backends.built_in import NANO
from vrthinker_core.training.config import changed_config, preset_config
from vrthinker_core.training.estimate import (
    TrainingEstimate,
    TrainingPlan,
    config_plan,
    estimate,
    model_shape,
)
from vrthinker_core.training.run_folder import TrainedStage

SHAPE = model_shape()
RECIPES = sorted((Path(room.__file__).parent / "recipes").glob("*.yaml"))


def test_the_7b_is_counted_as_its_maker_counts_it() -> None:
    assert SHAPE.weights == pytest.approx(8.29e9, rel=0.005)
    assert (SHAPE.layers, SHAPE.kv) == (28, 1024)


def test_a_checkpoint_is_counted_from_its_configuration() -> None:
    shards = [load_file(path) for path in NANO.glob("*.safetensors")]
    stored = sum(value.numel() for shard in shards for value in shard.values())
    assert model_shape(NANO).weights == stored == 7_671_296


def paper_plan(stage: TrainedStage, gpus: int = 8) -> TrainingPlan:
    """Of a stage with the paper's sizes."""
    config = changed_config(preset_config("7b"), ["grpo.trl.vllm=colocate"])
    return config_plan(stage, config, gpus)


def test_one_node_holds_every_stage_and_one_gpu_none() -> None:
    for stage in get_args(TrainedStage):
        assert estimate(SHAPE, paper_plan(stage)).verdict == "fits", stage
        assert estimate(SHAPE, paper_plan(stage, gpus=1)).verdict != "fits", stage


def test_the_7b_learns_from_as_many_of_its_own_runs_as_help() -> None:
    config = preset_config("7b")
    plan = config_plan("rejection", config, 8)
    assert (plan.rollouts, plan.played) == (20_000, 160_000)
    assert (plan.optimizer_steps, plan.step_rows) == (79, 256)
    every = changed_config(config, ["rejection.most=null"])
    assert config_plan("rejection", every, 8).rollouts == 40_000


def test_adapters_take_less_memory_though_each_gpu_holds_the_model_and_more_gpus_less_time() -> (
    None
):
    plan = paper_plan("grpo")
    plans = [replace(plan, lora=64, gpus=gpus) for gpus in (1, 8)]
    assert estimate(SHAPE, plans[0]).verdict == "fits"
    one, eight = (dict(estimate(SHAPE, plan).memory) for plan in plans)
    assert one == eight
    matrices = 161_480_704  # two of rank 64 beside each of 28 x 7
    assert one["gradients"] * 2**30 == pytest.approx(4 * matrices)
    whole, more = estimate(SHAPE, plan), estimate(SHAPE, replace(plan, gpus=32))
    for (_, time), (_, less) in zip(whole.hours, more.hours, strict=True):
        assert less == pytest.approx(time / 4)
    assert more.gib < whole.gib


def test_weights_gradients_and_optimizer_are_sixteen_bytes_a_weight() -> None:
    found = dict(estimate(SHAPE, TrainingPlan("cold-start", gpus=1, frozen_vision=False)).memory)
    bytes_ = 2**30 * sum(found[name] for name in ("weights", "gradients", "optimizer"))
    assert bytes_ == pytest.approx(16 * SHAPE.weights)


@pytest.mark.parametrize(("gpus", "steps"), [(1, 38), (8, 5), (32, 2)])
def test_more_gpus_mean_fewer_and_larger_optimizer_steps_and_the_estimate_says_so(
    gpus: int, steps: int
) -> None:
    plan = config_plan("cold-start", preset_config("7b"), gpus)
    (line,) = [each.split() for each in estimate(SHAPE, plan).lines() if "optimizer steps" in each]
    assert line == ["optimizer", "steps", str(steps), "of", f"{32 * gpus:,}", "rows", "each"]
    (line,) = [each.split() for each in planned(gpus=gpus).lines() if "optimizer steps" in each]
    assert line == ["optimizer", "steps", "300", "of", "512", "rows", "each"]


def planned(*changes: str, gpus: int = 8) -> TrainingEstimate:
    """Of GRPO with the paper's sizes."""
    return estimate(SHAPE, config_plan("grpo", changed_config(preset_config("7b"), changes), gpus))


def test_vllm_takes_its_share_of_a_gpu_beside_the_training_and_a_server_none() -> None:
    server = planned("grpo.trl.vllm=server")
    for share in (0.3, 0.5):
        beside = planned("grpo.trl.vllm=colocate", f"grpo.trl.vllm_memory={share}")
        assert beside.gib == pytest.approx(server.gib + share * 80)
    assert planned("grpo.trl.vllm=colocate", "grpo.trl.vllm_memory=0.9").verdict != "fits"
    assert planned("grpo.trl.vllm=colocate").verdict == "fits"
    not_counted = "Not counted: the GPUs of the vLLM server."
    assert not_counted in server.lines()
    assert not_counted not in planned("grpo.trl.vllm=colocate").lines()


def test_a_share_too_small_for_the_weights_and_one_conversation_does_not_fit() -> None:
    little = planned("grpo.trl.vllm=colocate", "grpo.trl.vllm_memory=0.2")
    assert little.gib < planned("grpo.trl.vllm=colocate").gib
    assert "raise grpo.trl.vllm_memory" in little.verdict
    room = planned("grpo.trl.vllm=colocate").plan.longest
    longer = planned("grpo.trl.vllm=colocate", f"grpo.trl.tokens={16_384 + 100_000}")
    assert longer.plan.longest == room + 100_000
    assert "raise grpo.trl.vllm_memory" in longer.verdict


def test_without_vllm_a_gpu_generates_all_its_rollouts_of_a_step_at_once() -> None:
    alone = planned("grpo.trl.lora=64")
    sizes = dict(alone.memory)
    assert sizes["KV cache of rollouts"] * 2**30 == 64 * alone.plan.tokens * 28 * 1024 * 2
    assert "weights for rollouts" not in sizes
    assert alone.verdict != "fits"
    assert "set grpo.trl.vllm" in alone.verdict
    assert "fewer grpo.pairs" in alone.verdict
    fewer = planned("grpo.trl.lora=64", "grpo.pairs=8")
    assert fewer.verdict == "fits"
    cache = dict(fewer.memory)["KV cache of rollouts"]
    assert cache == pytest.approx(sizes["KV cache of rollouts"] / 8)
    assert planned("grpo.trl.lora=64", "grpo.trl.vllm=colocate").verdict == "fits"


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_accelerate_reads_the_recipe(path: Path) -> None:
    config = load_config_from_file(str(path))
    told = yaml.safe_load(path.read_text("utf-8"))
    assert config.num_processes == told["num_processes"] == 8 * told["num_machines"]
    assert config.mixed_precision == "bf16"


def test_the_layers_that_are_spread_are_those_of_the_model() -> None:
    from transformers.models.qwen2_5_vl import modeling_qwen2_5_vl as modeling

    assert len(RECIPES) == 4
    for path in RECIPES:
        fsdp = yaml.safe_load(path.read_text("utf-8")).get("fsdp_config", {})
        names = fsdp.get("fsdp_transformer_layer_cls_to_wrap", "").split(",")
        assert all(hasattr(modeling, name) for name in names if name)
