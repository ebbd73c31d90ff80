"""The third stage: GRPO, TRL's `GRPOTrainer` over our environment and our rewards, on a processor as on GPUs.

What TRL cannot do is lost. There is no finite memory window: a judge trains with the whole conversation in view. First frames are
sent as pictures, never packed as a video. Groups of equal rewards are not drawn again; the metrics say how many differ. A last
answer is not redirected (`environment.py` says what a last turn becomes). No repetition penalty applies. A model of two protocols
trains in its first one. On a processor a step takes 1.33 times as long as in the loop of our own, which commit 085c38a still has.
"""

import os
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import cache, partial
from importlib.util import find_spec
from math import gcd
from pathlib import Path
from typing import Any

import torch

from vrthinker_core.backends.local.checkpoint.checkpoint_files import locate
from vrthinker_core.backends.local.checkpoint.loader import Checkpoint
from vrthinker_core.backends.transformers_local import TransformersBackend
from vrthinker_core.dialects import make_dialect
from vrthinker_core.dialects.factory import chosen_protocol
from vrthinker_core.errors import BadInput
from vrthinker_core.training.environment import FrameEnvironment, prompt_row
from vrthinker_core.training.labelled_pairs.pair_set import PairSet, in_training_order
from vrthinker_core.training.rows.shown_rollouts import SHOWN, keep_rollouts
from vrthinker_core.training.run.config import TrainConfig
from vrthinker_core.training.run.processes import world_size
from vrthinker_core.training.run.run_folder import RunFolder
from vrthinker_core.training.run.saved_judge import stored_dtype
from vrthinker_core.training.run.sitting import Sitting
from vrthinker_core.training.stages.stage_record import stage_record
from vrthinker_core.training.trl.chat_template import picture_processor
from vrthinker_core.training.trl.playable_pairs import PlayablePairs
from vrthinker_core.training.trl.rollout_rewards import Group, RolloutRewards, mixed_share
from vrthinker_core.training.trl.sft import save_trained, trainer_arguments
from vrthinker_core.training.trl.sharding import (
    heads_in_root,
    is_sharded,
    launched_in_bf16,
    open_whole,
    weights_in_every_process,
)
from vrthinker_core.training.trl.trainer_checkpoints import (
    NO_SERVER,
    TrainerPace,
    quiet_libraries,
    train_and_save,
)

STAGE = "grpo"
LORA_LAYERS = r".*language_model.*\.(q_proj|k_proj|v_proj|o_proj|gate_proj|up_proj|down_proj)"
LIMITS = (
    "with the whole conversation in view (no memory window), first frames as pictures, no redraw of equal groups, "
    "no redirected last answer; on a processor 1.33 times the time of a loop of our own"
)


def run_grpo(
    source: str, pairs: PairSet, config: TrainConfig, folder: RunFolder, sitting: Sitting
) -> Path | None:
    """Train the checkpoint `source` (a folder or hub id); gives the trained one, None if the sitting was stopped before the end.

    Figures and kept rollouts are those of the main process. Raises BadInput and CheckpointError.
    """
    grpo, count = config.grpo, folder.processes.count
    sitting.say(
        f"GRPO runs in TRL in {'one process' if count == 1 else f'{count} processes'}, {LIMITS}."
    )
    with stage_record(folder, config, sitting) as record:

        def report(pace: TrainerPace, groups: Sequence[Group]) -> bool:
            assert record is not None, "only the main process reports"
            metrics = replace(pace.metrics(STAGE, record.lap()), mixed=mixed_share(groups))
            record.add(
                metrics.with_rollouts(
                    [each for group in groups for each in group.rewarded], grpo.weights
                ),
                grpo.steps,
            )
            if pace.step % grpo.shown_every == 0:
                keep_rollouts(folder.path, STAGE, pace.step, groups[0].rollouts[:SHOWN])
            return sitting.over

        ordered = in_training_order(pairs, config.seed)
        made = train_grpo(ordered, locate(source), config, folder.checkpoints, report, sitting.say)
    return None if folder.processes.agreed(sitting.stopped()) else folder.finish(made)


@quiet_libraries()
def train_grpo(
    pairs: PairSet,
    checkpoint: Path,
    config: TrainConfig,
    folder: Path,
    report: Callable[[TrainerPace, Sequence[Group]], bool | None] = lambda _, __: None,
    say: Callable[[str], None] = lambda _: None,
) -> Path:
    """Train the judge of `checkpoint`; gives `folder/model`, which the product opens.

    Step s learns from pairs s * `grpo.pairs` on, so `pairs` should be in the order of training. Goes on from the last whole
    checkpoint in `folder/trainer`. `report` hears of each step and of the groups of the main process; if it gives True, training
    ends there with a checkpoint. `say` hears of pairs that cannot be played; others stand in for them.

    Raises BadInput and CheckpointError.
    """
    os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")
    grpo = replace(config.grpo, bf16=config.grpo.bf16 or launched_in_bf16())
    lora = grpo.trl.lora
    config = replace(
        config,
        grpo=grpo,
        settings=replace(config.settings, temperature=grpo.temperature, window="all"),
    )
    if grpo.trl.vllm and find_spec("vllm") is None:
        raise BadInput(
            "Rollouts by vLLM take vLLM: run pip install 'trl[vllm]', or leave grpo.trl.vllm empty."
        )
    loading = (
        weights_in_every_process() if grpo.kl and not lora else nullcontext()
    )  # a reference model is read, too
    # Beside adapters no weight learns, so none needs float32 for small steps to add up
    dtype = stored_dtype(checkpoint) if lora and grpo.bf16 else torch.float32
    with loading, heads_in_root():
        opened = open_whole(checkpoint, dtype)
        opened.model.model.visual.requires_grad_(not config.frozen_vision)
        context = opened.model.config.get_text_config().max_position_embeddings
        try:
            trainer, rewards = _trainer(
                pairs, opened, config, grpo_arguments(config, context, folder / "trainer"), say
            )
        except ConnectionError as error:
            raise BadInput(NO_SERVER) from error
        train_and_save(
            trainer,
            checkpoint.name,
            config.checkpoint_minutes,
            lambda pace: report(pace, rewards.groups),
        )
    if lora:
        trainer.model = trainer.accelerator.unwrap_model(trainer.model).merge_and_unload()
    return save_trained(
        trainer, checkpoint, folder / "model", protocols=(chosen_protocol(config.settings, ()),)
    )


def grpo_arguments(config: TrainConfig, context: int, folder: Path) -> Any:
    """The configuration as TRL's. `context`: tokens that the model reads.

    Raises BadInput if the rollouts of a step cannot be shared among the processes, or not be played.
    """
    from trl import GRPOConfig

    grpo, processes = config.grpo, world_size()
    if grpo.pairs % processes:
        raise BadInput(
            f"grpo.pairs={grpo.pairs} leaves {processes} processes no whole groups: choose a multiple of {processes}."
        )
    if is_sharded() and processes > 1 and not grpo.trl.vllm:
        raise BadInput(
            "Rollouts end at different turns, so processes that share one model cannot play them: set grpo.trl.vllm to colocate or "
            "server, or launch with data_parallel.yaml and train adapters (grpo.trl.lora=64)."
        )
    rollouts = grpo.pairs * grpo.samples // processes
    batch = gcd(grpo.micro_batch, rollouts)
    most = min(config.settings.max_new_tokens, grpo.trl.tokens)
    told: dict[str, Any] = {
        "generation_kwargs": {"max_tokens" if grpo.trl.vllm else "max_new_tokens": most}
    }
    if grpo.trl.vllm:
        told |= {
            "use_vllm": True,
            "vllm_mode": grpo.trl.vllm,
            "vllm_server_base_url": grpo.trl.vllm_url,
        }
        told["vllm_gpu_memory_utilization"] = grpo.trl.vllm_memory
        told["vllm_max_model_length"] = min(
            context, grpo.trl.longest
        )  # else vLLM keeps room for the model's whole context
    return GRPOConfig(
        **trainer_arguments(grpo.optimizer, config, folder),
        max_steps=grpo.steps,
        per_device_train_batch_size=batch,
        gradient_accumulation_steps=rollouts // batch,
        num_generations=grpo.samples,
        max_completion_length=grpo.trl.tokens,
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
    arguments: Any,
    say: Callable[[str], None],
) -> tuple[Any, RolloutRewards]:
    """TRL's trainer over our environment, and its rewards."""
    from datasets import Dataset
    from peft import LoraConfig
    from trl import GRPOTrainer

    grpo, settings = config.grpo, config.settings
    judge = TransformersBackend(opened, opened.folder.name)
    dialect = make_dialect(settings, chosen_protocol(settings, judge.protocols))
    playable = PlayablePairs(
        pairs, judge, settings, cache(say)
    )  # a pair of a finite set comes again in each epoch
    environment = partial(
        FrameEnvironment, playable, judge, settings, video_items=judge.loaded.video_items
    )
    environment().reset(number=0)  # what cannot be played is refused before anything is allocated
    rewards = RolloutRewards(judge, settings, judge.loaded.tokenizer, grpo.samples, grpo.weights)
    rank = grpo.trl.lora
    trainer = GRPOTrainer(
        model=opened.model,
        reward_funcs=rewards,
        environment_factory=environment,
        processing_class=picture_processor(opened, dialect),
        train_dataset=Dataset.from_list(
            [prompt_row(number, dialect.system) for number in range(grpo.steps * grpo.pairs)]
        ),
        args=arguments,
        peft_config=LoraConfig(
            r=rank, lora_alpha=2 * rank, target_modules=LORA_LAYERS, task_type="CAUSAL_LM"
        )
        if rank
        else None,
    )
    trainer.max_tool_calling_iterations = (settings.max_turns or dialect.max_turns) - 1
    return trainer, rewards
