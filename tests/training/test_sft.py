"""Fine-tuning on ready rows: what learns, what stays, and that a training goes on where it was killed."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest
import torch

from tests.support.drawn_rollouts import DrawnPairs, answer, look, scripted_rollout
from tests.support.forks import TRAINING
from tests.support.slow import slow
from tests.support.waiting import PATIENCE_S
from tests.training.random_judges import moved_weights, random_judge, weights
from vrthinker_core.backends.checkpoint import open_for_training
from vrthinker_core.backends.transformers_local import TransformersBackend
from vrthinker_core.errors import BadInput
from vrthinker_core.training import sft
from vrthinker_core.training.config import SftConfig, preset_config
from vrthinker_core.training.metrics import StepMetrics
from vrthinker_core.training.sft import IGNORED, TokenRow, collate, token_rows, train_sft
from vrthinker_core.training.trainer_checkpoints import train_from

Rows = list[TokenRow]
Trained = tuple[Path, list[StepMetrics]]  # The judge, and the steps of its training
PAIRS = DrawnPairs(31)
SFT = SftConfig(
    learning_rate=1e-3,
    warmup_steps=0.2,
    num_train_epochs=4 / 3,
    lr_scheduler_type="constant_with_warmup",
    adam_beta2=0.98,
    bf16=False,
)
CONFIG = replace(preset_config("nano"), checkpoint_minutes=0.0)
SELDOM = preset_config("nano")  # Saves no checkpoint in the time of these trainings


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return random_judge(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="module")
def rows(tiny: Path) -> Rows:
    return example_rows(tiny)


@pytest.fixture(scope="module")
def trained(tiny: Path, rows: Rows, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    paces: list[StepMetrics] = []
    return train_sft(rows, tiny, SFT, CONFIG, tmp_path_factory.mktemp("sft"), paces.append), paces


def played_rows(judge: Path, *looks: Sequence[str]) -> Rows:
    """A row of each of the first pairs, with these looks before its true labels."""
    loaded = TransformersBackend.load(str(judge)).loaded
    pairs = map(PAIRS.pair, range(len(looks)))
    told = zip(pairs, looks, strict=True)
    rollouts = [scripted_rollout(pair, *looks, answer(pair.truth)) for pair, looks in told]
    return [row for rollout in rollouts for row in token_rows(rollout, loaded)]


def example_rows(judge: Path) -> Rows:
    """Three rows, so that an epoch ends within the four steps."""
    return played_rows(judge, *[[look(3)]] * 3)


def test_the_tower_learns_where_it_is_not_frozen(
    tiny: Path, rows: Rows, trained: Trained, tmp_path: Path
) -> None:
    learnt = moved_weights(tiny, trained[0])
    assert learnt
    assert not any("visual" in name for name in learnt)
    assert [pace.step for pace in trained[1]] == [1, 2, 3, 4]
    assert trained[1][-1].loss < trained[1][0].loss
    with_tower = train_sft(rows, tiny, SFT, replace(SELDOM, frozen_vision=False), tmp_path)
    assert any("visual" in name for name in moved_weights(tiny, with_tower))


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU multiplies bfloat16")
@pytest.mark.filterwarnings("ignore:`gradient_checkpointing` is deprecated:FutureWarning")
def test_bfloat16_is_used_where_it_is_quick(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for multiplies in (True, False):
        monkeypatch.setattr(sft, "multiplies_bfloat16", Mock(return_value=multiplies))
        assert sft.sft_arguments(replace(SFT, bf16=True), CONFIG, tmp_path).bf16 == multiplies
    assert not sft.sft_arguments(SFT, CONFIG, tmp_path).bf16


def train_until(moment: str, judge: Path, folder: Path) -> None:
    """Train in a process that is killed as it opens the file `moment`; "" is the end of step 3."""

    def opening(event: str, arguments: tuple[object, ...]) -> None:
        if event == "open" and moment and str(arguments[0]).endswith(moment):
            os.kill(os.getpid(), signal.SIGKILL)

    def report(pace: StepMetrics) -> None:
        if pace.step == 3 and not moment:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(opening)
    train_sft(example_rows(judge), judge, SFT, CONFIG, folder, report)


@pytest.mark.parametrize(
    ("moment", "again"),
    [
        pytest.param("", [3, 4], marks=slow),
        pytest.param("checkpoint-3/config.json", [3, 4], marks=slow),
        ("checkpoint-3/trainer_state.json", [3, 4]),
        (".model.part/vrthinker.json", [4]),
    ],
)
def test_a_training_ended_by_sigkill_goes_on_from_its_last_whole_checkpoint_to_the_same_weights(
    moment: str, again: list[int], tiny: Path, rows: Rows, trained: Trained, tmp_path: Path
) -> None:
    killed = TRAINING.start(train_until, moment, tiny, tmp_path)
    killed.join(PATIENCE_S)
    assert killed.exitcode == -signal.SIGKILL
    assert not (tmp_path / "model").exists()
    paces: list[StepMetrics] = []
    made = train_sft(rows, tiny, SFT, CONFIG, tmp_path, paces.append)
    assert [pace.step for pace in paces] == again
    assert not moved_weights(made, trained[0])


def test_a_cut_checkpoint_is_never_gone_on_with(
    tiny: Path, rows: Rows, trained: Trained, tmp_path: Path
) -> None:
    shutil.copytree(trained[0].parent / "trainer", tmp_path / "trainer")
    whole = sorted((tmp_path / "trainer").glob("checkpoint-*"))
    assert [path.name for path in whole] == ["checkpoint-2", "checkpoint-3"]
    (whole[-1] / "optimizer.pt").write_bytes(b"half")
    (whole[-1] / "whole").unlink()  # It is written last
    paces: list[StepMetrics] = []
    again = train_sft(rows, tiny, SFT, SELDOM, tmp_path, paces.append)
    assert [pace.step for pace in paces] == [3, 4]
    assert not moved_weights(again, trained[0])


def test_kept_features_give_the_same_loss(tiny: Path, rows: Rows) -> None:
    opened = open_for_training(str(tiny))
    loaded = TransformersBackend(opened, "tiny").loaded
    kept = sft.kept_features(rows, loaded.vision)(range(len(rows)))
    exact, features = collate(rows, loaded), collate(rows, loaded, kept)
    with torch.inference_mode():
        loss = float(opened.model(**exact).loss)
        frozen = sft.freeze_vision(opened.model)
        assert float(frozen(**features).loss) == pytest.approx(loss, rel=1e-3)


def test_how_rows_are_divided_into_passes_changes_no_step(tiny: Path, tmp_path: Path) -> None:
    rows = played_rows(tiny, *((look(3), look(9), look(1, 2))[:count] for count in range(4)))
    assert len({sum(label != IGNORED for label in row.labels) for row in rows}) == len(rows)
    before, found = weights(tiny), []
    for batch in (4, 1):
        paces: list[StepMetrics] = []
        sizes = {"per_device_train_batch_size": batch, "gradient_accumulation_steps": 4 // batch}
        once = replace(SFT, learning_rate=1e-4, warmup_steps=0.0, num_train_epochs=1, **sizes)
        made = train_sft(rows, tiny, once, preset_config("7b"), tmp_path / str(batch), paces.append)
        step = [(value - before[name]).flatten() for name, value in weights(made).items()]
        found.append(([pace.loss for pace in paces], torch.cat(step)))
    (loss, step), (other_loss, other) = found
    assert other_loss == pytest.approx(loss, rel=1e-4)
    # AdamW makes a whole step of the smallest gradient, whichever sign rounding gave it
    assert float((other - step).norm() / step.norm()) < 0.1


class LostRequest(OSError):
    """As TRL's client raises where its server is gone."""

    __module__ = "requests.exceptions"


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (LostRequest("Connection refused"), "vLLM server cannot be reached"),
        (torch.OutOfMemoryError("CUDA out of memory."), "too little memory for a step"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory"), "too little memory"),
    ],
)
def test_an_end_from_outside_is_one_sentence(error: Exception, said: str, tmp_path: Path) -> None:
    trainer = Mock(is_fsdp_enabled=False, is_deepspeed_enabled=False)
    trainer.train.side_effect = error
    with pytest.raises(BadInput, match=said):
        train_from(trainer, None)
    # As torch says of a full disk; the run's folder makes a sentence of it
    trainer.train.side_effect = RuntimeError("PytorchStreamWriter failed writing file data/8")
    with pytest.raises(OSError, match="a file was cut short"):
        train_from(trainer, None)


@pytest.mark.parametrize(
    ("said", "processes", "threads"), [("3,1", 1, 3), ("", 10**6, 1), ("many", 10**6, 1)]
)
def test_threads_are_as_asked_for(
    said: str, processes: int, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = torch.get_num_threads()
    monkeypatch.setenv("OMP_NUM_THREADS", said)
    try:
        sft.use_all_cores(processes)
        assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)


def test_another_training_is_not_gone_on_with(tiny: Path, rows: Rows, trained: Trained) -> None:
    folder = trained[0].parent
    before = sorted((folder / "trainer").rglob("*"))
    said = f"The checkpoints in {folder} are .* name a new folder with --out"
    with pytest.raises(BadInput, match=said):
        train_sft(rows[:2], tiny, SFT, CONFIG, folder)
    assert sorted((folder / "trainer").rglob("*")) == before
