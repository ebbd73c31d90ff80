"""The seam costs nothing to import: torch comes in only with a judge that needs it."""

from __future__ import annotations

import subprocess
import sys


def test_the_seam_does_not_import_torch() -> None:
    code = "import sys, vrthinker_core.backends.base as base; print(sorted({'torch', 'transformers'} & set(sys.modules)))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
