"""GRPO in TRL on a processor: the rollouts, rewards and rows are ours, a killed run goes on, the product opens what it made.

On our vocabulary and, where it is given, on the real one.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import pytest
import torch

import vrthinker_core
from tests.support.drawn_rollouts import DrawnPairs, look, right_and_wrong
from tests.training.trl.support import VOCABULARIES, random_judge, taught_judge, weights
from vrthinker_core.backends import open_backend
from vrthinker_core.backends.built_in import NANO
from vrthinker_core.backends.checkpoint import open_for_training
from vrthinker_core.backends.checkpoint_files import MARKER
from vrthinker_core.backends.transformers_local import TransformersBackend
from vrthinker_core.errors import BadInput, VideoError
from vrthinker_core.training.config import TrainConfig, changed_config, preset_config
from vrthinker_core.training.grpo import Group, grpo_arguments, mixed_share, run_grpo, train_grpo
from vrthinker_core.training.metrics import StepMetrics, read_metrics
from vrthinker_core.training.rollouts import LabelledPair, Rollout, play
from vrthinker_core.training.run_folder import TimeBudget, TrainingRun, open_run_folder
from vrthinker_core.training.token_rows import IGNORED, collate, token_rows
from vrthinker_core.types import Frame, FrameRef, StopReason
from vrthinker_core.ui.runs_tab import TraceFiles

# Version 5.17 knows no other name
DEPRECATED = "ignore:`gradient_checkpointing` is deprecated:FutureWarning"
pytestmark = pytest.mark.filterwarnings(DEPRECATED)

PAIRS = DrawnPairs(2_000_000_000)
SHORT = (
    "grpo.steps=1 grpo.pairs=1 grpo.samples=6 grpo.optimizer.learning_rate=0.0001 "
    "grpo.optimizer.warm_up=0"
)
CONFIG = changed_config(preset_config("nano"), SHORT.split())


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
        found = {name: each.grad for name, each in model.named_parameters()}
        self.gradients = {name: grad.clone() for name, grad in found.items() if grad is not None}


@pytest.fixture(scope="module")
def rollouts() -> list[Rollout]:
    return right_and_wrong(PAIRS.pair(0), look(3))


@pytest.fixture(scope="module", params=VOCABULARIES)
def unsure(
    request: pytest.FixtureRequest,
    rollouts: list[Rollout],
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    """A judge that looks at frames of the first pair, then gives its true labels or a wrong overall one: a group is mixed."""
    folder = random_judge(tmp_path_factory.mktemp("random"), request.param)
    return taught_judge(folder, rollouts, tmp_path_factory.mktemp("unsure"))


def with_room(judge: Path, rollout: Rollout, *changes: str) -> TrainConfig:
    """The configuration with tokens for such a rollout."""
    (row,) = token_rows(rollout, TransformersBackend.load(str(judge)).loaded)
    first = next(position for position, label in enumerate(row.labels) if label != IGNORED)
    return changed_config(CONFIG, [f"grpo.trl.tokens={len(row.labels) - first + 4}", *changes])


@dataclass
class Step:
    """The one step of a training."""

    made: Path
    watched: Watched
    pace: StepMetrics
    groups: Sequence[Group]

    @property
    def rollouts(self) -> list[Rollout]:
        return [rollout for group in self.groups for rollout in group.rollouts]


@pytest.fixture(scope="module")
def step(unsure: Path, rollouts: list[Rollout], tmp_path_factory: pytest.TempPathFactory) -> Step:
    told: list[tuple[StepMetrics, Sequence[Group]]] = []
    config = with_room(unsure, rollouts[0], "settings.window=1")
    out = tmp_path_factory.mktemp("grpo")
    with pytest.MonkeyPatch.context() as patch:
        watched = Watched(patch)
        made = train_grpo(PAIRS, unsure, config, out, lambda *each: told.append(each))
    ((pace, groups),) = told
    return Step(made, watched, pace, groups)


def test_one_step_moves_the_weights_and_the_product_opens_them(step: Step, unsure: Path) -> None:
    before, after = weights(unsure), weights(step.made)
    moved = [name for name in before if not torch.equal(before[name], after[name])]
    assert moved
    assert not any("visual" in name for name in moved)
    assert not any("visual" in name for name in step.watched.gradients)
    assert 0 < mixed_share(step.groups) <= 1
    assert (step.pace.step, step.pace.kl) == (1, 0)
    assert open_backend(f"hf:{unsure}").protocols == ()
    assert open_backend(f"hf:{step.made}").protocols == ("paired",)


def test_the_whole_conversation_stays_in_view_whatever_the_memory_window(step: Step) -> None:
    settings = [rollout.run.started.settings for rollout in step.rollouts]
    assert {(each.window, each.temperature) for each in settings} == {("all", 1.0)}


def texts(rollout: Rollout) -> list[str]:
    return [turn.completion.text for turn in rollout.run.turns]


def test_rewards_are_the_papers_and_advantages_stand_within_a_group(
    step: Step, rollouts: list[Rollout]
) -> None:
    (group,) = step.groups
    right, wrong = map(texts, rollouts)
    found = [(texts(rollout), reward) for rollout, reward in group.rewarded]
    assert {reward.total for said, reward in found if said == right} <= {1 + 1.0}
    but_overall = {reward.total for said, reward in found if said == wrong}
    assert but_overall <= {1 + 0.5}
    assert any(said in (right, wrong) for said, _ in found)
    assert all((reward.gain, reward.exploration) == (None, 0) for _, reward in found)
    totals = [total for total in group.totals if total is not None]
    own = [(total - fmean(totals)) / (stdev(totals) + 1e-4) for total in totals]
    assert step.watched.batch["advantages"].tolist() == pytest.approx(own, abs=1e-5)


def test_what_is_trained_are_the_tokens_of_the_rollouts(step: Step, unsure: Path) -> None:
    loaded = TransformersBackend.load(str(unsure)).loaded
    assert any(len(rollout.run.turns) == 2 for rollout in step.rollouts)
    batch = step.watched.batch
    mask = (batch["completion_mask"] * batch["tool_mask"]).bool()
    for row, rollout in enumerate(step.rollouts):
        (mine,) = token_rows(rollout, loaded)
        prompt = batch["prompt_ids"][row][batch["prompt_mask"][row].bool()].tolist()
        written = batch["completion_ids"][row]
        whole = prompt + written[batch["completion_mask"][row].bool()].tolist()
        assert whole[: len(mine.input_ids)] == list(mine.input_ids)
        if len(whole) == len(mine.input_ids):  # else the tokens were used up after the last reply
            learnt = [label for label in mine.labels if label != IGNORED]
            assert written[mask[row]].tolist() == learnt


def test_the_gradient_is_that_of_the_advantages_of_the_tokens_that_were_written(
    step: Step, unsure: Path
) -> None:
    """At the first step the policy is the reference: each ratio is 1, and the KL term has no slope."""
    policy = open_for_training(str(unsure)).model
    policy.requires_grad_(True).model.visual.requires_grad_(False)
    loaded = TransformersBackend.load(str(unsure)).loaded
    rows = [row for rollout in step.rollouts for row in token_rows(rollout, loaded)]
    batch = collate(rows, loaded)
    labels = batch.pop("labels")[:, 1:]
    logprobs = torch.log_softmax(policy(**batch).logits[:, :-1].float(), -1)
    logprobs = logprobs.gather(-1, labels.clamp(min=0)[..., None])[..., 0]
    gains = step.watched.batch["advantages"][:, None].expand(labels.shape)
    learnt = labels != IGNORED
    (-(gains * logprobs)[learnt].sum() / learnt.sum()).backward()
    alike = torch.nn.functional.cosine_similarity
    for name, each in policy.named_parameters():
        if each.grad is not None:
            theirs = step.watched.gradients[name]
            assert alike(each.grad.flatten(), theirs.flatten(), dim=0) > 0.999, name
            assert each.grad.norm() == pytest.approx(float(theirs.norm()), rel=0.01)


def test_adapters_are_merged_into_layers_of_the_language_model(
    unsure: Path, rollouts: list[Rollout], tmp_path: Path
) -> None:
    made = train_grpo(PAIRS, unsure, with_room(unsure, rollouts[0], "grpo.trl.lora=2"), tmp_path)
    before, after = weights(unsure), weights(made)
    assert before.keys() == after.keys()
    moved = [name for name in before if not torch.equal(before[name], after[name])]
    assert moved
    assert all("language_model.layers" in name or "model.layers" in name for name in moved)
    assert all(name.endswith("_proj.weight") for name in moved)


class TwoPairs:
    """A pair, and one that cannot be read."""

    size = 2

    def pair(self, number: int) -> LabelledPair:
        pair = replace(PAIRS.pair(0), row=number)
        return replace(pair, source=self._unreadable) if number else pair

    def _unreadable(self, _: Sequence[FrameRef]) -> tuple[Frame, ...]:
        raise VideoError("second.mp4 is cut short.")


def run(
    judge: Path, tokens: int, out: Path, time_budget: TimeBudget, steps: int = 2
) -> Path | None:
    """A run over two pairs that keeps a checkpoint of each step."""
    changes = (
        f"grpo.steps={steps} grpo.pairs=2 grpo.samples=3 grpo.trl.tokens={tokens} "
        "checkpoint_minutes=0.000001 grpo.shown_every=1"
    )
    config = changed_config(CONFIG, changes.split())
    begun = TrainingRun("grpo", str(judge), "two pairs")
    with open_run_folder(out, begun, config, resume=True) as folder:
        return run_grpo(str(judge), TwoPairs(), config, folder, time_budget)


@pytest.fixture(scope="module")
def whole(
    unsure: Path, rollouts: list[Rollout], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, list[str]]:
    """A run that nobody stopped, and what it said."""
    out, said = tmp_path_factory.mktemp("run"), list[str]()
    tokens = with_room(unsure, rollouts[0]).grpo.trl.tokens
    assert run(unsure, tokens, out, TimeBudget(say=said.append)) == out / "checkpoint"
    return out, said


def test_a_run_says_what_it_does_without_and_names_the_pair_that_cannot_be_played(
    whole: tuple[Path, list[str]],
) -> None:
    out, (first, skipped) = whole
    assert first.startswith("GRPO runs in TRL in one process, with the whole conversation in view")
    assert skipped == "A pair cannot be played and teaches nothing. Row 1: second.mp4 is cut short."
    names = [f"grpo-step-{step:05d}-sample-{sample}.json" for step in (1, 2) for sample in (0, 1)]
    rows = [row for _, row in TraceFiles(out / "rollouts").news() if row is not None]
    assert ([row.told["source"] for row in rows], {row.told["error"] for row in rows}) == (
        names,
        {""},
    )


def test_the_metrics_of_each_step_are_written(whole: tuple[Path, list[str]]) -> None:
    steps = read_metrics(whole[0])
    assert [step.step for step in steps] == [1, 2]
    for step in steps:
        parts = (step.reward_format or 0) + (step.reward_accuracy or 0)
        assert 0 <= parts <= 2
        assert step.reward_total == pytest.approx(parts)
        assert None not in (step.learning_rate, step.entropy, step.kl, step.mixed)
        assert None not in (step.tokens, step.frames, step.calls)
        assert step.right.keys() == {"TA", "VQ", "MQ", "OA"}


def test_a_run_ended_by_sigkill_goes_on_to_the_same_weights(
    whole: tuple[Path, list[str]], unsure: Path, rollouts: list[Rollout], tmp_path: Path
) -> None:
    tokens = with_room(unsure, rollouts[0]).grpo.trl.tokens
    code = f"from {__name__} import *; run(Path({str(unsure)!r}), {tokens}, Path({str(tmp_path)!r}), TimeBudget())"
    killed, kept = subprocess.Popen([sys.executable, "-c", code]), "trainer/checkpoint-1/whole.json"
    try:
        while killed.poll() is None and not (tmp_path / "checkpoints" / kept).exists():
            time.sleep(0.01)
    finally:
        killed.kill()
        killed.wait()
    assert not (tmp_path / "checkpoint").exists()
    assert run(unsure, tokens, tmp_path, TimeBudget()) == tmp_path / "checkpoint"
    one, two = weights(whole[0] / "checkpoint"), weights(tmp_path / "checkpoint")
    assert all(torch.equal(one[name], two[name]) for name in one)
    again, before = (
        [replace(each, seconds=0) for each in read_metrics(out)] for out in (tmp_path, whole[0])
    )
    assert again == before


def test_who_stops_it_finds_a_checkpoint_and_may_end_it_sooner(
    unsure: Path, rollouts: list[Rollout], tmp_path: Path
) -> None:
    tokens, heard = with_room(unsure, rollouts[0]).grpo.trl.tokens, list[StepMetrics]()
    stopped = TimeBudget(lambda: bool(heard), tell=lambda one, _: heard.append(one))
    assert run(unsure, tokens, tmp_path, stopped, steps=9) is None
    kept = (tmp_path / "checkpoints/trainer").glob("checkpoint-*")
    assert [path.name for path in kept] == ["checkpoint-1"]
    assert not (tmp_path / "checkpoint").exists()
    assert run(unsure, tokens, tmp_path, TimeBudget(), steps=2) == tmp_path / "checkpoint"
    assert [one.step for one in read_metrics(tmp_path)] == [1, 2]


def test_a_reply_is_cut_where_the_product_cuts_it_and_ends_the_rollout(
    unsure: Path, tmp_path: Path
) -> None:
    told: list[Group] = []
    config = changed_config(CONFIG, ["settings.max_new_tokens=8", "grpo.trl.tokens=400"])
    train_grpo(PAIRS, unsure, config, tmp_path, lambda _, groups: told.extend(groups))
    settings = replace(config.settings, temperature=1.0)
    (played,) = play([PAIRS.pair(0)], open_backend(f"hf:{unsure}"), settings)

    def cut(rollout: Rollout) -> list[tuple[str, int | None]]:
        completions = [turn.completion for turn in rollout.run.turns]
        return [(each.stop, each.new_tokens) for each in completions]

    assert cut(played)[0] == ("length", 8)
    for rollout, reward in told[0].rewarded:
        assert cut(rollout) == [("length", 8)]
        assert rollout.run.finished.stop is StopReason.TOKEN_LIMIT
        assert reward.format == 0


@pytest.mark.parametrize(
    ("where", "name"),
    [("", "max_new_tokens"), ("colocate", "max_tokens"), ("server", "max_tokens")],
)
def test_the_length_of_a_reply_is_told_as_who_generates_it_names_it(
    where: str, name: str, tmp_path: Path
) -> None:
    config = changed_config(CONFIG, [f'grpo.trl.vllm="{where}"', "settings.max_new_tokens=300"])
    shorter = changed_config(config, ["grpo.trl.tokens=200"])
    for told, tokens in ((config, 300), (shorter, 200)):
        assert grpo_arguments(told, 8192, tmp_path).generation_kwargs == {name: tokens}


def test_vllm_keeps_room_for_a_conversation_and_not_for_the_context_of_the_model(
    tmp_path: Path,
) -> None:
    config = changed_config(CONFIG, ["grpo.trl.vllm=colocate"])
    assert preset_config("7b").grpo.trl.longest == 32_768
    for context, longest in ((128_000, 32_768), (8192, 8192)):
        assert grpo_arguments(config, context, tmp_path).vllm_max_model_length == longest


@pytest.mark.parametrize(
    ("pairs", "samples", "most", "batch"),
    [(8, 8, 16, 16), (2, 2, 16, 4), (3, 5, 6, 3), (64, 8, 1, 1)],
)
def test_a_step_has_all_its_rollouts_in_passes_of_so_many_at_most(
    pairs: int, samples: int, most: int, batch: int, tmp_path: Path
) -> None:
    changes = f"grpo.pairs={pairs} grpo.samples={samples} grpo.micro_batch={most}"
    told = grpo_arguments(changed_config(CONFIG, changes.split()), 8192, tmp_path)
    assert told.per_device_train_batch_size == batch
    passes = told.gradient_accumulation_steps
    assert batch * passes == told.generation_batch_size == pairs * samples


def test_the_readme_starts_a_vllm_server_with_room_for_a_conversation() -> None:
    from trl.scripts.vllm_serve import make_parser

    readme = (Path(vrthinker_core.__file__).parent / "training" / "README.md").read_text("utf-8")
    (line,) = re.findall(r"^trl vllm-serve (.+)$", readme, re.M)
    told = make_parser().parse_args(shlex.split(line))
    assert (told.max_model_len, told.port) == (preset_config("7b").grpo.trl.longest, 8000)


def test_groups_of_equal_rewards_teach_nothing(step: Step) -> None:
    rollout, reward = step.rollouts[0], step.groups[0].rewards[0]
    assert mixed_share([Group((rollout,) * 3, (reward, None, reward))]) == 0
    assert mixed_share([Group((rollout,), (None,))]) == 0


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("settings.protocol=concat", "concat opens with a video"),
        ("grpo.trl.vllm=server", "run pip install 'trl\\[vllm\\]'"),
    ],
)
def test_what_trl_cannot_do_is_one_sentence(
    change: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "vllm", None)
    packs = Path(shutil.copytree(NANO, tmp_path / "judge"))  # It gets first frames as a video
    marker = json.loads((packs / MARKER).read_text())
    marker |= {"protocol": ["paired", "concat"], "forced": {}, "video_items": True}
    (packs / MARKER).write_text(json.dumps(marker))
    with pytest.raises(BadInput, match=said):
        train_grpo(PAIRS, packs, changed_config(CONFIG, [change]), tmp_path / "run")
