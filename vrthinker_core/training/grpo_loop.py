"""GRPO on one processor: rollouts through the one `Deliberation`, the paper's reward, one optimizer step a batch of pairs.

TRL's trainer runs the third stage on GPUs. On a processor this loop is quicker: TRL keeps no cache between turns and runs the
vision tower again at each pass.
"""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from transformers import Qwen2_5_VLForConditionalGeneration

from vrthinker_core.backends.base import Backend
from vrthinker_core.backends.local.engine.generation import LoadedModel
from vrthinker_core.backends.transformers_local import TransformersBackend
from vrthinker_core.errors import BadInput
from vrthinker_core.training.groups import Group, StepReport, group_of
from vrthinker_core.training.policy_loss import kl_to_reference, policy_loss, score_tokens
from vrthinker_core.training.rollouts import LabelledPair, Rollout, by_pair, play_each, unplayable_words
from vrthinker_core.training.run.config import GrpoConfig
from vrthinker_core.training.token_rows import TokenRow, collate, token_rows
from vrthinker_core.types import Settings


def draw_groups(
    pairs: Iterator[LabelledPair],
    judge: Backend,
    config: GrpoConfig,
    settings: Settings,
    say: Callable[[str], None] = lambda _: None,
) -> tuple[list[Group], list[Group]]:
    """Dynamic sampling: groups whose rewards differ, and all that were played to find them.

    `settings` are those of the rollouts, but for the temperature, which is the config's.

    What cannot be played has no reward and is in no group; `say` hears why. Raises BadInput where nothing can.
    """
    mixed: list[Group] = []
    played: list[Group] = []
    for _ in range(config.redraws):
        batch = list(itertools.islice(pairs, config.pairs))
        groups = _play_groups(batch, judge, config, replace(settings, temperature=config.temperature), say)
        played += groups
        mixed += [group for group in groups if group.is_mixed]
        if len(mixed) >= config.pairs or not batch:
            break
    if not played:
        raise BadInput("No pair that was drawn for this step can be played: mend the data, and go on with --resume.")
    return mixed[: config.pairs], played


def _play_groups(
    pairs: Sequence[LabelledPair], judge: Backend, config: GrpoConfig, settings: Settings, say: Callable[[str], None]
) -> list[Group]:
    samples = config.samples
    played = list(play_each(pairs, judge, settings, samples, config.pairs * samples))
    for sentence in dict.fromkeys(unplayable_words(each) for each in played if not isinstance(each, Rollout)):
        say(sentence)
    found = ([each for each in of_pair if isinstance(each, Rollout)] for of_pair in by_pair(played, samples))
    return [group_of(rollouts, config.weights) for rollouts in found if rollouts]


@dataclass(frozen=True, slots=True)
class Learner:
    """What a step changes, and what it is held to."""

    policy: Qwen2_5_VLForConditionalGeneration  # Its trainable parameters are those with a gradient
    reference: Qwen2_5_VLForConditionalGeneration | None  # Where training began, never changed; None where there is no KL term
    optimizer: torch.optim.Optimizer
    judge: TransformersBackend  # Plays the rollouts, with the policy's own weights or with those `train_step` gives it
    batch: Callable[[Sequence[TokenRow], LoadedModel], Mapping[str, torch.Tensor]] = collate


def train_step(groups: Sequence[Group], drawn: int, learner: Learner, config: GrpoConfig) -> StepReport:
    """One optimizer step over all rollouts of the groups, each token with its rollout's advantage."""
    loaded = learner.judge.loaded
    rows = [
        (row, advantage)
        for group in groups
        for rollout, advantage in zip(group.rollouts, group.advantages, strict=True)
        for row in token_rows(rollout, loaded)
    ]
    rows.sort(key=lambda entry: len(entry[0].input_ids))  # little padding
    total = max(1, sum(row.learnt for row, _ in rows))
    sums = torch.zeros(3)
    for start in range(0, len(rows), config.micro_batch):
        sums += _backward(rows[start : start + config.micro_batch], total, learner, config)
    if rows:
        weights = [each for each in learner.policy.parameters() if each.requires_grad]
        torch.nn.utils.clip_grad_norm_(weights, config.optimizer.max_grad_norm)
        learner.optimizer.step()
        learner.optimizer.zero_grad()
        if loaded.model is not learner.policy:
            loaded.model.load_state_dict(learner.policy.state_dict())
    loss, entropy, kl = (sums / total).tolist()
    return StepReport(tuple(groups), drawn, loss, entropy, kl)


def _backward(rows: Sequence[tuple[TokenRow, float]], total: int, learner: Learner, config: GrpoConfig) -> torch.Tensor:
    """Add the gradients of some rows; gives the sums of loss, entropy and KL over their learnt tokens."""
    batch = learner.batch([row for row, _ in rows], learner.judge.loaded)
    with torch.autocast(learner.policy.device.type, torch.bfloat16, enabled=config.bf16):
        scores = score_tokens(learner.policy, batch, config.temperature)
        held = scores.logprobs.detach()
        if learner.reference is not None:
            with torch.no_grad():
                held = score_tokens(learner.reference, batch, config.temperature).logprobs
    kl = kl_to_reference(scores.logprobs, held)
    gains = torch.tensor([advantage for _, advantage in rows])
    # One step a batch of rollouts: the policy that wrote them is the policy that is trained.
    losses = policy_loss(scores, scores.logprobs.detach(), gains, config.clip) + config.kl * kl
    (losses.sum() / total).backward()  # type: ignore[no-untyped-call]
    return torch.stack([losses.sum(), scores.entropy.sum(), kl.sum()]).detach()
