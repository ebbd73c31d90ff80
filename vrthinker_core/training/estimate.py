"""Estimates of a training: memory of each process and hours, from the shape of the model.

The figures are arithmetic, not measurements: they follow from the printed assumptions. FSDP2 or
ZeRO-3 spread weights, gradients and optimizer evenly. With adapters each GPU holds the model.
"""

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from typing import Any

import torch
from transformers import Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration

from vrthinker_core.backends.checkpoint_files import check_files, locate
from vrthinker_core.backends.devices import available_memory
from vrthinker_core.errors import BadInput
from vrthinker_core.system import free_memory
from vrthinker_core.training.config import GrpoConfig, PresetName, SftConfig, TrainConfig
from vrthinker_core.training.rollouts import LIVE
from vrthinker_core.training.run_folder import TrainedStage
from vrthinker_core.training.sft import optimizer_steps, rows_a_step, too_few_steps
from vrthinker_core.training.sharding import is_sharded

GIB = 2**30
FLOAT, HALF = 4, 2  # Bytes
# Qwen2.5-VL-7B's config.json: sizes of its language model and its vision tower
TEXT_7B = {
    "vocab_size": 152_064,
    "hidden_size": 3584,
    "intermediate_size": 18_944,
    "num_hidden_layers": 28,
    "num_attention_heads": 28,
    "num_key_value_heads": 4,
}
VISION_7B = {
    "depth": 32,
    "hidden_size": 1280,
    "intermediate_size": 3420,
    "num_heads": 16,
    "out_hidden_size": 3584,
}


@dataclass(frozen=True, slots=True)
class ModelShape:
    """The counts that memory and time follow from."""

    language: int  # Weights
    vision: int  # Weights
    layers: int  # Of the language model, as all that follows
    hidden: int
    inner: int  # Width of the feed-forward layers
    kv: int  # Numbers that the KV cache keeps of a token in one layer
    picture_tokens: int  # Of a frame

    @property
    def weights(self) -> int:
        """Weights of both halves."""
        return self.language + self.vision

    @property
    def tokens(self) -> int:
        """Tokens of a rollout to its answer."""
        return PICTURES * self.picture_tokens + PROMPT_TOKENS + REPLY_TOKENS


# What is assumed, for `paired` as the paper has it
GPU_GIB = 80.0
FRAME_PIXELS = 448 * 448
PICTURE_TOKENS = FRAME_PIXELS // 28**2  # For the 7B
PICTURES = 40  # Of a rollout: 8 at first, then two calls of 8 pairs
PROMPT_TOKENS = 1200  # Text that is sent
REPLY_TOKENS = 1000  # That the judge writes in all
FLOPS = 989e12  # Of a GPU in bfloat16, as its maker says
SHARE = 0.3  # Of them that training reaches
WRITTEN = 1200.0  # Tokens a GPU writes in a second, all its rollouts together


@dataclass(frozen=True, slots=True)
class TrainingPlan:
    """A stage, and how much of everything its configuration asks for."""

    stage: TrainedStage
    config: TrainConfig
    gpus: int
    rollouts: int  # Rows that are trained, or played and trained: of one step with `grpo`
    batch: int  # Rows in one forward pass
    optimizer_steps: int  # In all
    step_rows: int  # Rows of an optimizer step, on all GPUs together
    played: int = 0  # Rollouts played for the rows; with `grpo` they are the rows
    shards: int = 1  # Processes that share the weights
    gib: float = GPU_GIB  # Memory of each process

    @property
    def grpo(self) -> GrpoConfig | None:
        """The figures of GRPO, if it is the stage."""
        return self.config.grpo if self.stage == "grpo" else None

    @property
    def lora(self) -> int:
        """The rank of adapters in the language model; 0 trains all weights."""
        return self.grpo.lora if self.grpo else 0

    @property
    def rows(self) -> int:
        """Rows that are trained in all steps."""
        return self.rollouts * (self.grpo.max_steps if self.grpo else 1)


def config_plan(stage: TrainedStage, config: TrainConfig, gpus: int) -> TrainingPlan:
    """Return what a configuration asks for if `gpus` GPUs share the model."""
    if stage == "grpo":
        grpo, rows = config.grpo, config.grpo.pairs * config.grpo.num_generations
        shards = 1 if grpo.lora else gpus
        return TrainingPlan(
            stage,
            config,
            gpus,
            rows,
            grpo.per_device_train_batch_size,
            grpo.max_steps,
            rows,
            shards=shards,
        )
    sft: SftConfig = config.cold_start
    rows, played = config.cold_start.traces, 0
    if stage == "rejection":
        options = config.rejection
        sft, played = options, options.pairs * options.samples
        rows = min(played, options.pairs * options.per_pair, options.most or played)
    steps, trained = optimizer_steps(rows, sft, gpus), round(rows * sft.num_train_epochs)
    each = rows_a_step(sft, gpus)
    return TrainingPlan(
        stage, config, gpus, trained, sft.per_device_train_batch_size, steps, each, played, gpus
    )


@dataclass(frozen=True, slots=True)
class TrainingEstimate:
    """GiB on each GPU, hours, and what they rest on."""

    plan: TrainingPlan
    memory: tuple[tuple[str, float], ...]  # What, GiB
    hours: tuple[tuple[str, float], ...]  # What, hours
    tokens: int  # Of a row
    vllm_gib: float = 0.0  # That vLLM needs: the weights, and one of the longest conversations

    @property
    def gib(self) -> float:
        """GiB on each GPU, all together."""
        return sum(size for _, size in self.memory)

    @property
    def problem(self) -> str:
        """Why it cannot be done, and what to do; "" if it can, with a tenth of memory to spare."""
        grpo, room, least = self.plan.grpo, self.plan.gib, self.plan.config.least_steps
        if not grpo and (few := too_few_steps(self.plan.optimizer_steps, least)):
            return few
        if grpo and grpo.pairs % self.plan.gpus:
            return (
                f"grpo.pairs={grpo.pairs} leaves {self.plan.gpus} processes no whole groups: choose "
                f"a multiple of {self.plan.gpus}"
            )
        if grpo and self.plan.shards > 1 and not grpo.vllm_mode:
            return (
                "processes that share one model cannot play rollouts: set grpo.vllm_mode to "
                "colocate or server, or launch with data_parallel.yaml and train adapters "
                "(grpo.lora=64)"
            )
        if grpo and self.vllm_gib > grpo.vllm_gpu_memory_utilization * room:
            return f"vLLM needs {self.vllm_gib:.1f} GiB: raise grpo.vllm_gpu_memory_utilization"
        if self.gib > 0.9 * room:
            return (
                f"it needs {self.gib:.1f} GiB of {room:.1f}: take more GPUs or memory, a smaller "
                "batch, or a smaller model"
            )
        return ""

    def lines(self) -> Iterator[str]:
        """The estimate as a person reads it, with its assumptions."""
        plan = self.plan
        yield f"{plan.stage} on {plan.gpus} GPUs of {plan.gib:g} GiB"
        yield from (f"  {what:<32}{size:8.1f} GiB" for what, size in self.memory)
        yield f"  {'on each GPU':<32}{self.gib:8.1f} GiB{'' if self.problem else ', fits'}"
        steps, rows = plan.optimizer_steps, plan.step_rows
        yield f"  {'optimizer steps':<32}{steps:6,d}   of {rows:,} rows each"
        yield from (f"  {what:<32}{time:8.1f} hours" for what, time in self.hours)
        yield f"  {'together':<32}{sum(time for _, time in self.hours):8.1f} hours"
        kept = "adapters" if plan.lora else "weights"
        speed = f"{SHARE:.0%} of {FLOPS / 1e12:g} TFLOPS"
        yield (
            f"Assumed: {plan.rows:,} rows of {self.tokens:,} tokens with {PICTURES} pictures; "
            f"{kept} and AdamW in float32,"
        )
        yield f"arithmetic in bfloat16 at {speed}, layers computed again in the backward pass;"
        yield f"{WRITTEN:g} tokens written a second on each GPU, all its rollouts together."
        if plan.grpo and plan.grpo.vllm_mode == "server":
            yield "Not counted: the GPUs of the vLLM server."


def model_shape(checkpoint: Path | None = None) -> ModelShape:
    """Return the shape that a checkpoint's files describe, by default of Qwen2.5-VL-7B."""
    picture = PICTURE_TOKENS
    if checkpoint:
        told = json.loads((checkpoint / "preprocessor_config.json").read_bytes())
        most = told.get("max_pixels") or told.get("size", {}).get("longest_edge", FRAME_PIXELS)
        edge = told.get("patch_size", 14) * told.get("merge_size", 2)
        picture = min(most, FRAME_PIXELS) // edge**2
        config = Qwen2_5_VLConfig.from_pretrained(checkpoint, local_files_only=True)
    else:
        sizes, tower = dict(TEXT_7B), dict(VISION_7B)
        config = Qwen2_5_VLConfig(text_config=sizes, vision_config=tower, tie_word_embeddings=False)
    text: Any = config.get_text_config()
    with torch.device("meta"):
        model = Qwen2_5_VLForConditionalGeneration(config)
    vision = sum(each.numel() for each in model.model.visual.parameters())
    head = text.hidden_size // text.num_attention_heads
    return ModelShape(
        language=sum(each.numel() for each in model.parameters()) - vision,
        vision=vision,
        layers=text.num_hidden_layers,
        hidden=text.hidden_size,
        inner=text.intermediate_size,
        kv=2 * text.num_key_value_heads * head,
        picture_tokens=picture,
    )


def chosen_preset(shape: ModelShape) -> PresetName:
    """Return the preset for a model's size. Raises BadInput if none is for it."""
    sizes: dict[PresetName, tuple[float, float]] = {"nano": (0, 2e7), "7b": (2e9, 1.2e10)}
    for name, (least, most) in sizes.items():
        if least <= shape.weights <= most:
            return name
    raise BadInput(
        f"No preset is for a model of {shape.weights / 1e9:.2g} billion weights: name one with "
        "--preset, and its rates with --set."
    )


def require_fit(stage: TrainedStage, source: str, config: TrainConfig, processes: int) -> None:
    """Raise BadInput if these processes have too little memory, or a stage too few steps."""
    folder = locate(source)
    check_files(folder)
    if torch.cuda.is_available():
        free = available_memory(f"cuda:{os.environ.get('LOCAL_RANK', '0')}")
    else:
        free = free_memory() // int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    plan = config_plan(stage, config, processes)
    shards = processes if is_sharded() else 1
    plan = replace(plan, shards=shards, gib=inf if free is None else free / GIB)
    if problem := estimate(model_shape(folder), plan).problem:
        raise BadInput(f"The stage {stage} cannot run here: {problem}.")


def estimate(shape: ModelShape, plan: TrainingPlan) -> TrainingEstimate:
    """Memory on each GPU, and hours."""
    vllm = 0.0
    if plan.grpo and plan.grpo.vllm_mode == "colocate":
        working = 2.0  # GiB that vLLM takes of its share for one pass
        numbers = shape.weights + plan.grpo.vllm_max_model_length * shape.layers * shape.kv
        vllm = numbers * HALF / GIB + working
    return TrainingEstimate(
        plan, tuple(_memory(shape, plan)), tuple(_hours(shape, plan)), shape.tokens, vllm
    )


def _memory(shape: ModelShape, plan: TrainingPlan) -> Iterator[tuple[str, float]]:
    grpo, parts = plan.grpo, plan.shards
    learning = shape.weights - shape.vision * plan.config.frozen_vision
    if plan.lora:  # adapters beside all seven matrices of each layer
        hidden, narrow = shape.hidden, shape.kv // 2
        # q and o, k and v, feed-forward
        sides = 2 * (hidden + hidden) + 2 * (hidden + narrow) + 3 * (hidden + shape.inner)
        learning = plan.lora * sides * shape.layers
    yield (
        "weights",
        shape.weights * (HALF if grpo and grpo.lora and grpo.bf16 else FLOAT) / parts / GIB,
    )
    yield "gradients", learning * FLOAT / parts / GIB
    yield "optimizer", 2 * learning * FLOAT / parts / GIB
    if grpo and grpo.beta > 0 and not grpo.lora:
        yield "reference", shape.weights * FLOAT / parts / GIB
    inputs = shape.layers * shape.hidden * HALF  # What each layer was given, of one token
    one_layer = (12 * shape.hidden + 4 * shape.inner) * HALF  # That is computed again
    yield "activations", plan.batch * shape.tokens * (inputs + one_layer) / GIB
    yield "one layer in bfloat16, twice", 2 * HALF * shape.language / shape.layers / GIB
    if grpo and not grpo.vllm_mode:
        live = min(LIVE, max(1, plan.rollouts // plan.gpus))
        yield "KV cache of rollouts", live * shape.tokens * shape.layers * shape.kv * HALF / GIB
        yield "prefill", shape.tokens * (2 * shape.hidden + 3 * shape.inner) * HALF / GIB
    if grpo and grpo.vllm_mode == "colocate":
        yield "share of vLLM", grpo.vllm_gpu_memory_utilization * plan.gib


def _hours(shape: ModelShape, plan: TrainingPlan) -> Iterator[tuple[str, float]]:
    patches, tokens = 4 * PICTURES * shape.picture_tokens, shape.tokens
    passes = 6 if plan.lora else 8  # FLOPs a weight and token: forward, again, backward
    look = (2 if plan.config.frozen_vision else 8) * shape.vision * patches
    forward = 2 * shape.language * tokens + 2 * shape.vision * patches
    reference = forward if plan.grpo and plan.grpo.beta > 0 else 0
    speed = plan.gpus * FLOPS * SHARE * 3600
    yield "training", plan.rows * (passes * shape.language * tokens + look + reference) / speed
    if played := plan.rows if plan.grpo else plan.played:
        writing = played * REPLY_TOKENS / (WRITTEN * plan.gpus * 3600)
        yield "rollouts", played * forward / speed + writing
