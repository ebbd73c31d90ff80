"""What an import loads: the parent never a decoder, a worker process neither models nor the page, the package nothing at all."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

MODELS_AND_PAGE = ["torch", "transformers", "gradio", "pydantic", "vrthinker_core.runner"]
NOT_LOADED = {
    "vrthinker_core": ["vrthinker_core.runner", "vrthinker_core.types", "vrthinker_core.video"],
    "vrthinker_core.backends.factory": ["torch", "transformers"],
    "vrthinker_core.backends.server_backend": ["torch", "transformers"],
    "vrthinker_core.video": ["av", "cv2", "numpy"],
    "vrthinker_core.video.measure": ["av", "cv2", "numpy"],
    "vrthinker_core.video.fork_server": MODELS_AND_PAGE,
    "vrthinker_core.video.copy_worker": MODELS_AND_PAGE,
}


def run(code: str) -> str:
    """What a new process prints."""
    command, root = [sys.executable, "-c", code], Path(__file__).parents[2]
    return subprocess.check_output(command, text=True, cwd=root).strip()


@pytest.mark.parametrize("imported", NOT_LOADED)
def test_what_an_import_does_not_load(imported: str) -> None:
    loaded = f"[name for name in {NOT_LOADED[imported]} if name in sys.modules]"
    assert run(f"import sys, {imported}; print({loaded})") == "[]"


@pytest.mark.parametrize("first", ["vrthinker_core", "vrthinker_core.runner"])
def test_judge_is_the_function_whatever_was_imported_first(first: str) -> None:
    """The module of the same name is loaded with it."""
    code = "from vrthinker_core import judge; print(vrthinker_core.judge is judge, judge)"
    assert run(f"import {first}, vrthinker_core; {code}").startswith("True <function")


def test_public_names_are_listed_before_they_are_loaded() -> None:
    listed = "set(vrthinker_core.__all__) <= set(dir(vrthinker_core))"
    missing = "try: vrthinker_core.nothing\nexcept AttributeError as e: print(e)"
    told = run(f"import vrthinker_core; print({listed})\n{missing}")
    assert told.startswith("True\n")
    assert "no attribute 'nothing'" in told
