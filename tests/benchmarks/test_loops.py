"""Both loops that `turns` and `decode` measure write the replies they are given, over a very small model."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.backends.support.random_model import small_config, write_random_checkpoint
from tests.benchmarks import decode, turns
from tests.support.small_clips import write_clip
from vrthinker_core.backends.local.checkpoint.loader import Checkpoint, open_checkpoint
from vrthinker_core.types.messages import Message, Text


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    folder = tmp_path_factory.mktemp("model") / "random"
    write_random_checkpoint(folder, config=small_config({"max_position_embeddings": 8192}), pixels=56 * 56)
    return open_checkpoint(str(folder), device="cpu", dtype=torch.float32)


def test_turns_measures_both_loops_over_the_same_replies(checkpoint: Checkpoint, tmp_path: Path) -> None:
    videos = write_clip(tmp_path / "a.mp4"), write_clip(tmp_path / "b.mp4", hue=80)
    figures = turns.measure(checkpoint, videos, pairs=2, words=96)
    assert turns.readme_row({"pairs_per_call": {"2": figures}}).startswith("2 pairs a call: six turns ")


def test_decode_measures_a_forced_reply_both_ways(checkpoint: Checkpoint) -> None:
    messages, tokens = [Message("user", (Text("blue ball"),))], [100, 200, 300, 400]
    assert decode.our_speed(checkpoint, messages, tokens) > 0
    assert decode.stock_speed(checkpoint, messages, tokens) > 0
