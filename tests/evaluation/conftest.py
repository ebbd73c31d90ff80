"""Threads that judge pairs share the decoding processes of all tests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext

import pytest

from vrthinker_core.video import DecoderPool


@pytest.fixture(autouse=True, scope="session")
def shared_pool_of_engines(shared_decoder_pool: DecoderPool) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "vrthinker_core.evaluation.local_engine.DecoderPool",
            lambda: nullcontext(shared_decoder_pool),
        )
        yield
