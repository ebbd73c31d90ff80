"""Estimates of a training: memory of each process and hours, from the shape of the model.

The figures are arithmetic, not measurements: they follow from the printed assumptions. FSDP2 or
ZeRO-3 spread weights, gradients and optimizer evenly. With adapters each GPU holds the model.
"""

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
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
from vrthinker_core.training.sft import optimizer_steps, too_few_steps
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
VLLM_GIB = 2.0  # That vLLM takes of its share for one pass
WRITTEN = 1200.0  # Tokens a GPU writes in a second, all its rollouts together


@dataclass(frozen=True, slots=True)
class TrainingEstimate:
    """What a stage asks for: steps, GiB of each process, hours."""

    stage: TrainedStage
    shape: ModelShape
    config: TrainConfig
    gpus: int  # Processes
    shards: int  # Processes that share the weights
    gib: float = GPU_GIB  # Memory of each process

    @property
    def grpo(self) -> GrpoConfig | None:
        """The configuration of GRPO, if it is the stage."""
        return self.config.grpo if self.stage == "grpo" else None

    @property
    def sft(self) -> SftConfig:
        """The configuration of the fine-tuning."""
        return self.config.rejection if self.stage == "rejection" else self.config.cold_start

    @property
    def lora(self) -> int:
        """The rank of adapters in the language model; 0 trains all weights."""
        return self.grpo.lora if self.grpo else 0

    @property
    def played(self) -> int:
        """Rollouts that the judge plays in all steps."""
        own = self.config.rejection
        if grpo := self.grpo:
            return grpo.max_steps * grpo.pairs * grpo.num_generations
        return own.pairs * own.samples if self.stage == "rejection" else 0

    @property
    def kept(self) -> int:
        """Rows to fine-tune on, each counted once."""
        own = self.config.rejection
        if self.stage == "cold-start":
            return self.config.cold_start.traces
        return min(self.played, own.pairs * own.per_pair, own.most or self.played)

    @property
    def rows(self) -> int:
        """Rows that are trained in all steps."""
        return self.played if self.grpo else round(self.kept * self.sft.num_train_epochs)

    @property
    def steps(self) -> tuple[int, int]:
        """Optimizer steps, and rows of each in all processes."""
        if grpo := self.grpo:
            return grpo.max_steps, grpo.pairs * grpo.num_generations
        return optimizer_steps(self.kept, self.sft, self.gpus)

    @property
    def memory(self) -> dict[str, float]:
        """GiB of each process, by use."""
        shape, grpo = self.shape, self.grpo
        stage = grpo or self.sft
        learning = shape.weights - shape.vision * self.config.frozen_vision
        if self.lora:  # Beside q and o, k and v, feed-forward
            hidden, narrow = shape.hidden, shape.kv // 2
            sides = 2 * (hidden + hidden) + 2 * (hidden + narrow) + 3 * (hidden + shape.inner)
            learning = self.lora * sides * shape.layers
        inputs = shape.layers * shape.hidden * HALF  # What each layer was given, of one token
        one_layer = (12 * shape.hidden + 4 * shape.inner) * HALF  # That is computed again
        found = {
            "weights": shape.weights * (HALF if self.lora and stage.bf16 else FLOAT) / self.shards,
            "gradients": learning * FLOAT / self.shards,
            "optimizer": 2 * learning * FLOAT / self.shards,
            "activations": stage.per_device_train_batch_size * shape.tokens * (inputs + one_layer),
            "one layer in bfloat16, twice": 2 * HALF * shape.language / shape.layers,
        }
        if grpo and grpo.beta > 0 and not self.lora:
            found["reference"] = shape.weights * FLOAT / self.shards
        if grpo and not grpo.vllm_mode:
            live = min(LIVE, max(1, grpo.pairs * grpo.num_generations // self.gpus))
            found["KV cache of rollouts"] = live * shape.tokens * shape.layers * shape.kv * HALF
            found["prefill"] = shape.tokens * (2 * shape.hidden + 3 * shape.inner) * HALF
        if grpo and grpo.vllm_mode == "colocate":
            found["share of vLLM"] = grpo.vllm_gpu_memory_utilization * self.gib * GIB
        return {name: size / GIB for name, size in found.items()}

    @property
    def needed(self) -> float:
        """GiB of each process, all together."""
        return sum(self.memory.values())

    @property
    def hours(self) -> dict[str, float]:
        """Hours of training, and of rollouts if there are any."""
        shape, grpo = self.shape, self.grpo
        patches, tokens = 4 * PICTURES * shape.picture_tokens, shape.tokens
        passes = 6 if self.lora else 8  # FLOPs a weight and token: forward, again, backward
        look = (2 if self.config.frozen_vision else 8) * shape.vision * patches
        forward = 2 * shape.language * tokens + 2 * shape.vision * patches
        reference = forward if grpo and grpo.beta > 0 else 0
        speed = self.gpus * FLOPS * SHARE * 3600
        found = {
            "training": self.rows * (passes * shape.language * tokens + look + reference) / speed
        }
        if self.played:
            writing = self.played * REPLY_TOKENS / (WRITTEN * self.gpus * 3600)
            found["rollouts"] = self.played * forward / speed + writing
        return found

    @property
    def problem(self) -> str:
        """What does not suffice, and what to do; "" if all does.

        A tenth of the memory is left for libraries.
        """
        grpo, shape = self.grpo, self.shape
        if grpo is None:
            if few := too_few_steps(self.steps[0], self.config.least_steps):
                return few
        elif grpo.pairs % self.gpus:
            return (
                f"grpo.pairs={grpo.pairs} leaves {self.gpus} processes no whole groups: choose a "
                f"multiple of {self.gpus}"
            )
        elif self.shards > 1 and not grpo.vllm_mode:
            return (
                "processes that share one model cannot play rollouts: set grpo.vllm_mode to "
                "colocate or server, or launch with data_parallel.yaml and train adapters "
                "(grpo.lora=64)"
            )
        elif grpo.vllm_mode == "colocate":
            conversation = grpo.vllm_max_model_length * shape.layers * shape.kv
            vllm = (shape.weights + conversation) * HALF / GIB + VLLM_GIB
            if vllm > grpo.vllm_gpu_memory_utilization * self.gib:
                return f"vLLM needs {vllm:.1f} GiB: raise grpo.vllm_gpu_memory_utilization"
        if self.needed > 0.9 * self.gib:
            return (
                f"it needs {self.needed:.1f} GiB of {self.gib:.1f}: take more GPUs or memory, a "
                "smaller batch, or a smaller model"
            )
        return ""

    def lines(self) -> Iterator[str]:
        """Yield the estimate as a person reads it, with its assumptions."""
        yield f"{self.stage} on {self.gpus} GPUs of {self.gib:g} GiB"
        yield from (f"  {what:<32}{size:8.1f} GiB" for what, size in self.memory.items())
        yield f"  {'on each GPU':<32}{self.needed:8.1f} GiB{'' if self.problem else ', fits'}"
        yield "  {:<32}{:6,d}   of {:,} rows each".format("optimizer steps", *self.steps)
        yield from (f"  {what:<32}{time:8.1f} hours" for what, time in self.hours.items())
        yield f"  {'together':<32}{sum(self.hours.values()):8.1f} hours"
        kept = "adapters" if self.lora else "weights"
        yield (
            f"Assumed: {self.rows:,} rows of {self.shape.tokens:,} tokens with {PICTURES} pictures; "
            f"{kept} and AdamW in float32,"
        )
        yield (
            f"arithmetic in bfloat16 at {SHARE:.0%} of {FLOPS / 1e12:g} TFLOPS, layers computed "
            "again in the backward pass;"
        )
        yield f"{WRITTEN:g} tokens written a second on each GPU, all its rollouts together."
        if self.grpo and self.grpo.vllm_mode == "server":
            yield "Not counted: the GPUs of the vLLM server."


def estimate(
    stage: TrainedStage, shape: ModelShape, config: TrainConfig, gpus: int
) -> TrainingEstimate:
    """Return the estimate for GPUs that share weights, or hold adapters."""
    shards = 1 if stage == "grpo" and config.grpo.lora else gpus
    return TrainingEstimate(stage, shape, config, gpus, shards)


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
    """Return the preset for a model's size, or raise BadInput."""
    sizes: dict[PresetName, tuple[float, float]] = {"nano": (0, 2e7), "7b": (2e9, 1.2e10)}
    for name, (least, most) in sizes.items():
        if least <= shape.weights <= most:
            return name
    raise BadInput(
        f"No preset is for a model of {shape.weights / 1e9:.2g} billion weights: name one with "
        "--preset, and its rates with --set."
    )


def require_fit(stage: TrainedStage, source: str, config: TrainConfig, processes: int) -> None:
    """Raise BadInput if memory, processes or steps do not suffice."""
    folder = locate(source)
    check_files(folder)
    if torch.cuda.is_available():
        free = available_memory(f"cuda:{os.environ.get('LOCAL_RANK', '0')}")
    else:
        free = free_memory() // int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    shards, gib = processes if is_sharded() else 1, inf if free is None else free / GIB
    found = TrainingEstimate(stage, model_shape(folder), config, processes, shards, gib)
    if found.problem:
        raise BadInput(f"The stage {stage} cannot run here: {found.problem}.")
