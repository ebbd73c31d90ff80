"""The configuration of a training run, kept as JSON beside what was trained with it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
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


@dataclass(frozen=True, slots=True)
class OptimizerConfig:
    """AdamW and its learning rate: linear warm-up, then constant or falling along a cosine to 0."""

    learning_rate: Positive
    warm_up: Share  # Of all optimizer steps
    schedule: Literal["constant", "cosine"] = "constant"
    beta2: Share = 0.98
    weight_decay: NotNegative = 0.0
    max_grad_norm: Positive = 1.0


@dataclass(frozen=True, slots=True)
class SftConfig:
    """Supervised fine-tuning on token rows: cold start and rejection sampling share the trainer."""

    optimizer: OptimizerConfig
    batch: Count  # Rows in one forward pass, on one processor or GPU
    accumulation: Count  # Forward passes in one optimizer step, on each processor or GPU
    epochs: Positive
    bf16: bool = True  # Arithmetic in bfloat16; on a processor the weights stay float32


@dataclass(frozen=True, slots=True)
class ColdStartConfig:
    """Stage 1: traces of a teacher that pass the paper's two filters."""

    sft: SftConfig
    traces: Count = 1200  # Kept at most


@dataclass(frozen=True, slots=True)
class RejectionConfig:
    """Stage 2: the judge's own right rollouts."""

    sft: SftConfig
    pairs: Count  # That are played
    samples: Count  # Of each pair
    per_pair: Count = 2  # Different rollouts kept of one pair at most
    most: Count | None = None  # Learnt from (paper: up to about 20,000 help, 40,000 hurt)
    temperature: Positive = 1.0


@dataclass(frozen=True, slots=True)
class TrlConfig:
    """What TRL's GRPO takes beside the paper's figures."""

    longest: Count = 32_768  # Tokens of a whole conversation at most, for which vLLM keeps room
    lora: Annotated[int, Ge(0)] = 0  # Rank of adapters, merged at the end; 0 trains all weights
    vllm: Literal["", "colocate", "server"] = ""  # Generates rollouts; "" the trainer itself
    vllm_memory: Share = 0.3  # Of each GPU, with colocate
    vllm_url: str = "http://127.0.0.1:8000"  # With server


@dataclass(frozen=True, slots=True)
class GrpoConfig:
    """Stage 3: group relative policy optimisation with the paper's reward."""

    optimizer: OptimizerConfig
    pairs: Count  # A step (paper: 64)
    micro_batch: Count  # Rollouts in one forward pass at most, on one processor or GPU
    trl: TrlConfig = field(default_factory=TrlConfig)
    samples: Annotated[int, Ge(2)] = 8  # Of each pair
    steps: Count = 300
    clip: Positive = 0.2
    kl: NotNegative = 0.01  # β; with 0 there is no reference model
    temperature: Positive = 1.0
    weights: RewardWeights = field(default_factory=RewardWeights)
    bf16: bool = False  # Arithmetic in bfloat16; what learns stays float32
    updates: Count = 1  # Optimizer steps from the rollouts of one policy (paper: 4)
    objective: Literal["rollout", "token"] = "rollout"  # Equal weights of (paper: rollouts)
    redraws: Annotated[int, Ge(0)] = 3  # Further pairs for one whose rewards are all equal
    eval_steps: Count = 20  # Steps between two measurements on held-out pairs
    shown_every: Count = 10  # Steps between two sets of rollouts that are kept as traces


@dataclass(frozen=True, slots=True)
class GateConfig:
    """What the cold start must reach on held-out pairs before the next stage begins."""

    pairs: Count = 48
    samples: Annotated[int, Ge(2)] = 8  # k of pass@k
    format: Share = 0.95  # Share of well-formed rollouts
    headroom: Share = 0.1  # pass@k minus mean@1: what sampling can find


@dataclass(frozen=True, slots=True)
class PartsConfig:
    """Shares of the prompts of a finite data set: each prompt belongs to one part."""

    cold_start: Positive = 0.3
    rejection: Positive = 0.3
    grpo: Positive = 0.3
    held_out: Positive = 0.1
    seed: Annotated[int, Ge(0)] = 0  # Another one divides the prompts otherwise


@dataclass(frozen=True, slots=True)
class TrainConfig:
    """All that decides what a training run does, but for its stage, its model and its data."""

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
    gates: GateConfig = field(default_factory=GateConfig)
    parts: PartsConfig = field(default_factory=PartsConfig)
    trackio: bool = False  # Curves in trackio, beside the JSON lines


def preset_config(name: PresetName) -> TrainConfig:
    """The figures of a size: "nano" as measured for the built-in judge, "7b" as in the paper."""
    if name == "nano":
        slow = OptimizerConfig(4e-4, warm_up=0.1, schedule="cosine", weight_decay=0.01)
        sft = SftConfig(slow, batch=8, accumulation=1, epochs=2)
        fast = replace(sft, optimizer=replace(slow, learning_rate=1.2e-3), epochs=3)
        grpo = OptimizerConfig(8e-5, warm_up=0.05)
        return TrainConfig(
            preset="nano",
            cold_start=ColdStartConfig(fast),
            rejection=RejectionConfig(sft, pairs=640, samples=4),
            grpo=GrpoConfig(grpo, pairs=8, micro_batch=16, steps=120),
            settings=Settings(max_new_tokens=512),
        )
    slow = OptimizerConfig(1.5e-6, warm_up=0.2, schedule="cosine", beta2=0.999)
    sft = SftConfig(slow, batch=1, accumulation=32, epochs=1)
    grpo = OptimizerConfig(1e-6, warm_up=0.0, beta2=0.999)
    return TrainConfig(
        preset="7b",
        cold_start=ColdStartConfig(sft),
        rejection=RejectionConfig(sft, pairs=20_000, samples=8, most=20_000),
        grpo=GrpoConfig(grpo, pairs=64, micro_batch=1, steps=300, updates=4, bf16=True),
        gradient_checkpointing=True,
        checkpoint_minutes=15.0,
    )


def changed_config(config: TrainConfig, changes: Sequence[str]) -> TrainConfig:
    """The configuration with changes as `--set` takes them: `grpo.steps=30`, values as JSON.

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
    """The configuration as JSON, which `parse_config` reads back exactly."""
    return type_adapter(TrainConfig).dump_json(config, indent=1).decode()


def parse_config(text: str, source: str) -> TrainConfig:
    """Read a configuration; `source` names it in errors.

    Raises BadInput for an unknown key, a wrong type, or a value out of range.
    """
    with data_errors(f"{source} is no training configuration"):
        return type_adapter(TrainConfig).validate_json(text, strict=True)


def read_config(folder: Path) -> TrainConfig:
    """The configuration of a run. Raises BadInput."""
    path = folder / CONFIG
    with os_errors(f"Cannot read {path}"):
        return parse_config(path.read_text("utf-8", errors="replace"), str(path))
