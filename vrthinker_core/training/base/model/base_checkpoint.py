"""The small model as a checkpoint folder that the product opens, sealed with the checksum of every file; and begun from one."""

import json
import shutil
from pathlib import Path

import torch
from safetensors import SafetensorError
from tokenizers import Tokenizer
from transformers import Qwen2_5_VLForConditionalGeneration

from vrthinker_core.__about__ import asset
from vrthinker_core.backends.local.checkpoint.loader import quiet_transformers
from vrthinker_core.backends.local.checkpoint.marker import seal
from vrthinker_core.errors import BadInput
from vrthinker_core.training.base.model.model_shape import model_config, new_model, to_bfloat16
from vrthinker_core.training.base.model.vocabulary import PROTOCOLS, TEMPLATE, control_ids, save_tokenizer
from vrthinker_core.training.drawn_teacher.phrases import MORE
from vrthinker_core.training.run.saved_judge import SMALL_SHARDS

FORCED = {
    "paired": [f"{MORE}</Think>\n<tool_call>", "</Think>\n<Answer>"],
    "concat": [f"{MORE}</think>\n<recommend answer>", "</think>\n<final answer>"],
}
"""What the model writes where it would look again, and what stands there where it must answer."""

EMBEDDINGS = "language_model.embed_tokens.weight"


def write_checkpoint(model: Qwen2_5_VLForConditionalGeneration, tokenizer: Tokenizer, folder: Path) -> None:
    """Write the model in bfloat16 with all its files; `model` is converted in place. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    to_bfloat16(model)
    model.config.dtype = "bfloat16"
    model.save_pretrained(folder, max_shard_size=SMALL_SHARDS)
    control = control_ids(tokenizer)
    end, pad = control["<|im_end|>"], control["<|endoftext|>"]
    generation = {"bos_token_id": pad, "do_sample": False, "eos_token_id": [end, pad], "pad_token_id": pad}
    (folder / "generation_config.json").write_text(json.dumps(generation, indent=1) + "\n", "utf-8")
    built_in = asset("nano")
    save_tokenizer(tokenizer, folder, (built_in / TEMPLATE).read_text("utf-8"))
    shutil.copyfile(built_in / "preprocessor_config.json", folder / "preprocessor_config.json")
    seal(folder, {"protocol": list(PROTOCOLS), "forced": FORCED, "scope": "drawn", "video_items": False})


def open_checkpoint(folder: Path) -> tuple[Qwen2_5_VLForConditionalGeneration, Tokenizer]:
    """The model of a checkpoint of this shape in float32, and its vocabulary. Raises BadInput where it is of another one."""
    path = folder / "tokenizer.json"
    if not path.is_file():
        raise BadInput(f"{folder} has no tokenizer.json: set cold_start.judged_minutes for the built-in judge alone.")
    tokenizer = Tokenizer.from_file(str(path))
    control = control_ids(tokenizer)
    model = new_model(model_config(tokenizer.get_vocab_size(), control), seed=0)
    begin_with(folder, model, tokenizer)
    model.tie_weights()
    return model, tokenizer


def begin_with(checkpoint: Path, model: Qwen2_5_VLForConditionalGeneration, tokenizer: Tokenizer) -> None:
    """Put the weights of a checkpoint of this shape into `model`. A token that it does not have keeps the embedding of `model`.

    Raises BadInput where they do not fit.
    """
    try:
        with quiet_transformers():
            earlier = Qwen2_5_VLForConditionalGeneration.from_pretrained(checkpoint, dtype=torch.float32, local_files_only=True)
        weights = earlier.model.state_dict()
        own: torch.Tensor = model.model.language_model.embed_tokens.weight
        weights[EMBEDDINGS] = _embeddings_by_token(own, tokenizer, weights[EMBEDDINGS], _vocabulary(checkpoint))
        model.model.load_state_dict(weights)
    except (OSError, ValueError, RuntimeError, SafetensorError):
        raise BadInput(f"The base cannot begin with {checkpoint}: it is no checkpoint of the built-in judge's shape.") from None


def _embeddings_by_token(own: torch.Tensor, tokenizer: Tokenizer, earlier: torch.Tensor, known: dict[str, int]) -> torch.Tensor:
    """The embeddings [vocabulary, hidden] of `earlier` where its vocabulary `known` has the token, else `own`."""
    embeddings = own.detach().clone()
    for token, number in tokenizer.get_vocab().items():
        if token in known:
            embeddings[number] = earlier[known[token]]
    return embeddings


def _vocabulary(checkpoint: Path) -> dict[str, int]:
    """The number of each token of a checkpoint."""
    path = checkpoint / "tokenizer.json"
    vocabulary: dict[str, int] = Tokenizer.from_file(str(path)).get_vocab() if path.is_file() else {}
    return vocabulary
