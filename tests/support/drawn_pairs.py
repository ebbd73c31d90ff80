"""Drawn pairs as video files, read back by the product's own reader of tables."""

from __future__ import annotations

from pathlib import Path

from vrthinker_core import VideoPair
from vrthinker_core.drawn.video_files import write_pairs
from vrthinker_core.results.open_dataset import read_dataset


def drawn_pairs(count: int, seed: int, folder: Path, size: int = 224) -> list[VideoPair]:
    return [pair.videos for pair in read_dataset("csv", write_pairs(count, seed, folder, size))]
