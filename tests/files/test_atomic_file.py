"""Files that are whole or not there, and what the next start removes of processes that were killed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from vrthinker_core.storage import (
    atomic_path,
    owned_folder,
    remove_parts,
    write_atomically,
)

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL and locks")

KILL_WRITERS = (
    "import json, sys; from pathlib import Path; from tests.benchmarks.kills import kill_writers; "
    + ("print(json.dumps(kill_writers(Path(sys.argv[1]), 60)))")
)
DIE = "import os, signal, sys; from pathlib import Path; from vrthinker_core.storage import atomic_path, owned_folder; "


def test_killed_writers_tear_nothing_and_leave_nothing_after_the_next_start(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", KILL_WRITERS, str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
    )
    figures = json.loads(done.stdout)
    assert (figures["torn"], figures["left"]) == (0, 0)
    assert figures["traces"] > 2
    assert figures["halves"] > 0, "no kill came within a file"


def die(code: str, folder: Path) -> None:
    """Run code that ends by SIGKILL, with the folder as the place for temporary files."""
    done = subprocess.run(
        [sys.executable, "-c", DIE + code, str(folder)],
        env={**os.environ, "TMPDIR": str(folder)},
        check=False,
    )
    assert done.returncode == -9


def test_only_what_nobody_writes_any_more_is_removed(tmp_path: Path) -> None:
    die(
        "c = atomic_path(Path(sys.argv[1]) / 'a.json'); c.__enter__().write_text('half'); os.kill(os.getpid(), 9)",
        tmp_path,
    )
    assert len(list(tmp_path.iterdir())) == 1
    (tmp_path / ".somebody-elses.part").write_text("x")
    with atomic_path(tmp_path / "b.json") as part:
        part.write_text("whole")
        remove_parts(tmp_path)
        assert part.exists()
        assert len(list(tmp_path.iterdir())) == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == [".somebody-elses.part", "b.json"]
    assert (tmp_path / "b.json").read_text() == "whole"


def test_a_failed_write_leaves_the_old_file_and_no_half_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "run.json"
    write_atomically(path, b"old")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert [file.name for file in tmp_path.iterdir()] == ["run.json"]


@pytest.mark.parametrize(("mask", "mode"), [(0o077, 0o600), (0o022, 0o644), (0o002, 0o664)])
def test_a_file_has_the_permissions_of_any_new_file(mask: int, mode: int, tmp_path: Path) -> None:
    before = os.umask(mask)
    try:
        with atomic_path(tmp_path / "a.json") as part:
            part.write_text("x")
    finally:
        os.umask(before)
    assert (tmp_path / "a.json").stat().st_mode & 0o777 == mode


@pytest.mark.parametrize(
    "name",
    ["\N{VIDEO CAMERA}" * 60 + ".json", "a" * 255, "é" * 127],
    ids=["four bytes", "one", "two"],
)
def test_every_name_that_a_file_may_have_can_be_written(name: str, tmp_path: Path) -> None:
    with atomic_path(tmp_path / name) as part:
        part.write_text("x")
        remove_parts(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_the_next_start_removes_the_folder_of_a_server_that_was_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with owned_folder("ours-") as alive:
        (alive / "video.mp4").write_text("a visitor's")
        die(
            "c = owned_folder('ours-'); f = c.__enter__() / 'deep'; f.mkdir(); (f / 'x').touch(); os.kill(os.getpid(), 9)",
            tmp_path,
        )
        (tmp_path / "ours-link").symlink_to(alive)
        assert len(list(tmp_path.iterdir())) == 3
        with owned_folder("ours-") as second:
            assert {path.name for path in tmp_path.iterdir()} == {
                alive.name,
                second.name,
                "ours-link",
            }
            assert (alive / "video.mp4").read_text() == "a visitor's"
    assert [path.name for path in tmp_path.iterdir()] == ["ours-link"]
