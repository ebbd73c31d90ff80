"""Tests of half a minute each, which `VRT_SLOW=1` runs with all the others: the run without it must end in under 20 minutes."""

from __future__ import annotations

import os

import pytest

WHY = "VRT_SLOW=1 runs it: it takes half a minute"
slow = pytest.mark.skipif(not os.environ.get("VRT_SLOW"), reason=WHY)
