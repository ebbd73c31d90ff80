"""The three public data sets as small files of their own shape, with videos that are only names."""

from __future__ import annotations

import csv
import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

VIDEOGEN_COLUMNS = (
    *("path_A", "path_B", "A_model", "B_model", "prompt", "VQ", "MQ", "TA", "Overall"),
    *("fps_A", "num_frames_A", "fps_B", "num_frames_B"),
)
VIDEOGEN_ROW = (
    *("videos/CogVideoX/Cog5B_00102.mp4", "videos/qingying/qingying_00102.mp4"),
    *("CogVideoX", "qingying", "Static camera, a glass ball rolls on a smooth tabletop."),
    *("same", "same", "B", "B", "8", "49", "16", "96"),
)
GENAI_COLUMNS = ("prompt", "left_video", "right_video", "left_model", "right_model", "vote_type")


def touch(path: Path) -> Path:
    """A file that is there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"video")
    return path


def write_videogen(folder: Path, rows: Sequence[Sequence[str]] = (VIDEOGEN_ROW,)) -> Path:
    """`videogen-rewardbench.csv` and the videos of all rows."""
    for row in rows:
        for name in row[:2]:
            if name.startswith("videos/"):
                touch(folder / name)
    path = folder / "videogen-rewardbench.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([VIDEOGEN_COLUMNS, *rows])
    return path


def genai_address(name: str) -> str:
    """The address of a video, which ends in an MD5 digest."""
    return f"https://github.com/an-owner/videos/raw/main/{genai_name(name)}"


def genai_name(name: str) -> str:
    """`<md5>.mp4`."""
    return f"{hashlib.md5(name.encode(), usedforsecurity=False).hexdigest()}.mp4"


def write_genai(folder: Path, rows: Sequence[Sequence[str | None]], split: str = "test_v1") -> Path:
    """`video_generation/<split>-00000-of-00001.parquet`."""
    import pyarrow
    from pyarrow import parquet

    path = folder / "video_generation" / f"{split}-00000-of-00001.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    columns = dict(zip(GENAI_COLUMNS, map(list, zip(*rows, strict=True)), strict=True))
    arrays = {name: pyarrow.array(each, pyarrow.string()) for name, each in columns.items()}
    parquet.write_table(pyarrow.table(arrays), path)
    return path


def mj_row(number: int, overall: str, **categories: str) -> dict[str, Any]:
    """One row of `test.json`."""
    names = ("Alignment", "Safety", "Fineness", "Coherence & Consistency", "Bias")
    return {
        "caption": f"A dog runs over a field, take {number}.",
        "video_0_path": f"videos/{number}_0.mp4",
        "video_1_path": f"videos/{number}_1.mp4",
        "overall_preference": overall,
        "category_preference": dict.fromkeys(names, "Same") | categories,
    }


def write_mj(folder: Path, rows: Sequence[Any]) -> Path:
    """`test.json` and the videos of all rows."""
    for row in rows:
        for name in ("video_0_path", "video_1_path"):
            if isinstance(row, dict) and isinstance(row.get(name), str):
                touch(folder / row[name])
    path = folder / "test.json"
    path.write_text(json.dumps(rows), "utf-8")
    return path
