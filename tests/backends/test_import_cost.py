"""Importing the protocols, the factory and the file checks is cheap: torch is imported only when a model is opened."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize("module", ["backends", "backends.base", "backends.factory", "backends.local.checkpoint.checkpoint_files"])
def test_import_does_not_import_torch(module: str) -> None:
    code = f"import sys, vrthinker_core.{module}; print(sorted({{'torch', 'transformers'}} & set(sys.modules)))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
