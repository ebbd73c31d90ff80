"""Clips are made once per run, each only when a test asks for it."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import av
import pytest

from tests.video.support.hostile_clips import HOSTILE
from tests.video.support.write_clips import KINDS


@pytest.fixture(scope="session")
def make_clip(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Writes the clip of a given kind; gives its path."""
    folder = tmp_path_factory.mktemp("kinds")
    av.logging.set_level(av.logging.PANIC)
    return cache(lambda name: (KINDS | HOSTILE)[name](folder))
