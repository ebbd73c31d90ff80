"""What the tower is trained on: pictures of which many are hard to place things in, always the same for a batch's number."""

from __future__ import annotations

import torch

from vrthinker_core.dialects.reading.frame_facts import COLOURS
from vrthinker_core.training.base.frames.picture_batches import SERIES, UNSEEN, picture_batch
from vrthinker_core.training.drawn_world.scenes import SECOND_WORLD
from vrthinker_core.training.frame_facts.frame_code import PARTS, STATES

LATE = UNSEEN + SERIES // 2  # A batch that may draw from all scenes that are kept


def test_many_things_are_as_bright_as_their_ground_and_much_damage_changes_the_light() -> None:
    batch = picture_batch(LATE, 96, SECOND_WORLD)
    code = batch.codes[:, 0]
    with_things = code[:, PARTS["present"]].sum(1) > 0
    hard = sum(code[:, PARTS[part]][:, COLOURS.index(colour)] for part in ("colour", "colour 2") for colour in ("white", "black"))
    assert torch.as_tensor(hard)[with_things].clamp(max=1).mean() > 0.4
    states = code[:, PARTS["state"]].sum(0)
    assert states[[STATES.index(name) for name in ("dark", "bright", "banded")]].sum() > states[1:].sum() / 2
    assert states[0] > 0, "some are not damaged"
    assert 0.12 < 1 - float(with_things.float().mean()) < 0.5, "some are views"


def test_a_batch_depends_on_its_number_alone() -> None:
    first, again, other = (picture_batch(UNSEEN + number, 4, SECOND_WORLD) for number in (2, 2, 3))
    assert torch.equal(first.patches, again.patches)
    assert torch.equal(first.codes, again.codes)
    assert not torch.equal(first.patches, other.patches)
