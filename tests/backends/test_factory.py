"""Importing the protocols, the factory and the file checks is cheap, and the default checkpoint is a published one."""

from __future__ import annotations

import subprocess
import sys

import pytest

from vrthinker_core.backends import DEFAULT_CHECKPOINT
from vrthinker_core.backends.local.checkpoint.checkpoint_files import PUBLISHED_PROTOCOLS


@pytest.mark.parametrize("module", ["backends", "backends.base", "backends.factory", "backends.local.checkpoint.checkpoint_files"])
def test_import_does_not_import_torch(module: str) -> None:
    code = f"import sys, vrthinker_core.{module}; print(sorted({{'torch', 'transformers'}} & set(sys.modules)))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_protocol_of_the_default_checkpoint_is_known() -> None:
    assert DEFAULT_CHECKPOINT in PUBLISHED_PROTOCOLS
