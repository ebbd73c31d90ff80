"""Chromium as the tests start it. Where it does not start, one sentence says what is missing and what installs it."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Browser

README = Path(__file__).resolve().parents[2] / "README.md"
# The headless shell first: a page costs it much less processor time than in a whole browser.
PROGRAMS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
CHROMIUM = next(filter(None, map(shutil.which, PROGRAMS)), None)
FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
LOADER = re.compile(r"[^\n]*error while loading shared libraries[^\n]*")
LOGGED = re.compile(r"\[err\] ([^\n]+)")
"""A line that Chromium wrote to its standard error, as Playwright quotes it."""


class NoBrowser(SystemExit):
    """No Chromium can be started. A command that does not catch it ends with the sentence that says why."""


def absent() -> str | None:
    """What is not installed at all, if anything."""
    if CHROMIUM is None:
        return "Chromium is not installed"
    return None if importlib.util.find_spec("playwright") else "Playwright is not installed"


@contextmanager
def started() -> Iterator[Browser]:
    """Chromium, running. Raises `NoBrowser` where that cannot be."""
    if reason := absent():
        raise NoBrowser(sentence(reason))
    # Where the driver fails, Playwright itself would leave tracebacks of a broken pipe behind
    command = [sys.executable, "-m", "playwright", "--version"]
    driver = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    if driver.returncode:
        raise NoBrowser(sentence("Playwright's driver does not start", driver.stderr))
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        try:
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        except Exception as error:
            said = sentence(f"Chromium ({CHROMIUM}) does not start", str(error))
            raise NoBrowser(said) from error
        with closing(browser):
            yield browser


def sentence(reason: str, said: str = "") -> str:
    """What is wrong, the one line of what was said that tells most, and what the README installs."""
    told = LOADER.search(said) or LOGGED.search(said) or re.search(r"[^\n]+", said)
    line = re.sub(r"^.*\[err\] ", ": ", f": {told[0].strip()}") if told else ""
    readme = README.read_text("utf-8").partition("<!-- the test line -->")[2]
    (packages,) = re.findall(r"--no-install-recommends ([^']+)", readme)[:1]
    return f"{reason}{line}; what the tests need is installed by: apt-get install {packages}"
