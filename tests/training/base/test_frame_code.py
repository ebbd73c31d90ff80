"""The frame code: facts that go in can be read again, and it knows all words of the drawn world."""

from __future__ import annotations

import numpy as np
import torch

from vrthinker_core.training.base.frames.frame_code import (
    COLOURS,
    GROUNDS,
    PARTS,
    SHAPES,
    SIZE,
    STATES,
    basis,
    encode_facts,
    place_of,
)
from vrthinker_core.training.base.frames.seen_frames import seen_facts
from vrthinker_core.training.drawn_world import facts, faults
from vrthinker_core.training.drawn_world.rendering import damage, photographs, solids, textures
from vrthinker_core.training.drawn_world.scenes import WorldOptions, draw_pair


def test_it_has_a_number_for_every_word_of_the_world() -> None:
    assert tuple(facts.COLOURS) == COLOURS
    assert tuple(solids.SHAPES) == SHAPES
    assert (faults.CLEAR, *damage.DAMAGES) == STATES
    assert (*textures.GROUNDS, photographs.PHOTO) == GROUNDS


def test_its_directions_are_orthonormal_and_always_the_same() -> None:
    directions = basis(192)
    assert torch.allclose(directions @ directions.T, torch.eye(SIZE), atol=1e-5)
    assert torch.equal(directions, basis(192))


def test_the_facts_of_a_frame_can_be_read_from_its_code() -> None:
    for seed in range(40):
        for scene in draw_pair(seed, WorldOptions(second=True)).scenes.values():
            seen = seen_facts(scene, 40)
            code = encode_facts(seen)
            assert STATES[int(code[PARTS["state"]].argmax())] == seen.state
            for suffix, thing in zip(("", " 2"), seen.things, strict=False):
                assert code[PARTS[f"present{suffix}"]].item() == (thing is not None)
                if thing is None:
                    continue
                assert COLOURS[int(code[PARTS[f"colour{suffix}"]].argmax())] == thing.colour
                assert SHAPES[int(code[PARTS[f"shape{suffix}"]].argmax())] == thing.shape
                assert int(code[PARTS[f"count{suffix}"]].argmax()) + 1 == thing.count
                inside = np.clip((thing.x, thing.y), 0, 1)
                read = [place_of(code[PARTS[f"{axis}{suffix}"]][None])[0] for axis in "xy"]
                assert np.abs(inside - read).max() < 0.01
