"""Supervised fine-tuning on ready token rows, the paper's first two stages: TRL's `SFTTrainer`.

The rows hold the very tokens that were sampled, so no chat template stands between a rollout and
the loss. Run by `accelerate launch` it spreads over GPUs (FSDP2, DeepSpeed).
"""

import hashlib
import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from math import ceil
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from transformers import PreTrainedTokenizerFast, Qwen2_5_VLForConditionalGeneration
from transformers.modeling_outputs import BaseModelOutputWithPooling

from vrthinker_core.backends.chat_template import VisionItem
from vrthinker_core.backends.checkpoint import Checkpoint
from vrthinker_core.backends.transformers_local import TransformersBackend
from vrthinker_core.backends.vision_encoder import VisionEncoder
from vrthinker_core.errors import BadInput
from vrthinker_core.system import cpu_count
from vrthinker_core.training.config import OptimizerConfig, SftConfig, TrainConfig
from vrthinker_core.training.metrics import StepMetrics
from vrthinker_core.training.row_set import without_pixels
from vrthinker_core.training.run_folder import world_size
from vrthinker_core.training.sharding import (
    forget_deepspeed,
    heads_in_root,
    is_sharded,
    launched_in_bf16,
    open_whole,
    save_judge,
)
from vrthinker_core.training.token_rows import Encode, TokenRow, collate
from vrthinker_core.training.trainer_checkpoints import quiet_libraries, train_and_save
from vrthinker_core.types import ProtocolName


def freeze_vision(model: Qwen2_5_VLForConditionalGeneration) -> Qwen2_5_VLForConditionalGeneration:
    """The model, whose `pixel_values` are now image features, (tokens, hidden): see `collate`.

    Its vision tower has no gradients; the tower itself, as the vision encoder calls it, still sees.
    """
    inner: Any = model.model
    inner.visual.requires_grad_(False)
    patches = int(inner.visual.spatial_merge_size) ** 2  # Of one token

    def given(
        pixel_values: torch.Tensor, grid_thw: torch.Tensor, **_: object
    ) -> BaseModelOutputWithPooling:
        parts: Any = torch.split(pixel_values, (grid_thw.prod(-1) // patches).tolist())
        return BaseModelOutputWithPooling(pooler_output=parts)

    inner.get_image_features = inner.get_video_features = given
    return model


def kept_features(
    rows: Sequence[TokenRow], vision: VisionEncoder
) -> Callable[[Sequence[int]], Encode]:
    """Return an encoder that encodes the pictures of a row once."""

    @cache
    def of_row(number: int) -> dict[VisionItem, torch.Tensor]:
        # Features differ in their last bits with what is beside them; a resumed training has the
        # same, since each row is encoded alone
        vision.clear()
        items = rows[number].items
        bare = (replace(item, frames=()) for item in items)
        return dict(zip(bare, vision.encode(items), strict=True))

    def of_batch(numbers: Sequence[int]) -> Encode:
        features = {item: found for each in numbers for item, found in of_row(each).items()}
        return lambda items: [features[item] for item in items]

    return of_batch


def rows_a_step(sft: SftConfig, processes: int) -> int:
    """Rows that one optimizer step learns from, in all processes together."""
    return sft.batch * sft.accumulation * processes


def optimizer_steps(rows: int, sft: SftConfig, processes: int) -> int:
    """Optimizer steps over so many rows, as a transformers trainer counts them."""
    passes = ceil(rows / (sft.batch * processes))
    return ceil(sft.epochs * ceil(passes / sft.accumulation))


@quiet_libraries()
def train_sft(
    rows: Sequence[TokenRow],
    checkpoint: Path,
    sft: SftConfig,
    config: TrainConfig,
    folder: Path,
    report: Callable[[StepMetrics], bool | None] = lambda _: None,
    protocols: Sequence[ProtocolName] = (),
) -> Path:
    """Train the judge of `checkpoint` on `rows`; gives `folder/model`, which the product opens.

    `sft`: the figures of this stage in `config`; `protocols`: of the rows. Goes on from the last
    whole checkpoint in `folder/trainer`, with its optimizer, data order and random state. Raises
    BadInput if the folder holds a training on other rows; CheckpointError for a damaged checkpoint.
    """
    from datasets import Dataset
    from trl import SFTTrainer

    use_all_cores(world_size())
    opened = open_whole(checkpoint)
    arguments = sft_arguments(sft, config, folder / "trainer")
    opened.model.model.visual.requires_grad_(not config.frozen_vision)
    # A small model in one process: the features of each picture are computed once and kept
    features = config.frozen_vision and config.preset == "nano" and world_size() == 1
    if features:
        freeze_vision(opened.model)
    loaded = TransformersBackend(opened, opened.folder.name).loaded
    known = kept_features(rows, loaded.vision) if features else None
    outlines = without_pixels(rows)

    def batch(examples: Sequence[dict[str, int]]) -> dict[str, torch.Tensor]:
        numbers = [each["row"] for each in examples]
        chosen = [(outlines if known else rows)[number] for number in numbers]
        return collate(chosen, loaded, known(numbers) if known else None)

    trainer = SFTTrainer(
        opened.model,
        arguments,
        data_collator=batch,
        train_dataset=Dataset.from_list([{"row": number} for number in range(len(rows))]),
        processing_class=tokenizer_of(opened),
    )
    # The mean over all learnt tokens of a step: this model says no, and then each pass counts alike
    trainer.model_accepts_loss_kwargs = True
    # A training is gone on with only if all that it learns from is the same
    subject = hashlib.sha256(checkpoint.name.encode())
    for row in outlines:
        keys = [item.frame_keys for item in row.items]
        subject.update(repr((row.input_ids, row.labels, keys)).encode())
    with heads_in_root():
        train_and_save(trainer, subject.hexdigest(), config.checkpoint_minutes, report)
    return save_trained(trainer, checkpoint, folder / "model", protocols)


def tokenizer_of(checkpoint: Checkpoint) -> Any:
    """Wrap the checkpoint's tokenizer for trainers; it pads on the left."""
    fast: Any = PreTrainedTokenizerFast
    tokens = {"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>", "padding_side": "left"}
    return fast(tokenizer_object=checkpoint.tokenizer, clean_up_tokenization_spaces=False, **tokens)


def use_all_cores(processes: int) -> None:
    """Let torch compute with this process's share of the cores; an earlier judge leaves it one."""
    # The variable may hold one number for each level
    wanted = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    own = int(wanted) if wanted.isdecimal() else 0
    torch.set_num_threads(own or max(1, cpu_count() // processes))


def save_trained(
    trainer: Any, source: Path, target: Path, protocols: Sequence[ProtocolName] = ()
) -> Path:
    """Write the trained model once, gathered from all processes; `target` stays whole throughout.

    `protocols`: those that were learnt. Raises BadInput if it cannot be written.
    """
    model = trainer.accelerator.unwrap_model(trainer.model)
    main, sharded = trainer.is_world_process_zero(), is_sharded()
    if sharded or trainer.args.world_size > 1:
        whole = trainer.model_wrapped if sharded else trainer.model
        state = trainer.accelerator.get_state_dict(whole)
        forget_deepspeed()  # in every process, also in those that open nothing here
        if main:
            model = open_whole(source).model
            model.load_state_dict(state)
    if main:
        part, old = (target.with_name(f".{target.name}.{what}") for what in ("part", "old"))
        try:
            for left in (part, old):
                shutil.rmtree(left, ignore_errors=True)
            part.mkdir(parents=True)
            save_judge(model, str(source), part, protocols)
            if target.exists():
                target.rename(old)
            part.rename(target)
        except (OSError, SafetensorError) as error:
            shutil.rmtree(part, ignore_errors=True)
            reason = getattr(error, "strerror", None) or " ".join(str(error).split())[:200]
            raise BadInput(
                f"The checkpoint {target.name} cannot be written ({reason}): make room, and go on "
                "with --resume."
            ) from error
        shutil.rmtree(old, ignore_errors=True)
    trainer.accelerator.wait_for_everyone()
    return target


@cache
def multiplies_bfloat16() -> bool:
    """Whether this processor multiplies bfloat16 well: with AVX2 alone float32 is far quicker."""
    known = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    return known and bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())


def trainer_arguments(
    optimizer: OptimizerConfig, config: TrainConfig, folder: Path
) -> dict[str, Any]:
    """What each of TRL's trainers is told."""
    cpu, constant = not torch.cuda.is_available(), optimizer.schedule == "constant"
    return {
        "output_dir": str(folder),
        "learning_rate": optimizer.learning_rate,
        "lr_scheduler_type": "constant_with_warmup" if constant else optimizer.schedule,
        "adam_beta2": optimizer.beta2,
        "max_grad_norm": optimizer.max_grad_norm,
        "warmup_steps": optimizer.warm_up,
        "weight_decay": optimizer.weight_decay,
        "gradient_checkpointing": config.gradient_checkpointing,
        "seed": config.seed,
        "logging_steps": 1,
        "save_strategy": "no",  # by the clock: see `TimedCheckpoints`
        "report_to": [],
        "use_cpu": cpu,
        "dataloader_pin_memory": not cpu,
        "remove_unused_columns": False,
        "disable_tqdm": True,
    }


def sft_arguments(sft: SftConfig, config: TrainConfig, folder: Path) -> Any:
    """The configuration as TRL's."""
    from trl import SFTConfig

    fast = torch.cuda.is_available() or multiplies_bfloat16()
    return SFTConfig(
        **trainer_arguments(sft.optimizer, config, folder),
        num_train_epochs=sft.epochs,
        per_device_train_batch_size=sft.batch,
        gradient_accumulation_steps=sft.accumulation,
        bf16=launched_in_bf16() or (sft.bf16 and fast),
        max_length=None,
        dataset_kwargs={"skip_prepare_dataset": True},
    )
