"""Fine-tuning on ready rows: what learns, what stays, and that a training goes on where it was killed."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from safetensors import SafetensorError

from tests.training.trl import killed_trainings
from tests.training.trl.killed_trainings import (
    CONFIG,
    MOMENTS,
    PAIRS,
    SFT,
    example_rows,
    rows_of_several_lengths,
)
from tests.training.trl.support import kept_gradients, random_judge, weights
from vrthinker_core.backends.built_in import NANO
from vrthinker_core.backends.factory import open_backend
from vrthinker_core.errors import BadInput
from vrthinker_core.training import sft
from vrthinker_core.training.config import OptimizerConfig, SftConfig, preset_config
from vrthinker_core.training.metrics import StepMetrics
from vrthinker_core.training.rollouts import play
from vrthinker_core.training.sft import train_sft
from vrthinker_core.training.token_rows import IGNORED, TokenRow
from vrthinker_core.training.trainer_checkpoints import train_from
from vrthinker_core.types import Settings

SELDOM = preset_config("nano")  # Saves no checkpoint in the time of these trainings


class Stopped(Exception):
    """Ends a training in the middle: whatever is on the disk then is all there is afterwards."""


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return random_judge(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="module")
def rows(tiny: Path) -> list[TokenRow]:
    return example_rows(tiny)


@pytest.fixture(scope="module")
def trained(
    tiny: Path, rows: list[TokenRow], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, list[StepMetrics]]:
    paces: list[StepMetrics] = []
    return train_sft(rows, tiny, SFT, CONFIG, tmp_path_factory.mktemp("sft"), paces.append), paces


def moved(first: Path, second: Path) -> set[str]:
    one, two = weights(first), weights(second)
    assert one.keys() == two.keys()
    return {name for name in one if not torch.equal(one[name], two[name])}


def losses(paces: list[StepMetrics]) -> list[float]:
    """Of the steps but the last: a loss is told with the step after."""
    return [pace.loss for pace in paces]


def stop_at(step: int) -> Any:
    def report(pace: StepMetrics) -> None:
        if pace.step == step:
            raise Stopped

    return report


def test_the_language_model_learns_and_the_tower_where_it_is_not_frozen(
    tiny: Path, rows: list[TokenRow], trained: tuple[Path, list[StepMetrics]], tmp_path: Path
) -> None:
    learnt = moved(tiny, trained[0])
    assert learnt
    assert not any("visual" in name for name in learnt)
    assert losses(trained[1])[-1] < losses(trained[1])[0]
    with_tower = train_sft(rows, tiny, SFT, replace(CONFIG, frozen_vision=False), tmp_path)
    assert any("visual" in name for name in moved(tiny, with_tower))


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU multiplies bfloat16")
@pytest.mark.parametrize("bfloat16", [True, False], ids=["bfloat16", "float32"])
def test_arithmetic_is_in_bfloat16_only_where_the_processor_multiplies_that(
    bfloat16: bool,
    tiny: Path,
    rows: list[TokenRow],
    trained: tuple[Path, list[StepMetrics]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sft, "multiplies_bfloat16", lambda: bfloat16)
    made = train_sft(rows, tiny, replace(SFT, bf16=True), CONFIG, tmp_path)
    assert bool(moved(made, trained[0])) == bfloat16


def test_how_far_it_is_is_told_after_each_step(trained: tuple[Path, list[StepMetrics]]) -> None:
    assert [pace.step for pace in trained[1]] == [1, 2, 3, 4]


def test_the_product_opens_and_plays_the_built_in_judge_trained_on(tmp_path: Path) -> None:
    once = replace(SFT, epochs=1, optimizer=OptimizerConfig(1e-3, 0.0))
    made = train_sft(example_rows(NANO)[:1], NANO, once, SELDOM, tmp_path)
    judge = open_backend(f"hf:{made}")
    (rollout,) = play([PAIRS.pair(5)], judge, Settings(max_new_tokens=16, max_turns=1))
    assert judge.protocols == open_backend(f"hf:{NANO}").protocols
    assert rollout.run.turns[0].completion.tokens
    assert max(path.stat().st_size for path in made.iterdir()) < 9 * 2**20
    assert moved(made, NANO)


def test_a_training_ended_by_sigkill_at_any_moment_goes_on_to_the_same_weights(
    tmp_path: Path,
) -> None:
    command = [sys.executable, "-m", killed_trainings.__name__, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=400)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert told.pop("never") == [[0], [1, 2, 3, 4]]
    assert told.keys() == MOMENTS.keys()
    for moment, (ends, steps) in told.items():
        assert ends == [-signal.SIGKILL, 0], moment
        again = [4] if "judge" in moment else [3, 4]  # from the last checkpoint on
        assert steps == again, moment
        assert not moved(tmp_path / moment / "model", tmp_path / "never/model"), moment


def test_a_checkpoint_with_a_file_cut_short_is_never_gone_on_with(
    tiny: Path, rows: list[TokenRow], trained: tuple[Path, list[StepMetrics]], tmp_path: Path
) -> None:
    with pytest.raises(Stopped):
        train_sft(rows, tiny, SFT, CONFIG, tmp_path, stop_at(4))
    whole = sorted((tmp_path / "trainer").glob("checkpoint-*"))
    assert [path.name for path in whole] == ["checkpoint-2", "checkpoint-3"]
    (whole[-1] / "optimizer.pt").write_bytes(b"half")
    paces: list[StepMetrics] = []
    again = train_sft(rows, tiny, SFT, SELDOM, tmp_path, paces.append)
    assert [pace.step for pace in paces] == [3, 4]
    assert not moved(again, trained[0])


def test_kept_features_give_the_loss_of_the_tower(
    tiny: Path, rows: list[TokenRow], trained: tuple[Path, list[StepMetrics]], tmp_path: Path
) -> None:
    paces: list[StepMetrics] = []
    large = replace(preset_config("7b"), gradient_checkpointing=False)
    train_sft(rows, tiny, SFT, large, tmp_path, paces.append)
    assert losses(paces) == pytest.approx(losses(trained[1]), rel=1e-3)


def test_how_rows_are_divided_into_passes_changes_no_gradient(tiny: Path, tmp_path: Path) -> None:
    rows = rows_of_several_lengths(tiny)
    assert len({sum(label != IGNORED for label in row.labels) for row in rows}) == len(rows)
    found: list[tuple[list[float], torch.Tensor]] = []
    for batch in (4, 2, 1):
        paces: list[StepMetrics] = []
        optimizer = OptimizerConfig(1e-4, 0.0, max_grad_norm=1e9)
        once = SftConfig(optimizer, batch, 4 // batch, epochs=1, bf16=False)
        with kept_gradients() as gradients:
            train_sft(rows, tiny, once, preset_config("7b"), tmp_path / str(batch), paces.append)
        found.append((losses(paces), torch.cat([each.flatten() for each in gradients])))
    (loss, gradient), *divided = found
    for other_loss, other in divided:
        assert other_loss == pytest.approx(loss, rel=1e-4)
        assert float((other - gradient).norm() / gradient.norm()) < 1e-4


@pytest.mark.parametrize(
    ("batch", "accumulation", "epochs"), [(1, 1, 1.0), (1, 2, 2.0), (2, 3, 1.5), (4, 4, 0.5)]
)
def test_so_many_optimizer_steps_are_done_as_are_told_before(
    batch: int, accumulation: int, epochs: float, tiny: Path, rows: list[TokenRow], tmp_path: Path
) -> None:
    paces: list[StepMetrics] = []
    chosen = SftConfig(OptimizerConfig(1e-4, 0.0), batch, accumulation, epochs)
    train_sft(rows, tiny, chosen, SELDOM, tmp_path, paces.append)
    assert paces[-1].step == sft.optimizer_steps(len(rows), chosen, 1)


class LostRequest(OSError):
    """As TRL's client raises where its server is gone."""

    __module__ = "requests.exceptions"


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (LostRequest("Connection refused"), "vLLM server cannot be reached"),
        (ConnectionError("Connection refused"), "vLLM server cannot be reached"),
        (
            torch.OutOfMemoryError("CUDA out of memory."),
            "too little memory for a step.*with grpo.trl.vllm, or with fewer grpo.pairs",
        ),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED"), "too little memory for a step"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory"), "too little memory"),
        (OSError(28, "No space left on device"), "the disk is full; none is there yet: make room"),
        (SafetensorError("I/O error: No space left on device (os error 28)"), "the disk is full"),
        (RuntimeError("PytorchStreamWriter failed writing file data/8"), "a file was cut short"),
    ],
)
def test_what_ends_a_training_from_outside_is_one_sentence(
    error: Exception, said: str, tmp_path: Path
) -> None:
    def train(**_: object) -> None:
        raise error

    trainer = SimpleNamespace(
        is_fsdp_enabled=False,
        is_deepspeed_enabled=False,
        args=SimpleNamespace(output_dir=tmp_path),
        train=train,
    )
    with pytest.raises(BadInput, match=said):
        train_from(trainer, None)


@pytest.mark.parametrize(
    ("said", "processes", "threads"),
    [("3", 1, 3), ("3,1", 1, 3), ("", 10**6, 1), ("0", 10**6, 1), ("many", 10**6, 1)],
)
def test_it_computes_with_as_many_threads_as_are_asked_for(
    said: str, processes: int, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = torch.get_num_threads()
    monkeypatch.setenv("OMP_NUM_THREADS", said)
    try:
        sft.use_all_cores(processes)
        assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)


def test_a_folder_of_another_training_is_not_gone_on_with(
    tiny: Path, rows: list[TokenRow], tmp_path: Path
) -> None:
    with pytest.raises(Stopped):
        train_sft(rows, tiny, SFT, CONFIG, tmp_path, stop_at(2))
    said = f"The checkpoints in {tmp_path} are .* name a new folder with --out"
    with pytest.raises(BadInput, match=said):
        train_sft(rows[:2], tiny, SFT, CONFIG, tmp_path)
    assert (tmp_path / "trainer/checkpoint-1/whole.json").is_file()
