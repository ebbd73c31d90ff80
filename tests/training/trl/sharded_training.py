"""Supervised training in processes that share one model, as `accelerate launch` with FSDP2 starts them, but on processors."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from accelerate.state import AcceleratorState, DistributedType, PartialState

from tests.support.drawn_rollouts import DrawnPairs, answer, look, scripted_rollout
from vrthinker_core.backends.transformers_local import TransformersBackend
from vrthinker_core.training.config import OptimizerConfig, SftConfig, preset_config
from vrthinker_core.training.run_folder import launched_processes
from vrthinker_core.training.sft import train_sft
from vrthinker_core.training.token_rows import token_rows

PAIRS = DrawnPairs(2_000_000_000)
LAUNCHED = {
    "ACCELERATE_USE_FSDP": "true",
    "ACCELERATE_USE_CPU": "true",
    "FSDP_VERSION": "2",
    "FSDP_AUTO_WRAP_POLICY": "TRANSFORMER_BASED_WRAP",
    "FSDP_TRANSFORMER_CLS_TO_WRAP": "Qwen2_5_VLDecoderLayer,Qwen2_5_VLVisionBlock",
    "FSDP_STATE_DICT_TYPE": "FULL_STATE_DICT",
    "FSDP_RESHARD_AFTER_FORWARD": "true",
    "FSDP_CPU_RAM_EFFICIENT_LOADING": "true",
}
"""What `accelerate launch` makes of `fsdp2.yaml` for the processes it starts, and that they have no GPU."""


def train(judge: Path, out: Path, accumulation: int) -> Path:
    """Two steps over four rollouts each, which start with weights of `judge`."""
    loaded = TransformersBackend.load(str(judge)).loaded
    rollouts = [
        scripted_rollout(pair, look(3), answer(pair.truth)) for pair in map(PAIRS.pair, range(4))
    ]
    rows = [row for rollout in rollouts for row in token_rows(rollout, loaded)]
    sft = SftConfig(
        OptimizerConfig(1e-3, 0.0), batch=1, accumulation=accumulation, epochs=2, bf16=False
    )
    return train_sft(
        rows, judge, sft, replace(preset_config("7b"), gradient_checkpointing=False), out
    )


def shard_on_processors() -> None:
    """accelerate spreads models over GPUs alone, though FSDP2 itself can do so on processors."""
    stock = AcceleratorState.__init__

    def sharding(state: AcceleratorState, *arguments: Any, **options: Any) -> None:
        stock(state, *arguments, **options)
        if plugin := options.get("fsdp_plugin"):
            for shared in (AcceleratorState._shared_state, PartialState._shared_state):
                shared["distributed_type"] = DistributedType.FSDP
            state._shared_state["fsdp_plugin"] = plugin

    AcceleratorState.__init__ = sharding  # type: ignore[method-assign]


def main(arguments: Sequence[str]) -> None:
    """A judge's folder, and that of the training."""
    judge, out = map(Path, arguments)
    shard_on_processors()
    train(judge, out, accumulation=4 // launched_processes().count)


if __name__ == "__main__":
    main(sys.argv[1:])
