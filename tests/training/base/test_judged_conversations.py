"""Judged conversations: the language model learns from them over codes and over drawn frames, and only the small one can."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer

from tests.training.stages.test_sft_stages import CONFIG, RUN, SCRIPTED
from tests.training.test_teacher import PAIRS
from vrthinker_core.backends.base import not_cancelled
from vrthinker_core.backends.built_in import NANO
from vrthinker_core.backends.local.checkpoint.checkpoint_files import check_files
from vrthinker_core.errors import BadInput
from vrthinker_core.training.base.judged_conversations import learn_to_judge, minutes_spent
from vrthinker_core.training.base.language_training import LanguageOptions
from vrthinker_core.training.base.model.base_checkpoint import write_checkpoint
from vrthinker_core.training.base.model.model_shape import model_config, new_model
from vrthinker_core.training.base.model.vocabulary import control_ids
from vrthinker_core.training.monitor.metrics import StepMetrics
from vrthinker_core.training.run.config import LanguageGates, changed_config
from vrthinker_core.training.run.run_folder import open_run_folder
from vrthinker_core.training.run.sitting import Sitting, begin_sitting
from vrthinker_core.training.stages.cold_start import Teacher, conversation_options
from vrthinker_core.training.stages.pipeline import TrainingData, train_stage
from vrthinker_core.training.teacher import BackendOfPair

SHORT = LanguageOptions(minutes=0.001, batch=2, save_seconds=0)  # A step or two


@pytest.fixture(autouse=True, scope="module")
def eager() -> object:
    with torch.compiler.set_stance("force_eager"):
        yield


def _weights(folder: Path) -> dict[str, torch.Tensor]:
    return {name: weight for file in sorted(folder.glob("*.safetensors")) for name, weight in load_file(file).items()}


@dataclass(frozen=True)
class Learnt:
    folder: Path
    made: Path
    reports: list[tuple[str, dict[str, float]]]


@pytest.fixture(scope="module")
def learnt(tmp_path_factory: pytest.TempPathFactory) -> Learnt:
    """From conversations, by a model that passes every gate already."""
    folder, reports = tmp_path_factory.mktemp("learnt"), []
    passed = replace(SHORT, gates=LanguageGates(rare_motion=0, damage=0, words=0))
    made = learn_to_judge(NANO, passed, folder, lambda part, figures: reports.append((part, dict(figures))))
    assert made is not None
    return Learnt(folder, made, reports)


def test_the_language_model_changes_and_the_tower_stays(learnt: Learnt) -> None:
    check_files(learnt.made)
    before, after = _weights(NANO), _weights(learnt.made)
    moved = {name for name in before if not torch.equal(before[name], after[name])}
    assert moved
    assert not {name for name in moved if "visual" in name}
    heard = [part for part, _ in learnt.reports]
    assert heard == sorted(heard)  # codes, then drawn
    assert set(heard) == {"codes", "drawn"}
    assert minutes_spent(learnt.folder) > 0
    assert learn_to_judge(NANO, SHORT, learnt.folder, lambda *_: pytest.fail("it was done")) == learnt.made


def test_they_last_as_long_as_is_asked_for_whatever_the_model_can_already(learnt: Learnt) -> None:
    assert learnt.reports
    assert not any("passed after" in figures for _, figures in learnt.reports)


def test_stopped_training_goes_on_where_it_was(tmp_path: Path) -> None:
    steps: list[float] = []
    assert learn_to_judge(NANO, SHORT, tmp_path, stopped=lambda: True) is None
    assert learn_to_judge(NANO, SHORT, tmp_path, lambda _, figures: steps.append(figures["step"])) == tmp_path / "model"
    assert steps[0] == 2


def test_drawn_frames_are_learnt_anew_where_codes_went_on(tmp_path: Path) -> None:
    """Else what was learnt of codes in the second sitting would be lost."""
    parts: list[str] = []
    assert learn_to_judge(NANO, SHORT, tmp_path, lambda part, _: parts.append(part), lambda: "drawn" in parts) is None
    steps: list[tuple[str, float]] = []
    longer = replace(SHORT, minutes=0.1)
    learn_to_judge(NANO, longer, tmp_path, lambda part, figures: steps.append((part, figures["step"])))
    assert steps[0] == ("codes", 2)
    assert next(step for part, step in steps if part == "drawn") == 1


def test_a_model_of_another_shape_is_refused(tmp_path: Path) -> None:
    tokenizer = Tokenizer.from_file(str(NANO / "tokenizer.json"))
    config = model_config(tokenizer.get_vocab_size(), control_ids(tokenizer))
    config.vision_config.hidden_size = 64
    write_checkpoint(new_model(config, 0), tokenizer, tmp_path / "other")
    with pytest.raises(BadInput, match="built-in judge's shape"):
        learn_to_judge(tmp_path / "other", SHORT, tmp_path / "out")


def test_a_cold_start_can_begin_with_them(tmp_path: Path) -> None:
    config = changed_config(CONFIG, ["cold_start.judged_minutes=0.001"])
    told: list[StepMetrics] = []
    taught: list[Path] = []

    def for_judge(checkpoint: Path | None) -> BackendOfPair:
        assert checkpoint is not None
        taught.append(checkpoint)
        return SCRIPTED

    data = TrainingData("drawn:3", PAIRS, Teacher("scripted", for_judge))
    with open_run_folder(tmp_path, RUN, config, resume=True) as folder:
        made = train_stage("cold-start", str(NANO), data, config, folder, Sitting(tell=lambda step, _: told.append(step)))
    assert made == tmp_path / "checkpoint"
    stages = list(dict.fromkeys(step.stage for step in told))
    assert stages == ["conversations codes", "conversations drawn", "teacher", "rows", "cold-start"]
    assert taught == [tmp_path / "conversations" / "model"]
    check_files(taught[0])


@pytest.mark.parametrize(("changes", "photos"), [((), "seen"), (("cold_start.photos=unseen",), "unseen")])
def test_their_pictures_may_be_others_than_those_of_the_tower(changes: tuple[str, ...], photos: str) -> None:
    config = changed_config(CONFIG, ["base.photos=seen", "cold_start.judged_minutes=9", *changes])
    assert conversation_options(config, 0.0, Sitting()).world.photos == Path(photos)


def test_conversations_have_the_time_that_is_left_of_a_sitting() -> None:
    config = changed_config(CONFIG, ["cold_start.judged_minutes=9"])
    assert conversation_options(config, 4.0, Sitting()).minutes == 9
    assert conversation_options(config, 4.0, begin_sitting(not_cancelled, 2.0)).minutes == pytest.approx(6.0, abs=0.1)
