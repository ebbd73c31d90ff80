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
from vrthinker_core.backends import NANO
from vrthinker_core.backends.checkpoint_files import MARKER
from vrthinker_core.backends.transformers_local import TransformersBackend

SHARDS = sorted(path.name for path in NANO.glob("*.safetensors"))
Draw = Callable[[torch.Tensor], torch.Tensor]


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


def rewrite(folder: Path, names: list[str], draw: Draw, only: str = "") -> None:
    """Draw anew every matrix of these files whose name holds `only`."""
    torch.manual_seed(0)
    for name in names:
        weights = {
            tensor: draw(weight).to(weight.dtype) if weight.ndim > 1 and only in tensor else weight
            for tensor, weight in load_file(folder / name).items()
        }
        save_file(weights, folder / name, metadata={"format": "pt"})


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
    assert any(f" of {tensor} are zeros." in sentence for tensor in tensors_of(judge / name))


def like_its_own(weight: torch.Tensor) -> torch.Tensor:
    return torch.randn(weight.shape) * weight.float().std()


NOISE: dict[str, Draw] = {
    "normal, 0.02": lambda weight: torch.randn(weight.shape) * 0.02,
    "normal, each tensor's own deviation": like_its_own,
    "uniform": lambda weight: (2 * torch.rand(weight.shape) - 1) * weight[0].numel() ** -0.5,
    "one value": lambda weight: torch.full(weight.shape, 0.02),
}


@pytest.mark.parametrize(
    ("draw", "names"),
    [
        *((draw, SHARDS[:1]) for draw in NOISE.values()),
        (like_its_own, SHARDS[1:]),
        (like_its_own, SHARDS),
    ],
    ids=[*NOISE, "the other shard", "all shards"],
)
def test_a_shard_of_random_values_is_refused(judge: Path, names: list[str], draw: Draw) -> None:
    rewrite(judge, names, draw)
    file, _, rest = refused(judge).partition(" is damaged or was never trained: ")
    assert file in names
    assert rest.split()[0] in tensors_of(judge / file)


def test_one_layer_of_random_values_is_refused(judge: Path) -> None:
    rewrite(judge, SHARDS, like_its_own, only=".layers.2.")
    assert ": model.layers.2.mlp.down_proj.weight and its layer look random." in refused(judge)


def test_weights_that_are_all_zero_are_refused_however_small(copy: Path) -> None:
    rewrite(copy, ["model.safetensors"], torch.zeros_like)
    assert refused(copy).startswith("model.safetensors is damaged: 100% of ")


def test_the_judge_opens_without_its_checksums_even_with_biases_of_zeros(judge: Path) -> None:
    assert TransformersBackend.load(str(judge)).protocols == ("paired", "concat")
    for name in SHARDS:
        weights = load_file(judge / name)
        for tensor in weights:
            if tensor.endswith("bias"):
                weights[tensor].zero_()
        save_file(weights, judge / name, metadata={"format": "pt"})
    assert TransformersBackend.load(str(judge))
