"""The loader: refuses missing, random and damaged weights."""

import json
import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import groupby
from logging import CRITICAL
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from tokenizers import Tokenizer
from transformers import (
    AutoConfig,
    AutoModelForImageTextToText,
    AutoTokenizer,
    GenerationConfig,
    Qwen2_5_VLConfig,
    Qwen2_5_VLForConditionalGeneration,
    Qwen2VLImageProcessorPil,
    __version__ as transformers_version,
)
from transformers.models.auto.modeling_auto import MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES
from transformers.utils import logging

from vrthinker_core.backends import checkpoint_files, quantize
from vrthinker_core.backends.chat_template import CONTROL_TOKENS
from vrthinker_core.backends.checkpoint_files import GENERATION_CONFIG, Marker, damaged, refuse
from vrthinker_core.backends.devices import best_device, borrows_gpu, check_device, is_out_of_memory
from vrthinker_core.backends.judge_name import Bits, folder_title
from vrthinker_core.backends.layers import attention_for
from vrthinker_core.errors import CheckpointError
from vrthinker_core.protocols.concat import OPENING_AREA

MOST_RANDOM = 1.25
"""Largest spread of the mean squares of a random matrix's rows or columns; independent normal values
have 1, uniform ones less. The built-in judge's matrices have at least 2.2, larger ones of equal
structure more: it grows with the root of the size.
"""
SMALLEST_SIDE = 128  # Of a matrix that can be tested; a single one of this size is too little


def check_statistics(files: Sequence[Path]) -> None:
    """Raise `CheckpointError` for a tensor of zeros or random values."""
    spreads: dict[str, tuple[float, int, Path]] = {}
    for path in files:
        with safe_open(path, framework="pt") as file:
            for name in file.keys():  # noqa: SIM118 - no mapping
                tensor = file.get_tensor(name)
                matrix = tensor.reshape(len(tensor) if tensor.ndim else 1, -1)
                # Evenly spaced rows and columns, up to 256 and 2,048
                rows, columns = matrix.shape
                sample = matrix[:: -(-rows // 256) or 1, :: -(-columns // 2048) or 1].float()
                zeros = 1 - int(sample.count_nonzero()) / max(1, sample.numel())
                # A trained weight has nearly no zeros
                if zeros > 0.25 and not name.endswith("bias"):
                    raise CheckpointError(
                        f"{path.name} is damaged: {zeros:.0%} of {name} are zeros. Fetch it again."
                    )
                if (side := min(sample.shape)) >= SMALLEST_SIDE:
                    spreads[name] = _spread(sample), side, path
    # Grouped by the beginning of the name, up to the layer number
    for _, layer in groupby(sorted(spreads), key=lambda name: re.sub(r"(\.\d+\.).*", r"\1", name)):
        names = list(layer)
        measured, sides, paths = zip(*(spreads[name] for name in names), strict=True)
        if max(measured) < MOST_RANDOM and sum(sides) > SMALLEST_SIDE:
            raise CheckpointError(
                f"{paths[0].name} is damaged or was never trained: {names[0]} and its layer look "
                "random. Fetch it again, or choose another judge."
            )


def _spread(matrix: torch.Tensor) -> float:
    """Return the larger of the two spreads of a matrix: see `MOST_RANDOM`."""
    squares, (rows, columns) = matrix.square(), matrix.shape
    return max(
        float(means.std() / means.mean()) * math.sqrt(averaged / 2)
        for means, averaged in ((squares.mean(1), columns), (squares.mean(0), rows))
    )


SMALL_MODEL_WEIGHTS = 50_000_000
"""Up to this many weights, float32 on a CPU is faster than bfloat16, and a GPU is no faster."""

_OwnEngine = Qwen2_5_VLForConditionalGeneration


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A loaded checkpoint; every weight was checked."""

    model: Qwen2_5_VLForConditionalGeneration
    tokenizer: Tokenizer
    processor: Qwen2VLImageProcessorPil
    marker: Marker
    folder: Path
    threads: int | None  # CPU threads; None for torch's own choice
    bits: Bits | None = None  # Of the language model's weights; None if not quantised


@dataclass(frozen=True, slots=True)
class Source:
    """A checkpoint whose files were found: a whole one, or an adapter."""

    folder: Path  # The checkpoint or adapter that was named
    base: Path  # Has weights, tokenizer and processor; differs from `folder` for an adapter only
    config: dict[str, Any]
    device: str | None = None  # None for the best one
    bits: Bits | None = None  # Of the language model's weights; None if not quantised
    stored: bool = False  # In these bits, instead of quantised while they are loaded

    @property
    def title(self) -> str:
        """Display name."""
        return folder_title(self.folder)

    @property
    def marker(self) -> Marker:
        """The adapter's own marker, else the base's; may raise `CheckpointError`."""
        own = self.folder if (self.folder / checkpoint_files.MARKER).is_file() else self.base
        return checkpoint_files.read_marker(own, folder_title(self.base))


def find_source(source: str, bits: Bits | None = None, device: str | None = None) -> Source:
    """Find a checkpoint, and an adapter's base; raise `CheckpointError`.

    A download begins only if the device is there, and disk and memory have room.
    """
    if device:
        check_device(device)
    if bits:
        quantize.require_bitsandbytes()
    folder = checkpoint_files.locate(source, lambda: _check_download(source, bits, device))
    base = folder
    if checkpoint_files.is_adapter(folder):
        name = quantize.check_adapter(folder)
        base = checkpoint_files.locate(name, lambda: _check_download(name, bits, device))
    config = checkpoint_files.read_config(base)
    stored = quantize.stored_bits(folder_title(base), config)
    if stored and bits and stored != bits:
        raise CheckpointError(f"{folder_title(base)} is stored in {stored}: leave ?quantize= out.")
    return Source(folder, base, config, device, stored or bits, stored is not None)


def _check_download(source: str, bits: Bits | None, device: str | None) -> None:
    """Fetch config.json and raise `CheckpointError` if the model would not fit."""
    try:
        model = without_values(source)
    except Exception:  # noqa: BLE001 - the download itself reports the error
        return
    quantize.require_room(source, model, bits, torch.bfloat16, device or best_device())


def open_checkpoint(
    source: str,
    *,
    device: str | None = None,
    dtype: torch.dtype | None = None,
    bits: Bits | None = None,
) -> Checkpoint:
    """Load a Qwen2.5-VL from a folder or hub id.

    By default small models run on the CPU in float32, others on the best device in bfloat16, with
    the weights as they are stored. Raises `CheckpointError`, one sentence that names the file or
    the tensor, for any damage.
    """
    found = find_source(source, bits, device)
    checkpoint_files.require_ours(found.title, found.config)
    unloaded = _without_weights(found, checkpoint_files.check_weights(found.base))
    with _checkpoint_errors(found.base, "The weights"):
        check_statistics(checkpoint_files.weight_files(found.base))
    model = _load_judge(found, unloaded.model, _OwnEngine, dtype)
    threads = unloaded.threads if model.device.type == "cpu" else None
    return replace(unloaded, model=model, threads=threads)


def open_plain(found: Source) -> Any:
    """Load any image-text-to-text model of transformers; raise `CheckpointError`."""
    kind = found.config.get("model_type")
    if kind not in MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES:
        raise CheckpointError(
            f"{found.title} is a {kind!r} model, which transformers {transformers_version} "
            "does not know as one that takes pictures and text: choose a vision-language model."
        )
    checkpoint_files.check_weights(found.base)
    with _checkpoint_errors(found.base, "config.json"):
        shape = without_values(found.base)
    return _load_judge(found, shape, AutoModelForImageTextToText)


def open_for_training(source: str, dtype: torch.dtype = torch.float32) -> Checkpoint:
    """Load a checkpoint on the CPU for training; raise `CheckpointError`.

    The model has stock attention, and every weight learns. If several processes share one model,
    transformers may leave all but the first process without values; only the first one is checked.
    """
    unloaded = open_for_rendering(source)
    quantize.require_room(folder_title(unloaded.folder), unloaded.model, None, dtype, "cpu")
    checked = os.environ.get("LOCAL_RANK", "0") == "0"
    with quiet_transformers():
        options = {"attn_implementation": "sdpa"}
        model = _load_weights(unloaded.folder, dtype, options, checked=checked)
    return replace(unloaded, model=model.requires_grad_(True))


def open_for_rendering(source: str) -> Checkpoint:
    """Load what prompts and token rows take; raise `CheckpointError`.

    The model has its shape, but no value.
    """
    folder = checkpoint_files.locate(source)
    shapes = checkpoint_files.check_files(folder)
    return _without_weights(Source(folder, folder, checkpoint_files.read_config(folder)), shapes)


def _without_weights(found: Source, shapes: Mapping[str, Sequence[int]]) -> Checkpoint:
    folder, weights = found.base, sum(map(math.prod, shapes.values()))
    title = folder_title(folder)
    with _checkpoint_errors(folder, "config.json"):
        model = without_values(folder)
    config, size = model.config, model.num_parameters()
    if (context := config.get_text_config().max_position_embeddings) < 1:
        raise damaged(folder / "config.json", f"it allows a context of {context} tokens.")
    described, held = f"config.json describes {size:,}", f"its files hold {weights:,}"
    if size > (4 if found.stored else 2) * weights:  # A byte of a file holds two weights of 4 bits
        raise CheckpointError(f"{title} is incomplete: {described} weights, {held}.")
    if weights > 2 * size:
        raise CheckpointError(f"{title} is damaged: {held} weights, and {described}.")
    with _checkpoint_errors(folder, "The tokenizer", "tokenizer.json", "vocab.json"):
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True).backend_tokenizer
    refuse(f"The tokenizer of {title}", _tokenizer_faults(tokenizer, config))
    name = "preprocessor_config.json"
    with _checkpoint_errors(folder, name, name, "processor_config.json"):
        processor = Qwen2VLImageProcessorPil.from_pretrained(folder, local_files_only=True)
        vision = config.vision_config
        cut = (processor.patch_size, processor.merge_size, processor.temporal_patch_size)
        expected = (vision.patch_size, vision.spatial_merge_size, vision.temporal_patch_size)
        if cut != expected:
            raise CheckpointError(
                f"{name} of {title} cuts patches of {cut}, the model wants {expected}."
            )
        low, high = int(processor.size["shortest_edge"]), int(processor.size["longest_edge"])
        if low < high < OPENING_AREA:  # Frames arrive resized and must not be shrunk again
            processor.size = {"shortest_edge": low, "longest_edge": OPENING_AREA}
    marker, threads = found.marker, 1 if size <= SMALL_MODEL_WEIGHTS else None
    return Checkpoint(model, tokenizer, processor, marker, found.folder, threads, found.bits)


def _tokenizer_faults(tokenizer: Tokenizer, config: Qwen2_5_VLConfig) -> Iterator[str]:
    for token in CONTROL_TOKENS:
        if tokenizer.token_to_id(token) is None:
            yield f"lacks the control token {token}."
    if '"ByteLevel"' not in json.dumps(json.loads(tokenizer.to_str())["decoder"]):
        yield "is not byte-level as Qwen's is."
    # The embedding has as many rows as tokens (up to some padding)
    tokens = max(tokenizer.get_vocab(with_added_tokens=True).values()) + 1
    rows = int(config.get_text_config().vocab_size)
    if tokens > rows or rows - tokens > max(64, rows // 100):
        yield f"has {tokens:,} tokens, but the model has {rows:,} rows for them."
    pads = {"<|image_pad|>": config.image_token_id, "<|video_pad|>": config.video_token_id}
    for token, token_id in pads.items():
        if tokenizer.token_to_id(token) != token_id:
            yield f"belongs to another model: {token} is not token {token_id}."


def without_values(source: Path | str) -> Any:
    """Return the model that a folder or hub id configures; nothing is allocated."""
    config = AutoConfig.from_pretrained(source, trust_remote_code=False)
    with torch.device("meta"):
        any_family: Any = AutoModelForImageTextToText
        return any_family.from_config(config, trust_remote_code=False)


@contextmanager
def _checkpoint_errors(folder: Path, what: str, *files: str) -> Iterator[None]:
    """Turn exceptions into `CheckpointError`; require one of the `files`."""
    if files and not any((folder / name).is_file() for name in files):
        raise CheckpointError(f"{folder_title(folder)} is incomplete: {files[0]} is missing.")
    try:
        yield
    except CheckpointError:
        raise
    except Exception as error:
        if is_out_of_memory(error):
            raise CheckpointError(f"{folder_title(folder)} does not fit into memory.") from error
        detail = getattr(error, "strerror", None) or " ".join(str(error).split())[:200]
        detail = detail or type(error).__name__
        raise CheckpointError(
            f"{what} of {folder_title(folder)} cannot be used: {detail}"
        ) from error


@contextmanager
def quiet_transformers(verbosity: int = CRITICAL) -> Iterator[None]:
    """Silence transformers' progress bars and its logs below `verbosity`."""
    progress_bars, before = logging.is_progress_bar_enabled(), logging.get_verbosity()
    logging.set_verbosity(verbosity)
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        logging.set_verbosity(before)
        if progress_bars:
            logging.enable_progress_bar()  # type: ignore[no-untyped-call]


@quiet_transformers()
def _load_judge(
    found: Source, shape: Any, architecture: Any, dtype: torch.dtype | None = None
) -> Any:
    """Load the model on its device, with its adapter."""
    small, bits = shape.num_parameters() <= SMALL_MODEL_WEIGHTS, found.bits
    device = found.device or ("cpu" if small else best_device())
    dtype = dtype or (torch.float32 if small else torch.bfloat16)
    quantize.require_room(found.title, shape, bits, dtype, device)
    options = quantize.loading_options(shape, None if found.stored else bits, dtype)
    if architecture is _OwnEngine:
        options["attn_implementation"] = attention_for(device, dtype)
    if bits or (device != "cpu" and not borrows_gpu()):
        spread = device == "cuda" and torch.cuda.device_count() > 1
        options["device_map"] = "auto" if spread else {"": device}
    model = _load_weights(found.base, dtype, options, architecture)
    if found.folder != found.base:
        with _checkpoint_errors(found.folder, "The adapter"):
            model = quantize.with_adapter(model, found.folder, merge=not bits)
    model.requires_grad_(False)
    if bits:
        quantize.check_kernels(found.title, model, bits)
    elif borrows_gpu():
        # transformers places weights from threads of its own, in which ZeroGPU imitates no GPU
        model = model.to(device)
    return model


def _load_weights(
    folder: Path,
    dtype: torch.dtype,
    more: dict[str, Any],
    architecture: Any = _OwnEngine,
    *,
    checked: bool = True,
) -> Any:
    """Load the model of a folder, with `more` arguments for `from_pretrained`."""
    with _checkpoint_errors(folder, "The checkpoint"):
        model, loading_info = architecture.from_pretrained(
            folder,
            dtype=dtype,
            use_safetensors=True,
            trust_remote_code=False,
            local_files_only=True,
            ignore_mismatched_sizes=True,
            output_loading_info=True,
            **more,
        )
    if architecture is not _OwnEngine:
        loading_info = {**loading_info, "unexpected_keys": ()}  # E.g. heads that no judge needs
    told = GENERATION_CONFIG if (folder / GENERATION_CONFIG).is_file() else "config.json"
    title = folder_title(folder)
    refuse(f"{told} of {title} is damaged:", _generation_faults(model))
    if checked:
        if len(loading_info["missing_keys"]) >= len(list(model.parameters())):
            example = min(loading_info["unexpected_keys"], default="none")
            raise CheckpointError(
                f"None of the weights of {title} fits the architecture (it holds {example})."
            )
        refuse(title, _faults(model, loading_info))
    return model


def _generation_faults(model: Any) -> Iterator[str]:
    """Check the tokens that end a reply, and the repetition penalty."""
    said, rows = model.generation_config, model.config.get_text_config().vocab_size
    for token in end_tokens(said):
        if not (type(token) is int and 0 <= token < rows):
            yield f"it ends replies with {token!r:.50}, which is no token of the model."
    penalty = 1.0 if said.repetition_penalty is None else said.repetition_penalty
    # Far beyond any useful penalty, and float32 can still apply them
    if not (isinstance(penalty, int | float) and 0.01 <= penalty <= 100.0):
        yield f"its repetition_penalty is {penalty!r:.50}, not 0.01 to 100."


def end_tokens(config: GenerationConfig) -> list[Any]:
    """Return the tokens that end a reply: none, one or several."""
    said = config.eos_token_id
    return [token for token in (said if isinstance(said, list) else [said]) if token is not None]


def _faults(model: torch.nn.Module, loading_info: dict[str, Any]) -> Iterator[str]:
    """Yield missing, leftover or misshapen tensors, and values of no training."""
    # transformers initialises missing tensors at random and ignores the others
    missing, unexpected = (sorted(loading_info[f"{how}_keys"]) for how in ("missing", "unexpected"))
    if missing:
        yield f"is incomplete: {_these(missing)} missing."
    for name, *_ in sorted(loading_info["mismatched_keys"]):
        yield f"is damaged: the shape of {name} is not what config.json says."
    if unexpected:
        yield f"holds weights that config.json has no place for: {_these(unexpected)} left over."
    for name, weight in model.named_parameters():
        if weight.is_meta:
            yield f"does not fit into the memory of the GPUs: {name} was left out."
        low, high = (float(end) for end in weight.detach().aminmax())
        if not (math.isfinite(low) and math.isfinite(high)):
            yield f"is damaged: {name} holds values that are no numbers."
        if (largest := max(-low, high)) > 1e6:  # Only a flipped exponent bit makes it this large
            yield f"is damaged: {name} holds {largest:.1e}, far beyond any trained weight."


def _these(names: list[str]) -> str:
    return names[0] + (f" and {len(names) - 1} other tensors are" if names[1:] else " is")
