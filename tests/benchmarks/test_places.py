"""What `places` measures is nothing but how far off a place is read: the built-in judge's is near, along both axes."""

from __future__ import annotations

from itertools import chain

from tests.benchmarks.places import FRAMES, measure, see
from tests.benchmarks.tools.drawn_measures import unseen_pairs
from vrthinker_core.backends.built_in import NANO
from vrthinker_core.training.base.model.base_checkpoint import open_checkpoint
from vrthinker_core.training.frame_facts.frame_code import basis
from vrthinker_core.types import Side


def test_the_built_in_judge_sees_things_where_they_are() -> None:
    pairs = unseen_pairs(2, 9).drawn
    visual = open_checkpoint(NANO)[0].model.visual
    directions = basis(visual.config.out_hidden_size)
    seen = list(chain.from_iterable(see(pair, side, visual, directions) for pair in pairs for side in Side))
    assert len(seen) == len(pairs) * 2 * len(FRAMES)
    assert {each.pair for each in seen} == {pair.seed for pair in pairs}
    result = measure(NANO, pairs)
    assert (result["frames"], result["pairs"]) == (len(seen), 2)
    assert 0 < result["median"] < 0.02
    assert result["far_off"] == sum(each.error > 0.03 for each in seen) / len(seen)
