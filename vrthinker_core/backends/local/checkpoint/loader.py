"""Opens a checkpoint so that it either is whole or is refused: a judge with missing or random weights never speaks.

Stock Qwen2.5-VL loads most damaged folders without an exception, so every promise is checked here: nothing missing, nothing
left over, no shape changed, every value finite, and a tokenizer that belongs to the weights.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from logging import CRITICAL
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from transformers import AutoTokenizer, Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration, Qwen2VLImageProcessorPil
from transformers.utils import logging

from vrthinker_core.backends.local.checkpoint import checkpoint_files
from vrthinker_core.backends.local.checkpoint.devices import available_memory, require_memory
from vrthinker_core.backends.local.engine import attention
from vrthinker_core.errors import CheckpointError
from vrthinker_core.types import ProtocolName

SMALL_MODEL_WEIGHTS = 50_000_000
"""Up to this many weights a model runs on the processor in float32: quicker than bfloat16 there, and no slower than on a GPU."""

LARGEST_WEIGHT = 1e6
"""No weight of a trained model is this large; a flipped exponent bit makes one."""

MAX_FRAME_PIXELS = 512 * 28 * 28
"""Pixels of the largest frame a protocol sends. Frames arrive sized, so a processor must not shrink them a second time."""

CONTROL_TOKENS = (
    "<|im_start|>",
    "<|im_end|>",
    "<|endoftext|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|image_pad|>",
    "<|video_pad|>",
)
"""The tokens that give a conversation its structure."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """An opened checkpoint whose every weight was read and found sound."""

    model: Qwen2_5_VLForConditionalGeneration
    tokenizer: Tokenizer
    processor: Qwen2VLImageProcessorPil
    protocol: ProtocolName | None
    forced_redirect: tuple[str, str] | None
    """See `files.forced_of`."""
    folder: Path
    threads: int | None
    """Processor threads it is to compute with, None for torch's own choice."""


def open_checkpoint(source: str, *, device: str | None = None, dtype: torch.dtype | None = None) -> Checkpoint:
    """Open a folder or hub id. None chooses: small models on the processor in float32, others on the GPUs in bfloat16 if any.

    Raises CheckpointError, one sentence that names the file or the tensor, for everything that is not sound.
    """
    folder = checkpoint_files.locate(source)
    shapes = checkpoint_files.check_files(folder)
    protocol = checkpoint_files.protocol_of(folder, source)
    config = _config(folder, shapes)
    tokenizer = _tokenizer(folder, config)
    processor = _processor(folder, config)
    small = checkpoint_files.count_weights(shapes) <= SMALL_MODEL_WEIGHTS
    where = device or ("cuda" if torch.cuda.is_available() and not small else "cpu")
    kind = dtype or (torch.float32 if small else torch.bfloat16)
    require_memory(checkpoint_files.count_weights(shapes) * kind.itemsize, available_memory(where), where)
    with _quiet():
        model = _model(folder, where, kind)
    return Checkpoint(
        model,
        tokenizer,
        processor,
        protocol,
        checkpoint_files.forced_redirect_of(folder),
        folder,
        threads=1 if small and where == "cpu" else None,
    )


# -- steps ---------------------------------------------------------------------------------------------------------------


@contextmanager
def _naming_errors(folder: Path, what: str) -> Iterator[None]:
    """Whatever a damaged file makes the library raise, which can be anything, becomes one sentence."""
    try:
        yield
    except CheckpointError:
        raise
    except (MemoryError, torch.OutOfMemoryError) as error:
        raise CheckpointError(f"{checkpoint_files.folder_title(folder)} does not fit into memory.") from error
    except Exception as error:
        detail = " ".join(str(error).split())[:200] or type(error).__name__
        raise CheckpointError(f"{what} of {checkpoint_files.folder_title(folder)} cannot be used: {detail}") from error


@contextmanager
def _quiet() -> Iterator[None]:
    """Loading tables and progress bars say nothing that our own refusal does not say better."""
    shown, level = logging.is_progress_bar_enabled(), logging.get_verbosity()
    logging.set_verbosity(CRITICAL)
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if shown:
            logging.enable_progress_bar()  # type: ignore[no-untyped-call]


def _config(folder: Path, shapes: dict[str, tuple[int, ...]]) -> Qwen2_5_VLConfig:
    """The configuration; one that describes far more weights than the files hold is refused before anything is allocated."""
    with _naming_errors(folder, "config.json"):
        config = Qwen2_5_VLConfig.from_pretrained(folder, local_files_only=True)
        with torch.device("meta"):
            described = sum(p.numel() for p in Qwen2_5_VLForConditionalGeneration(config).parameters())
    held = checkpoint_files.count_weights(shapes)
    if described > 2 * held:
        raise CheckpointError(
            f"{checkpoint_files.folder_title(folder)} is incomplete: config.json describes {described:,} weights, its files hold {held:,}."
        )
    return config


def _tokenizer(folder: Path, config: Qwen2_5_VLConfig) -> Tokenizer:
    if not any((folder / name).is_file() for name in ("tokenizer.json", "vocab.json")):
        raise CheckpointError(f"{checkpoint_files.folder_title(folder)} is incomplete: tokenizer.json is missing.")
    with _naming_errors(folder, "The tokenizer"):
        tokenizer: Tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True).backend_tokenizer
    missing = [token for token in CONTROL_TOKENS if tokenizer.token_to_id(token) is None]
    if missing:
        raise CheckpointError(f"The tokenizer of {checkpoint_files.folder_title(folder)} lacks the control token {missing[0]}.")
    if '"ByteLevel"' not in json.dumps(json.loads(tokenizer.to_str())["decoder"]):
        raise CheckpointError(f"The tokenizer of {checkpoint_files.folder_title(folder)} is not byte-level as Qwen's is.")
    _check_vocabulary(folder, tokenizer, config)
    return tokenizer


def _check_vocabulary(folder: Path, tokenizer: Tokenizer, config: Qwen2_5_VLConfig) -> None:
    """Token ids mean rows of the embedding: as many rows as tokens (up to some padding), control tokens where config.json says."""
    tokens = max(tokenizer.get_vocab(with_added_tokens=True).values()) + 1
    rows = int(config.get_text_config().vocab_size)
    if tokens > rows or rows - tokens > max(64, rows // 100):
        raise CheckpointError(
            f"The tokenizer of {checkpoint_files.folder_title(folder)} has {tokens:,} tokens, but the model has {rows:,} rows for them."
        )
    places = {"<|image_pad|>": config.image_token_id, "<|video_pad|>": config.video_token_id}
    for token, place in places.items():
        if tokenizer.token_to_id(token) != place:
            raise CheckpointError(
                f"The tokenizer of {checkpoint_files.folder_title(folder)} belongs to another model: {token} is not token {place}."
            )


def _processor(folder: Path, config: Qwen2_5_VLConfig) -> Qwen2VLImageProcessorPil:
    if not any((folder / name).is_file() for name in ("preprocessor_config.json", "processor_config.json")):
        raise CheckpointError(f"{checkpoint_files.folder_title(folder)} is incomplete: preprocessor_config.json is missing.")
    with _naming_errors(folder, "preprocessor_config.json"):
        processor = Qwen2VLImageProcessorPil.from_pretrained(folder, local_files_only=True)
        vision: Any = config.vision_config
        has = (processor.patch_size, processor.merge_size, processor.temporal_patch_size)
        needs = (vision.patch_size, vision.spatial_merge_size, vision.temporal_patch_size)
        if has != needs:
            raise CheckpointError(
                f"preprocessor_config.json of {checkpoint_files.folder_title(folder)} cuts patches of {has}, the model wants {needs}."
            )
        low, high = int(processor.size["shortest_edge"]), int(processor.size["longest_edge"])
        if low < high < MAX_FRAME_PIXELS:
            processor.size = {"shortest_edge": low, "longest_edge": MAX_FRAME_PIXELS}
    return processor


def _model(folder: Path, where: str, dtype: torch.dtype) -> Qwen2_5_VLForConditionalGeneration:
    with _naming_errors(folder, "The checkpoint"):
        options: dict[str, Any] = {"device_map": _device_map(where)} if where != "cpu" else {}
        opened: Any = Qwen2_5_VLForConditionalGeneration.from_pretrained(
            folder,
            dtype=dtype,
            attn_implementation=_attention(where, dtype),
            use_safetensors=True,
            trust_remote_code=False,
            local_files_only=True,
            ignore_mismatched_sizes=True,
            output_loading_info=True,
            **options,
        )
    model: Qwen2_5_VLForConditionalGeneration = opened[0]
    _check_complete(folder, model, opened[1])
    _check_values(folder, model)
    model.requires_grad_(False)
    return model


def _attention(where: str, dtype: torch.dtype) -> dict[str, str]:
    ours = where == "cpu" and dtype == torch.float32
    return {"": "sdpa", "vision_config": "sdpa", "text_config": attention.register_attention() if ours else "sdpa"}


def _device_map(where: str) -> str | dict[str, str]:
    return "auto" if where == "cuda" and torch.cuda.device_count() > 1 else {"": where}


def _check_complete(folder: Path, model: torch.nn.Module, info: dict[str, Any]) -> None:
    """Refuse a model of which stock loading left a part random or threw a part away."""
    wrong = sorted(str(entry[0]) for entry in info["mismatched_keys"])
    missing, extra = sorted(info["missing_keys"]), sorted(info["unexpected_keys"])
    if len(missing) >= len(list(model.parameters())):
        raise CheckpointError(
            f"None of the weights of {checkpoint_files.folder_title(folder)} fits the architecture (it holds {extra[0] if extra else 'none'})."
        )
    if missing:
        raise CheckpointError(f"{checkpoint_files.folder_title(folder)} is incomplete: {_list(missing)} missing.")
    if wrong:
        raise CheckpointError(
            f"{checkpoint_files.folder_title(folder)} is damaged: the shape of {wrong[0]} is not what config.json says."
        )
    if extra:
        raise CheckpointError(
            f"{checkpoint_files.folder_title(folder)} holds weights that config.json has no place for: {_list(extra)} left over."
        )
    if info.get("error_msgs"):
        raise CheckpointError(f"{checkpoint_files.folder_title(folder)} cannot be loaded: {info['error_msgs'][0]}")


def _list(names: list[str]) -> str:
    return f"{names[0]} is" if len(names) == 1 else f"{names[0]} and {len(names) - 1} other tensors are"


def _check_values(folder: Path, model: torch.nn.Module) -> None:
    for name, weight in model.named_parameters():
        if weight.is_meta:
            raise CheckpointError(
                f"{checkpoint_files.folder_title(folder)} does not fit into the memory of the GPUs: {name} was left out."
            )
        low, high = (float(end) for end in weight.detach().aminmax())
        largest = max(-low, high)
        if not (math.isfinite(low) and math.isfinite(high)):
            raise CheckpointError(f"{checkpoint_files.folder_title(folder)} is damaged: {name} holds values that are no numbers.")
        if largest > LARGEST_WEIGHT:
            raise CheckpointError(
                f"{checkpoint_files.folder_title(folder)} is damaged: {name} holds {largest:.1e}, far beyond any trained weight."
            )
