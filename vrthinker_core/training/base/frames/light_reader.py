"""How the light of frames is read from what the language model sees of them, so that what is written of a frame stands in it."""

from collections.abc import Callable, Sequence

import numpy as np
import torch

from vrthinker_core.training.base.frames.frame_code import Places, read_light
from vrthinker_core.training.drawn_teacher.evidence import LightReader, Shot

UNSTEADY = 0.007  # By which the same light is written otherwise the next time, as a share of the picture

Features = Callable[[Sequence[Shot]], torch.Tensor]
"""Of these frames, [frames, tokens, hidden]."""


def light_reader(features: Features, directions: torch.Tensor, rng: np.random.Generator | None = None) -> LightReader:
    """Reads the frame code along its `directions` [SIZE, hidden]; with `rng` as unsteadily as a judge does.

    A judge that learns from steady readings alone takes its own, of two frames that show the same, for motion.
    """

    def read(shots: Sequence[Shot]) -> Sequence[Places]:
        lights = read_light((features(shots).mean(1) @ directions.T).numpy())
        return lights if rng is None else [_unsteady(light, rng) for light in lights]

    return read


def _unsteady(light: Places, rng: np.random.Generator) -> Places:
    off = rng.normal(0, UNSTEADY, (len(light), 2)).tolist()
    return tuple((right + more, down + lower) for (right, down), (more, lower) in zip(light, off, strict=True))
