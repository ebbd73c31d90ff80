"""What a person may choose for a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

ProtocolName = Literal["concat", "paired"]
"""The two published prompt protocols; each checkpoint was trained for one."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What a person chose for a run; None is the protocol's own default."""

    protocol: Literal["auto", "concat", "paired"] = "auto"
    preset: Literal["card", "clean"] = "card"
    window: int | Literal["all"] | None = None
    """Rounds of tool frames that stay in view; "all" keeps every frame."""
    max_turns: int | None = None
    frames_per_call: int | None = None
    max_new_tokens: int = 2048
    temperature: float = 0.0
    seed: int = 0
    opening: Literal["training", "card"] = "training"
    """`concat` only: how the first frames are chosen and packed."""
    total: int = 96
    """`concat` only: N, the length of its one list of frames."""
    fit: Literal["squash", "letterbox"] = "squash"
    """`paired` only: how a frame becomes 448 x 448."""
