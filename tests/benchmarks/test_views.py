"""Views to measure a judge with: so many of each kind, no thing in them, and labels of motion that follow from the kind."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.benchmarks.tools.drawn_measures import UnseenPairs
from tests.benchmarks.views import KINDS, draw_views, measure
from vrthinker_core.backends import open_backend
from vrthinker_core.drawn.world import FULL
from vrthinker_core.types import Dimension


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
