"""Checkpoints of our own training loops: one file each, whole or not there, from which a killed run goes on to the same weights."""

from __future__ import annotations

import errno
import io
import pickle
import random
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from vrthinker_core.errors import BadInput
from vrthinker_core.files.atomic_file import write_atomically

KEPT = 2  # The newest checkpoints that stay: should the last one be damaged, the run goes on from the one before

_NAME = re.compile(r"step-(\d{8})\.pt")


@dataclass(slots=True)
class LoopState:
    """Where a training loop stands: what it changes, and how far it has come."""

    model: torch.nn.Module  # Of which the weights with a gradient are kept
    optimizer: torch.optim.Optimizer
    step: int = 0  # Optimizer steps done
    position: int = 0  # Number of the pair that comes next


@dataclass(slots=True)
class CheckpointFiles:
    """The checkpoints in one folder."""

    folder: Path
    minutes: float  # Between two of them
    _saved_at: float = field(default_factory=time.monotonic)

    @property
    def due(self) -> bool:
        """It is time for another one."""
        return time.monotonic() - self._saved_at >= self.minutes * 60

    def save(self, at: LoopState) -> None:
        """Keep where the run stands; of the older ones the newest stays. Raises BadInput where the disk is full."""
        buffer = io.BytesIO()
        torch.save(_state(at), buffer)
        path = self.folder / f"step-{at.step:08}.pt"
        try:
            write_atomically(path, buffer.getvalue())
        except OSError as error:
            raise BadInput(self._unwritten(at.step, error)) from None
        self._saved_at = time.monotonic()
        for old in self._newest_first()[KEPT:]:
            old.unlink(missing_ok=True)

    def restore(self, at: LoopState) -> bool:
        """Go back to the newest checkpoint that can be read; False where there is none. Raises BadInput where none can be read."""
        paths = self._newest_first()
        for path in paths:
            try:
                state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
                _apply(state, at)
            except (OSError, RuntimeError, EOFError, ValueError, KeyError, pickle.UnpicklingError):
                continue
            return True
        if paths:
            raise BadInput(f"No checkpoint in {self.folder} can be read: begin again in a new folder with --out.")
        return False

    def _newest_first(self) -> list[Path]:
        return sorted((path for path in self.folder.iterdir() if _NAME.fullmatch(path.name)), reverse=True)

    def _unwritten(self, step: int, error: OSError) -> str:
        older = [match[1] for path in self._newest_first() if (match := _NAME.fullmatch(path.name))]
        last = f"that of step {int(older[0])} is there: make room and go on with --resume" if older else "make room and begin again"
        return f"The checkpoint of step {step} cannot be written to {self.folder}, {why_unwritten(error)}; {last}."


def why_unwritten(error: OSError) -> str:
    """What to say of a file that could not be written."""
    return "the disk is full" if error.errno in (errno.ENOSPC, errno.EDQUOT) else error.strerror or type(error).__name__


def _state(at: LoopState) -> dict[str, Any]:
    numpy_state: Any = np.random.get_state()
    return {
        "step": at.step,
        "position": at.position,
        "model": {name: weight.detach() for name, weight in at.model.named_parameters() if weight.requires_grad},
        "optimizer": at.optimizer.state_dict(),
        "torch": torch.get_rng_state(),
        "numpy": (str(numpy_state[0]), torch.from_numpy(numpy_state[1].astype(np.int64)), *map(float, numpy_state[2:])),
        "python": random.getstate(),
    }


def _apply(state: Mapping[str, Any], at: LoopState) -> None:
    weights = {name: weight for name, weight in at.model.named_parameters() if weight.requires_grad}
    if state["model"].keys() != weights.keys():
        raise ValueError("the checkpoint holds other weights")
    with torch.no_grad():
        for name, weight in weights.items():
            weight.copy_(state["model"][name])
    at.optimizer.load_state_dict(state["optimizer"])
    at.step, at.position = int(state["step"]), int(state["position"])
    torch.set_rng_state(state["torch"])
    name, keys, place, gauss, cached = state["numpy"]
    np.random.set_state((name, keys.numpy().astype(np.uint32), int(place), int(gauss), cached))
    random.setstate(state["python"])
