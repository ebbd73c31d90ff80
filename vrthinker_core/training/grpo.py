"""The third stage: GRPO with the memory window, over rollouts of the product's own loop.

Source: section on GRPO and appendix A.1. Differences: a group of a pair that cannot be played, or
whose rewards are all equal after `grpo.redraws` further pairs, is left out of its step.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from statistics import fmean
from typing import Any, Literal

import torch
from accelerate.utils import gather_object
from transformers import TrainerCallback

from vrthinker_core.backends.base import GenerationRequest, StreamItem
from vrthinker_core.backends.chat_template import PromptItem, VisionItem, token_count
from vrthinker_core.backends.checkpoint import Checkpoint
from vrthinker_core.backends.checkpoint_files import locate
from vrthinker_core.backends.generation import check_context
from vrthinker_core.backends.transformers_local import TransformersBackend
from vrthinker_core.errors import BadInput, VrThinkerError
from vrthinker_core.protocols.factory import chosen_protocol
from vrthinker_core.training.config import TrainConfig
from vrthinker_core.training.metrics import StepMetrics
from vrthinker_core.training.pair_set import PairSet
from vrthinker_core.training.rewards import group_rewards, right_labels
from vrthinker_core.training.rollouts import Rollout, in_order, play_each
from vrthinker_core.training.run_folder import Processes, StageRun, world_size
from vrthinker_core.training.sft import placed_tokens, save_trained, tokenizer_of, trainer_arguments
from vrthinker_core.training.sharding import (
    heads_in_root,
    launched_in_bf16,
    open_whole,
    stored_dtype,
    weights_in_every_process,
)
from vrthinker_core.training.traces import SHOWN, keep_rollouts
from vrthinker_core.training.trainer_checkpoints import NO_SERVER, quiet_libraries, train_and_save
from vrthinker_core.training.window_trainer import Group, WindowTrainer
from vrthinker_core.types.messages import Completion

BEYOND = 2**20  # Pairs between one and its stand-in: further than a run goes


class VllmBackend(TransformersBackend):
    """A `BatchBackend` over TRL's `VLLMGeneration`, which has the trained weights.

    Ignores `redirect` and `seed` of requests. The generator limits the length of replies.
    """

    def __init__(self, checkpoint: Checkpoint, name: str, generation: Any) -> None:
        super().__init__(checkpoint, name)
        self._generation, self._served = generation, generation.mode == "server"

    def stream_batch(
        self, requests: Sequence[GenerationRequest]
    ) -> Iterator[tuple[int, StreamItem]]:
        """Yield one `Completion` or error for each request: see `BatchBackend`."""
        prompts: dict[int, list[PromptItem]] = {}
        for index, request in enumerate(requests):
            try:
                prompt = self.loaded.render(request.messages)
                check_context(token_count(prompt), self._generation.max_model_length)
            except VrThinkerError as error:
                yield index, error
            else:
                prompts[index] = prompt
        if prompts:
            self._generation.temperature = requests[0].sampling.temperature
            for index, tokens in zip(prompts, self._round([*prompts.values()]), strict=True):
                yield index, self._completion(tokens)

    def finish(self) -> None:
        """Answer a served generator's rounds until no process plays."""
        while self._served and self._round([]) is not None:
            pass

    def _round(self, prompts: Sequence[Sequence[PromptItem]]) -> Any:
        """Return sampled tokens; None if no process has a prompt.

        A served generator takes equally many prompts from each process, and pictures as runs of
        placeholders. A colocated one expands one placeholder for each picture itself.
        """
        asked: list[list[int]] = []
        for prompt in prompts:
            placed = (placed_tokens(item, self.loaded) for item in prompt)
            asked.append([t for own in placed for t in (own if self._served else own[:1])])
        pictures: list[Any] = [
            [item.frames[0].image for item in prompt if isinstance(item, VisionItem)] or None
            for prompt in prompts
        ]
        if self._served:
            most = max(gather_object([len(asked)]))
            if not most:
                return None
            idle = most - len(asked)
            asked += [[self.loaded.tokenizer.control.im_start]] * idle
            pictures += [None] * idle
        tokens = self._generation.generate(prompts=asked, images=pictures, num_generations=1)[1]
        return tokens[: len(prompts)]

    def _completion(self, tokens: Sequence[int]) -> Completion:
        ended = bool(tokens) and tokens[-1] in self.loaded.stop_tokens
        own = tuple(tokens[:-1] if ended else tokens)
        text = self.loaded.tokenizer.decode(own)
        stop: Literal["end", "length"] = "end" if ended else "length"
        return Completion(text, stop, own, (len(text),), new_tokens=len(own))


@dataclass(slots=True)
class _Player:
    """Plays this process's share of the rollouts."""

    pairs: PairSet
    held_out: PairSet | None
    judge: TransformersBackend
    config: TrainConfig
    process: Processes
    say: Callable[[str], None]  # Hears why a pair cannot be played
    played: Sequence[Group] = ()  # For the latest updates
    redrawn: int = 0  # Groups among them in place of others
    measured: dict[str, float] = field(default_factory=dict)

    def draw(self, step: int) -> Sequence[Group]:
        """Play the pairs of the updates from `step` on; return all groups.

        A pair that teaches nothing is followed by another (appendix A.1, dynamic sampling). Raises
        BadInput if no pair can be played.
        """
        grpo, played = self.config.grpo, list[Group]()
        share = range(self.process.number, grpo.pairs * grpo.updates, self.process.count)
        wanted = [step * grpo.pairs + number for number in share]
        for attempt in range(1 + grpo.redraws):
            groups = self._play([number + attempt * BEYOND for number in wanted])
            played += [group for group in groups if group.rollouts]
            both = zip(wanted, groups, strict=True)
            wanted = [number for number, group in both if not group.advantages]
            if not wanted:
                break
        self._finish()
        if not played:
            raise BadInput(
                "No pair of a step can be played: mend the data, and go on with --resume."
            )
        self.played, self.redrawn = played, len(played) - len(share)
        return played

    def _play(self, numbers: Sequence[int]) -> list[Group]:
        """Play these pairs; a group lacks rollouts that cannot be played."""
        grpo, found = self.config.grpo, [list[Rollout]() for _ in numbers]
        settings = replace(self.config.settings, temperature=grpo.temperature)
        pairs = map(self.pairs.pair, numbers)
        for position, played in in_order(
            play_each(pairs, self.judge, settings, grpo.num_generations)
        ):
            if isinstance(played, Rollout):
                found[position // grpo.num_generations].append(played)
            else:
                self.say(f"A pair cannot be played and teaches nothing. {played}")
        groups = []
        for rollouts in found:
            runs, truths = [each.run for each in rollouts], [each.pair.truth for each in rollouts]
            rewards = group_rewards(runs, truths[0], grpo.weights) if rollouts else ()
            groups.append(Group(tuple(rollouts), tuple(rewards)))
        return groups

    def measure(self) -> None:
        """Measure the judge, greedy, on held-out pairs: shares of right labels."""
        if self.held_out is None:
            return
        most = self.config.held_out_pairs
        share = range(
            self.process.number, min(most, self.held_out.size or most), self.process.count
        )
        settings = replace(self.config.settings, temperature=0.0)
        played = play_each(map(self.held_out.pair, share), self.judge, settings)
        own = [each for _, each in played if isinstance(each, Rollout)]
        self._finish()
        found = [
            {**right_labels(each.run.final_verdict, each.pair.truth), "all": each.correct}
            for each in own
        ]
        right = defaultdict[str, list[bool]](list)
        for each in gather_object(found):
            for name, is_right in each.items():
                right[name].append(is_right)
        self.measured = {name: fmean(values) for name, values in right.items()}

    def _finish(self) -> None:
        if isinstance(self.judge, VllmBackend):
            self.judge.finish()


@dataclass(eq=False)
class _HeldOut(TrainerCallback):
    """Measures the judge before the first step and every `eval_steps`."""

    trainer: WindowTrainer
    player: _Player

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: object) -> None:  # noqa: ARG002
        """Say how good the judge is that GRPO begins with."""
        if state.global_step == 0:
            self._measure()
            told = ", ".join(f"{name} {right:.3f}" for name, right in self.player.measured.items())
            if told:
                self.player.say(f"Right on held-out pairs before GRPO: {told}.")

    def on_step_end(self, args: Any, state: Any, control: Any, **_: object) -> None:  # noqa: ARG002
        """Measure, in time for the step's record."""
        self.player.measured = {}
        if state.global_step % self.player.config.grpo.eval_steps == 0:
            self._measure()

    def _measure(self) -> None:
        with self.trainer.playing():
            self.player.measure()


def run_grpo(run: StageRun, pairs: PairSet, held_out: PairSet | None = None) -> Path | None:
    """Train the source; return the trained checkpoint, None if stopped.

    Records figures and keeps rollouts of the main process. Raises BadInput and CheckpointError.
    """
    grpo, folder, say = run.config.grpo, run.folder, run.time_budget.say
    window = run.config.settings.window
    say(
        f"GRPO: {grpo.pairs} pairs of {grpo.num_generations} rollouts an optimizer step, {grpo.updates} "
        f"from each policy; window {'of the protocol' if window is None else window}."
    )
    with run.record() as record:

        def report(step: StepMetrics, groups: Sequence[Group]) -> bool:
            over = record(step, grpo.max_steps)
            if step.step % grpo.shown_every == 0:
                keep_rollouts(folder.path, "grpo", step.step, groups[0].rollouts[:SHOWN])
            return over

        ordered, checkpoint = pairs.shuffled(run.config.seed), locate(run.source)
        made = train_grpo(
            ordered, checkpoint, run.config, folder.checkpoints, report, say, held_out
        )
    return run.finish(made)


@quiet_libraries()
def train_grpo(
    pairs: PairSet,
    checkpoint: Path,
    config: TrainConfig,
    folder: Path,
    report: Callable[[StepMetrics, Sequence[Group]], bool | None] = lambda _, __: None,
    say: Callable[[str], None] = lambda _: None,
    held_out: PairSet | None = None,
) -> Path:
    """Train the judge of `checkpoint`; return `folder/model`, which the product opens.

    Step s learns from pairs s * `grpo.pairs` on, so `pairs` never end. Goes on from the last whole
    checkpoint in `folder/trainer`. `report` hears of each step and of the groups of the main
    process; if it returns True, training ends there with a checkpoint. `say` hears of pairs that
    cannot be played.

    Raises BadInput and CheckpointError.
    """
    grpo = replace(config.grpo, bf16=config.grpo.bf16 or launched_in_bf16())
    config, lora = replace(config, grpo=grpo), grpo.lora
    if grpo.vllm_mode and find_spec("vllm") is None:
        raise BadInput(
            "Rollouts by vLLM take vLLM: run pip install 'trl[vllm]', or leave grpo.vllm_mode empty."
        )
    # FSDP2 sends no reference model to other processes
    loading = weights_in_every_process() if grpo.beta and not lora else nullcontext()
    # Beside adapters no weight learns, so none needs float32 for small steps to add up
    dtype = stored_dtype(checkpoint) if lora and grpo.bf16 else torch.float32
    with loading, heads_in_root():
        opened = open_whole(checkpoint, dtype)
        opened.model.model.visual.requires_grad_(not config.frozen_vision)
        try:
            trainer, player = _trainer(pairs, held_out, opened, config, folder / "trainer", say)
        except ConnectionError as error:
            raise BadInput(NO_SERVER) from error

        def told(step: StepMetrics) -> bool | None:
            both = [each for group in player.played for each in group.rewarded]
            mixed = fmean(bool(group.advantages) for group in player.played)
            step = replace(
                step, mixed=mixed, redrawn=player.redrawn, held_out=player.measured
            ).with_rollouts(both, grpo.weights)
            return report(step, player.played)

        trainer.add_callback(_HeldOut(trainer, player))
        train_and_save(
            trainer, checkpoint.name, config.checkpoint_minutes, told, every=grpo.updates
        )
    if lora:
        trainer.model = trainer.accelerator.unwrap_model(trainer.model).merge_and_unload()
    learnt = (chosen_protocol(config.settings, player.judge.protocols),)
    return save_trained(trainer, checkpoint, folder / "model", protocols=learnt)


def grpo_arguments(config: TrainConfig, context: int, folder: Path) -> Any:
    """Return the configuration as TRL's. `context`: tokens that the model reads."""
    from trl import GRPOConfig

    grpo, processes = config.grpo, world_size()
    return trainer_arguments(
        GRPOConfig,
        grpo,
        config,
        folder,
        # vLLM takes so many prompts at once; the trainer makes its own micro-batches
        per_device_train_batch_size=grpo.pairs * grpo.updates * grpo.num_generations // processes,
        max_completion_length=config.settings.max_new_tokens,
        use_bias_correction_kl=False,  # As the paper has it
        loss_type="dapo",  # Of weighted tokens: see `WindowTrainer`
        shuffle_dataset=False,
        use_vllm=bool(grpo.vllm_mode),
        vllm_mode=grpo.vllm_mode or "colocate",
        # Else vLLM keeps room for the model's whole context
        vllm_max_model_length=min(context, grpo.vllm_max_model_length),
        # It compares old with sampled log-probabilities, which a `Completion` does not keep
        vllm_importance_sampling_correction=False,
    )


def _trainer(
    pairs: PairSet,
    held_out: PairSet | None,
    opened: Checkpoint,
    config: TrainConfig,
    folder: Path,
    say: Callable[[str], None],
) -> tuple[WindowTrainer, _Player]:
    """Return TRL's trainer over our rollouts, and who plays these."""
    from datasets import Dataset
    from peft import LoraConfig

    grpo, rank, name = config.grpo, config.grpo.lora, opened.folder.name
    context = opened.model.config.get_text_config().max_position_embeddings
    arguments = grpo_arguments(config, context, folder)
    judge = TransformersBackend(opened, name)
    protocol = chosen_protocol(config.settings, judge.protocols)
    if grpo.vllm_mode and protocol == "concat" and judge.marker.video_items:
        raise BadInput(
            "TRL hands vLLM pictures alone, and concat opens with a video: train paired, or leave "
            "grpo.vllm_mode empty."
        )
    # Tokens are drawn from the very policy that learns
    judge.loaded = replace(judge.loaded, repetition_penalty=1.0)
    # A pair of a finite set comes again in each epoch: say once why it cannot be played
    process = Processes(arguments.world_size, arguments.process_index)
    player = _Player(pairs, held_out, judge, config, process, cache(say))
    tokenizer = tokenizer_of(opened)
    tokenizer.image_token_id = judge.loaded.tokenizer.control.image_pad  # For a served vLLM
    layers = r".*language_model.*\.(q_proj|k_proj|v_proj|o_proj|gate_proj|up_proj|down_proj)"
    adapters = LoraConfig(r=rank, lora_alpha=2 * rank, target_modules=layers, task_type="CAUSAL_LM")
    trainer = WindowTrainer(
        model=opened.model,
        args=arguments,
        processing_class=tokenizer,
        train_dataset=Dataset.from_dict(
            {"prompt": [""] * grpo.max_steps * grpo.pairs * grpo.updates}
        ),
        peft_config=adapters if rank else None,
        draw=player.draw,
        loaded=judge.loaded,
        micro_batch=grpo.per_device_train_batch_size,
        updates=grpo.updates,
        objective=grpo.objective,
    )
    if grpo.vllm_mode:
        player.judge = VllmBackend(opened, name, trainer.vllm_generation)
    return trainer, player
