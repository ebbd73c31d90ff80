"""Teach a model with random weights some rows by heart, each of them equally likely, so that what it samples is known."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from vrthinker_core.training.sft import IGNORED

STEPS = 600


def learn_by_heart(
    model: Any,
    batch: dict[str, torch.Tensor],
    learning_rate: float,
    slack: float,
    layers: int | None = None,
) -> int:
    """Train the last `layers` layers (None: all) and the head on a batch of image features; gives the steps it took.

    Learning ends where the loss of a row is `slack` nats above that of choosing one of them. What the layers before make of the
    rows is computed once, so that this is quick at the shape of the 7B. Raises AssertionError where it does not end.
    """
    batch = {name: value.to(model.device) for name, value in batch.items()}
    labels = batch.pop("labels")[:, 1:]
    text, dtype = model.model.language_model, model.dtype
    last = text.layers[-(layers or len(text.layers)) :]
    states, given = _inputs(model, batch, last[0])
    learning = torch.nn.ModuleList([*last, text.norm, model.lm_head])
    learning.float().requires_grad_()  # bfloat16 would lose small steps
    optimizer = torch.optim.AdamW(learning.parameters(), lr=learning_rate, weight_decay=0.0)
    learnt = labels != IGNORED
    enough = (math.log(len(labels)) + slack) * len(labels) / int(learnt.sum())
    for taken in range(STEPS):
        with torch.autocast(states.device.type, dtype, enabled=dtype != torch.float32):
            hidden = states
            for layer in last:
                hidden = layer(hidden, **given)
            logits = model.lm_head(text.norm(hidden[:, :-1][learnt])).float()
            loss = torch.nn.functional.cross_entropy(logits, labels[learnt])
        if float(loss.detach()) < enough:
            learning.requires_grad_(False).to(dtype)
            return taken
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    raise AssertionError(f"not learnt by heart: {loss.item():.4f} a token, wanted {enough:.4f}")


@torch.no_grad()
def _inputs(
    model: Any, batch: dict[str, torch.Tensor], layer: torch.nn.Module
) -> tuple[torch.Tensor, dict[str, Any]]:
    """What a layer is given for the batch: hidden states, and all else."""
    kept: list[tuple[torch.Tensor, dict[str, Any]]] = []

    def keep(_: torch.nn.Module, inputs: Sequence[torch.Tensor], given: dict[str, Any]) -> None:
        kept.append((inputs[0].clone(), given))

    hook = layer.register_forward_pre_hook(keep, with_kwargs=True)
    model.model(**batch, use_cache=False)
    hook.remove()
    return kept[0]
