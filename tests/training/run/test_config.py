"""The configuration of a training run: read back exactly, and refused in one sentence otherwise."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from vrthinker_core.errors import BadInput
from vrthinker_core.training.config import (
    CONFIG,
    PresetName,
    changed_config,
    config_json,
    parse_config,
    preset_config,
    read_config,
)
from vrthinker_core.training.run_folder import config_difference

PRESETS: tuple[PresetName, ...] = ("nano", "7b")


@pytest.mark.parametrize("name", PRESETS)
def test_what_is_written_is_read_back_exactly(name: PresetName, tmp_path: Path) -> None:
    config = changed_config(preset_config(name), ["settings.window=all", "grpo.clip=0.3", "seed=7"])
    (tmp_path / CONFIG).write_text(config_json(config), "utf-8")
    assert read_config(tmp_path) == config
    assert config_difference(read_config(tmp_path), config) == ""


def test_the_large_preset_has_the_papers_figures() -> None:
    config = preset_config("7b")
    assert (
        config.cold_start.sft.optimizer.learning_rate
        == config.rejection.sft.optimizer.learning_rate
        == 1.5e-6
    )
    assert (config.cold_start.sft.optimizer.warm_up, config.cold_start.sft.accumulation) == (
        0.2,
        32,
    )
    assert (config.grpo.pairs, config.grpo.samples, config.grpo.steps, config.grpo.kl) == (
        64,
        8,
        300,
        0.01,
    )
    assert config.grpo.optimizer.learning_rate == 1e-6


def test_the_small_preset_keeps_below_what_destroyed_a_judge() -> None:
    config = preset_config("nano")
    assert config.grpo.optimizer.learning_rate <= 1e-4
    assert config.grpo.optimizer.warm_up > 0
    assert config.grpo.steps >= 100
    assert config.grpo.pairs * config.grpo.samples >= 64


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("grpo.stepps=3", "names no setting: write name=value with one of optimizer, pairs"),
        ("steps", "names no setting"),
        ("grpo.steps=many", "grpo.steps: input should be a valid integer"),
        ("grpo.steps=0", "grpo.steps: input should be greater than or equal to 1"),
        ("grpo=3", "grpo: input should be an object"),
        ("settings.temperature=3", "must lie between 0 and 2"),
        ("settings.max_turns=3.5", "must be a whole number"),
        ("settings.max_turns=true", "must be a whole number"),
        ("settings.max_turns=NaN", "must be a whole number"),
        ("grpo.optimizer.schedule=steep", "'constant' or 'cosine'"),
        ("grpo.clip=NaN", "grpo.clip"),
        ("grpo.optimizer.max_grad_norm=1e999", "input should be a finite number"),
        ("grpo.weights.overall=5", "grpo.weights.overall: input should be less than or equal to 1"),
    ],
)
def test_a_change_that_means_nothing_is_refused(change: str, said: str) -> None:
    with pytest.raises(BadInput, match=said.replace("(", r"\(")) as caught:
        changed_config(preset_config("nano"), [change])
    assert "\n" not in str(caught.value)


def test_settings_of_a_run_are_read_as_everywhere() -> None:
    changes = "settings.max_turns=3.0 settings.window=2 settings.swap=true"
    changed = changed_config(preset_config("nano"), changes.split())
    expected = replace(preset_config("nano").settings, max_turns=3, window=2, swap="on")
    assert changed.settings == expected
    assert type(changed.settings.max_turns) is int


def test_unknown_keys_are_refused_at_every_depth() -> None:
    for place in ("", "grpo.", "cold_start.sft.optimizer.", "grpo.weights.", "settings."):
        values = json.loads(config_json(preset_config("nano")))
        inner = values
        for name in place.split(".")[:-1]:
            inner = inner[name]
        inner["speed"] = 1
        with pytest.raises(BadInput, match=re.escape(place) + "speed: there is no such setting"):
            parse_config(json.dumps(values), "config.json")


@pytest.mark.parametrize("text", ["", "[]", "{", "[" * 100_000, '{"preset": "nano"}'])
def test_what_is_no_configuration_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(BadInput, match="is no training configuration"):
        read_config(tmp_path)


@pytest.mark.parametrize(
    ("change", "may"),
    [
        ("grpo.trl.vllm=server", True),
        ("grpo.trl.vllm_url=http://10.0.0.2:8000", True),
        ("grpo.trl.vllm_memory=0.5", True),
        ("grpo.micro_batch=2", True),
        ("grpo.shown_every=5", True),
        ("grpo.steps=600", True),
        ("gates.format=0.5", True),
        ("gates.pairs=5", False),
        ("grpo.trl.tokens=8192", False),
        ("grpo.samples=4", False),
        ("cold_start.sft.epochs=6", False),
    ],
)
def test_a_run_may_go_on_elsewhere_and_longer_but_not_learn_otherwise(
    change: str, may: bool
) -> None:
    config = preset_config("7b")
    assert (config_difference(config, changed_config(config, [change])) == "") == may
