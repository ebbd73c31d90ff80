"""python -m tests.benchmarks.grpo_step [--quick] [--gpu]

Steps of GRPO in TRL's trainer, over the same pairs as steps in this package's loop; on a GPU the shape of the 7B with adapters.

The judge has random weights (3.5 million, and those of the 7B with `--gpu`) and has learnt two rollouts by heart, so that what it
samples is well formed and rewards differ. Without a GPU each way takes its steps in turn. With one, TRL alone trains adapters of
rank 64, and the most memory it took stands beside what `train --estimate` says. Last, the product opens what was trained. The last
line is JSON.
"""

from __future__ import annotations

import argparse
import gc
import json
import tempfile
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from unittest import mock

import torch

from tests.backends.support.random_model import small_config, write_random_checkpoint
from tests.benchmarks.tools.random_models import build_on_device, shape_of_7b
from tests.benchmarks.tools.taught_judges import PAIRS, TaughtJudge, write_taught_judge
from vrthinker_core.backends.local.checkpoint.loader import open_checkpoint
from vrthinker_core.backends.transformers_local import TransformersBackend
from vrthinker_core.training.groups import Group
from vrthinker_core.training.grpo_loop import draw_groups, train_step
from vrthinker_core.training.rollouts import play
from vrthinker_core.training.run.config import OptimizerConfig, changed_config, preset_config
from vrthinker_core.training.stages.grpo import make_learner
from vrthinker_core.training.trl.estimate import GIB, TrainingPlan, estimate, model_shape
from vrthinker_core.training.trl.grpo import TrlGrpoOptions, TrlStep, train_grpo
from vrthinker_core.training.trl.rollout_rewards import mixed_share
from vrthinker_core.types import Settings

RANK = 64
SAMPLES = 8
"""Of each pair, as in the paper."""
SMALL_TEXT = {
    "hidden_size": 256,
    "intermediate_size": 704,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 8192,
    "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [8, 12, 12]},
}
Figures = dict[str, float]


def main() -> None:
    """Run the benchmark."""
    options = _options()
    with tempfile.TemporaryDirectory() as name:
        result = on_gpu(Path(name), options.quick) if options.gpu else on_processor(Path(name), options.quick)
    print(json.dumps(result))


def readme_row(result: dict[str, Any]) -> str:
    """The result in a sentence for the README's table."""
    if "times_as_fast" in result:
        return f"the loop of this package is {result['times_as_fast']:.2f} times as fast as TRL's trainer on a processor"
    return (
        f"a step of {result['rollouts']:.0f} rollouts with adapters of rank {RANK}: {result['seconds_a_step']:.1f} s "
        f"({result['playing_s']:.1f} s of them playing), {result['peak_gib']:.1f} GiB at most where {result['estimated_gib']:.1f} "
        "were estimated"
    )


def on_processor(folder: Path, quick: bool) -> Figures:
    """Both ways over a small judge, one step each in turn."""
    config = small_config(SMALL_TEXT, {"out_hidden_size": SMALL_TEXT["hidden_size"]})
    source = write_random_checkpoint(folder / "judge", config=config, pixels=56 * 56)
    judge = write_taught_judge(open_checkpoint(str(source), device="cpu", dtype=torch.float32), learning_rate=2e-3)
    seconds = {"trl": 0.0, "own": 0.0}
    for number in range(1 if quick else 3):
        options = TrlGrpoOptions(1, 1, SAMPLES, OptimizerConfig(1e-4, 0.0), batch=SAMPLES, tokens=judge.more_tokens, seed=number)
        seconds["trl"] += _trl(judge, folder / f"trl-{number}", options).seconds
        seconds["own"] += _own(judge, number)
        print({way: round(each, 2) for way, each in seconds.items()}, flush=True)
    TransformersBackend.load(str(folder / "trl-0" / "model"))
    return {f"{way}_s": round(each, 2) for way, each in seconds.items()} | {
        "rollouts": SAMPLES, "times_as_fast": round(seconds["trl"] / seconds["own"], 2),
    }  # fmt: skip


def on_gpu(folder: Path, quick: bool) -> Figures:
    """TRL with adapters over the shape of the 7B."""
    begun = time.monotonic()
    judge = write_taught_judge(build_on_device(folder, shape_of_7b(), 448, "cuda", torch.bfloat16), learning_rate=2e-4)
    print(f"a judge of the 7B's shape was taught and written in {time.monotonic() - begun:.0f} s", flush=True)
    gc.collect()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    options = TrlGrpoOptions(
        1 if quick else 3, 1, SAMPLES, OptimizerConfig(1e-5, 0.0), tokens=judge.more_tokens,
        bf16=True, gradient_checkpointing=True, lora=RANK,
    )  # fmt: skip
    took = _trl(judge, folder / "trl", options)
    figures = {
        "rollouts": SAMPLES,
        "tokens": judge.prompt_tokens + judge.more_tokens,
        "seconds_a_step": round(took.seconds / options.steps, 2),
        "playing_s": round(took.playing / options.steps, 2),
        "peak_gib": round(torch.cuda.max_memory_allocated() / GIB, 1),
        "estimated_gib": round(_estimated(judge, options), 1),
        "mixed_groups": round(mixed_share(took.groups), 2),
    }
    print(figures, flush=True)
    gc.collect()
    torch.cuda.empty_cache()
    trained = TransformersBackend.load(str(folder / "trl" / "model"))
    (rollout,) = play([PAIRS.pair(0)], trained, Settings(max_new_tokens=200))
    return figures | {"turns_of_what_was_trained": len(rollout.run.turns)}


@dataclass
class Took:
    """The steps of one training."""

    seconds: float = 0.0  # Of all steps, without opening and saving
    playing: float = 0.0  # Of them, until the rollouts had their rewards
    groups: list[Group] = field(default_factory=list)


def _trl(judge: TaughtJudge, out: Path, options: TrlGrpoOptions) -> Took:
    """Steps in TRL's trainer."""
    from trl import GRPOTrainer

    took, score = Took(), GRPOTrainer._generate_and_score_completions
    begun = 0.0

    def scored(trainer: Any, inputs: Any) -> Any:
        nonlocal begun
        started = time.monotonic()
        begun = begun or started
        batch = score(trainer, inputs)
        took.playing += time.monotonic() - started
        return batch

    def report(step: TrlStep) -> None:
        took.seconds = time.monotonic() - begun
        took.groups += step.report.groups
        print(f"step {step.number}: loss {step.report.loss:.4f}, {took.seconds:.1f} s so far", flush=True)

    with mock.patch.object(GRPOTrainer, "_generate_and_score_completions", scored):
        train_grpo(PAIRS, judge.folder, options, out, report)
    return took


def _own(judge: TaughtJudge, seed: int) -> float:
    """Seconds of a step in the loop of this package, over as many rollouts of the same pair."""
    config = changed_config(preset_config("nano"), ["grpo.optimizer.learning_rate=0.0001"])
    learner = make_learner(str(judge.folder), config)
    settings = Settings(seed=seed, window="all", max_new_tokens=judge.more_tokens)
    grpo = replace(config.grpo, pairs=1, samples=SAMPLES, redraws=1, micro_batch=SAMPLES)
    begun = time.monotonic()
    _, played = draw_groups(iter([PAIRS.pair(0)]), learner.judge, grpo, settings)
    train_step(played, len(played), learner, grpo)
    return time.monotonic() - begun


def _estimated(judge: TaughtJudge, options: TrlGrpoOptions) -> float:
    """GiB on one GPU as `train --estimate` reckons them."""
    tokens = {"prompt_tokens": judge.prompt_tokens, "reply_tokens": judge.more_tokens, "picture_tokens": 0}
    shape = model_shape(judge.folder)
    return estimate(shape, TrainingPlan("grpo", 1, rollouts=SAMPLES, lora=options.lora, vllm="", **tokens)).gib


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one step each")
    parser.add_argument("--gpu", action="store_true", help="the shape of the 7B on the GPU, with adapters")
    return parser.parse_args()


if __name__ == "__main__":
    main()
