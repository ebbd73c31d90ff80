"""The real clips of the folder that VRT_CLIPS names."""

from __future__ import annotations

import os
from collections.abc import Container
from pathlib import Path
from typing import Any

import pytest

from tests.support.slow import slow


def real_clips(telling: Container[str]) -> list[Any]:
    """The telling ones, and with VRT_SLOW=1 all others."""
    found = sorted(Path(os.environ.get("VRT_CLIPS", os.devnull)).glob("*"))
    return [
        pytest.param(path, id=path.name, marks=[] if path.name in telling else slow)
        for path in found
        if path.suffix != ".json"
    ]
