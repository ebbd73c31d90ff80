"""GRPO in TRL on a processor: the rollouts, rewards and rows are ours, a killed run goes on, the product opens what it made."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import vrthinker_core
from tests.support.drawn_rollouts import DrawnPairs, look, right_and_wrong
from tests.support.forks import TRAINING
from tests.support.waiting import until
from tests.training.random_judges import (
    VOCABULARIES,
    moved_weights,
    random_judge,
    taught_judge,
)
from tests.training.test_environment import unreadable
from vrthinker_core.backends import open_backend
from vrthinker_core.backends.checkpoint import open_for_training
from vrthinker_core.backends.checkpoint_files import MARKER
from vrthinker_core.backends.judge_name import NANO
from vrthinker_core.backends.transformers_local import TransformersBackend
from vrthinker_core.errors import BadInput
from vrthinker_core.traces import load
from vrthinker_core.training.config import changed_config, preset_config
from vrthinker_core.training.grpo import Group, grpo_arguments, mixed_share, run_grpo, train_grpo
from vrthinker_core.training.metrics import StepMetrics, read_metrics
from vrthinker_core.training.rollouts import LabelledPair
from vrthinker_core.training.run_folder import StageRun, TimeBudget, TrainingRun, open_run_folder
from vrthinker_core.training.sft import IGNORED, collate, token_rows
from vrthinker_core.ui.runs_tab import TraceFiles

# Version 5.17 knows no other name
pytestmark = pytest.mark.filterwarnings(
    "ignore:`gradient_checkpointing` is deprecated:FutureWarning"
)
Factory = pytest.TempPathFactory
Step = tuple[Path, StepMetrics, Group]  # A result, what was told, and the group

PAIRS = DrawnPairs(2_000_000_000)
SHORT = (
    "grpo.steps=1 grpo.pairs=1 grpo.samples=6 grpo.optimizer.learning_rate=0.0001 "
    "grpo.optimizer.warm_up=0"
)
CONFIG = changed_config(preset_config("nano"), SHORT.split())
ROLLOUTS = right_and_wrong(PAIRS.pair(0), look(3))


@pytest.fixture(scope="module")
def tokens(unsure: Path) -> int:
    """As many as such a rollout takes."""
    (row,) = token_rows(ROLLOUTS[0], TransformersBackend.load(str(unsure)).loaded)
    first = next(position for position, label in enumerate(row.labels) if label != IGNORED)
    return len(row.labels) - first + 4


@pytest.fixture(scope="module", params=VOCABULARIES)
def unsure(request: pytest.FixtureRequest, tmp_path_factory: Factory) -> Path:
    """A judge that looks at frames of the first pair, then gives its true labels or a wrong overall one: a group is mixed."""
    folder = random_judge(tmp_path_factory.mktemp("random"), request.param)
    return taught_judge(folder, ROLLOUTS, tmp_path_factory.mktemp("unsure"))


@pytest.fixture(scope="module")
def step(unsure: Path, tokens: int, tmp_path_factory: Factory) -> Step:
    told: list[tuple[StepMetrics, Sequence[Group]]] = []
    config = changed_config(CONFIG, [f"grpo.trl.tokens={tokens}"])
    out = tmp_path_factory.mktemp("grpo")
    made = train_grpo(PAIRS, unsure, config, out, lambda *each: told.append(each))
    ((pace, (group,)),) = told
    return made, pace, group


def test_one_step_moves_the_weights_and_the_product_opens_them(step: Step, unsure: Path) -> None:
    made, pace, group = step
    moved = moved_weights(unsure, made)
    assert moved
    assert not any("visual" in name for name in moved)
    assert (pace.step, pace.kl, mixed_share([group])) == (1, 0, 1)
    assert open_backend(f"hf:{unsure}").protocols == ()
    assert open_backend(f"hf:{made}").protocols == ("paired",)
    rollout, reward = group.rewarded[0]
    alike = [Group((rollout,) * 3, (reward, None, reward)), Group((rollout,), (None,))]
    assert mixed_share(alike) == 0, "groups of equal rewards teach nothing"


def test_the_weights_follow_the_advantages_of_the_written_tokens(step: Step, unsure: Path) -> None:
    """Of a first step AdamW keeps the signs; the policy is the reference yet, so that each ratio is 1 and KL has no slope."""
    made, _, group = step
    policy, trained = (open_for_training(str(each)).model for each in (unsure, made))
    policy.requires_grad_(True).model.visual.requires_grad_(False)
    loaded = TransformersBackend.load(str(unsure)).loaded
    batch = collate([row for each in group.rollouts for row in token_rows(each, loaded)], loaded)
    labels = batch.pop("labels")[:, 1:]
    logprobs = torch.log_softmax(policy(**batch).logits[:, :-1].float(), -1)
    logprobs = logprobs.gather(-1, labels.clamp(min=0)[..., None])[..., 0]
    totals = torch.tensor(group.totals)
    advantages = (totals - totals.mean()) / (totals.std() + 1e-4)
    learnt = labels != IGNORED
    (-(advantages[:, None] * logprobs)[learnt].sum() / learnt.sum()).backward()
    after = dict(trained.named_parameters())
    for name, before in policy.named_parameters():
        if before.grad is not None:
            large = before.grad.abs() > 0.1 * before.grad.abs().max()
            way = (before.detach() - after[name])[large].sign()
            assert (way == before.grad[large].sign()).float().mean() > 0.99, name


def test_adapters_are_merged(unsure: Path, tokens: int, tmp_path: Path) -> None:
    config = changed_config(CONFIG, [f"grpo.trl.tokens={tokens}", "grpo.trl.lora=2"])
    moved = moved_weights(unsure, train_grpo(PAIRS, unsure, config, tmp_path))
    assert moved
    assert all(re.search(r"model\.layers.*_proj\.weight$", name) for name in moved)


class TwoPairs:
    """A pair, and one that cannot be read."""

    size = 2

    def pair(self, number: int) -> LabelledPair:
        pair = replace(PAIRS.pair(0), row=number)
        return replace(pair, source=unreadable) if number else pair


def run(judge: Path, tokens: int, out: Path, said: Callable[[str], None] = str) -> Path | None:
    """A run over two pairs that keeps a checkpoint of each step."""
    changes = (
        f"grpo.steps=2 grpo.pairs=2 grpo.samples=3 grpo.trl.tokens={tokens} "
        "checkpoint_minutes=0.000001 grpo.shown_every=1"
    )
    config = changed_config(CONFIG, changes.split())
    begun = TrainingRun("grpo", str(judge), "two pairs")
    with open_run_folder(out, begun, config, resume=True) as folder:
        stage = StageRun(str(judge), config, folder, TimeBudget(say=said))
        return run_grpo(stage, TwoPairs())


@pytest.fixture(scope="module")
def whole(unsure: Path, tokens: int, tmp_path_factory: Factory) -> tuple[Path, list[str]]:
    """A run that nobody stopped, and what it said."""
    out, said = tmp_path_factory.mktemp("run"), list[str]()
    assert run(unsure, tokens, out, said.append) == out / "checkpoint"
    return out, said


def test_rollouts_and_metrics_are_kept_and_bad_pairs_named(whole: tuple[Path, list[str]]) -> None:
    out, (_, skipped) = whole
    assert skipped == "A pair cannot be played and teaches nothing. Row 1: second.mp4 is cut short."
    names = [f"grpo-step-{step:05d}-sample-{sample}.json" for step in (1, 2) for sample in (0, 1)]
    rows = [row.told for _, row in TraceFiles(out / "rollouts").news() if row is not None]
    assert [(row["source"], row["error"]) for row in rows] == [(name, "") for name in names]
    assert load(out / "rollouts" / names[-1]).started.judge.endswith(", grpo, step 2")
    steps = read_metrics(out)
    assert [step.step for step in steps] == [1, 2]
    for step in steps:
        parts = (step.reward_format or 0) + (step.reward_accuracy or 0)
        assert step.reward_total == pytest.approx(parts)
        figures = (step.learning_rate, step.entropy, step.kl, step.mixed)
        assert None not in (*figures, step.tokens, step.frames, step.calls)
        assert step.right.keys() == {"TA", "VQ", "MQ", "OA"}


def test_after_sigkill_a_run_ends_in_the_same_weights(
    whole: tuple[Path, list[str]], unsure: Path, tokens: int, tmp_path: Path
) -> None:
    killed = TRAINING.start(run, unsure, tokens, tmp_path)
    kept = tmp_path / "checkpoints/trainer/checkpoint-1/whole.json"
    try:
        until(lambda: kept.exists() or not killed.is_alive())
    finally:
        killed.kill()
        killed.join()
    assert not (tmp_path / "checkpoint").exists()
    assert run(unsure, tokens, tmp_path) == tmp_path / "checkpoint"
    assert not moved_weights(whole[0] / "checkpoint", tmp_path / "checkpoint")
    again, before = (
        [replace(each, seconds=0) for each in read_metrics(out)] for out in (tmp_path, whole[0])
    )
    assert again == before


@pytest.mark.parametrize(
    ("where", "name"),
    [("", "max_new_tokens"), ("colocate", "max_tokens"), ("server", "max_tokens")],
)
def test_who_generates_is_told_the_lengths(where: str, name: str, tmp_path: Path) -> None:
    config = changed_config(CONFIG, [f'grpo.trl.vllm="{where}"', "settings.max_new_tokens=300"])
    shorter = changed_config(config, ["grpo.trl.tokens=200"])
    for told, tokens, context in ((config, 300, 128_000), (shorter, 200, 8192)):
        arguments = grpo_arguments(told, context, tmp_path)
        assert arguments.generation_kwargs == {name: tokens}
        assert not where or arguments.vllm_max_model_length == min(context, 32_768)


@pytest.mark.parametrize(
    ("pairs", "samples", "most", "batch"),
    [(8, 8, 16, 16), (2, 2, 16, 4), (3, 5, 6, 3), (64, 8, 1, 1)],
)
def test_a_step_has_all_its_rollouts(
    pairs: int, samples: int, most: int, batch: int, tmp_path: Path
) -> None:
    changes = f"grpo.pairs={pairs} grpo.samples={samples} grpo.micro_batch={most}"
    told = grpo_arguments(changed_config(CONFIG, changes.split()), 8192, tmp_path)
    assert told.per_device_train_batch_size == batch
    passes = told.gradient_accumulation_steps
    assert batch * passes == told.generation_batch_size == pairs * samples


def test_the_readme_starts_a_vllm_server_with_room_for_a_conversation() -> None:
    from trl.scripts.vllm_serve import make_parser

    assert preset_config("7b").grpo.trl.longest == 32_768
    readme = (Path(vrthinker_core.__file__).parent / "training" / "README.md").read_text("utf-8")
    (line,) = re.findall(r"^trl vllm-serve (.+)$", readme, re.M)
    told = make_parser().parse_args(shlex.split(line))
    assert (told.max_model_len, told.port) == (preset_config("7b").grpo.trl.longest, 8000)


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
