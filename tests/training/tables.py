"""A table of real clips with labels."""

from __future__ import annotations

import csv
from pathlib import Path

from tests.support.small_clips import write_clip
from vrthinker_core.protocols.factory import frame_plans
from vrthinker_core.training.pair_set import FramePlans
from vrthinker_core.types import Settings

PAIRED: FramePlans = frame_plans(Settings(), ("paired",))
SAID = "<Snapshot>a</Snapshot><Think>b</Think><Answer>TA=1, VQ=0, MQ=2, OA=1</Answer>"
COLUMNS = ("video1", "video2", "prompt", "TA", "VQ", "MQ", "OA")


def numbered_rows(*prompts: str) -> list[tuple[str, ...]]:
    """A row for each prompt, with videos of its own; `SAID` is right of all."""
    numbers = enumerate(prompts)
    return [(f"{n}a.mp4", f"{n}b.mp4", prompt, "1", "0", "2", "1") for n, prompt in numbers]


def write_table(
    folder: Path, rows: list[tuple[str, ...]], clips: bool = True, name: str = "pairs.csv"
) -> Path:
    for hue, video in enumerate(sorted({video for row in rows for video in row[:2]})):
        if clips:
            write_clip(folder / video, frames=10 + hue, hue=20 * hue)
    with (folder / name).open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file)
        table.writerow(COLUMNS)
        table.writerows(rows)
    return folder / name
