"""The folder of a training run, which no other run overwrites, and its configuration, read back exactly or refused in one sentence."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest

from vrthinker_core.errors import BadInput
from vrthinker_core.training.config import (
    PresetName,
    TrainConfig,
    changed_config,
    config_json,
    parse_config,
    preset_config,
    read_config,
)
from vrthinker_core.training.run_folder import TrainingRun, open_run_folder, read_state

CONFIG = preset_config("nano")
RUN = TrainingRun("grpo", "nano", "drawn", digest="1")


def begin(out: Path, config: TrainConfig = CONFIG, *, done: bool = False) -> None:
    """Begin a run, keep a step, and finish it if asked."""
    with open_run_folder(out, RUN, config, resume=True) as folder:
        (out / "metrics.jsonl").write_text("a step\n")
        if done:
            (out / "made").mkdir()
            (out / "made" / "model.safetensors").write_bytes(b"whole")
            folder.finish(out / "made")


def check_refused(
    out: Path, said: str, run: TrainingRun = RUN, config: TrainConfig = CONFIG, resume: bool = True
) -> None:
    refused = pytest.raises(BadInput, match=re.escape(said))
    with refused, open_run_folder(out, run, config, resume=resume):
        raise AssertionError


def test_a_run_is_found_again_with_its_own_curves(tmp_path: Path) -> None:
    names = set()
    for out in (tmp_path / "a" / "run", tmp_path / "b" / "run"):
        begin(out)
        state = read_state(out)
        names.add(state.curves)
        assert state == replace(RUN, curves=state.curves)
        with open_run_folder(out, RUN, CONFIG, resume=True) as again:
            assert again.state == state
    assert len(names) == 2


@pytest.mark.parametrize(
    ("run", "changes", "said"),
    [
        (RUN, "", "holds this run already: go on with --resume"),
        (replace(RUN, stage="rejection"), "", "with stage 'grpo' instead of 'rejection'"),
        (replace(RUN, model="other"), "", "with model 'nano' instead of 'other'"),
        (replace(RUN, data="rows.csv"), "", "with data 'drawn' instead of 'rows.csv'"),
        (replace(RUN, digest="2"), "", "with digest of the pairs '1' instead of '2'"),
        (RUN, "grpo.num_generations=7", "with grpo.num_generations 8 instead of 7"),
        (RUN, "grpo.redraws=1", "with grpo.redraws 3 instead of 1"),
        (RUN, "cold_start.num_train_epochs=6", "with cold_start.num_train_epochs 3.0 instead of 6"),
    ],
)
def test_others_are_refused(run: TrainingRun, changes: str, said: str, tmp_path: Path) -> None:
    begin(tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.*") if path.is_file()}
    for resume in (False, True) if run != RUN or changes else (False,):
        check_refused(tmp_path, said, run, changed_config(CONFIG, changes.split()), resume=resume)
    assert {path: path.read_bytes() for path in before} == before


def test_a_run_may_go_on_elsewhere_and_longer(tmp_path: Path) -> None:
    changes = (
        "grpo.vllm_mode=server grpo.vllm_server_base_url=http://10.0.0.2:8000 grpo.per_device_train_batch_size=2 "
        "grpo.vllm_gpu_memory_utilization=0.5 grpo.shown_every=5 grpo.max_steps=600 held_out_pairs=5"
    )
    begin(tmp_path)
    config = changed_config(CONFIG, changes.split())
    with open_run_folder(tmp_path, RUN, config, resume=True):
        assert read_config(tmp_path) == config


def test_a_run_that_has_kept_nothing_makes_way_for_another(tmp_path: Path) -> None:
    with open_run_folder(tmp_path, RUN, CONFIG, resume=False):
        (tmp_path / "metrics.jsonl").touch()
        check_refused(tmp_path, "Another process")
    other = replace(RUN, data="rows.csv")
    with open_run_folder(tmp_path, other, CONFIG, resume=False) as folder:
        assert folder.state.data == "rows.csv"


@pytest.mark.parametrize("text", ["", "{}", '{"stage": "grpo", "model": 3}'])
def test_a_damaged_state_is_refused(text: str, tmp_path: Path) -> None:
    begin(tmp_path)
    (tmp_path / "state.json").write_text(text)
    check_refused(tmp_path, "is damaged")
    (tmp_path / "state.json").unlink()
    check_refused(tmp_path, "holds other files")


def test_a_run_that_is_done_has_its_result_and_no_further_steps(tmp_path: Path) -> None:
    begin(tmp_path, changed_config(CONFIG, ["grpo.max_steps=200"]), done=True)
    with open_run_folder(tmp_path, RUN, read_config(tmp_path), resume=True) as folder:
        assert folder.state.done
        assert [path.read_bytes() for path in folder.result.iterdir()] == [b"whole"]
    check_refused(tmp_path, "with grpo.max_steps 200 instead of 120")


@pytest.mark.parametrize("name", get_args(PresetName))
def test_a_configuration_is_read_back_exactly(name: PresetName) -> None:
    changes = (
        "settings.window=all settings.swap=true settings.max_turns=3.0 grpo.epsilon=0.3 seed=7"
    )
    config = changed_config(preset_config(name), changes.split())
    assert parse_config(config_json(config), "config.json") == config
    assert (config.settings.window, config.settings.swap) == ("all", "on")
    assert type(config.settings.max_turns) is int, "settings are read as everywhere"


def test_the_large_preset_has_the_papers_figures() -> None:
    config = preset_config("7b")
    cold, own, grpo = config.cold_start, config.rejection, config.grpo
    released = cold.learning_rate, cold.gradient_accumulation_steps, cold.num_train_epochs
    assert (*released, own.learning_rate, own.warmup_steps) == (1e-6, 8, 12, 1.5e-6, 0.2)
    assert (grpo.pairs, grpo.num_generations, grpo.max_steps, grpo.beta) == (64, 8, 300, 0.01)
    assert (grpo.learning_rate, grpo.updates, grpo.objective) == (1e-6, 4, "rollout")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("grpo.stepps=3", "names no setting: write name=value with one of learning_rate, warmup"),
        ("grpo.max_steps=many", "grpo.max_steps: input should be a valid integer"),
        ("grpo.max_steps=0", "grpo.max_steps: input should be greater than or equal to 1"),
        ("settings.temperature=3", "must lie between 0 and 2"),
        ("settings.max_turns=NaN", "must be a whole number"),
        ("grpo.lr_scheduler_type=steep", "'constant_with_warmup' or 'cosine'"),
        ("grpo.max_grad_norm=1e999", "input should be a finite number"),
        ("grpo.weights.overall=5", "grpo.weights.overall: input should be less than or equal to 1"),
    ],
)
def test_a_change_that_means_nothing_is_refused(change: str, said: str) -> None:
    with pytest.raises(BadInput, match=re.escape(said)) as caught:
        changed_config(CONFIG, [change])
    assert "\n" not in str(caught.value)


def test_unknown_keys_are_refused_at_every_depth() -> None:
    for place in ("", "grpo.", "settings."):
        values = json.loads(config_json(CONFIG))
        (values[place[:-1]] if place else values)["speed"] = 1
        with pytest.raises(BadInput, match=re.escape(place) + "speed: there is no such setting"):
            parse_config(json.dumps(values), "config.json")
    for text in ("", "[]", "[" * 100_000):
        with pytest.raises(BadInput, match="is no training configuration"):
            parse_config(text, "config.json")
