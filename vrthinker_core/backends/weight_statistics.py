"""Weight statistics that reveal zeroed and untrained layers.

Only a sample of each tensor is read, from the mapped file, so a checkpoint of any size takes a few
seconds at most.
"""

import math
import re
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

import torch
from safetensors import safe_open

from vrthinker_core.errors import CheckpointError

MOST_ZEROS = 0.25  # Largest share of zeros of a weight; a trained weight has nearly none

MOST_RANDOM = 1.25
"""Largest spread of a random matrix: the spread of the mean squares of its rows or columns, as a
multiple of the spread for independent normal values. Independent values come to 1 with a small
error, uniform values to less. The built-in judge's matrices have at least 2.2. For an equal
structure the number grows with the root of the size.
"""

SMALLEST_SIDE = 128
"""Rows and columns of the smallest matrix that the test can judge. A single matrix of this size is
too little.
"""

SAMPLED_ROWS, SAMPLED_COLUMNS = 256, 2048  # Evenly spaced over a tensor

_IN_LAYER = re.compile(r"(\.\d+\.).*")  # The end of a tensor's name, from the layer number on


def check_statistics(files: Sequence[Path]) -> None:
    """Check weights in files for zeros and layers of random values.

    Raises `CheckpointError`, which names file and tensor.
    """
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
    """Return evenly spaced rows and columns as a float32 matrix."""
    matrix = tensor.reshape(len(tensor), -1) if tensor.ndim else tensor.reshape(1, 1)
    rows, columns = (
        math.ceil(size / most) or 1
        for size, most in zip(matrix.shape, (SAMPLED_ROWS, SAMPLED_COLUMNS), strict=True)
    )
    return matrix[::rows, ::columns].float()


def _spread(matrix: torch.Tensor) -> float:
    """Return the larger of the two spreads of a matrix: see `MOST_RANDOM`."""
    squares = matrix.square()
    both = ((squares.mean(1 - along), matrix.shape[1 - along]) for along in (0, 1))
    return max(
        (means.std() / means.mean()).item() / math.sqrt(2 / averaged) for means, averaged in both
    )
