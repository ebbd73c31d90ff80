"""A table of real clips with labels."""

from __future__ import annotations

import csv
from pathlib import Path

from tests.support.small_clips import write_clip
from vrthinker_core.dialects import make_dialect
from vrthinker_core.dialects.factory import frame_layout
from vrthinker_core.types import Settings
from vrthinker_core.types.geometry import FrameLayout

PAIRED: FrameLayout = frame_layout(make_dialect(Settings(), "paired"))
COLUMNS = ("video1", "video2", "prompt", "TA", "VQ", "MQ", "OA")


def write_table(folder: Path, rows: list[tuple[str, ...]], clips: bool = True, name: str = "pairs.csv") -> Path:
    for hue, video in enumerate(sorted({video for row in rows for video in row[:2]})):
        if clips:
            write_clip(folder / video, frames=10 + hue, hue=20 * hue)
    with (folder / name).open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file)
        table.writerow(COLUMNS)
        table.writerows(rows)
    return folder / name
