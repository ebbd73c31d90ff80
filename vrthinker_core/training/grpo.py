"""The third stage: GRPO, TRL's `GRPOTrainer` over our environment and our rewards.

What TRL cannot do is lost. There is no finite memory window: a judge trains with the whole
conversation in view. First frames are sent as pictures, never packed as a video. Groups of equal
rewards are not drawn again; the metrics say how many differ. A last answer is not redirected
(`environment.py` says what a last turn becomes). No repetition penalty applies. A model of two
protocols trains in its first one. On a processor a step takes 1.33 times as long as in the loop of
our own, which commit 085c38a still has.
"""

import os
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import cache, partial
from importlib.util import find_spec
from math import gcd
from pathlib import Path
from statistics import fmean
from typing import Any

import torch

from vrthinker_core.backends.base import JudgeDescription
from vrthinker_core.backends.chat_template import SafeTokenizer
from vrthinker_core.backends.checkpoint import Checkpoint
from vrthinker_core.backends.checkpoint_files import locate
from vrthinker_core.backends.transformers_local import TransformersBackend
from vrthinker_core.errors import BadInput
from vrthinker_core.protocols import make_protocol
from vrthinker_core.protocols.factory import chosen_protocol
from vrthinker_core.training.config import TrainConfig
from vrthinker_core.training.environment import (
    CachedFrames,
    FrameEnvironment,
    begin,
    first_prompt,
    replay,
)
from vrthinker_core.training.metrics import StepMetrics
from vrthinker_core.training.pair_set import PairSet, in_training_order
from vrthinker_core.training.rewards import RewardWeights, RolloutReward, group_rewards
from vrthinker_core.training.rollouts import (
    UNPLAYABLE,
    LabelledPair,
    Rollout,
    of_row,
)
from vrthinker_core.training.run_folder import StageRun, world_size
from vrthinker_core.training.sft import save_trained, trainer_arguments
from vrthinker_core.training.sharding import (
    heads_in_root,
    is_sharded,
    launched_in_bf16,
    open_whole,
    stored_dtype,
    weights_in_every_process,
)
from vrthinker_core.training.traces import SHOWN, keep_rollouts
from vrthinker_core.training.trainer_checkpoints import NO_SERVER, quiet_libraries, train_and_save
from vrthinker_core.training.trl_template import picture_processor, read_replies
from vrthinker_core.types import Settings, StopReason

BEYOND = 2**20  # Pairs between one and its stand-in: further than a run goes
TRIES = 64  # Pairs that are tried as a stand-in


@dataclass(frozen=True, slots=True)
class PlayablePairs:
    """The pairs of a set; for one without first frames another stands in, in all its samples."""

    pairs: PairSet
    judge: JudgeDescription
    settings: Settings
    say: Callable[[str], None] = lambda _: None  # Hears why, once for each
    _chosen: dict[int, int] = field(default_factory=dict)

    @property
    def size(self) -> int | None:
        """How many there are; None if they never end."""
        return self.pairs.size

    def pair(self, number: int) -> LabelledPair:
        """The pair of a number, or its stand-in.

        Raises BadInput if none is found, and VideoError for one that could be played before and no
        longer can: half a group of another pair would be rewarded as one.
        """
        if number in self._chosen:
            return self._opened(self._chosen[number])
        for tried in range(number, number + TRIES * BEYOND, BEYOND):
            try:
                pair = self._opened(tried)
            except UNPLAYABLE as error:
                self.say(f"A pair cannot be played and teaches nothing. {error}")
            else:
                self._chosen[number] = tried
                return pair
        raise BadInput(
            f"None of {TRIES} pairs can be played: mend the data, and go on with --resume."
        )

    def _opened(self, number: int) -> LabelledPair:
        pair = self.pairs.pair(number)
        pair = replace(pair, source=CachedFrames(pair.source))  # it is replayed for its reward
        try:
            first_prompt(begin(pair, self.judge, self.settings))
        except UNPLAYABLE as error:
            raise of_row(error, pair) from None
        return pair


@dataclass(frozen=True, slots=True)
class Group:
    """The rollouts of one pair, with their rewards."""

    rollouts: tuple[Rollout, ...]
    rewards: tuple[RolloutReward | None, ...]  # None if its frames could not be had

    @property
    def totals(self) -> list[float | None]:
        """The reward of each rollout."""
        return [None if each is None else each.total for each in self.rewards]

    @property
    def rewarded(self) -> list[tuple[Rollout, RolloutReward]]:
        """The rollouts that have rewards, with these."""
        both = zip(self.rollouts, self.rewards, strict=True)
        return [(rollout, reward) for rollout, reward in both if reward is not None]


def mixed_share(groups: Sequence[Group]) -> float:
    """The share of groups whose rewards differ: a step learns from these alone."""
    known = [[total for total in group.totals if total is not None] for group in groups]
    return fmean(bool(totals) and max(totals) - min(totals) > 1e-9 for totals in known)


@dataclass(slots=True)
class RolloutRewards:
    """A reward function of `GRPOTrainer`."""

    judge: JudgeDescription
    settings: Settings
    tokenizer: SafeTokenizer
    samples: int  # Of each pair
    weights: RewardWeights = field(default_factory=RewardWeights)
    groups: Sequence[Group] = ()  # Of the latest step, in this process

    def __call__(
        self,
        completion_ids: Sequence[Sequence[int]],
        environments: Sequence[FrameEnvironment],
        **_: Any,
    ) -> list[float | None]:
        """The total of each rollout of a step, None for one that has none."""
        rollouts = [
            replay(environment.pair, self.judge, self.settings, read_replies(ids, self.tokenizer))
            for environment, ids in zip(environments, completion_ids, strict=True)
        ]
        groups = []
        for start in range(0, len(rollouts), self.samples):
            group = rollouts[start : start + self.samples]
            ends = [rollout.run.finished for rollout in group]
            failed = [end is None or end.stop is StopReason.FAILED for end in ends]
            runs = [each.run for each, lost in zip(group, failed, strict=True) if not lost]
            rewards = iter(group_rewards(runs, group[0].pair.truth, self.weights))
            known = tuple(None if lost else next(rewards) for lost in failed)
            groups.append(Group(tuple(group), known))
        self.groups = groups
        return [total for group in groups for total in group.totals]


def run_grpo(run: StageRun, pairs: PairSet) -> Path | None:
    """Train the source; gives the trained checkpoint, None if stopped.

    Figures and kept rollouts are of the main process. Raises BadInput and CheckpointError.
    """
    grpo, folder, say = run.config.grpo, run.folder, run.time_budget.say
    count = folder.processes.count
    say(
        f"GRPO runs in TRL in {'one process' if count == 1 else f'{count} processes'}, with the "
        "whole conversation in view (no memory window), first frames as pictures, no redraw of "
        "equal groups, no redirected last answer; on a processor 1.33 times the time of a loop of "
        "our own."
    )
    with run.record() as record:

        def report(step: StepMetrics, groups: Sequence[Group]) -> bool:
            step = replace(step, mixed=mixed_share(groups))
            rewarded = [each for group in groups for each in group.rewarded]
            over = record(step.with_rollouts(rewarded, grpo.weights), grpo.steps)
            if step.step % grpo.shown_every == 0:
                keep_rollouts(folder.path, "grpo", step.step, groups[0].rollouts[:SHOWN])
            return over

        ordered, checkpoint = in_training_order(pairs, run.config.seed), locate(run.source)
        made = train_grpo(ordered, checkpoint, run.config, folder.checkpoints, report, say)
    return run.finish(made)


@quiet_libraries()
def train_grpo(
    pairs: PairSet,
    checkpoint: Path,
    config: TrainConfig,
    folder: Path,
    report: Callable[[StepMetrics, Sequence[Group]], bool | None] = lambda _, __: None,
    say: Callable[[str], None] = lambda _: None,
) -> Path:
    """Train the judge of `checkpoint`; gives `folder/model`, which the product opens.

    Step s learns from pairs s * `grpo.pairs` on, so `pairs` should be in the order of training.
    Goes on from the last whole checkpoint in `folder/trainer`. `report` hears of each step and of
    the groups of the main process; if it gives True, training ends there with a checkpoint. `say`
    hears of pairs that cannot be played; others stand in for them.

    Raises BadInput and CheckpointError.
    """
    os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")
    grpo = replace(config.grpo, bf16=config.grpo.bf16 or launched_in_bf16())
    lora = grpo.trl.lora
    settings = replace(config.settings, temperature=grpo.temperature, window="all")
    config = replace(config, grpo=grpo, settings=settings)
    if grpo.trl.vllm and find_spec("vllm") is None:
        raise BadInput(
            "Rollouts by vLLM take vLLM: run pip install 'trl[vllm]', or leave grpo.trl.vllm empty."
        )
    # A reference model is read, too
    loading = weights_in_every_process() if grpo.kl and not lora else nullcontext()
    # Beside adapters no weight learns, so none needs float32 for small steps to add up
    dtype = stored_dtype(checkpoint) if lora and grpo.bf16 else torch.float32
    with loading, heads_in_root():
        opened = open_whole(checkpoint, dtype)
        opened.model.model.visual.requires_grad_(not config.frozen_vision)
        try:
            trainer, rewards = _trainer(pairs, opened, config, folder / "trainer", say)
        except ConnectionError as error:
            raise BadInput(NO_SERVER) from error
        minutes = config.checkpoint_minutes
        train_and_save(trainer, checkpoint.name, minutes, lambda step: report(step, rewards.groups))
    if lora:
        trainer.model = trainer.accelerator.unwrap_model(trainer.model).merge_and_unload()
    learnt = (chosen_protocol(settings, ()),)
    return save_trained(trainer, checkpoint, folder / "model", protocols=learnt)


def grpo_arguments(config: TrainConfig, context: int, folder: Path) -> Any:
    """The configuration as TRL's. `context`: tokens that the model reads.

    Raises BadInput if the rollouts of a step cannot be shared among the processes or played.
    """
    from trl import GRPOConfig

    grpo, trl, processes = config.grpo, config.grpo.trl, world_size()
    if grpo.pairs % processes:
        raise BadInput(
            f"grpo.pairs={grpo.pairs} leaves {processes} processes no whole groups: choose a "
            f"multiple of {processes}."
        )
    if is_sharded() and processes > 1 and not trl.vllm:
        raise BadInput(
            "Rollouts end at different turns, so processes that share one model cannot play them: "
            "set grpo.trl.vllm to colocate or server, or launch with data_parallel.yaml and train "
            "adapters (grpo.trl.lora=64)."
        )
    rollouts = grpo.pairs * grpo.samples // processes
    batch = gcd(grpo.micro_batch, rollouts)
    most = min(config.settings.max_new_tokens, trl.tokens)
    told: dict[str, Any] = {}
    if trl.vllm:
        told = {"use_vllm": True, "vllm_mode": trl.vllm, "vllm_server_base_url": trl.vllm_url}
        told["vllm_gpu_memory_utilization"] = trl.vllm_memory
        # Else vLLM keeps room for the model's whole context
        told["vllm_max_model_length"] = min(context, trl.longest)
    return GRPOConfig(
        **trainer_arguments(grpo.optimizer, config, folder),
        max_steps=grpo.steps,
        per_device_train_batch_size=batch,
        gradient_accumulation_steps=rollouts // batch,
        num_generations=grpo.samples,
        max_completion_length=trl.tokens,
        generation_kwargs={"max_tokens" if trl.vllm else "max_new_tokens": most},
        temperature=grpo.temperature,
        beta=grpo.kl,
        epsilon=grpo.clip,
        loss_type="dapo",
        shuffle_dataset=False,
        bf16=grpo.bf16,
        **told,
    )


def _trainer(
    pairs: PairSet,
    opened: Checkpoint,
    config: TrainConfig,
    folder: Path,
    say: Callable[[str], None],
) -> tuple[Any, RolloutRewards]:
    """TRL's trainer over our environment, and its rewards."""
    from datasets import Dataset
    from peft import LoraConfig
    from trl import GRPOTrainer

    grpo, settings = config.grpo, config.settings
    context = opened.model.config.get_text_config().max_position_embeddings
    arguments = grpo_arguments(config, context, folder)
    judge = TransformersBackend(opened, opened.folder.name)
    protocol = make_protocol(settings, chosen_protocol(settings, judge.protocols))
    # A pair of a finite set comes again in each epoch, so why it cannot be played is said once
    playable = PlayablePairs(pairs, judge, settings, cache(say))
    video_items = judge.marker.video_items
    environment = partial(FrameEnvironment, playable, judge, settings, video_items=video_items)
    environment().reset(number=0)  # what cannot be played is refused before anything is allocated
    rewards = RolloutRewards(judge, settings, judge.loaded.tokenizer, grpo.samples, grpo.weights)
    # `reset` gives the first user message of each row
    system = {"role": "system", "content": [{"type": "text", "text": protocol.system}]}
    prompt, rank = [system, {"role": "user", "content": []}], grpo.trl.lora
    layers = r".*language_model.*\.(q_proj|k_proj|v_proj|o_proj|gate_proj|up_proj|down_proj)"
    trainer = GRPOTrainer(
        model=opened.model,
        reward_funcs=rewards,
        environment_factory=environment,
        processing_class=picture_processor(opened, protocol),
        train_dataset=Dataset.from_list(
            [{"number": number, "prompt": prompt} for number in range(grpo.steps * grpo.pairs)]
        ),
        args=arguments,
        peft_config=LoraConfig(
            r=rank, lora_alpha=2 * rank, target_modules=layers, task_type="CAUSAL_LM"
        )
        if rank
        else None,
    )
    trainer.max_tool_calling_iterations = (settings.max_turns or protocol.max_turns) - 1
    return trainer, rewards
