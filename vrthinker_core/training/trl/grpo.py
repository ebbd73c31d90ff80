"""GRPO on GPUs, the paper's third stage: TRL's `GRPOTrainer` over our environment and our rewards, with vLLM for the rollouts.

What differs from the loop on a processor (`grpo_loop.py`), all of it TRL's: there is no dynamic sampling, so groups of equal
rewards are not drawn again (`mixed_groups` is logged, the groups are reported); replies are sampled without the checkpoint's
repetition penalty; the memory window is "all"; frames packed as a video cannot be sent. `environment.py` says what a last turn
becomes.
"""

import os
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import torch
from transformers import PrinterCallback, TrainerCallback

from vrthinker_core.backends.local.checkpoint.loader import Checkpoint
from vrthinker_core.backends.transformers_local import TransformersBackend
from vrthinker_core.dialects import make_dialect
from vrthinker_core.dialects.factory import chosen_protocol
from vrthinker_core.errors import BadInput
from vrthinker_core.training.environment import FrameEnvironment, prompt_row
from vrthinker_core.training.groups import StepReport
from vrthinker_core.training.labelled_pairs.pair_set import PairSet
from vrthinker_core.training.rewards import RewardWeights
from vrthinker_core.training.run.config import FIRST_PROMPT, OptimizerConfig
from vrthinker_core.training.run.processes import world_size
from vrthinker_core.training.run.saved_judge import stored_dtype
from vrthinker_core.training.trl.chat_template import picture_processor
from vrthinker_core.training.trl.playable_pairs import PlayablePairs
from vrthinker_core.training.trl.rollout_rewards import RolloutRewards
from vrthinker_core.training.trl.sft import has_trl, optimizer_arguments, save_trained
from vrthinker_core.training.trl.sharding import (
    check_launch,
    heads_in_root,
    is_sharded,
    launched_in_bf16,
    open_whole,
    weights_in_every_process,
)
from vrthinker_core.training.trl.trainer_checkpoints import (
    NO_SERVER,
    TimedCheckpoints,
    agreed_end,
    last_whole,
    quiet_libraries,
    train_from,
)
from vrthinker_core.types import Settings

LORA_LAYERS = r".*language_model.*\.(q_proj|k_proj|v_proj|o_proj|gate_proj|up_proj|down_proj)"


@dataclass(frozen=True, slots=True)
class TrlGrpoOptions:
    """The paper's values where it gives some."""

    steps: int = 300
    pairs: int = 64  # A step
    samples: int = 8  # Of each pair
    optimizer: OptimizerConfig = field(default_factory=lambda: OptimizerConfig(1e-6, 0.0, beta2=0.999))
    kl: float = 0.01  # β
    clip: float = 0.2
    batch: int = 1  # Rollouts in one forward pass, on each GPU
    tokens: int = 16_384  # Of a rollout after its first prompt: replies, and the frames that were asked for
    temperature: float = 1.0
    bf16: bool = False
    frozen_vision: bool = True
    gradient_checkpointing: bool = False
    lora: int = (
        0  # Rank of adapters in the language model, merged at the end; with bf16 beside bfloat16 weights; 0 trains all weights
    )
    vllm: Literal["", "colocate", "server"] = ""  # Where rollouts are generated; "" by the trainer itself
    vllm_memory: float = 0.3  # Share of each GPU's memory, with colocate
    vllm_url: str = "http://127.0.0.1:8000"  # With server
    save_minutes: float = 15.0
    seed: int = 0
    weights: RewardWeights = field(default_factory=RewardWeights)
    settings: Settings = field(default_factory=lambda: Settings(window="all"))

    def generation(self, context: int) -> dict[str, Any]:
        """Where replies are generated and how long they may be, as `GRPOConfig` is told it. `context`: tokens the model reads."""
        most = min(self.settings.max_new_tokens, self.tokens)
        told: dict[str, Any] = {"generation_kwargs": {"max_tokens" if self.vllm else "max_new_tokens": most}}
        told |= {"use_vllm": True, "vllm_mode": self.vllm} if self.vllm else {}
        if self.vllm == "colocate":  # where it is told no length, vLLM keeps room for the whole context of the model
            told["vllm_gpu_memory_utilization"] = self.vllm_memory
            told["vllm_max_model_length"] = min(context, FIRST_PROMPT + self.tokens)
        return told | ({"vllm_server_base_url": self.vllm_url} if self.vllm == "server" else {})


@dataclass(frozen=True, slots=True)
class TrlStep:
    """A step that is done, from 1 on."""

    number: int
    learning_rate: float | None
    report: StepReport


@quiet_libraries()
def train_grpo(
    pairs: PairSet,
    checkpoint: Path,
    options: TrlGrpoOptions,
    folder: Path,
    report: Callable[[TrlStep], bool | None] = lambda _: None,
    say: Callable[[str], None] = lambda _: None,
) -> Path:
    """Train the judge of `checkpoint`; gives `folder/model`, which the product opens.

    Step s learns from pairs s * `options.pairs` on, so `pairs` should be in the order of training. Goes on from the last whole
    checkpoint in `folder/trainer`. `report` is told, after each step, of the groups of the main process; where it gives True,
    training ends there with a checkpoint. `say` hears of pairs that cannot be played, in whose place others stand.

    Raises BadInput and CheckpointError.
    """
    if not has_trl():
        raise BadInput("GRPO on GPUs takes TRL: run pip install -e '.[train]'.")
    os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")
    check_launch(adapters=options.lora > 0)
    if options.vllm and find_spec("vllm") is None:
        raise BadInput("Rollouts by vLLM take vLLM: run pip install 'trl[vllm]', or leave grpo.trl.vllm empty.")
    options = replace(options, bf16=options.bf16 or launched_in_bf16())
    passes = _passes(options)
    adapters = _adapters(options.lora) if options.lora else None
    loading = weights_in_every_process() if options.kl and not options.lora else nullcontext()  # a reference model is read, too
    # Beside adapters no weight learns, so none needs float32 for small steps to add up
    dtype = stored_dtype(checkpoint) if options.lora and options.bf16 else torch.float32
    with loading, heads_in_root():
        opened = open_whole(checkpoint, dtype)
        opened.model.model.visual.requires_grad_(not options.frozen_vision)
        arguments = _arguments(options, passes, opened.model.config.get_text_config().max_position_embeddings, folder / "trainer")
        try:
            trainer, rewards = _trainer(pairs, opened, options, arguments, adapters, say)
        except ConnectionError as error:
            raise BadInput(NO_SERVER) from error
        subject, earlier = (_subject(checkpoint, options, names) for names in (_MAY_CHANGE, _MIGHT_CHANGE))
        with trainer.args.main_process_first(local=False):  # what is not whole is removed once, in a folder that all nodes share
            begun = last_whole(folder / "trainer", subject, earlier)
        for callback in (TimedCheckpoints(folder / "trainer", subject, options.save_minutes), StepReports(rewards, report)):
            trainer.add_callback(callback)
        trainer.remove_callback(PrinterCallback)
        train_from(trainer, begun)
    if options.lora:
        trainer.model = trainer.accelerator.unwrap_model(trainer.model).merge_and_unload()
    return save_trained(trainer, checkpoint, folder / "model", protocols=(chosen_protocol(options.settings, ()),))


def _trainer(
    pairs: PairSet, opened: Checkpoint, options: TrlGrpoOptions, arguments: Any, adapters: Any, say: Callable[[str], None]
) -> tuple[Any, RolloutRewards]:
    """TRL's trainer over our environment, and its rewards."""
    from datasets import Dataset
    from trl import GRPOTrainer

    judge = TransformersBackend(opened, opened.folder.name)
    dialect = make_dialect(options.settings, chosen_protocol(options.settings, judge.protocols))
    playable = PlayablePairs(pairs, judge, options.settings, say)
    environment = partial(FrameEnvironment, playable, judge, options.settings, video_items=judge.loaded.video_items)
    environment().reset(number=0)  # what cannot be played is refused before anything is allocated
    rewards = RolloutRewards(judge, options.settings, judge.loaded.tokenizer, options.samples, options.weights)
    trainer = GRPOTrainer(
        model=opened.model,
        reward_funcs=rewards,
        environment_factory=environment,
        processing_class=picture_processor(opened, dialect),
        train_dataset=Dataset.from_list([prompt_row(number, dialect.system) for number in range(options.steps * options.pairs)]),
        args=arguments,
        peft_config=adapters,
    )
    trainer.max_tool_calling_iterations = (options.settings.max_turns or dialect.max_turns) - 1
    return trainer, rewards


class StepReports(TrainerCallback):
    """Tells of each step what it learnt from, in the main process; where it gives True, training ends there with a checkpoint."""

    def __init__(self, rewards: RolloutRewards, report: Callable[[TrlStep], bool | None]) -> None:
        self._rewards, self._report = rewards, report

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: object) -> None:
        """A step ends with its log."""
        if not logs or "loss" not in logs:
            return
        groups = self._rewards.taken()
        entropy, kl = float(logs.get("entropy", 0.0)), float(logs.get("kl", 0.0))
        report = StepReport(groups, len(groups), float(logs["loss"]), entropy, kl)
        step = TrlStep(state.global_step, logs.get("learning_rate"), report)
        if agreed_end(args, said=state.is_world_process_zero and bool(self._report(step))):
            control.should_training_stop = control.should_save = True


def _passes(options: TrlGrpoOptions) -> int:
    """Forward passes of a step in each process. Raises BadInput where its rollouts cannot be shared, or not be played."""
    rollouts, share = options.pairs * options.samples, options.batch * world_size()
    if rollouts % share or (rollouts // share * options.batch) % options.samples:
        raise BadInput(
            f"grpo.pairs={options.pairs} of grpo.samples={options.samples} cannot be divided into whole groups in each process "
            f"(there are {world_size()}) with grpo.micro_batch={options.batch} rollouts a pass: choose numbers that can."
        )
    if is_sharded() and world_size() > 1 and not options.vllm:
        raise BadInput(
            "Rollouts end at different turns, so processes that share one model cannot play them: set grpo.trl.vllm to colocate or "
            "server, or launch with data_parallel.yaml and train adapters (grpo.trl.lora=64)."
        )
    return rollouts // share


def _arguments(options: TrlGrpoOptions, passes: int, context: int, folder: Path) -> Any:
    from trl import GRPOConfig

    cpu = not torch.cuda.is_available()
    return GRPOConfig(
        output_dir=str(folder),
        max_steps=options.steps,
        **optimizer_arguments(options.optimizer),
        per_device_train_batch_size=options.batch,
        gradient_accumulation_steps=passes,
        num_generations=options.samples,
        max_completion_length=options.tokens,
        temperature=options.temperature,
        beta=options.kl,
        epsilon=options.clip,
        loss_type="dapo",
        shuffle_dataset=False,
        bf16=options.bf16,
        gradient_checkpointing=options.gradient_checkpointing,
        seed=options.seed,
        logging_steps=1,
        save_strategy="no",  # by the clock: see `TimedCheckpoints`
        report_to=[],
        use_cpu=cpu,
        dataloader_pin_memory=not cpu,
        remove_unused_columns=False,
        disable_tqdm=True,
        **options.generation(context),
    )


def _adapters(rank: int) -> Any:
    try:
        from peft import LoraConfig
    except ImportError:
        raise BadInput("Adapters take peft: run pip install -e '.[train]', or train all weights.") from None
    return LoraConfig(r=rank, lora_alpha=2 * rank, target_modules=LORA_LAYERS, task_type="CAUSAL_LM")


def _subject(checkpoint: Path, options: TrlGrpoOptions, may_change: Sequence[str]) -> str:
    """What a training is of: it is gone on with only where all of this is the same."""
    return f"{checkpoint.name} {[getattr(options, name) for name in options.__slots__ if name not in may_change]}"


_MIGHT_CHANGE = ("save_minutes", "vllm", "vllm_memory", "vllm_url", "batch")  # In the checkpoints of earlier versions
_MAY_CHANGE = (*_MIGHT_CHANGE, "steps")
