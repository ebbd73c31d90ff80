"""Judges with random weights that learnt two rollouts of one pair by heart: what they sample is well formed, and differs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch

from tests.support.by_heart import learn_by_heart
from tests.support.drawn_rollouts import DrawnPairs, look, right_and_wrong
from vrthinker_core.backends.checkpoint import Checkpoint
from vrthinker_core.backends.transformers_local import TransformersBackend
from vrthinker_core.training.sft import freeze_vision
from vrthinker_core.training.token_rows import IGNORED, collate, token_rows
from vrthinker_core.types import Settings

PAIRS = DrawnPairs(2_000_000_000)
# With the first eight frames, 40 pictures in three turns
CALLS = (look(*range(1, 128, 16)), look(*range(9, 128, 16)))
LAYERS = 4  # The last ones, that learn; all before them stay random
SLACK = 0.1  # Nats of a rollout above those of choosing one of them, at which learning ends: few go astray
ROOM = 8  # Tokens of a rollout beyond those that were learnt by heart


@dataclass(frozen=True, slots=True)
class TaughtJudge:
    """A judge, and how long its rollouts are."""

    folder: Path
    prompt_tokens: int  # First frames included
    more_tokens: int  # Replies, the frames that were asked for, and a little room


def write_taught_judge(checkpoint: Checkpoint, learning_rate: float) -> TaughtJudge:
    """Teach the model of `checkpoint` where it is, and write its weights into the folder of the checkpoint."""
    checkpoint.model.requires_grad_(False)
    loaded = TransformersBackend(checkpoint, "taught").loaded
    rollouts = right_and_wrong(PAIRS.pair(0), *CALLS, settings=Settings(window="all"))
    rows = [row for rollout in rollouts for row in token_rows(rollout, loaded)]
    with torch.inference_mode():
        batch = collate(rows, loaded, loaded.vision.encode)
    batch = {name: value.clone() for name, value in batch.items()}
    steps = learn_by_heart(freeze_vision(checkpoint.model), batch, learning_rate, SLACK, LAYERS)
    print(f"learnt by heart in {steps} steps", flush=True)
    for path in checkpoint.folder.glob("*.safetensors"):
        path.unlink()
    checkpoint.model.save_pretrained(checkpoint.folder, max_shard_size="4GB")
    prompt = next(n for n, label in enumerate(rows[0].labels) if label != IGNORED)
    return TaughtJudge(
        checkpoint.folder, prompt, max(len(row.labels) for row in rows) - prompt + ROOM
    )
