"""The configuration of a training run, kept as JSON beside what was trained with it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from annotated_types import Ge, Gt, Le

from vrthinker_core.errors import BadInput, data_errors, os_errors, type_adapter
from vrthinker_core.results.trace_files import CONFIG as CONFIG
from vrthinker_core.training.rewards import RewardWeights
from vrthinker_core.types.settings import Settings, setting
from vrthinker_core.words import encodable

Count = Annotated[int, Ge(1)]
Positive = Annotated[float, Gt(0)]
Share = Annotated[float, Ge(0), Le(1)]
NotNegative = Annotated[float, Ge(0)]
PresetName = Literal["nano", "7b"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StageConfig:
    """Settings of every stage. Names of TRL go straight into TRL."""

    learning_rate: Positive
    warmup_steps: Share  # Of all optimizer steps
    lr_scheduler_type: Literal["constant_with_warmup", "cosine"] = "cosine"
    adam_beta2: Share = 0.999
    weight_decay: NotNegative = 0.0
    max_grad_norm: Positive = 1.0
    per_device_train_batch_size: Count = 1  # Rows in one forward pass at most
    bf16: bool = True  # Arithmetic in bfloat16; on a processor the weights stay float32


@dataclass(frozen=True, slots=True, kw_only=True)
class SftConfig(StageConfig):
    """Supervised fine-tuning on token rows: cold start and rejection sampling."""

    gradient_accumulation_steps: Count = 1
    num_train_epochs: Positive = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ColdStartConfig(SftConfig):
    """Stage 1: traces of a teacher that pass the paper's two filters."""

    traces: Count = 1200  # Kept at most


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectionConfig(SftConfig):
    """Stage 2: the judge's own right rollouts."""

    pairs: Count  # That are played
    samples: Count  # Of each pair
    per_pair: Count = 2  # Different rollouts kept of one pair at most
    most: Count | None = None  # Learnt from (paper: up to about 20,000 help, 40,000 hurt)
    temperature: Positive = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class GrpoConfig(StageConfig):
    """Stage 3: group relative policy optimisation with the paper's reward."""

    pairs: Count  # An optimizer step (paper: 64)
    num_generations: Annotated[int, Ge(2)] = 8  # Rollouts of each pair
    max_steps: Count = 300
    updates: Count = 1  # Optimizer steps from the rollouts of one policy (paper: 4)
    objective: Literal["rollout", "token"] = "rollout"  # Equal weights of (paper: rollouts)
    redraws: Annotated[int, Ge(0)] = 3  # Further pairs for one whose rewards are all equal
    epsilon: Positive = 0.2  # Clipping of the ratio
    beta: NotNegative = 0.01  # Of KL; with 0 there is no reference model
    temperature: Positive = 1.0
    weights: RewardWeights = field(default_factory=RewardWeights)
    lora: Annotated[int, Ge(0)] = 0  # Rank of adapters, merged at the end; 0 trains all weights
    vllm_mode: Literal["", "colocate", "server"] = ""  # Generates rollouts; "" our own engine
    vllm_gpu_memory_utilization: Share = 0.3  # With colocate
    vllm_server_base_url: str = "http://127.0.0.1:8000"  # With server
    vllm_max_model_length: Count = 32_768  # Tokens of a conversation that vLLM keeps room for
    eval_steps: Count = 20  # Steps between two measurements on held-out pairs
    shown_every: Count = 10  # Steps between two sets of rollouts that are kept as traces


@dataclass(frozen=True, slots=True)
class PartsConfig:
    """Shares of a finite data set's prompts; each prompt has one part."""

    cold_start: Positive = 0.3
    rejection: Positive = 0.3
    grpo: Positive = 0.3
    held_out: Positive = 0.1
    seed: Annotated[int, Ge(0)] = 0  # Another one divides the prompts otherwise


@dataclass(frozen=True, slots=True)
class TrainConfig:
    """The settings of a training run, without stage, model and data."""

    # What pydantic reads it with, nested values too
    __pydantic_config__: ClassVar = {"extra": "forbid", "allow_inf_nan": False}

    preset: PresetName
    cold_start: ColdStartConfig
    rejection: RejectionConfig
    grpo: GrpoConfig
    seed: Annotated[int, Ge(0), Le(2**31 - 1)] = 0
    settings: Settings = field(default_factory=Settings)  # But the temperature, which stages choose
    frozen_vision: bool = True  # The vision tower is not trained
    gradient_checkpointing: bool = False  # Layers are computed again in the backward pass
    checkpoint_minutes: Positive = 3.0  # Between two checkpoints
    held_out_pairs: Count = 48  # That GRPO measures the judge on
    least_steps: Count = 30  # Optimizer steps of a fine-tuning: fewer teach a 7B nothing
    parts: PartsConfig = field(default_factory=PartsConfig)
    trackio: bool = False  # Curves in trackio, beside the JSON lines


def preset_config(name: PresetName) -> TrainConfig:
    """Return the settings for a size: measured for "nano", published for "7b".

    The 7B's cold start is that of the released script: 12 epochs, 8 passes a step on each GPU.
    """
    if name == "nano":
        few: dict[str, Any] = {"warmup_steps": 0.1, "adam_beta2": 0.98, "weight_decay": 0.01}
        few["per_device_train_batch_size"] = 8
        return TrainConfig(
            preset="nano",
            cold_start=ColdStartConfig(learning_rate=1.2e-3, num_train_epochs=3, **few),
            rejection=RejectionConfig(
                learning_rate=4e-4, num_train_epochs=2, pairs=640, samples=4, **few
            ),
            grpo=GrpoConfig(
                learning_rate=8e-5,
                warmup_steps=0.05,
                lr_scheduler_type="constant_with_warmup",
                adam_beta2=0.98,
                per_device_train_batch_size=16,
                bf16=False,
                pairs=8,
                max_steps=120,
            ),
            settings=Settings(max_new_tokens=512),
            least_steps=1,
        )
    return TrainConfig(
        preset="7b",
        cold_start=ColdStartConfig(
            learning_rate=1e-6, warmup_steps=0.2, gradient_accumulation_steps=8, num_train_epochs=12
        ),
        rejection=RejectionConfig(
            learning_rate=1.5e-6,
            warmup_steps=0.2,
            gradient_accumulation_steps=32,
            pairs=20_000,
            samples=8,
            most=20_000,
        ),
        grpo=GrpoConfig(
            learning_rate=1e-6,
            warmup_steps=0.0,
            lr_scheduler_type="constant_with_warmup",
            pairs=64,
            updates=4,
            vllm_mode="colocate",
        ),
        gradient_checkpointing=True,
        checkpoint_minutes=15.0,
    )


def changed_config(config: TrainConfig, changes: Sequence[str]) -> TrainConfig:
    """Return the configuration with changes such as `grpo.max_steps=30`.

    Values are JSON.

    Raises BadInput.
    """
    values = json.loads(config_json(config))
    for change in changes:
        name, equals, text = change.partition("=")
        *path, last = name.strip().split(".")
        inner = values
        for key in path:
            inner = inner.get(key) if isinstance(inner, dict) else None
        if not equals or not isinstance(inner, dict) or last not in inner:
            known = ", ".join(inner if isinstance(inner, dict) else values)
            raise BadInput(
                f"--set {encodable(change)} names no setting: write name=value with one of {known}."
            )
        value: Any = text.strip()
        with suppress(ValueError, RecursionError):  # a text that is no JSON stays a text
            value = json.loads(value)
        inner[last] = setting(last).parse(value) if path == ["settings"] else value
    return parse_config(json.dumps(values), "What was set")


def config_json(config: TrainConfig) -> str:
    """Return the configuration as JSON, which `parse_config` reads back exactly."""
    return type_adapter(TrainConfig).dump_json(config, indent=1).decode()


def parse_config(text: str, source: str) -> TrainConfig:
    """Read a configuration; `source` names it in errors.

    Raises BadInput for an unknown key, a wrong type, or a value out of range.
    """
    with data_errors(f"{source} is no training configuration"):
        return type_adapter(TrainConfig).validate_json(text, strict=True)


def read_config(folder: Path) -> TrainConfig:
    """Return the configuration of a run. Raises BadInput."""
    path = folder / CONFIG
    with os_errors(f"Cannot read {path}"):
        return parse_config(path.read_text("utf-8", errors="replace"), str(path))
