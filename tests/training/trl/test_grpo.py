"""GRPO in TRL: the rollouts are ours, and so are advantages and loss; on our vocabulary and, where it is given, on the real one."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import sys
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
import torch

import vrthinker_core
from tests.support.drawn_rollouts import DrawnPairs, look, right_and_wrong
from tests.training.trl.support import VOCABULARIES, needs_trl, random_judge, taught_judge
from vrthinker_core.backends import open_backend
from vrthinker_core.backends.built_in import NANO
from vrthinker_core.backends.local.checkpoint.checkpoint_files import MARKER
from vrthinker_core.backends.local.checkpoint.loader import open_for_training
from vrthinker_core.backends.transformers_local import TransformersBackend
from vrthinker_core.errors import BadInput
from vrthinker_core.training.groups import Group, StepReport
from vrthinker_core.training.grpo_loop import Learner, train_step
from vrthinker_core.training.rewards import advantages
from vrthinker_core.training.rollouts import Rollout, play
from vrthinker_core.training.run.config import OptimizerConfig, preset_config
from vrthinker_core.training.token_rows import IGNORED, token_rows
from vrthinker_core.training.trl.grpo import TrlGrpoOptions, TrlStep, train_grpo
from vrthinker_core.training.trl.rollout_rewards import mixed_share
from vrthinker_core.types import Settings, StopReason

pytestmark = needs_trl

PAIRS = DrawnPairs(2_000_000_000)
OPTIONS = TrlGrpoOptions(steps=1, pairs=1, samples=6, batch=6, optimizer=OptimizerConfig(1e-4, 0.0))


class Watched:
    """What TRL made of the rollouts, and the gradients of its step."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        from transformers import Trainer
        from trl import GRPOTrainer

        self.batch: dict[str, Any] = {}
        self.gradients: dict[str, torch.Tensor] = {}
        score, optimize = GRPOTrainer._generate_and_score_completions, Trainer.create_optimizer

        def scored(trainer: Any, inputs: Any) -> Any:
            self.batch = score(trainer, inputs)
            return self.batch

        def optimizer(trainer: Any, *more: Any) -> Any:
            made = optimize(trainer, *more)
            made.register_step_pre_hook(lambda *_: self.keep(trainer.model))
            return made

        patch.setattr(GRPOTrainer, "_generate_and_score_completions", scored)
        patch.setattr(Trainer, "create_optimizer", optimizer)

    def keep(self, model: torch.nn.Module) -> None:
        self.gradients = {name: each.grad.clone() for name, each in model.named_parameters() if each.grad is not None}


@pytest.fixture(scope="module")
def rollouts() -> list[Rollout]:
    return right_and_wrong(PAIRS.pair(0), look(3))


@pytest.fixture(scope="module", params=VOCABULARIES)
def unsure(request: pytest.FixtureRequest, rollouts: list[Rollout], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A judge that looks at frames of the first pair, then gives its true labels or a wrong overall one: a group is mixed."""
    folder = random_judge(tmp_path_factory.mktemp("random"), request.param)
    return taught_judge(folder, rollouts, tmp_path_factory.mktemp("unsure"))


def long_enough(rollout: Rollout, judge: Path) -> TrlGrpoOptions:
    """With tokens for such a rollout."""
    (row,) = token_rows(rollout, TransformersBackend.load(str(judge)).loaded)
    first = next(position for position, label in enumerate(row.labels) if label != IGNORED)
    return replace(OPTIONS, tokens=len(row.labels) - first + 4)


@pytest.fixture(scope="module")
def step(unsure: Path, rollouts: list[Rollout], tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, StepReport, Watched]:
    reports: list[StepReport] = []
    options = long_enough(rollouts[0], unsure)
    with pytest.MonkeyPatch.context() as patch:
        watched = Watched(patch)
        made = train_grpo(PAIRS, unsure, options, tmp_path_factory.mktemp("grpo"), lambda one: reports.append(one.report))
    (report,) = reports
    return made, report, watched


def test_one_step_moves_the_weights_and_the_product_opens_them(step: tuple[Path, StepReport, Watched], unsure: Path) -> None:
    made, report, watched = step
    before, after = (TransformersBackend.load(str(folder)).loaded.model.state_dict() for folder in (unsure, made))
    moved = [name for name in before if not torch.equal(before[name], after[name])]
    assert moved
    assert not any("visual" in name for name in moved)
    assert watched.gradients.keys() == {name for name in watched.gradients if "visual" not in name}
    assert 0 < mixed_share(report.groups) <= 1
    assert report.drawn == OPTIONS.pairs
    assert open_backend(f"hf:{unsure}").protocols == ()
    assert open_backend(f"hf:{made}").protocols == ("paired",)


def test_what_is_trained_are_the_tokens_of_the_rollouts(step: tuple[Path, StepReport, Watched], unsure: Path) -> None:
    _, report, watched = step
    loaded = TransformersBackend.load(str(unsure)).loaded
    assert any(len(rollout.run.turns) == 2 for rollout in report.groups[0].rollouts)
    batch = watched.batch
    mask = (batch["completion_mask"] * batch["tool_mask"]).bool()
    for row, rollout in enumerate(rollout for group in report.groups for rollout in group.rollouts):
        (mine,) = token_rows(rollout, loaded)
        prompt = batch["prompt_ids"][row][batch["prompt_mask"][row].bool()].tolist()
        whole = [*prompt, *batch["completion_ids"][row][batch["completion_mask"][row].bool()].tolist()]
        assert whole[: len(mine.input_ids)] == list(mine.input_ids)
        if len(whole) == len(mine.input_ids):  # else the tokens were used up after the last reply
            assert batch["completion_ids"][row][mask[row]].tolist() == [label for label in mine.labels if label != IGNORED]


def test_advantages_and_gradients_are_those_of_the_loop_on_a_processor(
    step: tuple[Path, StepReport, Watched], unsure: Path
) -> None:
    _, report, watched = step
    own = [value or 0.0 for group in report.groups for value in advantages(group.totals)]
    assert watched.batch["advantages"].tolist() == pytest.approx(own, abs=1e-5)
    judge = TransformersBackend.load(str(unsure))
    policy, reference = (open_for_training(str(unsure)).model for _ in range(2))
    policy.requires_grad_(True).model.visual.requires_grad_(False)
    before = {name: each.detach().clone() for name, each in policy.named_parameters()}
    optimizer = torch.optim.SGD([each for each in policy.parameters() if each.requires_grad], lr=1.0)
    learner = Learner(policy, reference, optimizer, judge)
    ours = train_step(list(report.groups), report.drawn, learner, preset_config("nano").grpo)
    assert ours.loss == pytest.approx(report.loss, abs=2e-3)
    assert ours.entropy == pytest.approx(report.entropy, rel=0.02)
    for name, each in policy.named_parameters():
        if each.requires_grad:
            gradient = before[name] - each.detach()
            assert torch.nn.functional.cosine_similarity(gradient.flatten(), watched.gradients[name].flatten(), dim=0) > 0.999, name
            assert gradient.norm() == pytest.approx(float(watched.gradients[name].norm()), rel=0.01)


def test_a_run_goes_on_to_more_steps_and_so_does_one_of_an_earlier_version(
    unsure: Path, rollouts: list[Rollout], tmp_path: Path
) -> None:
    numbers: list[int] = []

    def until_one(step: TrlStep) -> bool:
        numbers.append(step.number)
        return True

    one = long_enough(rollouts[0], unsure)
    train_grpo(PAIRS, unsure, one, tmp_path, until_one)
    train_grpo(PAIRS, unsure, replace(one, steps=2, batch=3), tmp_path, until_one)
    assert numbers == [1, 2]
    with pytest.raises(BadInput, match="other data or options"):
        train_grpo(PAIRS, unsure, replace(one, steps=3, samples=3, batch=3), tmp_path)
    for mark in tmp_path.glob("trainer/*/whole.json"):
        values = json.loads(mark.read_text("utf-8"))
        mark.write_text(json.dumps(values | {"subject": values["subject"].replace("[", "[2, ", 1)}), "utf-8")  # with the steps
    train_grpo(PAIRS, unsure, replace(one, steps=2), tmp_path, lambda step: numbers.append(step.number))
    assert numbers == [1, 2]


def test_adapters_are_merged_into_layers_of_the_language_model(unsure: Path, rollouts: list[Rollout], tmp_path: Path) -> None:
    pytest.importorskip("peft")
    made = train_grpo(PAIRS, unsure, replace(long_enough(rollouts[0], unsure), lora=2), tmp_path)
    before, after = (TransformersBackend.load(str(folder)).loaded.model.state_dict() for folder in (unsure, made))
    assert before.keys() == after.keys()
    moved = [name for name in before if not torch.equal(before[name], after[name])]
    assert moved
    assert all("language_model.layers" in name and name.endswith("_proj.weight") for name in moved)


def test_a_reply_is_cut_where_the_product_cuts_it_and_ends_the_rollout(unsure: Path, tmp_path: Path) -> None:
    groups: list[Group] = []
    settings = Settings(window="all", max_new_tokens=8)
    train_grpo(
        PAIRS, unsure, replace(OPTIONS, settings=settings, tokens=400), tmp_path, lambda one: groups.extend(one.report.groups)
    )
    (played,) = play([PAIRS.pair(0)], open_backend(f"hf:{unsure}"), replace(settings, temperature=1.0))
    assert (played.run.turns[0].completion.stop, played.run.turns[0].completion.new_tokens) == ("length", 8)
    for rollout, reward in groups[0].rewarded:
        assert [(turn.completion.stop, turn.completion.new_tokens) for turn in rollout.run.turns] == [("length", 8)]
        assert rollout.run.finished is not None
        assert rollout.run.finished.stop is StopReason.TOKEN_LIMIT
        assert reward.format == 0


@pytest.mark.parametrize(("where", "name"), [("", "max_new_tokens"), ("colocate", "max_tokens"), ("server", "max_tokens")])
def test_the_length_of_a_reply_is_told_as_who_generates_it_names_it(where: Any, name: str) -> None:
    options = replace(OPTIONS, vllm=where, settings=Settings(window="all", max_new_tokens=300))
    assert options.generation(8192)["generation_kwargs"] == {name: 300}
    assert replace(options, tokens=200).generation(8192)["generation_kwargs"] == {name: 200}
    trl = pytest.importorskip("trl")
    assert options.generation(8192).keys() <= {each.name for each in fields(trl.GRPOConfig)}


def test_vllm_keeps_room_for_a_conversation_and_not_for_the_context_of_the_model() -> None:
    options = replace(OPTIONS, vllm="colocate", tokens=16_384)
    assert options.generation(128_000)["vllm_max_model_length"] == preset_config("7b").grpo.trl.longest == 32_768
    assert options.generation(8192)["vllm_max_model_length"] == 8192


def test_the_readme_starts_a_vllm_server_with_room_for_a_conversation() -> None:
    from trl.scripts.vllm_serve import make_parser

    (line,) = re.findall(r"^trl vllm-serve (.+)$", (Path(vrthinker_core.__file__).parent / "README.md").read_text("utf-8"), re.M)
    told = make_parser().parse_args(shlex.split(line))
    assert (told.max_model_len, told.port) == (preset_config("7b").grpo.trl.longest, 8000)


def test_groups_of_equal_rewards_teach_nothing(step: tuple[Path, StepReport, Watched]) -> None:
    rollout, reward = step[1].groups[0].rollouts[0], step[1].groups[0].rewards[0]
    assert mixed_share([Group((rollout,) * 2, (reward,) * 2, (0.0, 0.0))]) == 0
    assert mixed_share([]) == 0


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (TrlGrpoOptions(pairs=1, samples=3, batch=2), "whole groups"),
        (TrlGrpoOptions(settings=Settings(window=1)), "memory window all"),
        (TrlGrpoOptions(settings=Settings(window="all", protocol="concat")), "concat opens with a video"),
        (TrlGrpoOptions(lora=4), "run pip install -e '.\\[train\\]'"),
        (TrlGrpoOptions(vllm="server"), "run pip install 'trl\\[vllm\\]'"),
    ],
)
def test_what_trl_cannot_do_is_one_sentence(
    options: TrlGrpoOptions, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "peft", None)
    monkeypatch.setitem(sys.modules, "vllm", None)
    packs = Path(shutil.copytree(NANO, tmp_path / "judge"))  # A judge that gets first frames as a video
    marker = json.loads((packs / MARKER).read_text())
    (packs / MARKER).write_text(json.dumps(marker | {"protocol": ["paired", "concat"], "forced": {}, "video_items": True}))
    with pytest.raises(BadInput, match=said):
        train_grpo(PAIRS, packs, options, tmp_path / "run")
