"""GRPO's loss over the tokens of rollouts, the paper's third stage: clipped ratio times advantage, and the KL to a reference model.

Token by token and divided by all learnt tokens of the batch, as TRL's `loss_type="dapo"` does it.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from transformers import Qwen2_5_VLForConditionalGeneration

from vrthinker_core.training.token_rows import IGNORED


@dataclass(frozen=True, slots=True)
class TokenScores:
    """Of the learnt tokens of a batch, (tokens,) each."""

    logprobs: torch.Tensor  # Of the token that was written
    entropy: torch.Tensor  # Of the distribution it was drawn from, in nats; without gradient
    rows: torch.Tensor  # Which row of the batch it stands in


def score_tokens(
    model: Qwen2_5_VLForConditionalGeneration, batch: Mapping[str, torch.Tensor], temperature: float = 1.0
) -> TokenScores:
    """How likely the model is to sample the learnt tokens of a batch of `collate`; logits are computed for these tokens alone."""
    labels = batch["labels"][:, 1:]
    learnt = labels != IGNORED
    inputs = {name: value for name, value in batch.items() if name != "labels"}
    hidden = model.model(**inputs).last_hidden_state[:, :-1][learnt]
    logprobs = torch.log_softmax(model.lm_head(hidden).float() / temperature, dim=-1)
    with torch.no_grad():
        entropy = -(logprobs.exp() * logprobs).sum(-1)
    rows = torch.arange(len(labels), device=labels.device)[:, None].expand(labels.shape)[learnt]
    return TokenScores(logprobs.gather(1, labels[learnt][:, None])[:, 0], entropy, rows)


def kl_to_reference(logprobs: torch.Tensor, reference: torch.Tensor) -> torch.Tensor:
    """The estimate r - log r - 1 of the KL divergence, with r the ratio of reference to policy: never negative, (tokens,)."""
    difference = reference - logprobs
    return difference.exp() - difference - 1


def policy_loss(scores: TokenScores, old: torch.Tensor, advantages: torch.Tensor, clip: float = 0.2) -> torch.Tensor:
    """-min(ratio · A, clipped ratio · A) of each token, (tokens,).

    `old`: log probabilities under the policy that wrote the tokens, (tokens,); `advantages`: one a row, (rows,).
    """
    ratio = (scores.logprobs - old).exp()
    gain = advantages[scores.rows]
    return -torch.minimum(ratio * gain, ratio.clamp(1 - clip, 1 + clip) * gain)
