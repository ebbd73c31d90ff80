"""Weight statistics, layer by layer: refuses weights that are mostly zeros, and layers that look as if they were never trained.

Only a sample of each tensor is read, from the mapped file, so that a checkpoint of any size takes a few seconds at most.
"""

import math
import re
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

import torch
from safetensors import safe_open

from vrthinker_core.errors import CheckpointError

MOST_ZEROS = 0.25  # Share of zeros of a weight; a trained one has next to none

MOST_RANDOM = 1.25
"""Spread of the rows' and of the columns' mean squares, as a multiple of what independent normal values have. Independent values
come to 1 with a small error, uniform ones to less; of the built-in judge's matrices none comes below 2.2, and at an equal structure
the number grows with the root of the size."""

SMALLEST_SIDE = 128
"""Rows and columns of the smallest matrix from which this can be told; of that size, one alone is too few."""

SAMPLED_ROWS, SAMPLED_COLUMNS = 256, 2048  # Evenly spaced over a tensor

_IN_LAYER = re.compile(r"(\.\d+\.).*")  # The end of a tensor's name, from its layer's number on


def check_statistics(files: Sequence[Path]) -> None:
    """Raises CheckpointError, which names file and tensor, for zeros in the place of weights and for a layer of random values."""
    spreads: dict[str, tuple[float, int, Path]] = {}
    for path in files:
        with safe_open(path, framework="pt") as file:
            for name in file.keys():  # noqa: SIM118 - no mapping
                sample = _sample(file.get_tensor(name))
                zeros = 1 - int(sample.count_nonzero()) / max(1, sample.numel())
                if zeros > MOST_ZEROS and not name.endswith("bias"):
                    raise CheckpointError(
                        f"{path.name} is damaged: {zeros:.0%} of {name} are zeros. Fetch it again."
                    )
                if (side := min(sample.shape)) >= SMALLEST_SIDE:
                    spreads[name] = _spread(sample), side, path
    for _, layer in groupby(
        sorted(spreads.items()), key=lambda entry: _IN_LAYER.sub(r"\1", entry[0])
    ):
        names, values = zip(*layer, strict=True)
        measured, sides, paths = zip(*values, strict=True)
        if max(measured) < MOST_RANDOM and sum(sides) > SMALLEST_SIDE:
            name, path = names[0], paths[0]
            cause = (
                f"{path.name} is damaged or was never trained: {name} and its layer look random."
            )
            raise CheckpointError(f"{cause} Fetch it again, or choose another judge.")


def _sample(tensor: torch.Tensor) -> torch.Tensor:
    """Evenly spaced rows and columns of a tensor, as a matrix in float32."""
    matrix = tensor.reshape(len(tensor), -1) if tensor.ndim else tensor.reshape(1, 1)
    rows, columns = (
        math.ceil(size / most) or 1
        for size, most in zip(matrix.shape, (SAMPLED_ROWS, SAMPLED_COLUMNS), strict=True)
    )
    return matrix[::rows, ::columns].float()


def _spread(matrix: torch.Tensor) -> float:
    """The larger of the two spreads of a matrix: see `MOST_RANDOM`."""
    squares = matrix.square()
    both = ((squares.mean(1 - along), matrix.shape[1 - along]) for along in (0, 1))
    return max(
        (means.std() / means.mean()).item() / math.sqrt(2 / averaged) for means, averaged in both
    )
