"""Lines are there whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from vrthinker_core.files.line_file import BLOCK, LineFile, whole_lines


@pytest.mark.parametrize("rest", [b"", b"{", b"x" * (2 * BLOCK), b"x" * BLOCK])
def test_what_a_killed_process_left_of_a_line_is_no_line_and_is_cut_off(tmp_path: Path, rest: bytes) -> None:
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
        lines.sync()
    assert path.read_bytes() == b""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="limits of file size are those of POSIX")
def test_of_a_line_that_a_full_disk_refuses_nothing_is_left(tmp_path: Path) -> None:
    import resource
    import signal

    path, limit = tmp_path / "lines", resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    with LineFile(path) as lines:
        lines.append(b"one")
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, limit[1]))
        try:
            with pytest.raises(OSError, match="large"):
                lines.append(b"x" * 200)  # The first hundred bytes find room
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limit)
            signal.signal(signal.SIGXFSZ, before)
        assert path.read_bytes() == b"one\n"
        lines.append(b"two")
    assert whole_lines(path) == [b"one", b"two"]
