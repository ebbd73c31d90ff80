"""A checkpoint without checksums of its own whose weights are zeros or noise is refused: the sentence names file and tensor."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from tests.backends.checkpoint.test_checkpoint import refused
from tests.benchmarks.tools.random_models import random_checkpoint
from vrthinker_core.backends import NANO
from vrthinker_core.backends.checkpoint_files import MARKER
from vrthinker_core.backends.transformers_local import TransformersBackend

SHARDS = sorted(path.name for path in NANO.glob("*.safetensors"))
Change = Callable[[str, torch.Tensor], torch.Tensor]


@pytest.fixture
def judge(tmp_path: Path) -> Path:
    """The built-in judge without its checksums."""
    folder = shutil.copytree(NANO, tmp_path / "judge")
    marker = json.loads((folder / MARKER).read_text())
    del marker["sha256"]
    (folder / MARKER).write_text(json.dumps(marker))
    return folder


def tensors_of(path: Path) -> list[str]:
    with safe_open(path, framework="numpy") as file:
        return list(file.keys())


def rewrite(folder: Path, names: list[str], change: Change) -> None:
    """Change every tensor of these files."""
    for name in names:
        weights = {
            tensor: change(tensor, weight) for tensor, weight in load_file(folder / name).items()
        }
        save_file(weights, folder / name, metadata={"format": "pt"})


def test_the_judge_opens_without_its_checksums(judge: Path) -> None:
    assert (
        TransformersBackend.load(str(judge)).protocols
        == TransformersBackend.load(str(NANO)).protocols
    )


def test_random_weights_whose_rows_differ_as_after_training_open(tmp_path: Path) -> None:
    """The models that the benchmarks measure with."""
    assert random_checkpoint(tmp_path, quick=True, side=56).marker.protocols == ()


@pytest.mark.parametrize("half", [0, 1])
@pytest.mark.parametrize("name", SHARDS)
def test_half_of_a_shard_of_zeros_is_refused(judge: Path, name: str, half: int) -> None:
    content = bytearray((judge / name).read_bytes())
    start = 8 + int.from_bytes(content[:8], "little")
    middle = (start + len(content)) // 2
    first, last = ((start, middle), (middle, len(content)))[half]
    content[first:last] = bytes(last - first)
    (judge / name).write_bytes(content)
    sentence = refused(judge)
    assert sentence.startswith(f"{name} is damaged: ")
    assert any(f" of {tensor} are zeros." in sentence for tensor in tensors_of(judge / name)), (
        sentence
    )


def noise(
    scale: Callable[[torch.Tensor], float], draw: Callable[[torch.Tensor], torch.Tensor]
) -> Change:
    generator = torch.manual_seed(0)

    def change(_: str, weight: torch.Tensor) -> torch.Tensor:
        assert generator is torch.default_generator
        return (
            (draw(weight.float()) * scale(weight)).to(weight.dtype) if weight.ndim > 1 else weight
        )

    return change


NOISE = {
    "normal, 0.02": noise(lambda _: 0.02, torch.randn_like),
    "normal, each tensor's own deviation": noise(
        lambda weight: weight.float().std().item(), torch.randn_like
    ),
    "uniform": noise(
        lambda weight: weight[0].numel() ** -0.5, lambda weight: 2 * torch.rand_like(weight) - 1
    ),
    "one value": noise(lambda _: 0.02, torch.ones_like),
}


@pytest.mark.parametrize("change", NOISE.values(), ids=NOISE)
@pytest.mark.parametrize("names", [*([name] for name in SHARDS), SHARDS], ids=[*SHARDS, "all"])
def test_a_shard_of_random_values_is_refused(judge: Path, names: list[str], change: Change) -> None:
    rewrite(judge, names, change)
    sentence = refused(judge)
    file, _, rest = sentence.partition(" is damaged or was never trained: ")
    assert file in names
    assert rest.split()[0] in tensors_of(judge / file)


def test_one_layer_of_random_values_is_refused(judge: Path) -> None:
    random = NOISE["normal, each tensor's own deviation"]
    rewrite(
        judge, SHARDS, lambda name, weight: random(name, weight) if ".layers.2." in name else weight
    )
    assert ": model.layers.2.mlp.down_proj.weight and its layer look random." in refused(judge)


def test_weights_that_are_all_zero_are_refused_however_small(copy: Path) -> None:
    rewrite(copy, ["model.safetensors"], lambda _, weight: torch.zeros_like(weight))
    assert refused(copy).startswith("model.safetensors is damaged: 100% of ")


def test_biases_of_zeros_are_no_damage(judge: Path) -> None:
    rewrite(
        judge,
        SHARDS,
        lambda name, weight: torch.zeros_like(weight) if name.endswith("bias") else weight,
    )
    assert TransformersBackend.load(str(judge))
