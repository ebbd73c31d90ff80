"""Processes that share one model train what one process does that holds it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
import torch
from accelerate.utils import parse_flag_from_env
from transformers import Qwen2_5_VLForConditionalGeneration

from tests.support.drawn_rollouts import DrawnPairs
from tests.support.slow import slow
from tests.training.trl.sharded_training import LAUNCHED, PAIRS, train
from tests.training.trl.support import random_judge, weights
from vrthinker_core import ScriptedBackend
from vrthinker_core.backends import NANO
from vrthinker_core.errors import BadInput, VideoError
from vrthinker_core.training import sharding
from vrthinker_core.training.config import changed_config, preset_config
from vrthinker_core.training.environment import FrameEnvironment
from vrthinker_core.training.grpo import BEYOND, PlayablePairs
from vrthinker_core.training.pipeline import TrainingData, train_stage
from vrthinker_core.training.rollouts import LabelledPair
from vrthinker_core.training.run_folder import Processes, RunFolder, TimeBudget, TrainedStage
from vrthinker_core.types import Frame, FrameRef, Settings


@pytest.fixture(scope="module", params=["a head of its own", "one matrix for both heads"])
def judge(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    own = request.param == "a head of its own"
    return random_judge(tmp_path_factory.mktemp("judge")) if own else NANO


@pytest.fixture(scope="module")
def alone(judge: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, torch.Tensor]:
    return weights(train(judge, tmp_path_factory.mktemp("alone"), accumulation=4))


@slow
def test_fsdp2_trains_the_same_weights(
    judge: Path, alone: dict[str, torch.Tensor], tmp_path: Path
) -> None:
    count = 2 if judge == NANO else 1  # Processes: one wraps the weights as more do
    launch = f"-m torch.distributed.run --standalone --nproc-per-node {count}".split()
    training = ("-m", "tests.training.trl.sharded_training", str(judge), str(tmp_path / "shared"))
    done = subprocess.run(
        [sys.executable, *launch, *training],
        env={**os.environ, **LAUNCHED, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    shared, before = weights(tmp_path / "shared" / "model"), weights(judge)
    assert shared.keys() == alone.keys() == before.keys()
    for name, value in alone.items():
        assert torch.equal(shared[name], before[name]) == torch.equal(value, before[name]), name
        # AdamW makes a whole step of the smallest gradient, whichever sign rounding gave it
        moved, expected = (each.float() - before[name].float() for each in (shared[name], value))
        assert (moved - expected).norm() <= 0.1 * expected.norm(), name
    assert not torch.equal(shared["model.embed_tokens.weight"], before["model.embed_tokens.weight"])


@pytest.mark.parametrize(
    ("stage", "launched", "changes", "said"),
    [
        ("grpo", {"FSDP_VERSION": "1"}, [], "FSDP2 alone"),
        ("cold-start", {"FSDP_VERSION": "1"}, [], "FSDP2 alone"),
        ("grpo", {}, ["grpo.trl.lora=8"], "launch with data_parallel.yaml"),
        ("grpo", {}, [], "set grpo.trl.vllm to colocate"),
        ("grpo", {}, ["grpo.pairs=3"], "choose a multiple of 2"),
    ],
)
def test_what_a_launch_cannot_do_is_one_sentence(
    stage: TrainedStage,
    launched: dict[str, str],
    changes: list[str],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in {**LAUNCHED, "WORLD_SIZE": "2", **launched}.items():
        monkeypatch.setenv(name, value)
    config, processes = changed_config(preset_config("nano"), changes), Processes(2, 1)
    data, folder = TrainingData("drawn", PAIRS), RunFolder(tmp_path, processes)
    with pytest.raises(BadInput, match=said):
        train_stage(stage, str(NANO), data, config, folder, TimeBudget())


def test_several_gpus_without_a_launcher_are_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LOCAL_RANK", raising=False)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)
    with pytest.raises(BadInput, match=r"One process sees 4 GPUs.*accelerate launch"):
        sharding.check_launch()
    monkeypatch.setenv("LOCAL_RANK", "0")
    sharding.check_launch()


def test_a_model_is_asked_as_ever_where_nothing_is_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    ask = Qwen2_5_VLForConditionalGeneration.get_output_embeddings
    with sharding.heads_in_root():
        assert Qwen2_5_VLForConditionalGeneration.get_output_embeddings is ask
    monkeypatch.setenv("ACCELERATE_USE_FSDP", "true")
    with sharding.heads_in_root(), sharding.weights_in_every_process():
        assert Qwen2_5_VLForConditionalGeneration.get_output_embeddings is not ask
        assert not parse_flag_from_env(sharding.EFFICIENT_LOADING)
    assert Qwen2_5_VLForConditionalGeneration.get_output_embeddings is ask
    assert sharding.EFFICIENT_LOADING not in os.environ


JUDGE = ScriptedBackend(["unused"], protocol="paired")
SETTINGS = Settings(window="all")


def unreadable(_: Sequence[FrameRef]) -> tuple[Frame, ...]:
    raise VideoError("second.mp4 is cut short.")


@dataclass
class Damaged:
    """Drawn pairs, of which some cannot be read."""

    numbers: set[int]
    size: None = None
    pairs: DrawnPairs = field(default_factory=lambda: DrawnPairs(2_000_000_000))

    def pair(self, number: int) -> LabelledPair:
        pair = self.pairs.pair(number)
        return replace(pair, source=unreadable, row=number) if number in self.numbers else pair


def test_another_pair_stands_in_for_all_samples_of_one_that_cannot_be_read() -> None:
    heard: list[str] = []
    pairs = PlayablePairs(Damaged({3, 3 + BEYOND}), JUDGE, SETTINGS, heard.append)
    played = [FrameEnvironment(pairs, JUDGE, SETTINGS) for _ in range(3)]
    opened = [environment.reset(number=3) for environment in played]
    assert opened[0] == opened[1] == opened[2]
    assert {environment.pair.prompt for environment in played} == {
        DrawnPairs(2_000_000_000).pair(3 + 2 * BEYOND).prompt
    }
    assert heard == [
        "A pair cannot be played and teaches nothing. Row 3: second.mp4 is cut short.",
        f"A pair cannot be played and teaches nothing. Row {3 + BEYOND}: second.mp4 is cut short.",
    ]
    assert pairs.pair(4).prompt == DrawnPairs(2_000_000_000).pair(4).prompt
    assert len(heard) == 2


def test_what_was_read_once_is_not_exchanged_within_a_group() -> None:
    damaged = Damaged(set())
    pairs = PlayablePairs(damaged, JUDGE, SETTINGS)
    pairs.pair(5)
    damaged.numbers.add(5)
    with pytest.raises(VideoError, match=r"Row 5: second\.mp4 is cut short"):
        pairs.pair(5)


def test_where_no_pair_can_be_read_training_ends_with_a_sentence() -> None:
    class Nothing(Damaged):
        def pair(self, number: int) -> LabelledPair:
            return replace(self.pairs.pair(number), source=unreadable)

    with pytest.raises(BadInput, match="None of 64 pairs can be played"):
        PlayablePairs(Nothing(set()), JUDGE, SETTINGS).pair(0)
