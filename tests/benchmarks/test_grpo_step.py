"""A GRPO step learns from rollouts of a judge that was taught, and the product opens what was trained."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.backends.support.random_model import VOCABULARY_SIZE, small_config
from tests.benchmarks import grpo_step
from tests.benchmarks.tools.random_models import build_on_device
from tests.benchmarks.tools.taught_judges import PAIRS, write_taught_judge
from tests.support.slow import slow
from vrthinker_core.backends.transformers_local import TransformersBackend
from vrthinker_core.training.rollouts import play
from vrthinker_core.types import Settings


@slow
def test_a_step_is_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    figures = grpo_step.on_processor(tmp_path, quick=True)
    assert 0 < figures["playing_s"] < figures["seconds_a_step"]
    assert figures["turns_of_what_was_trained"] > 0
    assert "learnt by heart" in capsys.readouterr().out


@slow
def test_a_judge_of_many_rows_in_bfloat16_plays_what_it_was_taught(tmp_path: Path) -> None:
    """What is done with the shape of the 7B on a GPU, at a small size."""
    config = small_config(
        grpo_step.SMALL_TEXT | {"vocab_size": 20 * VOCABULARY_SIZE}, {"out_hidden_size": 256}
    )
    judge = write_taught_judge(
        build_on_device(tmp_path, config, 56, "cpu", torch.bfloat16), learning_rate=2e-3
    )
    (rollout,) = play(
        [PAIRS.pair(0)], TransformersBackend.load(str(judge.folder)), Settings(window="all")
    )
    assert [len(turn.frames) for turn in rollout.run.turns] == [8, 16, 16]
    assert rollout.run.finished.verdict is not None
