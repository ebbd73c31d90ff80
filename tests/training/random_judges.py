"""Judges for tests of training: random ones, the real vocabulary, rollouts learnt by heart."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from tests.backends.support.random_model import small_config, write_random_checkpoint
from tests.support.by_heart import learn_by_heart
from vrthinker_core.backends.checkpoint import open_for_training
from vrthinker_core.backends.transformers_local import TransformersBackend
from vrthinker_core.training.rollouts import Rollout
from vrthinker_core.training.sft import collate, freeze_vision, token_rows
from vrthinker_core.training.sharding import save_judge

REAL = Path(os.environ.get("VRT_REAL_TOKENIZER", "no tokenizer"))
PIXELS = 56 * 56  # Of each frame: four tokens

needs_real = pytest.mark.skipif(
    not (REAL / "tokenizer.json").is_file(), reason="VRT_REAL_TOKENIZER names no tokenizer"
)
VOCABULARIES = ["built-in", pytest.param("real", marks=needs_real)]


def random_judge(folder: Path, vocabulary: str = "built-in") -> Path:
    """The smallest random Qwen2.5-VL that the product opens; with the vocabulary "real", of the published one's rows."""
    if vocabulary == "built-in":
        return write_random_checkpoint(folder, pixels=PIXELS)
    tokens = {"vocab_size": 152_064, "eos_token_id": 151_645, "pad_token_id": 151_643}
    config = small_config({**tokens, "max_position_embeddings": 8192})
    config.image_token_id, config.video_token_id = 151_655, 151_656
    config.vision_start_token_id, config.vision_end_token_id = 151_652, 151_653
    write_random_checkpoint(folder, config=config, pixels=PIXELS)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(REAL / name, folder / name)
    generation = '{"eos_token_id": [151645, 151643], "pad_token_id": 151643}'
    (folder / "generation_config.json").write_text(generation)
    return folder


def taught_judge(source: Path, rollouts: Sequence[Rollout], folder: Path) -> Path:
    """The judge of `source` after it learnt rollouts of one pair by heart."""
    opened = open_for_training(str(source))
    loaded = TransformersBackend(opened, "taught").loaded
    rows = [row for rollout in rollouts for row in token_rows(rollout, loaded)]
    batch = collate(rows, loaded, loaded.vision.encode)
    model = freeze_vision(opened.model)
    learn_by_heart(model, batch, learning_rate=3e-3, slack=0.3)
    folder.mkdir(parents=True, exist_ok=True)
    save_judge(model, str(source), folder)
    return folder


def weights(folder: Path) -> dict[str, torch.Tensor]:
    """The weights of a checkpoint by their published names."""
    return {
        name: value
        for path in sorted(folder.glob("*.safetensors"))
        for name, value in load_file(path).items()
    }


def moved_weights(first: Path, second: Path) -> set[str]:
    """The names of the weights in which two checkpoints differ."""
    one, two = weights(first), weights(second)
    assert one.keys() == two.keys()
    return {name for name in one if not torch.equal(one[name], two[name])}
