"""python -m tests.benchmarks.grpo_step [--quick] [--gpu]

Steps of GRPO in TRL's trainer on a processor; on a GPU the shape of the 7B with adapters.

The judge has random weights (3.5 million, and those of the 7B with `--gpu`) and has learnt two rollouts by heart, so that what it
samples is well formed and rewards differ. With a GPU, adapters of rank 64 learn, and the most memory they took stands beside what
`train --estimate` says. Last, the product opens what was trained. The last line is JSON.
"""

from __future__ import annotations

import gc
import json
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import torch

from tests.backends.support.random_model import small_config, write_random_checkpoint
from tests.benchmarks.tools.options import benchmark_parser
from tests.benchmarks.tools.random_models import build_on_device, shape_of_7b
from tests.benchmarks.tools.taught_judges import PAIRS, TaughtJudge, write_taught_judge
from vrthinker_core.backends.checkpoint import open_checkpoint
from vrthinker_core.backends.transformers_local import TransformersBackend
from vrthinker_core.training.config import changed_config, preset_config
from vrthinker_core.training.estimate import GIB, TrainingPlan, estimate, model_shape
from vrthinker_core.training.grpo import Group, mixed_share, train_grpo
from vrthinker_core.training.metrics import StepMetrics
from vrthinker_core.training.rollouts import play
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
    "rope_parameters": {
        "rope_type": "default",
        "rope_theta": 10000.0,
        "mrope_section": [8, 12, 12],
    },
}
Figures = dict[str, float]


def main() -> None:
    """Run the benchmark."""
    options = benchmark_parser(
        __doc__, "one step", "the shape of the 7B on the GPU, with adapters"
    ).parse_args()
    with tempfile.TemporaryDirectory() as name:
        result = (on_gpu if options.gpu else on_processor)(Path(name), options.quick)
    print(json.dumps(result))


def readme_row(result: dict[str, Any]) -> str:
    """The result in a sentence for the README's table."""
    step = f"{result['seconds_a_step']:.1f} s ({result['playing_s']:.1f} s of them playing)"
    rollouts = f"a step of {result['rollouts']:.0f} rollouts"
    if "peak_gib" not in result:
        return f"{rollouts} of a judge of 3.5 million weights: {step}"
    return (
        f"{rollouts} with adapters of rank {RANK}: {step}, {result['peak_gib']:.1f} GiB at most "
        f"where {result['estimated_gib']:.1f} were estimated"
    )


def on_processor(folder: Path, quick: bool) -> Figures:
    """A small judge."""
    config = small_config(SMALL_TEXT, {"out_hidden_size": SMALL_TEXT["hidden_size"]})
    source = write_random_checkpoint(folder / "judge", config=config, pixels=56 * 56)
    checkpoint = open_checkpoint(str(source), device="cpu", dtype=torch.float32)
    judge = write_taught_judge(checkpoint, learning_rate=2e-3)
    changes = [f"grpo.micro_batch={SAMPLES}", "grpo.optimizer.learning_rate=0.0001"]
    return _train(judge, folder / "trl", 1 if quick else 3, changes)


def on_gpu(folder: Path, quick: bool) -> Figures:
    """Adapters over the shape of the 7B."""
    begun = time.monotonic()
    checkpoint = build_on_device(folder, shape_of_7b(), 448, "cuda", torch.bfloat16)
    judge = write_taught_judge(checkpoint, learning_rate=2e-4)
    print(f"a judge of that shape was taught in {time.monotonic() - begun:.0f} s", flush=True)
    gc.collect()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    learning = (
        f"grpo.micro_batch=1 grpo.trl.lora={RANK} grpo.bf16=true gradient_checkpointing=true "
        "grpo.optimizer.learning_rate=0.00001"
    )
    figures = _train(judge, folder / "trl", 1 if quick else 3, learning.split())
    return figures | {
        "peak_gib": round(torch.cuda.max_memory_allocated() / GIB, 1),
        "estimated_gib": round(_estimated(judge), 1),
    }


def _train(judge: TaughtJudge, out: Path, steps: int, changes: Sequence[str]) -> Figures:
    """So many steps over the same pair; the product opens what they made."""
    from trl import GRPOTrainer

    same = (
        f"grpo.samples={SAMPLES} grpo.pairs=1 grpo.steps={steps} "
        f"grpo.trl.tokens={judge.more_tokens} grpo.optimizer.warm_up=0"
    )
    config = changed_config(preset_config("nano"), [*same.split(), *changes])
    score = GRPOTrainer._generate_and_score_completions
    begun, playing, seconds, groups = 0.0, 0.0, 0.0, list[Group]()

    def scored(trainer: Any, inputs: Any) -> Any:
        nonlocal begun, playing
        started = time.monotonic()
        begun = begun or started
        batch = score(trainer, inputs)
        playing += time.monotonic() - started
        return batch

    def report(pace: StepMetrics, of_step: Sequence[Group]) -> None:
        nonlocal seconds
        seconds = time.monotonic() - begun  # without opening and saving
        groups.extend(of_step)
        print(f"step {pace.step}: loss {pace.loss}, {seconds:.1f} s so far", flush=True)

    with mock.patch.object(GRPOTrainer, "_generate_and_score_completions", scored):
        made = train_grpo(PAIRS, judge.folder, config, out, report)
    gc.collect()
    torch.cuda.empty_cache()
    opened = TransformersBackend.load(str(made))
    (rollout,) = play([PAIRS.pair(0)], opened, Settings(max_new_tokens=200))
    return {
        "rollouts": SAMPLES,
        "tokens": judge.prompt_tokens + judge.more_tokens,
        "seconds_a_step": round(seconds / steps, 2),
        "playing_s": round(playing / steps, 2),
        "mixed_groups": round(mixed_share(groups), 2),
        "turns_of_what_was_trained": len(rollout.run.turns),
    }


def _estimated(judge: TaughtJudge) -> float:
    """GiB on one GPU as `train --estimate` reckons them."""
    plan = TrainingPlan(
        "grpo",
        1,
        rollouts=SAMPLES,
        lora=RANK,
        vllm="",
        prompt_tokens=judge.prompt_tokens,
        reply_tokens=judge.more_tokens,
        picture_tokens=0,
    )
    return estimate(model_shape(judge.folder), plan).gib


if __name__ == "__main__":
    main()
