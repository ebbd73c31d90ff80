"""Lines are there whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.file_limit import file_limit
from vrthinker_core.storage import BLOCK, LineFile, whole_lines


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


def test_a_file_of_half_a_line_is_empty(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b"hal")
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

    def refused(_: int) -> None:
        raise OSError("No space left on device")

    with LineFile(path) as lines:
        lines.append(b"one", sync=True)
        monkeypatch.setattr("os.fsync", refused)
        lines.append(b"two")
        with pytest.raises(OSError, match="No space"):
            lines.append(b"three", sync=True)
    assert whole_lines(path) == [b"one", b"two"]
