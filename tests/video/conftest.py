"""Clips are made once for all workers of a run, each only when a test asks for it."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path

import av
import pytest

from tests.video.support.hostile_clips import HOSTILE
from tests.video.support.write_clips import KINDS, repeated, write, x264


def _long(folder: Path, name: str, size: tuple[int, int], seconds: int) -> Path:
    second = write(folder / "second.mp4", 25, size=size, **x264("crf=35"))
    return repeated(folder / name, second, seconds)


LONG: dict[str, Callable[[Path], Path]] = {
    # 7,500 frames, which take two seconds
    "minutes": lambda to: _long(to, "minutes.ts", (320, 240), 300),
    # 15,000 frames of 720p: more than can be decoded within the limits
    "endless": lambda to: _long(to, "endless.ts", (1280, 720), 600),
}


@pytest.fixture(scope="session")
def make_clip(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Writes the clip of a given kind; gives its path."""
    base = tmp_path_factory.getbasetemp()
    made = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "clips of all kinds"
    made.mkdir(exist_ok=True)
    av.logging.set_level(av.logging.PANIC)

    @cache
    def make(name: str) -> Path:
        folder = made / name
        if not folder.exists():
            clip = (KINDS | HOSTILE | LONG)[name](tmp_path_factory.mktemp("writing"))
            alone = tmp_path_factory.mktemp("written")
            clip.rename(alone / clip.name)
            with suppress(OSError):  # another worker was quicker
                alone.rename(folder)
        (clip,) = folder.iterdir()
        return clip

    return make
