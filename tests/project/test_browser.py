"""A browser that cannot start is one sentence and a failed run, before the first test."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.browser import installation

ROOT = Path(__file__).resolve().parents[2]
NEEDS_A_BROWSER = ("-m", "browser", "tests/ui/view/test_html_report.py")
LOADER = "error while loading shared libraries: libmissing.so.1: cannot open shared object file: No such file or directory"


def broken(path: Path) -> Path:
    """A program that ends as one does for which a shared library is missing."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\necho '{path}: {LOADER}' >&2\nexit 127\n")
    path.chmod(0o755)
    return path


def run(**variables: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-rs", *NEEDS_A_BROWSER]
    kept = {name: value for name, value in os.environ.items() if name not in ("CI", "PYTEST_ADDOPTS")}
    environment = {**kept, **variables}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120, check=False)


def the_sentence(done: subprocess.CompletedProcess[str]) -> str:
    """The one line that says why the run ended; no test ran, and nothing else was told."""
    assert done.returncode == 1, done.stdout + done.stderr
    assert "Traceback" not in done.stdout
    assert not re.search(r"\d (passed|failed|skipped|error)", done.stdout), done.stdout
    (sentence,) = (line for line in done.stdout.splitlines() if "Exit: " in line)
    assert installation() in sentence
    assert done.stderr == ""
    return sentence


def test_a_browser_that_cannot_start_is_named(tmp_path: Path) -> None:
    pytest.importorskip("playwright")
    fake = broken(tmp_path / "bin" / "chromium-headless-shell")
    sentence = the_sentence(run(PATH=f"{fake.parent}:{os.environ['PATH']}"))
    assert f"Chromium ({fake}) does not start" in sentence
    assert LOADER in sentence


def test_a_driver_that_cannot_start_is_named(tmp_path: Path) -> None:
    pytest.importorskip("playwright")
    broken(tmp_path / "bin" / "chromium-headless-shell")
    node = broken(tmp_path / "node")
    sentence = the_sentence(run(PATH=str(tmp_path / "bin"), PLAYWRIGHT_NODEJS_PATH=str(node)))
    assert "Playwright's driver does not start" in sentence
    assert f"{node}: {LOADER}" in sentence


def test_without_a_browser_its_tests_are_left_out_except_in_ci(tmp_path: Path) -> None:
    done = run(PATH=str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Chromium is not installed" in done.stdout
    assert "Chromium is not installed" in the_sentence(run(PATH=str(tmp_path), CI="true"))
