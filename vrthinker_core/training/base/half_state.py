"""One half of the model while it is trained: its weights, their optimizers, and how far it has come."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

import torch

from vrthinker_core.atomic_file import atomic_path
from vrthinker_core.training.base.half_training import Progress

LARGEST_SIDE = 512  # Of a matrix that Muon takes: its work grows with the square of the shorter side


class RateOptions(Protocol):
    """How fast one half learns."""

    @property
    def rate(self) -> float:
        """The highest learning rate."""

    @property
    def warm_up(self) -> int:
        """Steps in which the rate rises to it."""

    @property
    def decay(self) -> float:
        """Weight decay."""


@dataclass(slots=True)
class HalfState:
    """What a checkpoint of one half keeps."""

    half: Any  # A module with float32 weights
    optimizers: Sequence[torch.optim.Optimizer]
    progress: Progress = field(default_factory=Progress)

    @classmethod
    def opened(cls, half: Any, options: RateOptions, checkpoint: Path) -> HalfState:
        """Go on from a checkpoint where there is one, else begin."""
        state = cls(half, optimizers(half, options))
        if checkpoint.is_file():
            state._load(checkpoint)
        return state

    def save(self, path: Path) -> None:
        """Write it, whole or not at all."""
        content = {"half": self.half.state_dict()} | asdict(self.progress)
        with atomic_path(path) as part:
            torch.save(content | {"optimizers": [each.state_dict() for each in self.optimizers]}, part)

    def _load(self, path: Path) -> None:
        content = torch.load(path, weights_only=True)
        self.half.load_state_dict(content["half"])
        for optimizer, saved in zip(self.optimizers, content["optimizers"], strict=True):
            optimizer.load_state_dict(saved)
        self.progress = Progress(content["step"], content["seconds"], content["passed"])

    def step(self, options: RateOptions, share: float, max_grad_norm: float) -> None:
        """Change the weights by their gradients, at a share of the highest rate, and forget the gradients."""
        torch.nn.utils.clip_grad_norm_(self.half.parameters(), max_grad_norm)
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = options.rate * share * min(1.0, (self.progress.step + 1) / options.warm_up)
            optimizer.step()
            optimizer.zero_grad()


def trained_weights(checkpoint: Path) -> dict[str, torch.Tensor]:
    """The weights that a checkpoint keeps."""
    weights: dict[str, torch.Tensor] = torch.load(checkpoint, weights_only=True)["half"]
    return weights


def optimizers(half: Any, options: RateOptions) -> list[torch.optim.Optimizer]:
    """Muon for the matrices of layers, AdamW for the rest: embeddings, biases, norms, and matrices that are large on both sides."""
    named = list(half.named_parameters())
    matrices = [weight for name, weight in named if weight.ndim == 2 and min(weight.shape) <= LARGEST_SIDE and "embed" not in name]
    chosen = set(map(id, matrices))
    rest = [weight for _, weight in named if id(weight) not in chosen]
    muon = torch.optim.Muon(matrices, lr=options.rate, weight_decay=options.decay, momentum=0.95, adjust_lr_fn="match_rms_adamw")
    return [muon, torch.optim.AdamW(rest, lr=options.rate, betas=(0.9, 0.98), weight_decay=0.0)]
