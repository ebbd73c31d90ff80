"""A scrubbed environment: no test reaches a network, a hub or a person's own settings."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import hypothesis
import pytest

from tests.support.small_clips import write_clip
from vrthinker_core.types import VideoPair
from vrthinker_core.video import DecoderPool

SCRUBBED = (
    "HF_TOKEN",
    "HF_HOME",
    "OPENAI_API_KEY",
    "VRTHINKER_API_KEY",
    "GRADIO_SERVER_NAME",
    "GRADIO_SERVER_PORT",
    "SPACE_ID",
    "SPACES_ZERO_GPU",
)

hypothesis.settings.register_profile("untimed", deadline=None)  # another process of the tests may have the processor
hypothesis.settings.load_profile("untimed")


@pytest.fixture(autouse=True, scope="session")
def scrubbed() -> None:
    for name in SCRUBBED:
        os.environ.pop(name, None)
    os.environ.update(HF_HUB_OFFLINE="1", GRADIO_ANALYTICS_ENABLED="False", CUDA_VISIBLE_DEVICES="")


@pytest.fixture(autouse=True, scope="session")
def shared_decoder_pool() -> Iterator[DecoderPool]:
    """Runs that bring no pool of their own share this one: a fork server costs more than a short run."""
    with DecoderPool() as pool, pytest.MonkeyPatch.context() as patch:
        for module in ("comparison", "batch"):
            patch.setattr(f"vrthinker_core.{module}.DecoderPool", lambda: nullcontext(pool))
        yield pool


@pytest.fixture(scope="session")
def clips(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two clips of different length."""
    folder = tmp_path_factory.mktemp("clips")
    return write_clip(folder / "one.mp4"), write_clip(folder / "two.mp4", frames=30, hue=80)


@pytest.fixture
def pair(clips: tuple[Path, Path]) -> VideoPair:
    return VideoPair("A white block glides to the right.", *clips)
