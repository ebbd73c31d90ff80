"""The servers of these tests have no certificate."""

from __future__ import annotations

import ssl
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True, scope="module")
def no_certificates() -> Iterator[None]:
    """Loading those of all authorities takes two thirds of the time of a short reply."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ssl.SSLContext, "load_verify_locations", lambda *_, **__: None)
        yield
