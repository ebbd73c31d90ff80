"""The generators that are ranked: each has a video for each prompt, and the prompt says what was wanted."""

from __future__ import annotations

import csv
from pathlib import Path

from tests.benchmarks.ranking import write_generators


def test_each_generator_has_a_video_for_each_prompt(tmp_path: Path) -> None:
    flaws = {"good": [(), ()], "bad": [("colour", "motion"), ("picture", "direction")]}
    write_generators(tmp_path, flaws, 2, size=64)
    with (tmp_path / "prompts.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["video"] for row in rows] == ["clip0", "clip1"]
    assert all(row["prompt"] and "{" not in row["prompt"] for row in rows)
    assert {path.name for path in (tmp_path / "good").iterdir()} == {
        path.name for path in (tmp_path / "bad").iterdir()
    }
    assert len(list(tmp_path.rglob("*.mp4"))) == 4
