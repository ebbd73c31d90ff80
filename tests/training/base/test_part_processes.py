"""Parts side by side: what they say is heard, a stop reaches them, and none outlives its parent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.waiting import until
from vrthinker_core.backends.base import not_cancelled
from vrthinker_core.errors import BackendFailed, BadInput
from vrthinker_core.training.base.part_processes import Figures, train_side_by_side

NAMES = ("vision", "language")
PARENT = """
import sys
from functools import partial
from pathlib import Path
from tests.training.base.test_part_processes import NAMES, note_and_wait
from vrthinker_core.training.base.part_processes import train_side_by_side
train_side_by_side(NAMES, partial(note_and_wait, folder=Path(sys.argv[1])), print, lambda: False)
"""


def say_two(name: str, say: Callable[[Figures], None], stopped: Callable[[], bool]) -> None:
    assert not stopped()
    say({"step": len(name)})
    say({"step": 0.5})


def wait_for_stop(_: str, say: Callable[[Figures], None], stopped: Callable[[], bool]) -> None:
    say({"begun": 1})
    while not stopped():
        time.sleep(0.01)
    say({"stopped": 1})


def refuse_one(name: str, say: Callable[[Figures], None], stopped: Callable[[], bool]) -> None:
    if name == "vision":
        raise BadInput("There is no picture.")
    wait_for_stop(name, say, stopped)


def die(name: str, say: Callable[[Figures], None], stopped: Callable[[], bool]) -> None:
    if name == "vision":
        os.kill(os.getpid(), signal.SIGKILL)
    wait_for_stop(name, say, stopped)


def note_and_wait(name: str, _: Callable[[Figures], None], stopped: Callable[[], bool], *, folder: Path) -> None:
    (folder / name).write_text("begun", "utf-8")
    while not stopped():
        time.sleep(0.01)
    (folder / name).write_text("ended", "utf-8")


def test_what_each_part_says_is_heard_in_its_order() -> None:
    heard: list[tuple[str, Figures]] = []
    train_side_by_side(NAMES, say_two, lambda name, figures: heard.append((name, figures)), not_cancelled)
    for name in NAMES:
        assert [figures for part, figures in heard if part == name] == [{"step": len(name)}, {"step": 0.5}]


def test_a_stop_reaches_all_parts_and_waits_until_they_have_saved() -> None:
    heard: list[str] = []
    train_side_by_side(NAMES, wait_for_stop, lambda _, figures: heard.extend(figures), lambda: heard.count("begun") == 2)
    assert sorted(heard) == ["begun", "begun", "stopped", "stopped"]


@pytest.mark.parametrize(("work", "error", "said"), [(refuse_one, BadInput, "no picture"), (die, BackendFailed, "vision died")])
def test_where_one_part_fails_the_other_ends_and_the_reason_is_said(work, error, said: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(error, match=said):
        train_side_by_side(NAMES, work, lambda _, __: None, not_cancelled)


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no such signal")
def test_no_part_outlives_a_killed_parent(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", PARENT, str(tmp_path)]) as parent:
        notes = [tmp_path / name for name in NAMES]
        until(lambda: all(note.is_file() for note in notes))
        parent.kill()
    until(lambda: all(note.read_text("utf-8") == "ended" for note in notes))
