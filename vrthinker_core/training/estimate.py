"""What a training on GPUs takes: memory on each GPU and hours, from the shape of the model.

Arithmetic, not a measurement: every figure follows from the assumptions, which are told with it.
FSDP2 or ZeRO-3 spread weights, gradients and optimizer evenly, while with adapters each GPU holds
the model; layers are computed again in the backward pass.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import torch
from transformers import Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration

from vrthinker_core.training.config import TrainConfig, TrlConfig
from vrthinker_core.training.run_folder import TrainedStage
from vrthinker_core.training.sft import optimizer_steps, rows_a_step

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

    @property
    def weights(self) -> int:
        """Weights of both halves."""
        return self.language + self.vision


@dataclass(frozen=True, slots=True)
class TrainingPlan:
    """A stage and the machines; the defaults are the paper's, `paired`, on one node."""

    stage: TrainedStage
    gpus: int = 8
    gpu_gib: float = 80.0
    rollouts: int = 1200  # Rows that are trained, or played and trained: of one step with `grpo`
    steps: int = 1  # With `grpo`
    optimizer_steps: int = 0  # In all
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
    reference: bool = True  # With `grpo` and no adapters: a second model, for the KL term
    vllm: Literal["", "colocate", "server"] = "colocate"  # Generates rollouts; "" the trainer
    vllm_memory: float = 0.3  # Share of each GPU that vLLM takes, with colocate
    longest: int = TrlConfig().longest  # Tokens of a conversation that vLLM must have room for
    flops: float = 989e12  # Of a GPU in bfloat16, as its maker says
    share: float = 0.3  # Of them that training reaches
    written: float = 1200.0  # Tokens a GPU writes in a second, all its rollouts together

    @property
    def tokens(self) -> int:
        """Tokens of one rollout from its first prompt to its answer."""
        return self.pictures * self.picture_tokens + self.prompt_tokens + self.reply_tokens


def config_plan(stage: TrainedStage, config: TrainConfig, gpus: int) -> TrainingPlan:
    """What a configuration asks for."""
    plan = TrainingPlan(stage, gpus, frozen_vision=config.frozen_vision)
    if stage == "grpo":
        grpo, trl = config.grpo, config.grpo.trl
        return replace(
            plan,
            rollouts=grpo.pairs * grpo.samples,
            step_rows=grpo.pairs * grpo.samples,
            batch=grpo.micro_batch,
            steps=grpo.steps,
            optimizer_steps=grpo.steps,
            bf16=grpo.bf16,
            reference=grpo.kl > 0,
            lora=trl.lora,
            vllm=trl.vllm,
            vllm_memory=trl.vllm_memory,
            longest=trl.longest,
        )
    if stage == "cold-start":
        sft, rows = config.cold_start.sft, config.cold_start.traces
    else:
        rejection, sft = config.rejection, config.rejection.sft
        played = rejection.pairs * rejection.samples
        rows = min(played, rejection.pairs * rejection.per_pair, rejection.most or played)
        plan = replace(plan, played=played)
    return replace(
        plan,
        rollouts=round(rows * sft.epochs),
        batch=sft.batch,
        optimizer_steps=optimizer_steps(rows, sft, gpus),
        step_rows=rows_a_step(sft, gpus),
    )


@dataclass(frozen=True, slots=True)
class TrainingEstimate:
    """GiB on each GPU, hours, and what they rest on."""

    plan: TrainingPlan
    memory: tuple[tuple[str, float], ...]  # What, GiB
    hours: tuple[tuple[str, float], ...]  # What, hours
    vllm_gib: float = 0.0  # That vLLM needs: the weights, and one of the longest conversations

    @property
    def gib(self) -> float:
        """GiB on each GPU, all together."""
        return sum(size for _, size in self.memory)

    @property
    def verdict(self) -> str:
        """Whether it fits with a tenth of the GPU for libraries, and what to do if not."""
        plan = self.plan
        if self.vllm_gib > plan.vllm_memory * plan.gpu_gib:
            return f"does not fit: vLLM needs {self.vllm_gib:.1f} GiB, raise grpo.trl.vllm_memory"
        if self.gib <= 0.9 * plan.gpu_gib:
            return "fits"
        if plan.stage == "grpo" and not plan.vllm:
            return "does not fit: set grpo.trl.vllm, or take more GPUs or fewer grpo.pairs"
        return "does not fit: take more GPUs, a smaller batch or adapters"

    def lines(self) -> Iterator[str]:
        """The estimate as a person reads it, with its assumptions."""
        plan = self.plan
        yield f"{plan.stage} on {plan.gpus} GPUs of {plan.gpu_gib:g} GiB"
        yield from (f"  {what:<32}{size:8.1f} GiB" for what, size in self.memory)
        yield f"  {'on each GPU':<32}{self.gib:8.1f} GiB, {self.verdict}"
        steps, rows = plan.optimizer_steps, plan.step_rows
        yield f"  {'optimizer steps':<32}{steps:6,d}   of {rows:,} rows each"
        yield from (f"  {what:<32}{time:8.1f} hours" for what, time in self.hours)
        yield f"  {'together':<32}{sum(time for _, time in self.hours):8.1f} hours"
        rows, kept = plan.rollouts * plan.steps, "adapters" if plan.lora else "weights"
        speed = f"{plan.share:.0%} of {plan.flops / 1e12:g} TFLOPS"
        yield (
            f"Assumed: {rows:,} rows of {plan.tokens:,} tokens with {plan.pictures} pictures; "
            f"{kept} and AdamW in float32,"
        )
        yield f"arithmetic in bfloat16 at {speed}, layers computed again in the backward pass;"
        yield f"{plan.written:g} tokens written a second on each GPU, all its rollouts together."
        if plan.stage == "grpo" and plan.vllm == "server":
            yield "Not counted: the GPUs of the vLLM server."


def model_shape(checkpoint: Path | None = None) -> ModelShape:
    """The shape in config.json of a checkpoint, by default of Qwen2.5-VL-7B. No weight is read."""
    if checkpoint:
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
    )


def estimate(shape: ModelShape, plan: TrainingPlan) -> TrainingEstimate:
    """Memory on each GPU, and hours."""
    vllm = 0.0
    if plan.stage == "grpo" and plan.vllm == "colocate":
        working = 2.0  # GiB that vLLM takes of its share for one pass
        numbers = shape.weights + plan.longest * shape.layers * shape.kv
        vllm = numbers * HALF / GIB + working
    return TrainingEstimate(plan, tuple(_memory(shape, plan)), tuple(_hours(shape, plan)), vllm)


def _memory(shape: ModelShape, plan: TrainingPlan) -> Iterator[tuple[str, float]]:
    tokens, parts = plan.batch * plan.tokens, 1 if plan.lora else plan.gpus
    learning = shape.weights - shape.vision * plan.frozen_vision
    if plan.lora:  # adapters beside all seven matrices of each layer
        hidden, narrow = shape.hidden, shape.kv // 2
        # q and o, k and v, feed-forward
        sides = 2 * (hidden + hidden) + 2 * (hidden + narrow) + 3 * (hidden + shape.inner)
        learning = plan.lora * sides * shape.layers
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


def _hours(shape: ModelShape, plan: TrainingPlan) -> Iterator[tuple[str, float]]:
    rows, is_grpo = plan.rollouts * plan.steps, plan.stage == "grpo"
    patches = 4 * plan.pictures * plan.picture_tokens
    passes = 6 if plan.lora else 8  # FLOPs a weight and token: forward, again, backward
    look = (2 if plan.frozen_vision else 8) * shape.vision * patches
    forward = 2 * shape.language * plan.tokens + 2 * shape.vision * patches
    reference = forward if is_grpo and plan.reference else 0
    speed = plan.gpus * plan.flops * plan.share * 3600
    yield "training", rows * (passes * shape.language * plan.tokens + look + reference) / speed
    if played := rows if is_grpo else plan.played:
        writing = played * plan.reply_tokens / (plan.written * plan.gpus * 3600)
        yield "rollouts", played * forward / speed + writing
