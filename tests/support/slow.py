"""Slow tests, which `VRT_SLOW=1` runs with all the others: other screens, largest texts, several processes."""

from __future__ import annotations

import os

import pytest

slow = pytest.mark.skipif(not os.environ.get("VRT_SLOW"), reason="VRT_SLOW=1 runs it")
