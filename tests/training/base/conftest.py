"""What all tests of the base share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from vrthinker_core.training.base import language_training, vision_training


@pytest.fixture(autouse=True, scope="module")
def little_measured() -> Iterator[None]:
    """After a step or two, what one batch measures says as much as what sixteen do."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (language_training, vision_training):
            patch.setattr(module, "MEASURED", 1)
        yield
