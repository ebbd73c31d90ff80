"""Both loops that `turns` and `decode` measure write the replies they are given, over a very small model."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from transformers import DynamicCache

from tests.backends.support.random_model import small_config, write_random_checkpoint
from tests.benchmarks import decode, turns
from tests.benchmarks.ranking import write_generators
from tests.benchmarks.tools.drawn_measures import UnseenPairs
from tests.benchmarks.tools.phase_timer import PhaseTimer
from tests.benchmarks.views import KINDS, draw_views, measure
from tests.support.small_clips import write_clip
from vrthinker_core.backends import open_backend
from vrthinker_core.backends.checkpoint import Checkpoint, open_checkpoint
from vrthinker_core.backends.kv_cache import hidden_states
from vrthinker_core.drawn.world import FULL
from vrthinker_core.types import Dimension
from vrthinker_core.types.messages import Message, Text


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    folder = tmp_path_factory.mktemp("model") / "random"
    write_random_checkpoint(
        folder, config=small_config({"max_position_embeddings": 8192}), pixels=56 * 56
    )
    return open_checkpoint(str(folder), device="cpu", dtype=torch.float32)


def test_turns_measures_both_loops_over_the_same_replies(
    checkpoint: Checkpoint, tmp_path: Path
) -> None:
    videos = write_clip(tmp_path / "a.mp4"), write_clip(tmp_path / "b.mp4", hue=80)
    figures = turns.measure(checkpoint, videos, pairs=2, words=96)
    assert turns.readme_row({"pairs_per_call": {"2": figures}}).startswith(
        "2 pairs a call: six turns "
    )


def test_each_forward_pass_counts_for_its_phase_however_it_is_called(
    checkpoint: Checkpoint,
) -> None:
    timer, model = PhaseTimer(), checkpoint.model
    hooks = timer.attach(model)
    try:
        for tokens, phase in ((3, "prefill"), (1, "decode")):
            ids = torch.full((1, tokens), 100)
            positions = torch.arange(tokens).expand(3, 1, tokens)
            for call in (
                lambda ids=ids: model.model.language_model(input_ids=ids),
                lambda ids=ids, at=positions: hidden_states(
                    model, model.get_input_embeddings()(ids), at, DynamicCache()
                ),
            ):
                call()
                assert [name for name, seconds in timer.lap().items() if seconds] == [phase]
    finally:
        for hook in hooks:
            hook.remove()


def test_decode_measures_a_forced_reply_both_ways(checkpoint: Checkpoint) -> None:
    messages, tokens = [Message("user", (Text("blue ball"),))], [100, 200, 300, 400]
    assert decode.our_speed(checkpoint, messages, tokens) > 0
    assert decode.stock_speed(checkpoint, messages, tokens) > 0


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


@pytest.fixture(scope="module")
def views() -> dict[str, UnseenPairs]:
    return draw_views(2, 9, replace(FULL, no_thing=1.0))


def test_every_kind_has_as_many_views_as_are_asked_for(views: dict[str, UnseenPairs]) -> None:
    assert {kind: len(unseen.drawn) for kind, unseen in views.items()} == dict.fromkeys(KINDS, 2)
    assert all(
        scene.view
        for unseen in views.values()
        for pair in unseen.drawn
        for scene in pair.scenes.values()
    )


def test_only_even_ones_are_a_tie_of_motion(views: dict[str, UnseenPairs]) -> None:
    labels = {
        kind: [int(dict(pair.verdict)[Dimension.MQ] or 0) for pair in unseen.drawn]
        for kind, unseen in views.items()
    }
    assert labels.pop("even") == [0, 0]
    assert not [kind for kind, found in labels.items() if 0 in found]


def test_labels_are_counted_by_kind(views: dict[str, UnseenPairs]) -> None:
    found = measure(open_backend("nano"), views)
    assert list(found) == list(KINDS)
    assert all(0 <= right <= 2 for right in found.values())
    assert sum(found.values()) > 0
