"""Supervised fine-tuning on ready token rows, the paper's first two stages: TRL's `SFTTrainer`, or `Trainer` where TRL is missing.

The rows hold the very tokens that were sampled, so no chat template stands between a rollout and the loss. Run by
`accelerate launch` it spreads over GPUs (FSDP2, DeepSpeed).
"""

import hashlib
import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from math import ceil
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from transformers import PrinterCallback, Trainer, TrainingArguments

from vrthinker_core.backends.local.checkpoint.loader import Checkpoint
from vrthinker_core.backends.local.engine.generation import LoadedModel
from vrthinker_core.backends.transformers_local import TransformersBackend
from vrthinker_core.cpus import cpu_count
from vrthinker_core.errors import BadInput
from vrthinker_core.training.frozen_vision import KeptFeatures, collate_features, freeze_vision
from vrthinker_core.training.rows.row_set import without_pixels
from vrthinker_core.training.run.config import OptimizerConfig, SftConfig
from vrthinker_core.training.run.processes import world_size
from vrthinker_core.training.run.saved_judge import save_judge
from vrthinker_core.training.token_rows import TokenRow, collate
from vrthinker_core.training.trl.chat_template import tokenizer_of
from vrthinker_core.training.trl.sharding import (
    check_launch,
    forget_deepspeed,
    heads_in_root,
    is_sharded,
    launched_in_bf16,
    open_whole,
)
from vrthinker_core.training.trl.trainer_checkpoints import (
    PaceReports,
    TimedCheckpoints,
    TrainerPace,
    last_whole,
    quiet_libraries,
    train_from,
)
from vrthinker_core.types import ProtocolName

SCHEDULES = {"cosine": "cosine", "constant": "constant_with_warmup"}  # Our word and that of transformers


@dataclass(frozen=True, slots=True)
class SftOptions:
    """The paper's values where it gives some."""

    epochs: float = 1.0
    steps: int | None = None  # Optimizer steps at most; None for all of the epochs
    optimizer: OptimizerConfig = field(default_factory=lambda: OptimizerConfig(1.5e-6, 0.2, "cosine", beta2=0.999))
    batch: int = 1  # Rows in one forward pass
    accumulation: int = 32  # Forward passes a step, on each GPU
    bf16: bool = False  # Arithmetic in bfloat16; the weights that learn stay in float32
    frozen_vision: bool = True  # The vision tower does not learn
    start_share: float = 0.0  # In the result's weights, of those it began with
    features: bool = False  # With a frozen tower: each picture's features are computed once and kept; one process only
    gradient_checkpointing: bool = False
    save_minutes: float = 5.0
    seed: int = 0


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
    options: SftOptions,
    folder: Path,
    report: Callable[[TrainerPace], bool | None] = lambda _: None,
    protocols: Sequence[ProtocolName] = (),
) -> Path:
    """Train the judge of `checkpoint` on `rows`; gives `folder/model`, which the product opens. `protocols`: those of the rows.

    Goes on from the last whole checkpoint in `folder/trainer`: optimizer, data order and random state are those of then. Raises
    BadInput where there is nothing to learn, or the folder holds another training; CheckpointError for a damaged checkpoint.
    """
    if not rows:
        raise BadInput("There is nothing to train on: no rollout passed the filters.")
    check_launch()
    if options.features and (not options.frozen_vision or world_size() > 1):
        raise BadInput("Kept features need a frozen vision tower and one process: train without them.")
    use_all_cores(world_size())
    opened = open_whole(checkpoint)
    arguments = _arguments(options, folder / "trainer")
    opened.model.model.visual.requires_grad_(not options.frozen_vision)
    if options.features:
        freeze_vision(opened.model)
    subject = _subject(rows, options, checkpoint)
    with arguments.main_process_first(local=False):  # what is not whole is removed once, in a folder that all nodes share
        begun = last_whole(folder / "trainer", subject)
    trainer = _trainer(rows, opened, options, arguments)
    trainer.remove_callback(PrinterCallback)
    trainer.add_callback(TimedCheckpoints(folder / "trainer", subject, options.save_minutes))
    trainer.add_callback(PaceReports(report))
    with heads_in_root():
        train_from(trainer, begun)
    return save_trained(trainer, checkpoint, folder / "model", options.start_share, protocols)


def use_all_cores(processes: int) -> None:
    """Let torch compute with this process's share of the cores: a judge that was opened before leaves it with one thread."""
    wanted = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()  # The variable may hold one number for each level
    torch.set_num_threads(int(wanted) if wanted.isdecimal() and int(wanted) else max(1, cpu_count() // processes))


def save_trained(
    trainer: Any, source: Path, target: Path, start_share: float = 0.0, protocols: Sequence[ProtocolName] = ()
) -> Path:
    """Write the trained model once, gathered from all processes. `target` is there whole or as it was before.

    With `start_share`, each weight is that share of its value in `source` and the rest of the trained one: such means keep more of
    what a model could do on other data (Wortsman et al., "Robust fine-tuning of zero-shot models", CVPR 2022).

    `protocols`: those that were learnt. Raises BadInput where it cannot be written.
    """
    model = trainer.accelerator.unwrap_model(trainer.model)
    if is_sharded() or trainer.args.world_size > 1:
        state = trainer.accelerator.get_state_dict(trainer.model_wrapped if is_sharded() else trainer.model)
        forget_deepspeed()  # in every process, also in those that open nothing here
        if trainer.is_world_process_zero():
            model = open_whole(source).model
            model.load_state_dict(state)
    if trainer.is_world_process_zero():
        if start_share:
            _mix(model, open_whole(source).model, start_share)
        _save_whole(model, source, target, protocols)
    trainer.accelerator.wait_for_everyone()
    return target


@torch.no_grad()
def _mix(model: Any, start: Any, share: float) -> None:
    """Move each weight of `model` by `share` of the way to that of `start`."""
    before = dict(start.named_parameters())
    for name, weight in model.named_parameters():
        weight.lerp_(before[name].to(weight), share)


def _save_whole(model: Any, source: Path, target: Path, protocols: Sequence[ProtocolName]) -> None:
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
        raise BadInput(f"The checkpoint {target.name} cannot be written ({reason}): make room, and go on with --resume.") from error
    shutil.rmtree(old, ignore_errors=True)


def _trainer(rows: Sequence[TokenRow], opened: Checkpoint, options: SftOptions, arguments: TrainingArguments) -> Trainer:
    """TRL's trainer where it is installed. Rows go to the collator by number."""
    loaded = TransformersBackend(opened, opened.folder.name).loaded
    batch = _feature_batches(rows, loaded) if options.features else _pixel_batches(rows, loaded)

    common: dict[str, Any] = {"model": opened.model, "args": arguments, "data_collator": batch}
    numbers = [{"row": number} for number in range(len(rows))]
    made: Trainer
    if has_trl():
        from datasets import Dataset
        from trl import SFTTrainer

        made = SFTTrainer(train_dataset=Dataset.from_list(numbers), processing_class=tokenizer_of(opened), **common)
    else:
        made = Trainer(train_dataset=numbers, **common)
    # The mean over all learnt tokens of a step: this model says no, and then each pass counts alike
    made.model_accepts_loss_kwargs = True
    return made


Batches = Callable[[Sequence[dict[str, int]]], dict[str, torch.Tensor]]  # Of the numbers of some rows


def _pixel_batches(rows: Sequence[TokenRow], loaded: LoadedModel) -> Batches:
    return lambda numbers: collate([rows[each["row"]] for each in numbers], loaded)


def _feature_batches(rows: Sequence[TokenRow], loaded: LoadedModel) -> Batches:
    known, outlines = KeptFeatures(rows, loaded.vision), without_pixels(rows)
    return lambda numbers: collate_features([outlines[each["row"]] for each in numbers], loaded, encode=known)


@cache
def multiplies_bfloat16() -> bool:
    """Whether this processor multiplies matrices of bfloat16 well: one with AVX2 alone is quicker in float32, many times over."""
    known = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    return known and bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())


def has_trl() -> bool:
    """TRL and datasets are installed."""
    return find_spec("trl") is not None and find_spec("datasets") is not None


def optimizer_arguments(optimizer: OptimizerConfig) -> dict[str, Any]:
    """AdamW and its learning rate as transformers' trainers are told of them."""
    return {
        "learning_rate": optimizer.learning_rate,
        "lr_scheduler_type": SCHEDULES[optimizer.schedule],
        "adam_beta2": optimizer.beta2,
        "max_grad_norm": optimizer.max_grad_norm,
        "warmup_steps": optimizer.warm_up,
        "weight_decay": optimizer.weight_decay,
    }


def _arguments(options: SftOptions, folder: Path) -> TrainingArguments:
    cpu = not torch.cuda.is_available()
    values: dict[str, Any] = {
        "output_dir": str(folder),
        "num_train_epochs": options.epochs,
        "max_steps": options.steps or -1,
        **optimizer_arguments(options.optimizer),
        "per_device_train_batch_size": options.batch,
        "gradient_accumulation_steps": options.accumulation,
        "gradient_checkpointing": options.gradient_checkpointing,
        "bf16": launched_in_bf16() or (options.bf16 and (not cpu or multiplies_bfloat16())),
        "seed": options.seed,
        "logging_steps": 1,
        "save_strategy": "no",  # by the clock: see `TimedCheckpoints`
        "report_to": [],
        "use_cpu": cpu,
        "dataloader_pin_memory": not cpu,
        "remove_unused_columns": False,
        "disable_tqdm": True,
    }
    if not has_trl():
        return TrainingArguments(**values)
    from trl import SFTConfig

    made: TrainingArguments = SFTConfig(max_length=None, dataset_kwargs={"skip_prepare_dataset": True}, **values)
    return made


def _subject(rows: Sequence[TokenRow], options: SftOptions, checkpoint: Path) -> str:
    """What a training is of: it is gone on with only where all of this is the same. Saving more or less often may change."""
    told = hashlib.sha256(f"{checkpoint.name} {[getattr(options, name) for name in _SAME]}".encode())
    for row in without_pixels(rows):
        told.update(repr((row.input_ids, row.labels, [item.frame_keys for item in row.items])).encode())
    return told.hexdigest()


_SAME = [name for name in SftOptions.__slots__ if name != "save_minutes"]
