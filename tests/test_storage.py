"""Files that are whole or not there, and what the next start removes of processes that were killed."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.support.file_limit import file_limit, open_file_limit
from vrthinker_core.errors import BadInput
from vrthinker_core.storage import (
    BLOCK,
    LineFile,
    atomic_path,
    owned_folder,
    remove_parts,
    whole_lines,
    write_atomically,
)
from vrthinker_core.system import WANTED_FILES, allow_open_files, allow_pairs

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL and locks")

DIE = "import os, sys; from pathlib import Path; from vrthinker_core.storage import atomic_path, owned_folder; "
KILL_WRITERS = """
import json, sys
from pathlib import Path
from tests.benchmarks.kills import kill_writers
print(json.dumps(kill_writers(Path(sys.argv[1]), 40)))
"""


def test_killed_writers_tear_nothing_and_leave_nothing_after_the_next_start(tmp_path: Path) -> None:
    command = [sys.executable, "-c", KILL_WRITERS, str(tmp_path)]
    figures = json.loads(subprocess.check_output(command, text=True))
    assert (figures["torn"], figures["left"]) == (0, 0)
    assert figures["traces"] > 2
    assert figures["halves"] > 0, "no kill came within a file"


def die(code: str, folder: Path) -> None:
    """Run code that ends by SIGKILL, with the folder as the place for temporary files."""
    command = [sys.executable, "-c", f"{DIE}{code}; os.kill(os.getpid(), 9)", str(folder)]
    environment = {**os.environ, "TMPDIR": str(folder)}
    assert subprocess.run(command, env=environment, check=False).returncode == -9


def test_only_what_nobody_writes_any_more_is_removed(tmp_path: Path) -> None:
    half = "c = atomic_path(Path(sys.argv[1]) / 'a.json'); c.__enter__().write_text('half')"
    die(half, tmp_path)
    assert len(list(tmp_path.iterdir())) == 1
    (tmp_path / ".somebody-elses.part").write_text("x")
    with atomic_path(tmp_path / "b.json") as part:
        part.write_text("whole")
        remove_parts(tmp_path)
        assert part.exists()
        assert len(list(tmp_path.iterdir())) == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == [".somebody-elses.part", "b.json"]
    assert (tmp_path / "b.json").read_text() == "whole"


def no_space(_: int) -> None:
    raise OSError(28, "No space left on device")


def test_a_failed_write_leaves_the_old_file_and_no_half_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "run.json"
    write_atomically(path, b"old")
    monkeypatch.setattr(os, "fsync", no_space)
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


@pytest.mark.parametrize("name", ["\N{VIDEO CAMERA}" * 60 + ".json", "a" * 255, "é" * 127])
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
        deep = "f = c.__enter__() / 'deep'; f.mkdir(); (f / 'x').touch()"
        die(f"c = owned_folder('ours-'); {deep}", tmp_path)
        (tmp_path / "ours-link").symlink_to(alive)
        assert len(list(tmp_path.iterdir())) == 3
        with owned_folder("ours-") as second:
            left = {path.name for path in tmp_path.iterdir()}
            assert left == {alive.name, second.name, "ours-link"}
            assert (alive / "video.mp4").read_text() == "a visitor's"
    assert [path.name for path in tmp_path.iterdir()] == ["ours-link"]


def test_the_limit_is_raised_as_far_as_this_process_may() -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    most = WANTED_FILES if hard == resource.RLIM_INFINITY else min(hard, WANTED_FILES)
    with open_file_limit(256):
        assert allow_open_files() == most
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (most, hard)
        assert allow_open_files() == most


def test_more_pairs_than_there_may_be_files_for_are_refused_with_what_to_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, 256))
    allow_pairs(20)
    with pytest.raises(BadInput) as refused:
        allow_pairs(64)
    for told in ("A concurrency of 64 needs more than the 256 files", "give a number up to 20, "):
        assert told in str(refused.value)
    monkeypatch.setattr(resource, "getrlimit", lambda _: (32, 32))
    allow_pairs(1)


def test_a_limit_that_cannot_be_raised_is_the_one_that_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: object) -> None:
        raise ValueError("current limit exceeds maximum limit")

    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, resource.RLIM_INFINITY))
    monkeypatch.setattr(resource, "setrlimit", refuse)
    assert allow_open_files() == 256


@pytest.mark.parametrize("rest", [b"", b"{", b"x" * (2 * BLOCK), b"x" * BLOCK])
def test_what_a_killed_process_left_of_a_line_is_no_line_and_is_cut_off(
    tmp_path: Path, rest: bytes
) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b"one\n\ntwo\n" + rest)
    assert whole_lines(path) == [b"one", b"", b"two"]
    with LineFile(path) as lines:
        assert not lines.empty
        lines.append(b"three")
    assert path.read_bytes() == b"one\n\ntwo\nthree\n"
    path.write_bytes(rest)
    with LineFile(path) as lines:
        assert lines.empty
    assert path.read_bytes() == b""


def test_of_a_line_that_a_full_disk_refuses_nothing_is_left(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    with LineFile(path) as lines:
        lines.append(b"one")
        with file_limit(100), pytest.raises(OSError, match="large"):
            lines.append(b"x" * 200)  # The first hundred bytes find room
        assert path.read_bytes() == b"one\n"
        lines.append(b"two")
    assert whole_lines(path) == [b"one", b"two"]


def test_of_a_line_that_does_not_reach_the_disk_nothing_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "lines"
    with LineFile(path) as lines:
        lines.append(b"one", sync=True)
        monkeypatch.setattr("os.fsync", no_space)
        lines.append(b"two")
        with pytest.raises(OSError, match="No space"):
            lines.append(b"three", sync=True)
    assert whole_lines(path) == [b"one", b"two"]
