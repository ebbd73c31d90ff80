"""Two optimizers as one: what each of them would do alone, through schedulers, checkpoints and transformers' trainer."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from vrthinker_core.training.run import muon
from vrthinker_core.training.run.muon import LARGEST_SIDE, Muon, MuonWithAdamW


class Small(nn.Module):
    """One of each kind of weight."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embed_tokens = nn.Embedding(7, 4)
        self.layer = nn.Linear(4, 6)
        self.large = nn.Parameter(torch.randn(LARGEST_SIDE + 1, LARGEST_SIDE + 1) / 100)
        self.frozen = nn.Parameter(torch.randn(3, 3), requires_grad=False)

    def loss(self, seed: int) -> torch.Tensor:
        """Of some numbers that the seed decides."""
        numbers = torch.randint(7, (5,), generator=torch.Generator().manual_seed(seed))
        return self.layer(self.embed_tokens(numbers)).square().mean() + (self.large @ self.large.T).square().mean()


def train(model: Small, optimizer: torch.optim.Optimizer, seeds: range) -> None:
    for seed in seeds:
        optimizer.zero_grad()
        model.loss(seed).backward()  # type: ignore[no-untyped-call]
        optimizer.step()


def test_each_weight_learns_as_with_its_own_optimizer_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(muon, "multiplies_bfloat16", lambda: True)  # As torch's Muon does whatever the processor
    ours, alone = Small(), Small()
    train(ours, MuonWithAdamW(ours.named_parameters(), 1e-2, 0.1), range(3))
    parts = (
        torch.optim.Muon([alone.layer.weight], lr=1e-2, weight_decay=0.1, momentum=0.95, adjust_lr_fn="match_rms_adamw"),
        torch.optim.AdamW([alone.embed_tokens.weight, alone.layer.bias, alone.large], lr=1e-2, betas=(0.9, 0.98), weight_decay=0),
    )
    for seed in range(3):
        alone.zero_grad()
        alone.loss(seed).backward()  # type: ignore[no-untyped-call]
        for part in parts:
            part.step()
    before = Small().state_dict()
    for name, weight in ours.state_dict().items():
        assert torch.equal(weight, alone.state_dict()[name])
        assert torch.equal(weight, before[name]) == (name == "frozen")


@pytest.mark.parametrize("bfloat16", [True, False], ids=["bfloat16", "float32"])
@pytest.mark.parametrize("shape", [(192, 512), (512, 192), (192, 192)], ids=str)
def test_steps_of_muon_are_those_of_torch_whatever_the_processor_multiplies(
    monkeypatch: pytest.MonkeyPatch, shape: tuple[int, int], bfloat16: bool
) -> None:
    monkeypatch.setattr(muon, "multiplies_bfloat16", lambda: bfloat16)
    numbers = torch.Generator().manual_seed(0)
    begun = torch.randn(shape, generator=numbers)
    ours, alone = (nn.Parameter(begun.clone()) for _ in range(2))
    settings = {"lr": 1e-2, "weight_decay": 0.1, "momentum": 0.95, "adjust_lr_fn": "match_rms_adamw"}
    optimizers = Muon([ours], **settings), torch.optim.Muon([alone], **settings)
    for _ in range(3):
        gradient = torch.randn(shape, generator=numbers)
        for weight, optimizer in zip((ours, alone), optimizers, strict=True):
            weight.grad = gradient.clone()
            optimizer.step()
    torch.testing.assert_close(ours - begun, alone - begun, atol=2e-3, rtol=0)


def test_a_loaded_state_goes_on_bit_for_bit() -> None:
    whole, first = Small(), Small()
    train(whole, MuonWithAdamW(whole.named_parameters(), 1e-2, 0.1), range(4))
    begun = MuonWithAdamW(first.named_parameters(), 1e-2, 0.1)
    train(first, begun, range(2))
    second = Small()
    second.load_state_dict(first.state_dict())
    resumed = MuonWithAdamW(second.named_parameters(), 5.0, 0.1)
    resumed.load_state_dict(begun.state_dict())
    assert {group["lr"] for group in resumed.param_groups} == {1e-2}
    train(second, resumed, range(2, 4))
    assert all(torch.equal(weight, whole.state_dict()[name]) for name, weight in second.state_dict().items())


def test_a_schedule_changes_the_rate_of_both() -> None:
    model = Small()
    optimizer = MuonWithAdamW(model.named_parameters(), 1e-2, 0.0)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: float(step == 0))
    train(model, optimizer, range(1))
    schedule.step()
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    train(model, optimizer, range(1, 3))
    assert all(torch.equal(weight, before[name]) for name, weight in model.state_dict().items())
