"""Muon for the matrices of layers and AdamW for the rest, as one optimizer."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

from vrthinker_core.training.run.arithmetic import multiplies_bfloat16

LARGEST_SIDE = 512  # Of a matrix that Muon takes: its work grows with the square of the shorter side
RMS = 0.2  # Of a step at a learning rate of 1, as AdamW's (Liu 2025)


class Muon(torch.optim.Muon):
    """That of torch, for processors too that do not multiply bfloat16: its iterations are in what this one multiplies fast."""

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """Change the weights by their gradients; `closure` computes these and gives the loss."""
        if multiplies_bfloat16():
            return super().step(closure)  # type: ignore[no-untyped-call,no-any-return]
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for weight in group["params"]:
                if weight.grad is not None:
                    self._step_of(weight, weight.grad, group)
        return loss

    def _step_of(self, weight: Tensor, gradient: Tensor, group: dict[str, Any]) -> None:
        state, momentum = self.state[weight], group["momentum"]
        mean = state.setdefault("momentum_buffer", torch.zeros_like(weight)).lerp_(gradient, 1 - momentum)
        ahead = gradient.lerp(mean, momentum)
        weight.mul_(1 - group["lr"] * group["weight_decay"])
        near = orthogonal(ahead, group["ns_coefficients"], group["ns_steps"])
        weight.add_(near, alpha=-group["lr"] * RMS * max(weight.shape) ** 0.5)


def orthogonal(matrix: Tensor, coefficients: tuple[float, float, float], iterations: int) -> Tensor:
    """A matrix of the same singular vectors and singular values near 1, by Newton and Schulz's iteration (Jordan 2024)."""
    a, b, c = coefficients
    wide = matrix if matrix.shape[0] <= matrix.shape[1] else matrix.T
    near: Tensor = wide / wide.norm().clamp(min=1e-7)
    for _ in range(iterations):
        gram = near @ near.T
        near = a * near + torch.addmm(gram, gram, gram, beta=b, alpha=c) @ near
    return near if wide is matrix else near.T


class MuonWithAdamW(torch.optim.Optimizer):
    """Muon (Jordan 2024) for the matrices of layers; AdamW for embeddings, biases, norms and what is large on both sides.

    Both have the same learning rate: Muon's steps are scaled to the size of AdamW's (Liu 2025). Only Muon's weights decay.
    """

    def __init__(self, named: Iterable[tuple[str, Tensor]], rate: float, decay: float, beta2: float = 0.98) -> None:
        """Over the named weights of a module that learn; [rows, columns] makes a matrix, and "embed" in its name an embedding."""
        matrices, rest = _divided(named)
        muon = Muon(matrices, lr=rate, weight_decay=decay, momentum=0.95, adjust_lr_fn="match_rms_adamw")
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
            part.step()
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
