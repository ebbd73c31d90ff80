"""Processes that train together: the work is shared, and the outcome is that of one, with shared weights, too."""

from __future__ import annotations

import os
import re
import socket
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from accelerate.state import AcceleratorState, DistributedType, PartialState
from accelerate.utils import parse_flag_from_env
from transformers import Qwen2_5_VLForConditionalGeneration

from tests.support.drawn_rollouts import DrawnPairs, answer, look, scripted_rollout
from tests.support.forks import TRAINING
from tests.support.slow import slow
from tests.test_cli import call
from tests.training.random_judges import random_judge, weights
from vrthinker_core.backends.checkpoint import open_checkpoint
from vrthinker_core.backends.judge_name import NANO
from vrthinker_core.backends.transformers_local import TransformersBackend
from vrthinker_core.errors import BadInput
from vrthinker_core.training import sharding
from vrthinker_core.training.config import SftConfig, changed_config, preset_config
from vrthinker_core.training.filters import read_outcomes
from vrthinker_core.training.pair_set import PairSet
from vrthinker_core.training.run_folder import (
    Processes,
    RunFolder,
    StageRun,
    TimeBudget,
    TrainedStage,
)
from vrthinker_core.training.sft import token_rows, train_sft
from vrthinker_core.training.stages import TrainingData, train_stage

FEW = (
    "settings.max_turns=1 rejection.pairs=3 rejection.samples=1 rejection.temperature=0.7 "
    "rejection.num_train_epochs=1 rejection.per_device_train_batch_size=1"
)
START = ("train", "rejection", "--model", "nano", "--data", "drawn:3")
START += (*(f"--set={each}" for each in FEW.split()), "--out")


def in_processes(count: int, train: Callable[..., None], *arguments: object) -> None:
    """Train in so many processes, as a launcher would start them."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    told = {"WORLD_SIZE": count, "LOCAL_WORLD_SIZE": count, "ACCELERATE_USE_CPU": "true"}
    told |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    started = []
    for number in range(count):
        ranks = {name: str(value) for name, value in told.items()}
        ranks |= dict.fromkeys(("RANK", "LOCAL_RANK"), str(number))
        started.append(TRAINING.start(train, ranks, *arguments))
    for process in started:
        process.join()
    assert [process.exitcode for process in started] == [0] * count


def take_part(launched: dict[str, str], out: Path) -> None:
    os.environ.update(launched)
    status, *said = call(*START, out)
    out.with_name(f"said-{launched['RANK']}").write_text("".join(said))
    sys.exit(status)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A folder that two processes trained in, and what they said."""
    out = tmp_path_factory.mktemp("two") / "run"
    in_processes(2, take_part, out)
    return out, "".join(out.with_name(f"said-{number}").read_text() for number in (0, 1))


def test_each_process_plays_its_share_of_the_pairs(shared: tuple[Path, str]) -> None:
    out, said = shared
    first, second = read_outcomes(out / "samples"), read_outcomes(out / "samples-1")
    assert {outcome.pair for outcome in first} == {0, 2}
    assert {outcome.pair for outcome in second} == {1}
    assert len(first) + len(second) == 3
    assert "of 3 runs kept, of " in said
    assert said.count("Trained: ") == 1
    assert open_checkpoint(str(out / "checkpoint")).folder == out / "checkpoint"


@slow
def test_one_process_has_the_same_outcomes(shared: tuple[Path, str], tmp_path: Path) -> None:
    out, said = shared
    alone = "".join(call(*START, tmp_path / "run")[1:])
    both = [*read_outcomes(out / "samples"), *read_outcomes(out / "samples-1")]
    both.sort(key=lambda each: (each.pair, each.sample))
    assert both == read_outcomes(tmp_path / "run" / "samples")
    kept = re.findall(r"^.*runs kept.*$|^.*chosen to learn.*$", said, re.M)
    assert kept
    assert all(line in alone for line in kept)


LAUNCHED = {
    "ACCELERATE_USE_FSDP": "true",
    "FSDP_VERSION": "2",
    "FSDP_AUTO_WRAP_POLICY": "TRANSFORMER_BASED_WRAP",
    "FSDP_TRANSFORMER_CLS_TO_WRAP": "Qwen2_5_VLDecoderLayer,Qwen2_5_VLVisionBlock",
    "FSDP_STATE_DICT_TYPE": "FULL_STATE_DICT",
    "FSDP_RESHARD_AFTER_FORWARD": "true",
    "FSDP_CPU_RAM_EFFICIENT_LOADING": "true",
}
"""What `accelerate launch` makes of `fsdp2.yaml` for the processes it starts, ."""


def train(judge: Path, out: Path, accumulation: int) -> Path:
    """Two steps over four rollouts each, which start with weights of `judge`."""
    loaded = TransformersBackend.load(str(judge)).loaded
    pairs = map(DrawnPairs(2_000_000_000).pair, range(4))
    rollouts = [scripted_rollout(pair, look(3), answer(pair.truth)) for pair in pairs]
    rows = [row for rollout in rollouts for row in token_rows(rollout, loaded)]
    sft = SftConfig(
        learning_rate=1e-3,
        warmup_steps=0.0,
        gradient_accumulation_steps=accumulation,
        num_train_epochs=2,
        lr_scheduler_type="constant_with_warmup",
        bf16=False,
    )
    config = replace(preset_config("7b"), gradient_checkpointing=False)
    return train_sft(rows, judge, sft, config, out)


def shard_on_processors() -> None:
    """accelerate spreads models over GPUs alone, though FSDP2 itself can do so on processors."""
    stock = AcceleratorState.__init__

    def sharding(state: AcceleratorState, *arguments: Any, **options: Any) -> None:
        stock(state, *arguments, **options)
        if plugin := options.get("fsdp_plugin"):
            for shared in (AcceleratorState._shared_state, PartialState._shared_state):
                shared["distributed_type"] = DistributedType.FSDP
            state._shared_state["fsdp_plugin"] = plugin

    AcceleratorState.__init__ = sharding  # type: ignore[method-assign]


def train_sharded(launched: dict[str, str], judge: Path, out: Path) -> None:
    os.environ.update(launched, **LAUNCHED)
    shard_on_processors()
    train(judge, out, accumulation=4 // int(launched["WORLD_SIZE"]))


@slow
@pytest.mark.parametrize("own", [True, False], ids=["a head of its own", "one matrix for both"])
def test_fsdp2_trains_the_same_weights(own: bool, tmp_path: Path) -> None:
    judge = random_judge(tmp_path / "judge") if own else NANO
    # One process wraps the weights as more do
    in_processes(1 if own else 2, train_sharded, judge, tmp_path / "shared")
    shared, before = weights(tmp_path / "shared" / "model"), weights(judge)
    alone = weights(train(judge, tmp_path / "alone", accumulation=4))
    assert shared.keys() == alone.keys() == before.keys()
    for name, value in alone.items():
        assert torch.equal(shared[name], before[name]) == torch.equal(value, before[name]), name
        # AdamW makes a whole step of the smallest gradient, whichever sign rounding gave it
        moved, expected = (each.float() - before[name].float() for each in (shared[name], value))
        assert (moved - expected).norm() <= 0.1 * expected.norm(), name
    assert not torch.equal(shared["model.embed_tokens.weight"], before["model.embed_tokens.weight"])


@pytest.mark.parametrize(
    ("stage", "version", "changes", "said"),
    [
        ("grpo", "1", [], "FSDP2 alone"),
        ("cold-start", "1", [], "FSDP2 alone"),
        ("grpo", "2", ["grpo.lora=8"], "launch with data_parallel.yaml"),
        ("grpo", "2", [], "set grpo.vllm_mode to colocate"),
        ("grpo", "2", ["grpo.pairs=3", "grpo.vllm_mode=server"], "choose a multiple of 2"),
    ],
)
def test_what_a_launch_cannot_do_is_one_sentence(
    stage: TrainedStage, version: str, changes: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    for name, value in {**LAUNCHED, "WORLD_SIZE": "2", "FSDP_VERSION": version}.items():
        monkeypatch.setenv(name, value)
    config, processes = changed_config(preset_config("nano"), changes), Processes(2, 1)
    run = StageRun(str(NANO), config, RunFolder(tmp_path, processes), TimeBudget())
    with pytest.raises(BadInput, match=said):
        train_stage(stage, run, TrainingData(PairSet.drawn(0)))


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
