"""What a training on GPUs takes: memory on each GPU and hours, from the shape of the model, before anything is rented.

Arithmetic, not a measurement: every figure follows from the assumptions, which are told with it. FSDP2 or ZeRO-3 spread weights,
gradients and optimizer evenly, while with adapters each GPU holds the model; layers are computed again in the backward pass.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import torch
from transformers import Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration

from vrthinker_core.training.config import SftConfig, TrainConfig, TrlConfig
from vrthinker_core.training.run_folder import TrainedStage
from vrthinker_core.training.sft import optimizer_steps, rows_a_step

GIB = 2**30
FLOAT, HALF = 4, 2  # Bytes
VLLM_WORKING = 2.0  # GiB that vLLM takes of its share for one pass


@dataclass(frozen=True, slots=True)
class ModelShape:
    """The counts that memory and time follow from."""

    language: int  # Weights
    vision: int  # Weights
    layers: int  # Of the language model, as all that follows
    hidden: int
    inner: int  # Width of the feed-forward layers
    kv: int  # Numbers that the KV cache keeps of a token in one layer

    @property
    def weights(self) -> int:
        """Of both halves."""
        return self.language + self.vision


@dataclass(frozen=True, slots=True)
class TrainingPlan:
    """A stage, the machines, and what they are taken to do. The defaults are those of the paper, `paired`, on one node."""

    stage: TrainedStage
    gpus: int = 8
    gpu_gib: float = 80.0
    rollouts: int = 1200  # Rows that are trained, or played and trained: of one step with `grpo`
    steps: int = 1  # With `grpo`
    optimizer_steps: int = 0  # In all; 0 where that is not known
    step_rows: int = 0  # Rows of an optimizer step, on all GPUs together
    played: int = 0  # Rollouts that are played for the rows, with `rejection`
    pictures: int = 40  # Of a rollout: 8 at first, then two calls of 8 pairs
    picture_tokens: int = 256  # 448 x 448 pixels
    prompt_tokens: int = 1200  # Text that is sent
    reply_tokens: int = 1000  # That the judge writes in all
    batch: int = 1  # Rows in one forward pass
    frozen_vision: bool = True
    lora: int = 0  # Rank of adapters in the language model; 0 trains all weights
    bf16: bool = True  # With adapters, the number type of the weights beside them
    reference: bool = (
        True  # With `grpo` and without adapters: a second model, which the KL term compares with
    )
    vllm: Literal["", "colocate", "server"] = (
        "colocate"  # Who generates rollouts; "" the trainer, all of a GPU at once
    )
    vllm_memory: float = 0.3  # Share of each GPU that vLLM takes, with colocate
    longest: int = TrlConfig().longest  # Tokens of a conversation that vLLM must have room for
    flops: float = 989e12  # Of a GPU in bfloat16, as its maker says
    share: float = 0.3  # Of them that training reaches
    written: float = 1200.0  # Tokens a GPU writes in a second, all its rollouts together

    @property
    def tokens(self) -> int:
        """Of one rollout from its first prompt to its answer."""
        return self.pictures * self.picture_tokens + self.prompt_tokens + self.reply_tokens


def stage_plan(stage: TrainedStage, gpus: int = 8) -> TrainingPlan:
    """The paper's sizes of a stage."""
    sizes = {"cold-start": (1200, 1, 0), "rejection": (20_000, 1, 160_000), "grpo": (512, 300, 0)}
    rollouts, steps, played = sizes[stage]
    return TrainingPlan(stage, gpus, rollouts=rollouts, steps=steps, played=played)


def config_plan(stage: TrainedStage, config: TrainConfig, gpus: int) -> TrainingPlan:
    """What a configuration asks for."""
    plan = replace(stage_plan(stage, gpus), frozen_vision=config.frozen_vision)
    if stage == "grpo":
        grpo = config.grpo
        rollouts = grpo.pairs * grpo.samples
        plan = replace(
            plan,
            rollouts=rollouts,
            steps=grpo.steps,
            optimizer_steps=grpo.steps,
            step_rows=rollouts,
        )
        trl = grpo.trl
        plan = replace(plan, vllm=trl.vllm, vllm_memory=trl.vllm_memory, longest=trl.longest)
        return replace(
            plan, batch=grpo.micro_batch, reference=grpo.kl > 0, lora=trl.lora, bf16=grpo.bf16
        )
    if stage == "cold-start":
        return _learning_from(plan, config.cold_start.traces, config.cold_start.sft)
    rejection = config.rejection
    played = rejection.pairs * rejection.samples
    kept = min(played, rejection.pairs * rejection.per_pair, rejection.most or played)
    return _learning_from(replace(plan, played=played), kept, rejection.sft)


def _learning_from(plan: TrainingPlan, rows: int, sft: SftConfig) -> TrainingPlan:
    """The plan with so many rows."""
    plan = replace(
        plan,
        optimizer_steps=optimizer_steps(rows, sft, plan.gpus),
        step_rows=rows_a_step(sft, plan.gpus),
    )
    return replace(plan, rollouts=round(rows * sft.epochs), batch=sft.batch)


@dataclass(frozen=True, slots=True)
class TrainingEstimate:
    """GiB on each GPU, hours, and what they rest on."""

    plan: TrainingPlan
    memory: tuple[tuple[str, float], ...]  # What, GiB
    hours: tuple[tuple[str, float], ...]  # What, hours
    vllm_gib: float = (
        0.0  # That vLLM needs of its share: the weights, and one conversation of the longest kind
    )

    @property
    def gib(self) -> float:
        """On each GPU, all together."""
        return sum(size for _, size in self.memory)

    @property
    def fits(self) -> bool:
        """A tenth of the GPU is left for what a library keeps for itself, and vLLM's share is enough for it."""
        return self.gib <= 0.9 * self.plan.gpu_gib and self._vllm_fits

    @property
    def _vllm_fits(self) -> bool:
        return self.vllm_gib <= self.plan.vllm_memory * self.plan.gpu_gib

    @property
    def verdict(self) -> str:
        """Whether it fits, and what to do where it does not."""
        if self.fits:
            return "fits"
        if not self._vllm_fits:
            return f"does not fit: vLLM needs {self.vllm_gib:.1f} GiB, raise grpo.trl.vllm_memory"
        if self.plan.stage == "grpo" and not self.plan.vllm:
            return "does not fit: set grpo.trl.vllm, or take more GPUs or fewer grpo.pairs"
        return "does not fit: take more GPUs, a smaller batch or adapters"

    @property
    def total_hours(self) -> float:
        """Of the stage."""
        return sum(time for _, time in self.hours)

    def lines(self) -> Iterator[str]:
        """The estimate as a person reads it, with its assumptions."""
        plan = self.plan
        yield f"{plan.stage} on {plan.gpus} GPUs of {plan.gpu_gib:g} GiB"
        yield from (f"  {what:<32}{size:8.1f} GiB" for what, size in self.memory)
        yield f"  {'on each GPU':<32}{self.gib:8.1f} GiB, {self.verdict}"
        if plan.optimizer_steps:
            yield f"  {'optimizer steps':<32}{plan.optimizer_steps:6,d}   of {plan.step_rows:,} rows each"
        yield from (f"  {what:<32}{time:8.1f} hours" for what, time in self.hours)
        yield f"  {'together':<32}{self.total_hours:8.1f} hours"
        rows, speed = (
            plan.rollouts * plan.steps,
            f"{plan.share:.0%} of {plan.flops / 1e12:g} TFLOPS",
        )
        kept = "adapters" if plan.lora else "weights"
        yield f"Assumed: {rows:,} rows of {plan.tokens:,} tokens with {plan.pictures} pictures; {kept} and AdamW in float32,"
        yield f"arithmetic in bfloat16 at {speed}, layers computed again in the backward pass;"
        yield f"{plan.written:g} tokens written a second on each GPU, all its rollouts together."
        if plan.stage == "grpo" and plan.vllm == "server":
            yield "Not counted: the GPUs of the vLLM server."


def model_shape(checkpoint: Path | None = None) -> ModelShape:
    """The shape that config.json of a checkpoint describes; without one, that of Qwen2.5-VL-7B. No weight is read."""
    config = (
        Qwen2_5_VLConfig.from_pretrained(checkpoint, local_files_only=True)
        if checkpoint
        else _seven_billion()
    )
    text: Any = config.get_text_config()
    with torch.device("meta"):
        model = Qwen2_5_VLForConditionalGeneration(config)
    vision = sum(each.numel() for each in model.model.visual.parameters())
    head = text.hidden_size // text.num_attention_heads
    kv = 2 * text.num_key_value_heads * head
    counted = sum(each.numel() for each in model.parameters())
    return ModelShape(
        counted - vision,
        vision,
        text.num_hidden_layers,
        text.hidden_size,
        text.intermediate_size,
        kv,
    )


def estimate(shape: ModelShape, plan: TrainingPlan) -> TrainingEstimate:
    """Memory on each GPU, and hours."""
    return TrainingEstimate(
        plan, tuple(_memory(shape, plan)), tuple(_hours(shape, plan)), _vllm_gib(shape, plan)
    )


def _learning(shape: ModelShape, plan: TrainingPlan) -> int:
    return (
        _adapters(shape, plan.lora)
        if plan.lora
        else shape.weights - shape.vision * plan.frozen_vision
    )


def _adapters(shape: ModelShape, rank: int) -> int:
    """Weights of adapters beside all seven matrices of each layer: two of `rank` rows or columns each."""
    hidden, narrow = shape.hidden, shape.kv // 2
    sides = (
        2 * (hidden + hidden) + 2 * (hidden + narrow) + 3 * (hidden + shape.inner)
    )  # q and o, k and v, feed-forward
    return rank * sides * shape.layers


def _memory(shape: ModelShape, plan: TrainingPlan) -> Iterator[tuple[str, float]]:
    learning, tokens = _learning(shape, plan), plan.batch * plan.tokens
    parts = 1 if plan.lora else plan.gpus
    yield "weights", shape.weights * (HALF if plan.lora and plan.bf16 else FLOAT) / parts / GIB
    yield "gradients", learning * FLOAT / parts / GIB
    yield "optimizer", 2 * learning * FLOAT / parts / GIB
    if plan.stage == "grpo" and plan.reference and not plan.lora:
        yield "reference", shape.weights * FLOAT / plan.gpus / GIB
    inputs = shape.layers * shape.hidden * HALF  # What each layer was given, of one token
    one_layer = (12 * shape.hidden + 4 * shape.inner) * HALF  # That is computed again
    yield "activations", tokens * (inputs + one_layer) / GIB
    yield "one layer in bfloat16, twice", 2 * HALF * shape.language / shape.layers / GIB
    if plan.stage == "grpo" and not plan.vllm:
        live = max(1, plan.rollouts // plan.gpus) * plan.tokens
        yield "KV cache of rollouts", live * shape.layers * shape.kv * HALF / GIB
        yield "prefill of rollouts", live * (2 * shape.hidden + 3 * shape.inner) * HALF / GIB
    if plan.stage == "grpo" and plan.vllm == "colocate":
        yield "share of vLLM", plan.vllm_memory * plan.gpu_gib


def _vllm_gib(shape: ModelShape, plan: TrainingPlan) -> float:
    if plan.stage != "grpo" or plan.vllm != "colocate":
        return 0.0
    return (shape.weights + plan.longest * shape.layers * shape.kv) * HALF / GIB + VLLM_WORKING


def _hours(shape: ModelShape, plan: TrainingPlan) -> Iterator[tuple[str, float]]:
    rows = plan.rollouts * plan.steps
    patches = 4 * plan.pictures * plan.picture_tokens
    passes = 8 if plan.lora == 0 else 6  # FLOPs a weight and token: forward, again, backward
    look = (2 if plan.frozen_vision else 8) * shape.vision * patches
    reference = (
        (2 * shape.language * plan.tokens + 2 * shape.vision * patches)
        if plan.stage == "grpo" and plan.reference
        else 0
    )
    speed = plan.gpus * plan.flops * plan.share * 3600
    yield "training", rows * (passes * shape.language * plan.tokens + look + reference) / speed
    played = rows if plan.stage == "grpo" else plan.played
    if played:
        read = played * (2 * shape.language * plan.tokens + 2 * shape.vision * patches) / speed
        yield "rollouts", read + played * plan.reply_tokens / (plan.written * plan.gpus * 3600)


def sizes_of_7b() -> tuple[dict[str, int], dict[str, int]]:
    """The sizes in the config.json of Qwen2.5-VL-7B: of its language model and of its vision tower."""
    text = {
        "vocab_size": 152_064,
        "hidden_size": 3584,
        "intermediate_size": 18_944,
        "num_hidden_layers": 28,
        "num_attention_heads": 28,
        "num_key_value_heads": 4,
    }
    return text, {
        "depth": 32,
        "hidden_size": 1280,
        "intermediate_size": 3420,
        "num_heads": 16,
        "out_hidden_size": 3584,
    }


def _seven_billion() -> Qwen2_5_VLConfig:
    text, vision = sizes_of_7b()
    return Qwen2_5_VLConfig(text_config=text, vision_config=vision, tie_word_embeddings=False)
