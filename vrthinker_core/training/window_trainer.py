"""GRPO whose rows are turns as the judge saw them: TRL's trainer with a memory window.

TRL's own rollouts only append to a conversation, so they cannot train a judge whose frames leave
its view. Here rollouts are runs of the product's loop. A `TokenRow` holds consecutive turns whose
prompts continue each other; the window begins a new row. TRL computes loss, KL and clipping.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from math import ceil
from statistics import fmean, stdev
from typing import Any, Literal

import numpy as np
import torch
from trl import GRPOTrainer
from trl.models.utils import disable_gradient_checkpointing
from trl.trainer.utils import use_adapter

from vrthinker_core.backends.generation import LoadedModel
from vrthinker_core.training.rewards import RolloutReward
from vrthinker_core.training.rollouts import Rollout
from vrthinker_core.training.sft import (
    IGNORED,
    PIXELS,
    TokenRow,
    collate,
    placed_tokens,
    token_rows,
)

Batch = dict[str, Any]  # One forward pass, as TRL's `_compute_loss` reads it
Objective = Literal["rollout", "token"]


@dataclass(frozen=True, slots=True)
class Group:
    """The rollouts of one pair, with their rewards."""

    rollouts: tuple[Rollout, ...]
    rewards: tuple[RolloutReward, ...]

    @property
    def rewarded(self) -> list[tuple[Rollout, RolloutReward]]:
        """Return the rollouts that have rewards, with these."""
        both = zip(self.rollouts, self.rewards, strict=True)
        return [(rollout, reward) for rollout, reward in both if reward.total is not None]

    @property
    def advantages(self) -> list[tuple[Rollout, float]]:
        """Rollouts with (reward - mean) / std; [] for equal rewards.

        Leaves out rollouts without a reward.
        """
        totals = [reward.total or 0.0 for _, reward in self.rewarded]
        if not totals or max(totals) - min(totals) < 1e-9:
            return []
        mean, spread = fmean(totals), stdev(totals) + 1e-4  # As TRL has it
        return [
            (rollout, (total - mean) / spread)
            for (rollout, _), total in zip(self.rewarded, totals, strict=True)
        ]


Draw = Callable[[int], Sequence[Group]]
"""Play this process's rollouts for the updates from an optimizer step on."""


@dataclass(frozen=True, slots=True)
class LearntRow:
    """A row with its rollout's advantage and its own tokens' weight."""

    row: TokenRow
    advantage: float = 0.0
    weight: float = 0.0


class WindowTrainer(GRPOTrainer):  # type: ignore[misc]
    """TRL's `GRPOTrainer` over rollouts of the product's own loop.

    A step of the trainer is one optimizer step, of as many forward passes as its rows take. Every
    process makes the same number of passes of as many rows: filler rows of weight 0 make it so.
    """

    def __init__(
        self,
        *,
        draw: Draw,
        loaded: LoadedModel,
        micro_batch: int,
        updates: int = 1,
        objective: Objective = "rollout",
        **options: Any,
    ) -> None:
        """Take TRL's `options`; `args` must have `loss_type` "dapo" and no accumulation.

        `micro_batch`: rows in a forward pass at most. `updates`: optimizer steps from one `draw`.
        `objective`: "rollout" is the paper's mean over rollouts of the mean over a rollout's own
        tokens, "token" is DAPO's mean over all own tokens.
        """
        super().__init__(reward_funcs=_no_reward, **options)
        self._draw, self._loaded, self._micro_batch = draw, loaded, micro_batch
        self._updates, self._objective = updates, objective
        self._waiting: list[list[Batch]] = []  # Updates to come

    def training_step(self, model: Any, inputs: Any, num_items_in_batch: Any = None) -> Any:
        """Learn from one update; return its loss."""
        del inputs  # TRL's data set is a dummy
        self._waiting = self._waiting or self._drawn()
        batches, losses = self._waiting.pop(0), []
        for number, batch in enumerate(batches, start=1):
            # DeepSpeed takes its optimizer step inside the last backward pass
            self.accelerator.gradient_state._set_sync_gradients(number == len(batches))
            losses.append(super().training_step(model, batch, num_items_in_batch))
        return torch.stack(losses).sum()

    def _prepare_inputs(self, generation_batch: Batch) -> Batch:
        return generation_batch

    def _compute_loss(self, model: Any, inputs: Batch) -> Any:
        return super()._compute_loss(_with_videos(model, inputs), inputs)

    @contextmanager
    def playing(self) -> Iterator[None]:
        """Let the judge play: recomputed layers keep no cache."""
        self.model.eval()
        if any(each.requires_grad for each in self._loaded.model.model.visual.parameters()):
            self._loaded.vision.clear()  # Features of the weights before the last step
        # TRL's own mark: held-out pairs and rollouts are played with the same weights
        step, generator = self.state.global_step, getattr(self, "vllm_generation", None)
        if generator and getattr(self, "_last_loaded_step", -1) != step:
            generator.sync_weights()
            self._last_loaded_step = step
        try:
            with self.accelerator.autocast():
                yield
        finally:
            self.model.train()

    def _drawn(self) -> list[list[Batch]]:
        """Play, and deal the rollouts that teach something to the updates."""
        step = self.state.global_step
        with self.playing():
            groups = self._draw(step)
        learnt = [each for group in groups for each in group.advantages]
        order = np.random.default_rng((self.args.seed, step)).permutation(len(learnt))
        shuffled = [learnt[place] for place in order]
        spare = filler(next(token_rows(groups[0].rollouts[0], self._loaded)), self._loaded)
        parts = [shuffled[number :: self._updates] for number in range(self._updates)]
        return [self._update(part, spare) for part in parts]

    def _update(self, learnt: Sequence[tuple[Rollout, float]], spare: TokenRow) -> list[Batch]:
        """Return the micro-batches of one optimizer step.

        TRL sums policy and KL terms over tokens, times their weight, and divides by T. A rollout of
        N own tokens weighs (T/R)/N, of R rollouts and T own tokens in all processes: so the sum is
        the mean over rollouts.
        """
        known = [([*token_rows(each, self._loaded)], advantage) for each, advantage in learnt]
        own = [sum(row.learnt for row in rows) for rows, _ in known]
        count, device = sum(len(rows) for rows, _ in known), self.accelerator.device
        counts = self.accelerator.gather(torch.tensor([[sum(own), len(own), count]], device=device))
        tokens, rollouts = counts[:, :2].sum(dim=0).tolist()
        most = int(counts[:, 2].max())
        rows = [
            LearntRow(row, advantage, tokens / rollouts / n if self._objective == "rollout" else 1)
            for (rows, advantage), n in zip(known, own, strict=True)
            for row in rows
        ]
        passes = max(1, ceil(most / self._micro_batch))
        size = max(1, ceil(most / passes))
        rows += [LearntRow(spare)] * (passes * size - count)
        rows.sort(key=lambda each: len(each.row.input_ids))  # So that passes have little padding
        return [
            self._scored(pack(rows[start : start + size], self._loaded), float(tokens))
            for start in range(0, len(rows), size)
        ]

    def _scored(self, batch: Batch, tokens: float) -> Batch:
        """Add log-probabilities of old and reference policy, if needed."""
        device = self.accelerator.device
        batch = {
            name: each.to(device) if torch.is_tensor(each) else each for name, each in batch.items()
        }
        batch["num_items_in_batch"] = torch.tensor(tokens, device=device)
        checkpointing = self.args.gradient_checkpointing_kwargs
        with torch.no_grad(), disable_gradient_checkpointing(self.model, checkpointing):
            if self._updates > 1:  # Else the ratio of policies is 1
                batch["old_per_token_logps"] = self._logps(self.model, batch)
            if self.beta and self.ref_model is not None:
                batch["ref_per_token_logps"] = self._logps(self.ref_model, batch)
            elif self.beta:
                with use_adapter(self.accelerator.unwrap_model(self.model), adapter_name=None):
                    batch["ref_per_token_logps"] = self._logps(self.model, batch)
        return batch

    def _logps(self, model: Any, batch: Batch) -> torch.Tensor:
        names = ("pixel_values", "image_grid_thw", "num_images", "mm_token_type_ids")
        found: torch.Tensor = self._get_per_token_logps_and_entropies(
            _with_videos(model, batch),
            torch.cat([batch["prompt_ids"], batch["completion_ids"]], dim=1),
            torch.cat([batch["prompt_mask"], batch["completion_mask"]], dim=1),
            batch["completion_ids"].shape[1],
            **{name: batch.get(name) for name in names},
        )[0]
        return found


def pack(rows: Sequence[LearntRow], loaded: LoadedModel) -> Batch:
    """Return rows as TRL's loss reads them.

    The prompt ends before the first own token of all rows.
    `tool_mask` (rows, tokens after the prompt) holds weights, 0 for what the judge did not write.
    """
    batch: Batch = collate([each.row for each in rows], loaded)
    ids, mask, labels = (batch.pop(name) for name in ("input_ids", "attention_mask", "labels"))
    weights = torch.tensor([[each.weight] for each in rows]) * (labels != IGNORED)
    columns = weights.any(dim=0).nonzero()
    begin = int(columns[0]) if len(columns) else 1
    return batch | {
        "prompt_ids": ids[:, :begin],
        "prompt_mask": mask[:, :begin],
        "completion_ids": ids[:, begin:],
        "completion_mask": mask[:, begin:],
        "tool_mask": weights[:, begin:],
        "advantages": torch.tensor([each.advantage for each in rows]),
        "num_images": [sum(item.kind == "image" for item in each.row.items) for each in rows],
    }


def filler(row: TokenRow, loaded: LoadedModel) -> TokenRow:
    """Return a smallest row that runs every module, with nothing learnt."""
    item = min(row.items, key=lambda each: each.num_tokens)
    begin = row.input_ids[0]
    ids = (begin, *placed_tokens(item, loaded), begin)
    return replace(row, input_ids=ids, labels=(IGNORED,) * len(ids), items=(item,), turns=())


def _with_videos(model: Any, batch: Batch) -> Any:
    """Return the model with a batch's videos: TRL passes pictures alone."""
    names = (PIXELS["video"], "video_grid_thw")
    return partial(model, **{name: batch[name] for name in names if name in batch})


def _no_reward(**_: Any) -> list[float]:
    raise AssertionError("TRL asked for rewards: `training_step` is no longer what it calls")
