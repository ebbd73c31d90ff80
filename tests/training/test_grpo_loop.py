"""GRPO's loss and the loop around it, on the built-in judge."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pytest
import torch
from transformers import Qwen2_5_VLForConditionalGeneration

from tests.training.test_token_rows import ANSWER, labelled, look
from vrthinker_core import ScriptedBackend
from vrthinker_core.backends.built_in import NANO
from vrthinker_core.backends.transformers_local import TransformersBackend
from vrthinker_core.errors import BadInput, VideoError
from vrthinker_core.training.grpo_loop import Learner, draw_groups, train_step
from vrthinker_core.training.policy_loss import TokenScores, kl_to_reference, policy_loss, score_tokens
from vrthinker_core.training.rollouts import LabelledPair, play
from vrthinker_core.training.run.config import preset_config
from vrthinker_core.training.token_rows import collate, token_rows
from vrthinker_core.types import Frame, FrameRef, Settings

SEED = 2_000_000_000
CONFIG = preset_config("nano").grpo


@pytest.fixture(scope="module")
def nano() -> Iterator[TransformersBackend]:
    backend = TransformersBackend.load(str(NANO))
    yield backend
    backend.close()


def trainable() -> Qwen2_5_VLForConditionalGeneration:
    model = Qwen2_5_VLForConditionalGeneration.from_pretrained(str(NANO), dtype=torch.float32)
    model.model.visual.requires_grad_(False)
    return model


def scores(*logprobs: float) -> TokenScores:
    values = torch.tensor(logprobs, requires_grad=True)
    return TokenScores(values, torch.zeros_like(values), torch.zeros(len(logprobs), dtype=torch.long))


@pytest.mark.parametrize("advantage", [2.0, -2.0])
def test_on_the_policy_itself_the_gradient_is_the_advantage(advantage: float) -> None:
    own = scores(-0.5, -1.5)
    policy_loss(own, own.logprobs.detach(), torch.tensor([advantage])).sum().backward()
    assert own.logprobs.grad is not None
    assert own.logprobs.grad.tolist() == pytest.approx([-advantage, -advantage])


def test_what_has_gone_too_far_already_is_not_pushed_on() -> None:
    own, old = scores(-0.1, -3.0), torch.tensor([-1.0, -1.0])
    policy_loss(own, old, torch.tensor([1.0])).sum().backward()
    assert own.logprobs.grad is not None
    assert own.logprobs.grad[0] == 0  # its ratio is above 1 + clip
    assert own.logprobs.grad[1] < 0


def test_the_kl_is_nothing_only_where_both_agree() -> None:
    same = torch.tensor([-0.3, -2.0])
    assert kl_to_reference(same, same).tolist() == [0, 0]
    assert (kl_to_reference(same, same + torch.tensor([0.5, -0.5])) > 0).all()


@pytest.mark.parametrize("temperature", [1.0, 1.6])
def test_scores_are_those_of_the_whole_logits(nano: TransformersBackend, temperature: float) -> None:
    rollouts = list(play(map(labelled, (SEED, SEED + 1)), nano, Settings()))
    rows = [row for rollout in rollouts for row in token_rows(rollout, nano.loaded)]
    batch = collate(rows, nano.loaded)
    with torch.no_grad():
        found = score_tokens(trainable(), batch, temperature)
        inputs = {name: value for name, value in batch.items() if name != "labels"}
        logits = trainable()(**inputs).logits[:, :-1].float() / temperature
    labels = batch["labels"][:, 1:]
    wanted = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="none").view_as(labels)
    assert torch.allclose(-found.logprobs, wanted[labels != -100], atol=1e-5)
    assert found.rows.bincount().tolist() == [row.learnt for row in rows]


@dataclass(frozen=True)
class Damaged:
    """The frames of a pair, of which only so many can be read."""

    pair: LabelledPair
    readable: int

    def __call__(self, refs: Sequence[FrameRef]) -> tuple[Frame, ...]:
        if any(ref.slot >= self.readable for ref in refs):
            raise VideoError("second.mp4 is cut short.")
        return self.pair.source(refs)


def test_a_pair_that_cannot_be_played_teaches_nothing_and_ends_nothing() -> None:
    good, damaged, long = labelled(0), replace(labelled(1), row=4), replace(labelled(2), row=5, prompt="word " * 9000)
    begun = replace(damaged, source=Damaged(damaged, 128), row=6)
    damaged = replace(damaged, source=Damaged(damaged, 0))
    judge = ScriptedBackend([look(127), ANSWER], protocol="paired", context_length=8000)
    heard: list[str] = []
    config = replace(CONFIG, pairs=4, samples=2, redraws=1)
    _, played = draw_groups(iter([damaged, good, long, begun]), judge, config, Settings(), heard.append)
    assert [[rollout.pair.prompt for rollout in group.rollouts] for group in played] == [[good.prompt] * 2, [begun.prompt] * 2]
    assert heard[0] == "A pair cannot be played and teaches nothing. Row 4: second.mp4 is cut short."
    assert heard[1].startswith("A pair cannot be played and teaches nothing. Row 5: The conversation has 11")
    assert len(heard) == 2
    cut = replace(begun, source=Damaged(begun, 100))
    _, played = draw_groups(iter([good, cut]), judge, replace(config, pairs=2), Settings(), heard.append)
    assert [group.rollouts[0].pair.prompt for group in played] == [good.prompt]
    assert heard[2].endswith("Row 6: second.mp4 is cut short.")
    with pytest.raises(BadInput, match="No pair that was drawn"):
        draw_groups(iter([damaged]), judge, config, Settings())


def test_a_step_makes_good_rollouts_likelier_and_bad_ones_less_so(nano: TransformersBackend) -> None:
    judge = TransformersBackend.load(str(NANO))
    policy, reference = trainable(), trainable().requires_grad_(False)
    optimizer = torch.optim.SGD([each for each in policy.parameters() if each.requires_grad], lr=0.05)
    config = replace(CONFIG, pairs=2, samples=4, redraws=6, temperature=1.6)
    groups, played = draw_groups(iter(map(labelled, range(SEED, SEED + 12))), judge, config, Settings())
    assert 0 < len(groups) <= 2
    assert len(played) >= len(groups)
    learner = Learner(policy, reference, optimizer, judge)
    before = nano.loaded.model.state_dict()
    report = train_step(groups, len(played), learner, config)
    assert report.kl == pytest.approx(0, abs=1e-6)
    assert report.entropy > 0
    rows = [
        (row, gain)
        for group in groups
        for rollout, gain in zip(group.rollouts, group.advantages, strict=True)
        for row in token_rows(rollout, judge.loaded)
    ]
    batch = collate([row for row, _ in rows], judge.loaded)
    with torch.no_grad():
        moved = score_tokens(policy, batch).logprobs - score_tokens(reference, batch).logprobs
    gains = torch.tensor([gain for _, gain in rows])[score_tokens(reference, batch).rows]
    assert (moved * gains).sum() > 0
    after = judge.loaded.model.state_dict()
    assert any(not torch.equal(after[name], before[name]) for name in after)
    assert all(torch.equal(after[name], before[name]) for name in after if ".visual." in name)
