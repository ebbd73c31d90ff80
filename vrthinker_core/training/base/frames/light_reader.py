"""How the light of frames is read from what the language model sees of them, so that what is written of a frame stands in it."""

from collections.abc import Callable, Sequence

import torch

from vrthinker_core.training.drawn_teacher.evidence import LightReader, PairFrame
from vrthinker_core.training.frame_facts.frame_code import Places, read_light

Features = Callable[[Sequence[PairFrame]], torch.Tensor]
"""Of these frames, [frames, tokens, hidden]."""


def light_reader(features: Features, directions: torch.Tensor) -> LightReader:
    """Reads the frame code along its `directions` [SIZE, hidden]."""

    def read(frames: Sequence[PairFrame]) -> Sequence[Places]:
        return read_light((features(frames).mean(1) @ directions.T).numpy())

    return read
