"""GRPO with a memory window: its gradients are those of a plain loop over turns, in one process and in two."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from datasets import Dataset
from transformers import TrainerCallback
from trl import GRPOTrainer

from tests.support.drawn_rollouts import DrawnPairs, answer, look, scripted_rollout
from tests.training.random_judges import random_judge
from tests.training.test_several_processes import in_processes
from vrthinker_core.backends.transformers_local import TransformersBackend
from vrthinker_core.training.config import changed_config, preset_config
from vrthinker_core.training.grpo import grpo_arguments
from vrthinker_core.training.rewards import RolloutReward
from vrthinker_core.training.rollouts import Rollout
from vrthinker_core.training.sft import PIXELS, token_rows, tokenizer_of
from vrthinker_core.training.sharding import open_whole
from vrthinker_core.training.window_trainer import Group, Objective, WindowTrainer
from vrthinker_core.types import ProtocolName, Settings

pytestmark = pytest.mark.filterwarnings(
    "ignore:`(is_)?gradient_checkpointing` is deprecated:FutureWarning"
)
Gradients = dict[str, torch.Tensor]
PAIRS = DrawnPairs(2_000_000_000)
KL = 0.01


def played(
    judge: TransformersBackend,
    number: int,
    looks: Sequence[Sequence[int]],
    protocol: ProtocolName = "paired",
    window: Any = 1,
) -> Rollout:
    """A rollout in the judge's own tokens; a redirect wrote the first six of its last reply."""
    field = "frame_indices" if protocol == "paired" else "target_frames"
    replies = [look(*each, field=field) for each in looks]
    settings = Settings(protocol=protocol, window=window, max_turns=5)
    replies.append(answer((pair := PAIRS.pair(number)).truth))
    rollout = scripted_rollout(pair, *replies, protocol=protocol, settings=settings)
    turns = []
    for turn in rollout.run.turns:
        tokens = tuple(judge.loaded.tokenizer.encode(turn.completion.text))
        redirected = (0, 6) if turn.number == len(rollout.run.turns) else None
        told = replace(turn.completion, tokens=tokens, redirected=redirected)
        turns.append(replace(turn, completion=told))
    return replace(rollout, run=replace(rollout.run, turns=tuple(turns)))


def group(*rollouts: Rollout, totals: Iterable[float]) -> Group:
    return Group(rollouts, tuple(RolloutReward(0.0, each, None, 0.0) for each in totals))


class Watch(TrainerCallback):
    """Keeps the gradients of each optimizer step."""

    def __init__(self) -> None:
        self.steps: list[Gradients] = []

    def on_pre_optimizer_step(self, *_: Any, model: Any, **__: Any) -> None:
        model = getattr(model, "module", model)
        named = model.named_parameters()
        self.steps.append({name: p.grad.clone() for name, p in named if p.grad is not None})


def learn(
    checkpoint: Path, groups: Sequence[Group], out: Path, micro_batch: int = 16, **options: Any
) -> tuple[list[Gradients], WindowTrainer]:
    """The gradients of each update, with a reference model of other weights."""
    opened = open_whole(checkpoint)
    opened.model.model.visual.requires_grad_(False)
    loaded = TransformersBackend(opened, "random").loaded
    updates = options.get("updates", 1)
    changes = (
        f"grpo.max_steps={updates} grpo.pairs=2 grpo.num_generations=2 grpo.beta={KL} grpo.warmup_steps=0 "
        "grpo.learning_rate=1e-30 grpo.max_grad_norm=1e9"
    )
    config = changed_config(preset_config("nano"), changes.split())
    arguments = grpo_arguments(config, 8192, out)
    watch = Watch()
    trainer = WindowTrainer(
        model=opened.model,
        args=arguments,
        processing_class=tokenizer_of(opened),
        train_dataset=Dataset.from_dict({"prompt": [""] * 8}),
        callbacks=[watch],
        draw=lambda _: groups,
        loaded=loaded,
        micro_batch=micro_batch,
        **options,
    )
    trainer.vllm_generation = Mock()
    other_weights(trainer.ref_model)
    trainer.train()
    trainer.vllm_generation.sync_weights.assert_called_once_with()  # For a vLLM that plays
    return watch.steps, trainer


def other_weights(model: Any) -> None:
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.02)


def log_probabilities(
    model: Any, judge: TransformersBackend, rollout: Rollout
) -> Iterable[torch.Tensor]:
    """Those of the judge's own tokens, turn by turn, each after what was in view."""
    control = judge.loaded.tokenizer.control
    for messages, turn in zip(rollout.prompts, rollout.run.turns, strict=True):
        reply = [*turn.completion.tokens, control.im_end]
        prompt = judge.loaded.render(messages)
        items = [item for item in prompt if not isinstance(item, int)]
        ids: list[int] = []
        for item in prompt:
            pad = control.image_pad if getattr(item, "kind", "") == "image" else control.video_pad
            ids += [item] if isinstance(item, int) else [pad] * item.num_tokens
        whole = torch.tensor([[*ids, *reply]])
        seen: dict[str, Any] = {}
        for kind, name in PIXELS.items():
            if some := [item for item in items if item.kind == kind]:
                seen[name] = judge.loaded.vision.pixel_values(some)
                seen[f"{kind}_grid_thw"] = torch.tensor([item.grid_thw for item in some])
        kinds = (whole == control.image_pad).long() + 2 * (whole == control.video_pad).long()
        logits = model(input_ids=whole, mm_token_type_ids=kinds, **seen).logits
        logits = logits[0, len(ids) - 1 : -1]
        found = torch.log_softmax(logits, -1).gather(1, torch.tensor(reply)[:, None])[:, 0]
        yield found[6 if turn is rollout.run.turns[-1] else 0 :]


def reference(checkpoint: Path, groups: Sequence[Group], objective: Objective) -> Gradients:
    """The paper's objective, written out."""
    opened, other = open_whole(checkpoint), open_whole(checkpoint)
    opened.model.model.visual.requires_grad_(False)
    other_weights(other.model.requires_grad_(False))
    judge = TransformersBackend(opened, "random")
    losses = []
    for rollout, advantage in (each for one in groups for each in one.advantages):
        own = torch.cat([*log_probabilities(opened.model, judge, rollout)])
        gap = torch.cat([*log_probabilities(other.model, judge, rollout)]) - own
        losses.append(-advantage * own + KL * (gap.exp() - gap - 1))
    tokens = sum(map(len, losses))
    means = [each.mean() / len(losses) for each in losses]
    sum(means if objective == "rollout" else [each.sum() / tokens for each in losses]).backward()
    named = opened.model.named_parameters()
    return {name: p.grad for name, p in named if p.grad is not None}


def difference(one: Gradients, other: Gradients) -> float:
    """The largest difference, relative to the largest gradient."""
    assert one.keys() == other.keys()
    largest = max(float(each.abs().max()) for each in other.values())
    return max(float((one[name] - other[name]).abs().max()) for name in one) / largest


LOOKS = [[40], [20, 60], [70, 80]]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return random_judge(tmp_path_factory.mktemp("random"))


def two_groups(checkpoint: Path, looks: int = 3, **how: Any) -> list[Group]:
    """Two pairs: rollouts of `looks` + 1 turns and of one, of two and of one."""
    judge = TransformersBackend.load(str(checkpoint))
    return [
        group(played(judge, 0, LOOKS[:looks], **how), played(judge, 0, [], **how), totals=(2, 1)),
        group(played(judge, 1, LOOKS[:1], **how), played(judge, 1, [], **how), totals=(0.5, 1.5)),
    ]


@pytest.mark.parametrize(
    ("looks", "how", "rows", "objective", "micro_batch"),
    [
        (1, {"window": "all"}, 4, "rollout", 16),
        (2, {"window": "all"}, 4, "rollout", 3),
        (2, {"window": 1}, 5, "rollout", 1),
        (3, {"window": 1}, 6, "rollout", 4),
        (3, {"window": 1}, 6, "token", 16),
        (2, {"window": 1, "protocol": "concat"}, 5, "rollout", 2),
    ],
)
def test_gradients_are_those_of_the_written_out_objective(
    looks: int, how: Any, rows: int, objective: Objective, micro_batch: int, checkpoint: Path, tmp_path: Path
) -> None:  # fmt: skip
    """Padding, fillers, redirected tokens, tool replies and passes change nothing; concat opens with a video."""
    groups = two_groups(checkpoint, looks, **how)
    loaded = TransformersBackend.load(str(checkpoint)).loaded
    made = [row for one in groups for each in one.rollouts for row in token_rows(each, loaded)]
    assert len(made) == rows, "the window makes rows from the third turn on"
    (found,), _ = learn(checkpoint, groups, tmp_path, micro_batch, objective=objective)
    assert difference(found, reference(checkpoint, groups, objective)) < 1e-5


def test_equal_rewards_teach_nothing(checkpoint: Path, tmp_path: Path) -> None:
    (one, other) = two_groups(checkpoint, 1)
    groups = [group(*one.rollouts, totals=(1, 1)), group(*other.rollouts, totals=(2, 2))]
    (found,), _ = learn(checkpoint, groups, tmp_path)
    assert found
    assert all(not each.any() for each in found.values())


def test_two_updates_share_the_rollouts_of_one_policy(checkpoint: Path, tmp_path: Path) -> None:
    """With a learning rate of 0 the two are the halves of one: a rollout is never cut between them."""
    groups = two_groups(checkpoint, 2)
    halves, trainer = learn(checkpoint, groups, tmp_path, updates=2)
    whole = reference(checkpoint, groups, "rollout")
    mean = {name: (halves[0][name] + halves[1][name]) / 2 for name in whole}
    assert difference(mean, whole) < 1e-5
    clipped = [line["clip_ratio/region_mean"] for line in trainer.state.log_history[:2]]
    assert clipped == [0, 0]


def learn_part(launched: dict[str, str], checkpoint: Path, out: Path) -> None:
    import os

    os.environ.update(launched)
    mine = two_groups(checkpoint)[int(launched["RANK"])]
    (found,), _ = learn(checkpoint, [mine], out / launched["RANK"], micro_batch=2)
    torch.save(found, out / f"{launched['RANK']}.pt")


def test_two_processes_equal_one(checkpoint: Path, tmp_path: Path) -> None:
    """Four rows and two: the shorter process fills up."""
    in_processes(2, learn_part, checkpoint, tmp_path)
    expected = reference(checkpoint, two_groups(checkpoint), "rollout")
    for number in range(2):
        found = torch.load(tmp_path / f"{number}.pt", weights_only=True)
        assert difference(found, expected) < 1e-5


def test_trl_is_as_the_trainer_needs_it() -> None:
    """What `WindowTrainer` leans on, read from TRL's source: a new version is looked at by hand."""
    loss = inspect.getsource(GRPOTrainer._compute_loss)
    read = set(re.findall(r"inputs(?:\.get\(|\[)\"(\w+)\"", loss))
    unused = {"sampling_per_token_logps", "importance_sampling_ratio", "token_type_ids"}
    unused |= {"pixel_attention_mask", "spatial_shapes", "num_tiles", "image_sizes"}
    ours = {"old_per_token_logps", "ref_per_token_logps", "pixel_values", "image_grid_thw"}
    ours |= {"num_images", "mm_token_type_ids", "num_items_in_batch", "advantages", "tool_mask"}
    ours |= {"prompt_ids", "prompt_mask", "completion_ids", "completion_mask"}
    assert read - unused - {"image_position_ids"} == ours
    assert 'completion_mask * inputs["tool_mask"]' in loss, "weights are multiplied, never cast"
    assert "(per_token_loss * mask).sum() / normalizer" in loss
