"""Which settings a run may go on with changed, and the first one in which it may not."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from vrthinker_core.training.run.config import TrainConfig, config_json

MAY_CHANGE = (
    *("grpo.steps", "shares.", "checkpoint_minutes", "gates.", "trackio"),
    *("grpo.shown_every", "grpo.micro_batch", "grpo.trl.vllm"),
)
"""Beginnings of the names of settings that a run may go on with changed: how long, how often, what is enough, where GRPO plays."""

MAY_NOT = ("gates.pairs",)
"""Those among them that it may not: of a finite set, what is not held out is learnt from, and would be other pairs."""


def config_difference(before: TrainConfig, now: TrainConfig) -> str:
    """The first setting in which two configurations differ and a run may not, in words; "" where there is none."""
    pairs = zip(
        _flat(json.loads(config_json(before))), _flat(json.loads(config_json(now))), strict=True
    )
    differing = (
        (name, old, new) for (name, old), (_, new) in pairs if old != new and not _may_change(name)
    )
    return next((f"{name} {old!r} instead of {new!r}" for name, old, new in differing), "")


def _may_change(name: str) -> bool:
    return name.startswith(MAY_CHANGE) and name not in MAY_NOT


def _flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every value of a nested table, with its name as `--set` writes it."""
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value
