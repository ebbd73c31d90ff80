"""What an import loads: the parent never a decoder, a worker process neither models nor the page, the package nothing at all."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize(
    ("imported", "not_loaded"),
    [
        (
            "vrthinker_core",
            ["vrthinker_core.judge", "vrthinker_core.types", "vrthinker_core.video"],
        ),
        ("vrthinker_core.video", ["av", "cv2", "numpy"]),
        (
            "vrthinker_core.video.fork_server",
            ["torch", "transformers", "gradio", "pydantic", "vrthinker_core.judge"],
        ),
        (
            "vrthinker_core.video.copy_worker",
            ["torch", "transformers", "gradio", "pydantic", "vrthinker_core.judge"],
        ),
    ],
)
def test_what_an_import_does_not_load(imported: str, not_loaded: list[str]) -> None:
    assert (
        run(
            f"import sys, {imported}; print([name for name in {not_loaded} if name in sys.modules])"
        )
        == "[]"
    )


@pytest.mark.parametrize(
    "first", ["vrthinker_core", "vrthinker_core.judge", "vrthinker_core.batch"]
)
def test_judge_is_the_function_whatever_was_imported_first(first: str) -> None:
    """The module of the same name is loaded with it."""
    assert run(
        f"import {first}, vrthinker_core; from vrthinker_core import judge; print(vrthinker_core.judge is judge, judge)"
    ).split()[:2] == ["True", "<function"]


def test_public_names_are_listed_before_they_are_loaded() -> None:
    assert (
        run("import vrthinker_core; print(set(vrthinker_core.__all__) <= set(dir(vrthinker_core)))")
        == "True"
    )
    assert "no attribute 'nothing'" in run(
        "import vrthinker_core\ntry: vrthinker_core.nothing\nexcept AttributeError as e: print(e)"
    )


def run(code: str) -> str:
    """What a new process prints."""
    found = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[2],
    )
    return found.stdout.strip()
