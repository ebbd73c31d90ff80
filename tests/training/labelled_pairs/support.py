"""A table of real clips with labels."""

from __future__ import annotations

import csv
from pathlib import Path

from tests.support.small_clips import write_clip
from vrthinker_core.dialects.factory import frame_layouts
from vrthinker_core.training.labelled_pairs.video_pairs import Layouts
from vrthinker_core.types import Settings

PAIRED: Layouts = frame_layouts(Settings(), ("paired",))
COLUMNS = ("video1", "video2", "prompt", "TA", "VQ", "MQ", "OA")


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
