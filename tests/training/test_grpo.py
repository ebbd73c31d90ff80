"""GRPO on a processor: groups are drawn again, a killed run goes on, two processes end together, vLLM plays the same rollouts."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

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
from tests.training.test_several_processes import in_processes
from vrthinker_core.backends import open_backend
from vrthinker_core.backends.checkpoint import open_for_training
from vrthinker_core.backends.transformers_local import TransformersBackend
from vrthinker_core.errors import BadInput, VideoError
from vrthinker_core.traces import load
from vrthinker_core.training import grpo
from vrthinker_core.training.config import TrainConfig, changed_config, preset_config
from vrthinker_core.training.grpo import VllmBackend, grpo_arguments, run_grpo, train_grpo
from vrthinker_core.training.metrics import StepMetrics, read_metrics
from vrthinker_core.training.pair_set import PairSet
from vrthinker_core.training.rollouts import LabelledPair, play
from vrthinker_core.training.run_folder import StageRun, TimeBudget, TrainingRun, open_run_folder
from vrthinker_core.training.window_trainer import Group
from vrthinker_core.types import Frame, FrameRef, Settings
from vrthinker_core.ui.runs_tab import TraceFiles

# Version 5.17 knows no other name
pytestmark = pytest.mark.filterwarnings(
    "ignore:`(is_)?gradient_checkpointing` is deprecated:FutureWarning"
)
Factory = pytest.TempPathFactory

PAIRS = DrawnPairs(2_000_000_000)
ROLLOUTS = right_and_wrong(PAIRS.pair(0), look(3))


def unreadable(_: Sequence[FrameRef]) -> tuple[Frame, ...]:
    raise VideoError("second.mp4 is cut short.")


def known_and_others(number: int) -> LabelledPair:
    """The pair that the judge knows, one that it does not, one that cannot be read, and so on."""
    pair = replace(PAIRS.pair(number % 3 == 1), seed=number)
    return replace(pair, source=unreadable, row="7") if number % 3 == 2 else pair


def known(number: int) -> LabelledPair:
    """The pair that the judge knows, each time with other samples."""
    return replace(PAIRS.pair(0), seed=number)


def config(changes: str = "") -> TrainConfig:
    few = (
        "grpo.max_steps=2 grpo.pairs=2 grpo.num_generations=6 grpo.redraws=1 grpo.shown_every=1 "
        "grpo.eval_steps=1 grpo.learning_rate=0.0001 grpo.warmup_steps=0 "
        "held_out_pairs=2 settings.max_new_tokens=100 settings.max_turns=2 "
        "checkpoint_minutes=0.000001"
    )
    return changed_config(preset_config("nano"), f"{few} {changes}".split())


@pytest.fixture(scope="module", params=VOCABULARIES)
def unsure(request: pytest.FixtureRequest, tmp_path_factory: Factory) -> Path:
    """A judge that looks at frames of the first pair, then gives its true labels or a wrong overall one: a group is mixed."""
    folder = random_judge(tmp_path_factory.mktemp("random"), request.param)
    return taught_judge(folder, ROLLOUTS, tmp_path_factory.mktemp("unsure"))


def run(judge: Path, out: Path, said: list[str], changes: str = "") -> Path | None:
    """A run that keeps a checkpoint whenever it may."""
    begun, told = TrainingRun("grpo", str(judge), "pairs"), config(changes)
    with open_run_folder(out, begun, told, resume=True) as folder:
        stage = StageRun(str(judge), told, folder, TimeBudget(say=said.append))
        pairs = PairSet(known_and_others)
        return run_grpo(stage, pairs, replace(pairs, pair=lambda _: PAIRS.pair(0)))


@pytest.fixture(scope="module")
def whole(unsure: Path, tmp_path_factory: Factory) -> tuple[Path, list[str]]:
    """A run that nobody stopped, and what it said."""
    out, said = tmp_path_factory.mktemp("run"), list[str]()
    assert run(unsure, out, said) == out / "checkpoint"
    return out, said


def test_the_language_model_learns_and_the_product_opens_it(
    whole: tuple[Path, list[str]], unsure: Path
) -> None:
    made = whole[0] / "checkpoint"
    moved = moved_weights(unsure, made)
    assert moved
    assert not any("visual" in name for name in moved)
    assert open_backend(f"hf:{unsure}").protocols == ()
    assert open_backend(f"hf:{made}").protocols == ("paired",)


def test_groups_that_teach_nothing_are_drawn_again_and_bad_pairs_named(
    whole: tuple[Path, list[str]],
) -> None:
    out, said = whole
    assert said[0].startswith("GRPO: 2 pairs of 6 rollouts an optimizer step, 1 from each policy;")
    assert re.fullmatch(r"Right on held-out pairs before GRPO: TA .*, all \S+\.", said[1])
    skipped = "A pair cannot be played and teaches nothing. Row 7: second.mp4 is cut short."
    assert said[2:] == [skipped], "once"
    steps = read_metrics(out)
    assert [step.step for step in steps] == [1, 2]
    for step in steps:
        assert step.redrawn is not None
        assert step.mixed is not None
        assert step.redrawn > 0
        assert 0 < step.mixed < 1
        assert step.held_out.keys() == {"TA", "VQ", "MQ", "OA", "all"}
        figures = (step.learning_rate, step.entropy, step.kl, step.left, step.tokens, step.frames)
        assert None not in figures
        assert step.right.keys() == {"TA", "VQ", "MQ", "OA"}
        assert "held_out_OA" in step.figures


def test_rollouts_are_kept_for_the_page(whole: tuple[Path, list[str]]) -> None:
    out, _ = whole
    names = [f"grpo-step-{step:05d}-sample-{sample}.json" for step in (1, 2) for sample in (0, 1)]
    rows = [row.told for _, row in TraceFiles(out / "rollouts").news() if row is not None]
    assert [(row["source"], row["error"]) for row in rows] == [(name, "") for name in names]
    assert load(out / "rollouts" / names[-1]).started.judge.endswith(", grpo, step 2")


def test_a_group_without_differences_has_no_advantage() -> None:
    from vrthinker_core.training.rewards import RolloutReward

    right, unknown = RolloutReward(1.0, 1.0, None, 0.0), RolloutReward(1.0, None, None, 0.0)
    alike = Group((ROLLOUTS[0],) * 3, (right, unknown, right))
    assert alike.advantages == []
    wrong = replace(right, accuracy=0.5)
    (_, better), (_, worse) = Group((ROLLOUTS[0],) * 3, (right, unknown, wrong)).advantages
    assert better == pytest.approx(-worse)
    assert better > 0


@pytest.mark.parametrize("updates", [1, 2])
def test_after_sigkill_a_run_ends_in_the_same_weights(
    updates: int, whole: tuple[Path, list[str]], unsure: Path, tmp_path: Path
) -> None:
    """It goes on at the end of an update, with two updates from one policy at the end of the second."""
    changes, (expected, _) = "", whole
    if updates > 1:
        changes, expected = f"grpo.updates={updates} grpo.max_steps=4", tmp_path / "whole"
        run(unsure, expected, [], changes)
    killed = TRAINING.start(run, unsure, tmp_path / "killed", [], changes)
    kept = tmp_path / f"killed/checkpoints/trainer/checkpoint-{updates}/whole"
    try:
        until(lambda: kept.exists() or not killed.is_alive())
    finally:
        killed.kill()
        killed.join()
    assert not (tmp_path / "killed/checkpoint").exists()
    assert run(unsure, tmp_path / "killed", [], changes) == tmp_path / "killed/checkpoint"
    assert not moved_weights(expected / "checkpoint", tmp_path / "killed/checkpoint")
    again, before = (
        [replace(each, seconds=0) for each in read_metrics(out)]
        for out in (tmp_path / "killed", expected)
    )
    assert again == before


def test_adapters_are_merged(unsure: Path, tmp_path: Path) -> None:
    told = config("grpo.lora=2 grpo.max_steps=1")
    moved = moved_weights(unsure, train_grpo(PairSet(known), unsure, told, tmp_path))
    assert moved
    assert all(re.search(r"model\.layers.*_proj\.weight$", name) for name in moved)


def train_part(launched: dict[str, str], judge: Path, out: Path) -> None:
    """The first process plays the pair that the judge knows, the other one pairs that teach nothing."""
    os.environ.update(launched)
    steps: list[StepMetrics] = []
    pairs = PairSet(lambda number: replace(PAIRS.pair(number % 2), seed=number))
    told = config("grpo.updates=2")
    train_grpo(pairs, judge, told, out, lambda step, _: steps.append(step))  # type: ignore[arg-type, return-value]
    assert [step.step for step in steps] == ([1, 2] if launched["RANK"] == "0" else [])
    assert all(step.mixed for step in steps)


def test_redraw_and_updates_end_in_all_processes_together(unsure: Path, tmp_path: Path) -> None:
    in_processes(2, train_part, unsure, tmp_path)
    assert moved_weights(unsure, tmp_path / "model")


class Generator:
    """What TRL's `VLLMGeneration` gives, from the judge itself."""

    max_model_length = 8192

    def __init__(self, judge: TransformersBackend, mode: str) -> None:
        self.mode, self._judge, self.temperature = mode, judge, 1.0
        self.replies: dict[int, list[int]] = {}  # By the number of pictures that were sent
        self.asked: list[tuple[list[int], Any]] = []

    def generate(self, prompts: Any, images: Any, num_generations: int) -> tuple[Any, ...]:
        self.asked += zip(prompts, images, strict=True)
        end = self._judge.loaded.tokenizer.control.im_end
        return prompts, [[*self.replies.get(len(seen or ()), ()), end] for seen in images], None


@pytest.mark.parametrize("mode", ["colocate", "server"])
def test_vllm_plays_the_rollouts_of_the_product(
    mode: str, unsure: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A served generator sees runs of placeholders and as many prompts of each process, a colocated one a placeholder a picture."""
    judge = TransformersBackend.load(str(unsure))
    rollout, loaded = ROLLOUTS[0], judge.loaded
    generator = Generator(judge, mode)
    for turn, prompt in zip(rollout.run.turns, rollout.prompts, strict=True):
        seen = sum(len(message.frames) for message in prompt)
        generator.replies[seen] = list(loaded.tokenizer.encode(turn.completion.text))
    waiting = [3, 1, 1, 0]  # Prompts of another process in each round
    monkeypatch.setattr(grpo, "gather_object", lambda own: [*own, waiting.pop(0)])
    backend = VllmBackend(open_for_training(str(unsure)), "unsure", generator)
    (played,) = play([PAIRS.pair(0)], backend, Settings(protocol="paired", temperature=0.7))
    backend.finish()
    assert generator.temperature == 0.7
    assert played.correct
    sent, known = (
        [[message.text for message in prompt] for prompt in each.prompts]
        for each in (played, rollout)
    )
    assert sent == known
    pad, real = loaded.tokenizer.control.image_pad, [each for each in generator.asked if each[1]]
    assert len(real) == len(rollout.prompts)
    for (ids, pictures), prompt in zip(real, rollout.prompts, strict=True):
        items = [item for item in loaded.render(prompt) if not isinstance(item, int)]
        tokens = sum(item.num_tokens for item in items) if mode == "server" else len(items)
        assert (ids.count(pad), len(pictures)) == (tokens, len(items))
    rounds = [2, 0, 1] if mode == "server" else []
    assert len(generator.asked) - len(real) == sum(rounds)


@pytest.mark.parametrize("where", ["colocate", "server"])
def test_vllm_is_told_its_room_and_takes_all_rollouts_at_once(where: str, tmp_path: Path) -> None:
    changes = [f'grpo.vllm_mode="{where}"', "settings.max_new_tokens=300", "grpo.updates=4"]
    told = changed_config(preset_config("7b"), changes)
    for context in (128_000, 8192):
        arguments = grpo_arguments(told, context, tmp_path)
        assert arguments.vllm_max_model_length == min(context, 32_768)
        assert arguments.max_completion_length == 300
        assert arguments.per_device_train_batch_size == 64 * 4 * 8
        assert not arguments.vllm_importance_sampling_correction


def test_the_readme_starts_a_vllm_server_with_room_for_a_conversation() -> None:
    from trl.scripts.vllm_serve import make_parser

    assert preset_config("7b").grpo.vllm_max_model_length == 32_768
    readme = (Path(vrthinker_core.__file__).parent / "training" / "README.md").read_text("utf-8")
    (line,) = re.findall(r"^trl vllm-serve (.+)$", readme, re.M)
    told = make_parser().parse_args(shlex.split(line))
    assert (told.max_model_len, told.port) == (preset_config("7b").grpo.vllm_max_model_length, 8000)


def test_without_vllm_or_pairs_one_sentence_says_so(
    unsure: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(BadInput, match="No pair of a step can be played: mend the data"):
        train_grpo(PairSet(lambda _: known_and_others(2)), unsure, config(), tmp_path / "run")
    monkeypatch.setitem(sys.modules, "vllm", None)
    with pytest.raises(BadInput, match="run pip install 'trl\\[vllm\\]'"):
        train_grpo(PairSet(PAIRS.pair), unsure, config("grpo.vllm_mode=server"), tmp_path)
    monkeypatch.setitem(sys.modules, "vllm", SimpleNamespace(__spec__="here"))
    told = config("grpo.vllm_mode=server settings.protocol=concat")
    with pytest.raises(BadInput, match="concat opens with a video"):
        train_grpo(PairSet(PAIRS.pair), unsure, told, tmp_path / "vllm")
