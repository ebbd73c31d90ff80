"""The stage `base` in a run's folder: what is kept of it, and that nothing goes on from a base that reads too little."""

from __future__ import annotations

from pathlib import Path

import pytest

from vrthinker_core.errors import BadInput
from vrthinker_core.training.base.train_base import TrainedBase
from vrthinker_core.training.run.config import BaseConfig
from vrthinker_core.training.stages.base import check_parts, world_of


def test_a_part_that_reads_too_little_is_named_with_its_figures() -> None:
    trained = TrainedBase(Path("model"), {"eyes": {"shape": 0.4321}, "words": {}}, {"eyes": ["shape"]})
    with pytest.raises(BadInput, match="eyes of the base read too little") as refused:
        check_parts(trained)
    assert "shape 0.43" in str(refused.value)


def test_a_base_that_reads_enough_goes_on() -> None:
    check_parts(TrainedBase(Path("model"), {"eyes": {"shape": 0.99}}, {}))


def test_photographs_are_those_of_the_folder_that_is_named(tmp_path: Path) -> None:
    assert world_of(BaseConfig(photos=str(tmp_path))).photos == tmp_path
    assert world_of(BaseConfig()).photos is None
    assert world_of(BaseConfig()).second
