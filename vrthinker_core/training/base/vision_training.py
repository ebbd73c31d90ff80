"""The vision tower is trained to emit the frame code of drawn pictures.

Muon for the matrices of its layers, AdamW for the rest; bfloat16 arithmetic over float32 weights. Once every gate is passed, or the
time is nearly over, the learning rate falls to 0 and training ends; a stopped one goes on from its last checkpoint with the batch
it had come to.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - the name everybody uses
from torch import Tensor

from vrthinker_core.backends.base import not_cancelled
from vrthinker_core.training.base.frames.picture_batches import SERIES, TRAINED_SERIES, UNSEEN, PictureBatch, picture_batch
from vrthinker_core.training.base.half_state import HalfState
from vrthinker_core.training.base.half_training import HalfOptions, Stopped, is_over, made_ahead, steps_until_save
from vrthinker_core.training.base.model.compiled_layers import picture_features
from vrthinker_core.training.frame_facts.frame_code import PARTS, SIZE, basis, place_of
from vrthinker_core.training.run.config import VisionGates

CLASSES = {"colour": 1.0, "shape": 1.5, "state": 1.5, "count": 0.7, "ground": 0.3, "colour 2": 0.5, "shape 2": 0.4, "count 2": 0.3}
"""Parts of the code in which one number is 1, and the weights of their cross entropies."""
PLACES = ("x", "y", "x 2", "y 2")
PLACE_WEIGHT = 64.0  # Of their mean square: motion is read from steps of a few per cent of the picture
SHARPNESS = 8.0  # Of the cross entropy over numbers that are to be 0 and 1
PASSED_OVER = 300  # Batches of a series, so that weights which know much do not begin with a handful of scenes
MEASURED = 16  # Batches: over four of them the share of shapes that are read right goes up and down by two per cent
PLACE_ERROR = 0.03  # Of the picture: a place that is read with less is right


@dataclass(frozen=True, slots=True, kw_only=True)
class VisionOptions(HalfOptions):
    """How the tower is trained."""

    batch: int = 64
    rate: float = 1e-3
    warm_up: int = 60
    gates: VisionGates = field(default_factory=VisionGates)


def train_vision(
    visual: Any, options: VisionOptions, checkpoint: Path, stopped: Stopped = not_cancelled, fresh: bool = True
) -> Iterator[dict[str, float]]:
    """Train the tower (float32 weights) in place; yields what it reads right after each save, at last when it is done.

    Goes on from `checkpoint` where that is there. `fresh` weights are random: what patches look like is put into them first. Once
    `stopped`, it saves and ends without a report.
    """
    directions = basis(visual.config.out_hidden_size)
    state = HalfState.opened(visual, options, checkpoint)
    if fresh and not state.progress.step:
        _whiten(visual, options)
    unseen = [picture_batch(UNSEEN + 15 + number, options.batch, options.world) for number in range(MEASURED)]
    first = options.seed % TRAINED_SERIES * SERIES + (0 if fresh else PASSED_OVER)
    progress = state.progress
    with made_ahead(lambda step: picture_batch(first + step, options.batch, options.world), progress.step) as batches:
        while True:
            loss = _train(state, batches, directions, options, stopped)
            if stopped():
                state.save(checkpoint)
                return
            read = measure(visual, unseen, directions)
            progress.note(read, options.gates)
            state.save(checkpoint)
            yield progress.figures() | {"loss": loss} | read
            if is_over(progress, options):
                return


def _train(
    state: HalfState, batches: Iterator[PictureBatch], directions: Tensor, options: VisionOptions, stopped: Stopped
) -> float:
    """Steps until it is time to save, one at least; the mean loss."""
    losses: list[float] = []
    for share in steps_until_save(state.progress, options, stopped):
        batch = next(batches)
        loss = code_loss(picture_features(state.half, batch.patches).float(), batch, directions)
        loss.backward()  # type: ignore[no-untyped-call]
        state.step(options, share, max_grad_norm=2.0)
        losses.append(float(loss.detach()))
    return float(np.mean(losses))


def code_loss(features: Tensor, batch: PictureBatch, directions: Tensor) -> Tensor:
    """How far features [n, TOKENS, hidden] are from the codes: squares of everything, cross entropies of what is one of many."""
    target = batch.codes
    read, wanted = (features @ directions.T).mean(1), target[:, 0]  # [n, SIZE]
    loss = 36 * F.mse_loss(features, target @ directions)
    numbers = torch.cat([torch.arange(SIZE)[PARTS[name]] for name in PLACES])
    loss = loss + PLACE_WEIGHT * ((read - wanted)[..., numbers] ** 2).mean()
    for name, weight in CLASSES.items():
        there = wanted[..., PARTS[name]].sum(-1) > 0
        if there.any():
            chosen = wanted[..., PARTS[name]].argmax(-1)[there]
            loss = loss + weight * F.cross_entropy(SHARPNESS * read[..., PARTS[name]][there], chosen)
    return loss


@torch.no_grad()
def measure(visual: Any, batches: list[PictureBatch], directions: Tensor) -> dict[str, float]:
    """Shares of frames whose parts are read right. Shapes count where the picture is clear."""
    right: dict[str, list[bool]] = {name: [] for name in (*CLASSES, "place", "light")}
    for batch in batches:
        read = picture_features(visual, batch.patches).float() @ directions.T
        mean, wanted = read.mean(1), batch.codes[:, 0]
        for name in CLASSES:
            there = wanted[..., PARTS[name]].sum(-1) > 0
            if name.startswith("shape"):
                there = there & (wanted[..., PARTS["state"].start] > 0)
            right[name] += (mean[..., PARTS[name]].argmax(-1) == wanted[..., PARTS[name]].argmax(-1))[there].tolist()
        thing = wanted[..., PARTS["present"].start] > 0
        for axis in PLACES:
            placed = wanted[..., PARTS[axis]].sum(-1) > 0
            for name, there in (("place", placed & thing & (not axis.endswith("2"))), ("light", placed & ~thing)):
                read_at, wanted_at = (place_of(each[there][:, PARTS[axis]].numpy()) for each in (mean, wanted))
                right[name] += (np.abs(read_at - wanted_at) < PLACE_ERROR).tolist()
    return {name: float(np.mean(each)) for name, each in right.items() if each}


@torch.no_grad()
def _whiten(visual: Any, options: VisionOptions) -> None:
    """Begin with a patch embedding whose outputs are the decorrelated main patterns of patches."""
    patches = torch.cat([picture_batch(UNSEEN + 100 + k, options.batch, options.world).patches.flatten(0, 1) for k in range(3)])
    centred = patches - patches.mean(0)
    values, vectors = torch.linalg.eigh(centred.T @ centred / len(centred))
    kernel = visual.patch_embed.proj.weight
    rows = (vectors / (values.clamp_min(1e-6) + 1e-2).sqrt()).flip(1)[:, : len(kernel)].T
    noise = torch.randn(rows.shape, generator=torch.Generator().manual_seed(options.seed)) * rows.std() * 0.2
    kernel.copy_(torch.stack([rows / 2 + noise, rows / 2 - noise], 1).view(len(kernel), 2, 3, *kernel.shape[-2:]).transpose(1, 2))
