"""Supervised fine-tuning on token rows, the paper's first two stages: TRL's `SFTTrainer`.

A row holds the very tokens that were sampled, so no chat template stands between a rollout and the
loss. Run by `accelerate launch` it spreads over GPUs (FSDP2, DeepSpeed).
"""

import hashlib
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from functools import cache, partial
from itertools import islice
from math import ceil
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedTokenizerFast, Qwen2_5_VLForConditionalGeneration
from transformers.modeling_outputs import BaseModelOutputWithPooling

from vrthinker_core.backends.chat_template import PromptItem, VisionItem
from vrthinker_core.backends.checkpoint import Checkpoint
from vrthinker_core.backends.generation import LoadedModel
from vrthinker_core.backends.transformers_local import TransformersBackend
from vrthinker_core.backends.vision_encoder import VisionEncoder
from vrthinker_core.errors import BadInput
from vrthinker_core.system import cpu_count
from vrthinker_core.training.config import SftConfig, StageConfig, TrainConfig
from vrthinker_core.training.metrics import StepMetrics
from vrthinker_core.training.rollouts import Rollout
from vrthinker_core.training.run_folder import world_size
from vrthinker_core.training.sharding import (
    forget_deepspeed,
    heads_in_root,
    is_sharded,
    launched_in_bf16,
    open_whole,
    save_judge,
)
from vrthinker_core.training.traces import NotForTraining, StoredRollout
from vrthinker_core.training.trainer_checkpoints import quiet_libraries, train_and_save
from vrthinker_core.types import ProtocolName
from vrthinker_core.words import count

PIXELS = {"image": "pixel_values", "video": "pixel_values_videos"}  # As `forward` calls patches
IGNORED = -100  # The label of a token that is not learnt, as torch's cross entropy has it


@dataclass(frozen=True, slots=True)
class TokenRow:
    """One training example: a conversation up to the end of a reply."""

    input_ids: tuple[int, ...]
    labels: tuple[int, ...]  # Each learnt token, IGNORED elsewhere; as long as `input_ids`
    items: tuple[VisionItem, ...]  # The pictures, in the order of their placeholders
    turns: tuple[int, ...]  # Numbers of the turns whose replies are learnt here, 1-based
    read_again: Callable[[], "TokenRow | None"] | None = field(
        default=None, repr=False, compare=False
    )  # Set if `items` have no pixels

    @property
    def learnt(self) -> int:
        """Number of learnt tokens."""
        return sum(label != IGNORED for label in self.labels)

    def with_pixels(self) -> "TokenRow":
        """Return the row with pixels, read again if they were dropped.

        Raises BadInput if its run or videos have changed, VideoError if a video is gone.
        """
        if self.read_again is None:
            return self
        row = self.read_again()
        if row is None or row != self:
            raise BadInput(
                "A run is not what it was when training began: leave runs and videos as they are "
                "meanwhile."
            )
        return row


def placed_tokens(item: PromptItem, loaded: LoadedModel) -> list[int]:
    """Return the tokens of a prompt item: a token, or a picture's or video's placeholders."""
    if isinstance(item, int):
        return [item]
    control = loaded.tokenizer.control
    return [control.image_pad if item.kind == "image" else control.video_pad] * item.num_tokens


def token_rows(rollout: Rollout, loaded: LoadedModel) -> Iterator[TokenRow]:
    """Yield the rollout as rows; each reply is learnt once.

    A row holds consecutive turns while each prompt continues the last reply; a prompt that the
    memory window has changed starts a new row. Placeholders stand for pictures.
    """
    tokenizer, control = loaded.tokenizer, loaded.tokenizer.control
    prompts = [loaded.render(prompt) for prompt in rollout.prompts]
    turns: list[int] = []
    taught: set[int] = set()  # Positions of the judge's own tokens
    for k, prompt in enumerate(prompts):
        completion, start = rollout.run.turns[k].completion, len(prompt)
        end = [control.im_end] if completion.stop == "end" else []
        whole = [*prompt, *(completion.tokens or tokenizer.encode(completion.text)), *end]
        turns.append(k + 1)
        taught.update(range(start, len(whole)))
        if completion.redirected:  # tokens of a redirect are not learnt
            first, last = completion.redirected
            taught.difference_update(range(start + first, start + last))
        if k + 1 < len(prompts) and prompts[k + 1][: len(whole)] == whole:
            continue
        ids: list[int] = []
        labels: list[int] = []
        for position, item in enumerate(whole):
            new = placed_tokens(item, loaded)
            ids += new
            labels += new if position in taught else [IGNORED] * len(new)
        items = tuple(item for item in whole if not isinstance(item, int))
        yield TokenRow(tuple(ids), tuple(labels), items, tuple(turns))
        turns, taught = [], set()


Encode = Callable[[Sequence[VisionItem]], list[torch.Tensor]]
"""Image features of each item, (tokens, hidden), in order."""


def collate(
    rows: Sequence[TokenRow],
    loaded: LoadedModel,
    encode: Encode | None = None,
    *,
    multiple: int = 16,
) -> dict[str, torch.Tensor]:
    """Return a batch for `forward`, padded on the right.

    `input_ids`, `labels`, `attention_mask`, `mm_token_type_ids`: (rows, tokens); `image_grid_thw`:
    (pictures, 3); `pixel_values`: (patches, channels * 2 * patch * patch), or for a frozen tower
    the image features of `encode`, (tokens, hidden). `video_grid_thw` and `pixel_values_videos` are
    the same of videos. `tokens` is a multiple of `multiple`. The mask is all ones: causal attention
    never looks at padding on the right.
    """
    control = loaded.tokenizer.control
    length = -(-max(len(row.input_ids) for row in rows) // multiple) * multiple
    ids = torch.full((len(rows), length), control.endoftext)
    labels = torch.full((len(rows), length), IGNORED)
    for number, row in enumerate(rows):
        ids[number, : len(row.input_ids)] = torch.tensor(row.input_ids)
        labels[number, : len(row.labels)] = torch.tensor(row.labels)
    kinds = (ids == control.image_pad).long() + 2 * (ids == control.video_pad).long()
    batch = {
        "input_ids": ids,
        "labels": labels,
        "attention_mask": torch.ones_like(ids),
        "mm_token_type_ids": kinds,
    }
    for kind, name in PIXELS.items():
        if items := [item for row in rows for item in row.items if item.kind == kind]:
            batch[f"{kind}_grid_thw"] = torch.tensor([item.grid_thw for item in items])
            features = torch.cat(encode(items)).float() if encode else None
            batch[name] = loaded.vision.pixel_values(items) if features is None else features
    return batch


def bounded_rows(
    rollouts: Iterable[StoredRollout], loaded: LoadedModel, room: int
) -> Iterator[TokenRow]:
    """Yield the rollouts' rows with at most `room` bytes of pixels.

    The frames of a stage do not fit in memory: a run of a 7B has 24 MB. Pixels beyond the bound are
    read again when a row is learnt.
    """

    def read(run: Callable[[], Rollout], place: int) -> TokenRow | None:
        with suppress(NotForTraining):
            return next(islice(token_rows(run(), loaded), place, None), None)
        return None

    for stored in rollouts:
        for place, row in enumerate(token_rows(stored.rollout, loaded)):
            size = sum(len(frame.rgb) for item in row.items for frame in item.frames)
            if size <= room:
                room -= size
                yield row
            else:
                bare = tuple(replace(item, frames=()) for item in row.items)
                again = partial(read, stored.read_again, place)
                yield replace(row, items=bare, read_again=again)


def freeze_vision(model: Qwen2_5_VLForConditionalGeneration) -> Qwen2_5_VLForConditionalGeneration:
    """Let the model take image features, (tokens, hidden), as `pixel_values`: see `collate`.

    Its vision tower has no gradients; the vision encoder still calls the tower itself.
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
        # Each row is encoded alone: in a batch, features differ in their last bits, and a resumed
        # training must have the same
        vision.clear()
        items = rows[number].with_pixels().items
        bare = (replace(item, frames=()) for item in items)
        return dict(zip(bare, vision.encode(items), strict=True))

    def of_batch(numbers: Sequence[int]) -> Encode:
        features = {item: found for each in numbers for item, found in of_row(each).items()}
        return lambda items: [features[item] for item in items]

    return of_batch


def optimizer_steps(rows: int, sft: SftConfig, processes: int) -> tuple[int, int]:
    """Return a trainer's optimizer steps, and the rows of each in all processes."""
    at_once, passes = sft.per_device_train_batch_size * processes, sft.gradient_accumulation_steps
    steps = ceil(sft.num_train_epochs * ceil(ceil(rows / at_once) / passes))
    return steps, at_once * passes


def too_few_steps(steps: int, least: int) -> str:
    """Return what to do about fewer than `least` optimizer steps, else ""."""
    if steps >= least:
        return ""
    return (
        f"it would make {count(steps, 'optimizer step')} of least_steps={least}: give more data or "
        "epochs, or a smaller gradient_accumulation_steps"
    )


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
    """Train the judge of `checkpoint` on `rows`; return `folder/model`.

    `sft`: the stage's part of `config`; `protocols`: of the rows. Resumes from the last whole
    checkpoint in `folder/trainer`, with optimizer, data order and random state. Raises BadInput if
    the folder holds a training on other rows, CheckpointError for a damaged checkpoint.
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

    def batch(examples: Sequence[dict[str, int]]) -> dict[str, torch.Tensor]:
        numbers = [each["row"] for each in examples]
        if known:
            return collate([rows[number] for number in numbers], loaded, known(numbers))
        return collate([rows[number].with_pixels() for number in numbers], loaded)

    trainer = SFTTrainer(
        opened.model,
        arguments,
        data_collator=batch,
        train_dataset=Dataset.from_list([{"row": number} for number in range(len(rows))]),
        processing_class=tokenizer_of(opened),
    )
    # The loss is the mean over all learnt tokens of a step; else each forward pass counts alike
    trainer.model_accepts_loss_kwargs = True
    # A training resumes only on the very same rows
    subject = hashlib.sha256(checkpoint.name.encode())
    for row in rows:
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
    """Let torch use this process's share of the cores again."""
    # The variable may hold one number for each level
    wanted = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    own = int(wanted) if wanted.isdecimal() else 0
    torch.set_num_threads(own or max(1, cpu_count() // processes))


def save_trained(
    trainer: Any, source: Path, target: Path, protocols: Sequence[ProtocolName] = ()
) -> Path:
    """Write the trained model to `target` once, gathered from all processes.

    `protocols`: the learnt ones. Raises OSError and SafetensorError.
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
        part = target.with_name(f".{target.name}.part")
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        save_judge(model, str(source), part, protocols)
        shutil.rmtree(target, ignore_errors=True)
        part.rename(target)
    trainer.accelerator.wait_for_everyone()
    return target


@cache
def multiplies_bfloat16() -> bool:
    """Return whether this processor multiplies bfloat16 well; AVX2 does not."""
    known = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    return known and bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())


def trainer_arguments(
    kind: Any, stage: StageConfig, config: TrainConfig, folder: Path, **more: Any
) -> Any:
    """Return TRL's configuration `kind`: the stage's fields of its names, then `more`."""
    cpu = not torch.cuda.is_available()
    own = {each.name for each in fields(stage)} & {each.name for each in fields(kind)}
    arguments = {name: getattr(stage, name) for name in own} | {
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
    return kind(str(folder), **arguments | more)


def sft_arguments(sft: SftConfig, config: TrainConfig, folder: Path) -> Any:
    """Return the configuration as TRL's."""
    from trl import SFTConfig

    fast = torch.cuda.is_available() or multiplies_bfloat16()
    return trainer_arguments(
        SFTConfig,
        sft,
        config,
        folder,
        bf16=launched_in_bf16() or (sft.bf16 and fast),
        max_length=None,
        dataset_kwargs={"skip_prepare_dataset": True},
    )
