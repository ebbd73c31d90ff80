"""Judges with random weights that learnt two rollouts of one pair by heart: what they sample is well formed, and differs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from tests.support.drawn_rollouts import DrawnPairs, answer, look, scripted_rollout
from vrthinker_core.backends.local.checkpoint.loader import Checkpoint
from vrthinker_core.backends.transformers_local import TransformersBackend
from vrthinker_core.training.frozen_vision import collate_features, freeze_vision
from vrthinker_core.training.rollouts import Rollout
from vrthinker_core.training.token_rows import IGNORED, token_rows
from vrthinker_core.types import Preference, Settings

PAIRS = DrawnPairs(2_000_000_000)
CALLS = (look(*range(1, 128, 16)), look(*range(9, 128, 16)))  # With the first eight frames, 40 pictures in three turns
LAYERS = 4  # The last ones, that learn; all before them stay random
SLACK = 0.1  # Nats of a rollout above those of choosing one of them, at which learning ends: few go astray
STEPS = 400
ROOM = 8  # Tokens of a rollout beyond those that were learnt by heart


@dataclass(frozen=True, slots=True)
class TaughtJudge:
    """A judge, and how long its rollouts are."""

    folder: Path
    prompt_tokens: int  # First frames included
    more_tokens: int  # Replies, the frames that were asked for, and a little room


def two_rollouts() -> list[Rollout]:
    """Of the first pair: two looks, then the true labels or a wrong overall one, so that rewards differ."""
    pair = PAIRS.pair(0)
    wrong = Preference.FIRST if pair.truth.OA is Preference.SECOND else Preference.SECOND
    settings = Settings(window="all")
    return [
        scripted_rollout(pair, *CALLS, answer(labels), settings=settings) for labels in (pair.truth, replace(pair.truth, OA=wrong))
    ]


def write_taught_judge(checkpoint: Checkpoint, learning_rate: float) -> TaughtJudge:
    """Teach the model of `checkpoint` where it is, and write its weights into the folder of the checkpoint.

    What the layers before the last `LAYERS` make of the rows is computed once, so that this is quick at the shape of the 7B.
    """
    checkpoint.model.requires_grad_(False)
    loaded = TransformersBackend(checkpoint, "taught").loaded
    rows = [row for rollout in two_rollouts() for row in token_rows(rollout, loaded)]
    with torch.inference_mode():
        batch = collate_features(rows, loaded)
    _learn(freeze_vision(checkpoint.model), {name: value.clone() for name, value in batch.items()}, learning_rate)
    for path in checkpoint.folder.glob("*.safetensors"):
        path.unlink()
    checkpoint.model.save_pretrained(checkpoint.folder, max_shard_size="4GB")
    prompt = next(n for n, label in enumerate(rows[0].labels) if label != IGNORED)
    return TaughtJudge(checkpoint.folder, prompt, max(len(row.labels) for row in rows) - prompt + ROOM)


def _learn(model: Any, batch: dict[str, torch.Tensor], learning_rate: float) -> None:
    batch = {name: value.to(model.device) for name, value in batch.items()}
    labels = batch.pop("labels")[:, 1:]
    states, given = _inputs(model, batch)
    text, dtype = model.model.language_model, model.dtype
    learning = torch.nn.ModuleList([*text.layers[-LAYERS:], text.norm, model.lm_head]).float()  # bfloat16 would lose small steps
    optimizer = torch.optim.AdamW(learning.requires_grad_().parameters(), lr=learning_rate, weight_decay=0.0)
    learnt = labels != IGNORED
    enough = (math.log(len(labels)) + SLACK) * len(labels) / int(learnt.sum())
    for taken in range(STEPS):  # noqa: B007 - told below
        with torch.autocast(states.device.type, dtype, enabled=dtype != torch.float32):
            hidden = states
            for layer in text.layers[-LAYERS:]:
                hidden = layer(hidden, **given)
            loss = torch.nn.functional.cross_entropy(model.lm_head(text.norm(hidden[:, :-1][learnt])).float(), labels[learnt])
        if float(loss.detach()) < enough:
            break
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    else:
        raise AssertionError(f"not learnt by heart: {float(loss.detach()):.4f} a token, wanted {enough:.4f}")
    print(f"learnt by heart in {taken} steps", flush=True)
    learning.requires_grad_(False).to(dtype)


@torch.no_grad()
def _inputs(model: Any, batch: dict[str, torch.Tensor]) -> tuple[torch.Tensor, dict[str, Any]]:
    """What the first layer that learns is given for the batch: hidden states, and all else."""
    kept: list[tuple[torch.Tensor, dict[str, Any]]] = []

    def keep(_: torch.nn.Module, inputs: Sequence[torch.Tensor], given: dict[str, Any]) -> None:
        kept.append((inputs[0].clone(), given))

    hook = model.model.language_model.layers[-LAYERS].register_forward_pre_hook(keep, with_kwargs=True)
    model.model(**batch, use_cache=False)
    hook.remove()
    return kept[0]
