"""The small model as a checkpoint folder that the product opens, sealed with the checksum of every file; and begun from one."""

import json
import shutil
from pathlib import Path

import torch
from safetensors import SafetensorError
from tokenizers import Tokenizer
from transformers import Qwen2_5_VLForConditionalGeneration

from vrthinker_core.backends.built_in import NANO
from vrthinker_core.backends.local.checkpoint.loader import quiet_transformers
from vrthinker_core.backends.local.checkpoint.marker import seal
from vrthinker_core.errors import BadInput
from vrthinker_core.training.base.model.model_shape import to_bfloat16
from vrthinker_core.training.base.model.vocabulary import PROTOCOLS, TEMPLATE, control_ids, save_tokenizer
from vrthinker_core.training.drawn_teacher.phrases import MORE
from vrthinker_core.training.run.saved_judge import SMALL_SHARDS

FORCED = {
    "paired": [f"{MORE}</Think>\n<tool_call>", "</Think>\n<Answer>"],
    "concat": [f"{MORE}</think>\n<recommend answer>", "</think>\n<final answer>"],
}
"""What the model writes where it would look again, and what stands there where it must answer."""


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
    save_tokenizer(tokenizer, folder, (NANO / TEMPLATE).read_text("utf-8"))
    shutil.copyfile(NANO / "preprocessor_config.json", folder / "preprocessor_config.json")
    seal(folder, {"protocol": list(PROTOCOLS), "forced": FORCED, "video_items": False})


def begin_with(checkpoint: Path, model: Qwen2_5_VLForConditionalGeneration, tokenizer: Tokenizer) -> None:
    """Put the weights of a checkpoint of this shape into `model`: the tower's, and the language model's where it knows the same
    tokens. Raises BadInput where they do not fit.
    """
    try:
        with quiet_transformers():
            earlier = Qwen2_5_VLForConditionalGeneration.from_pretrained(checkpoint, dtype=torch.float32, local_files_only=True)
        model.model.visual.load_state_dict(earlier.model.visual.state_dict())
    except (OSError, ValueError, RuntimeError, SafetensorError):
        raise BadInput(f"The base cannot begin with {checkpoint}: it is no checkpoint of the built-in judge's shape.") from None
    if same_vocabulary(checkpoint, tokenizer):
        model.model.language_model.load_state_dict(earlier.model.language_model.state_dict())


def same_vocabulary(checkpoint: Path, tokenizer: Tokenizer) -> bool:
    """Whether a checkpoint has exactly these tokens."""
    path = checkpoint / "tokenizer.json"
    return path.is_file() and Tokenizer.from_file(str(path)).get_vocab() == tokenizer.get_vocab()
