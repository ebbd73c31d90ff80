"""Muon for the matrices of layers and AdamW for the rest, as one optimizer."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

LARGEST_SIDE = 512  # Of a matrix that Muon takes: its work grows with the square of the shorter side


class MuonWithAdamW(torch.optim.Optimizer):
    """Muon (Jordan 2024) for the matrices of layers; AdamW for embeddings, biases, norms and what is large on both sides.

    Both have the same learning rate: Muon's steps are scaled to the size of AdamW's (Liu 2025). Only Muon's weights decay.
    """

    def __init__(self, named: Iterable[tuple[str, Tensor]], rate: float, decay: float, beta2: float = 0.98) -> None:
        """Over the named weights of a module that learn; [rows, columns] makes a matrix, and "embed" in its name an embedding."""
        matrices, rest = _divided(named)
        muon = torch.optim.Muon(matrices, lr=rate, weight_decay=decay, momentum=0.95, adjust_lr_fn="match_rms_adamw")
        self._parts = (muon, torch.optim.AdamW(rest, lr=rate, betas=(0.9, beta2), weight_decay=0.0))
        super().__init__(self._groups(), {})

    def _groups(self) -> list[dict[str, Any]]:
        return [group for part in self._parts for group in part.param_groups]

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """Change the weights by their gradients."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for part in self._parts:
            part.step()  # type: ignore[no-untyped-call]
        return loss

    def state_dict(self) -> dict[str, Any]:
        """That of both parts."""
        return {"parts": [part.state_dict() for part in self._parts]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from what `state_dict` gave. The learning rates are those of then, too."""
        for part, saved in zip(self._parts, state_dict["parts"], strict=True):
            part.load_state_dict(saved)
        self.param_groups = self._groups()  # The parts have made new ones


def _divided(named: Iterable[tuple[str, Tensor]]) -> tuple[list[Tensor], list[Tensor]]:
    matrices: list[Tensor] = []
    rest: list[Tensor] = []
    for name, weight in named:
        if weight.requires_grad:
            is_matrix = weight.ndim == 2 and min(weight.shape) <= LARGEST_SIDE and "embed" not in name and "lm_head" not in name
            (matrices if is_matrix else rest).append(weight)
    return matrices, rest
