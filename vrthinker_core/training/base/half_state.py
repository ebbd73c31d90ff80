"""One half of the model while it is trained: its weights, their optimizer, and how far it has come."""

from __future__ import annotations

import errno
import io
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from vrthinker_core.errors import BadInput
from vrthinker_core.files.atomic_file import write_atomically
from vrthinker_core.training.base.half_training import HalfOptions, Progress
from vrthinker_core.training.run.muon import MuonWithAdamW


@dataclass(slots=True)
class HalfState:
    """What a checkpoint of one half keeps."""

    half: Any  # A module with float32 weights
    optimizer: MuonWithAdamW
    progress: Progress = field(default_factory=Progress)

    @classmethod
    def opened(cls, half: Any, options: HalfOptions, checkpoint: Path) -> HalfState:
        """Go on from a checkpoint where there is one, else begin."""
        state = cls(half, MuonWithAdamW(half.named_parameters(), options.rate, options.decay))
        if checkpoint.is_file():
            state._load(checkpoint)
        return state

    def save(self, path: Path) -> None:
        """Write it, whole or not at all. Raises BadInput where the disk is full."""
        content = {"half": self.half.state_dict(), "optimizer": self.optimizer.state_dict()}
        buffer = io.BytesIO()  # torch itself raises an error of its own where a file cannot be written
        torch.save(content | asdict(self.progress), buffer)
        try:
            write_atomically(path, buffer.getvalue())
        except OSError as error:
            reason = "the disk is full" if error.errno == errno.ENOSPC else error.strerror
            raise BadInput(f"{path} cannot be written, {reason}: make room and go on with --resume, from the one before.") from None

    def _load(self, path: Path) -> None:
        content = torch.load(path, weights_only=True)
        self.half.load_state_dict(content["half"])
        self.optimizer.load_state_dict(content["optimizer"])
        self.progress = Progress(content["step"], content["seconds"], content["passed"])

    def step(self, options: HalfOptions, share: float, max_grad_norm: float) -> None:
        """Change the weights by their gradients, at a share of the highest rate, and forget the gradients."""
        torch.nn.utils.clip_grad_norm_(self.half.parameters(), max_grad_norm)
        for group in self.optimizer.param_groups:
            group["lr"] = options.rate * share * min(1.0, (self.progress.step + 1) / options.warm_up)
        self.optimizer.step()
        self.optimizer.zero_grad()


def trained_weights(checkpoint: Path) -> dict[str, torch.Tensor]:
    """The weights that a checkpoint keeps."""
    weights: dict[str, torch.Tensor] = torch.load(checkpoint, weights_only=True)["half"]
    return weights
