"""Worker processes: whatever happens to one, one clip fails and nothing is left behind."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from multiprocessing.connection import Pipe
from pathlib import Path

import pytest

from tests.video.support import open_clips
from tests.video.support.open_clips import SQUARE
from tests.video.support.write_clips import repeated, write
from vrthinker_core.errors import DecoderDied, VideoError
from vrthinker_core.video import Clip, DecoderPool, Limits
from vrthinker_core.video.worker_io import receive_message, send_message

PROC = Path("/proc")
opened = partial(open_clips.opened, decoders=None)  # each clip in a fresh process
Opened = Callable[..., Clip]
linux = pytest.mark.skipif(not (PROC / "self" / "status").exists(), reason="needs /proc")


def alive(pid: int) -> bool:
    """Running, not a zombie, not gone."""
    try:
        return (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def gone_within(pid: int, seconds: float) -> bool:
    end = time.monotonic() + seconds
    while alive(pid) and time.monotonic() < end:
        time.sleep(0.02)
    return not alive(pid)


@pytest.fixture(params=["fresh", "forked"])
def open_clip(request: pytest.FixtureRequest) -> Iterator[Opened]:
    """Opens each clip in a fresh process, or in a fork of a pool's."""
    with DecoderPool() as pool:
        yield partial(open_clips.opened, decoders=pool if request.param == "forked" else None)


@pytest.fixture(scope="module")
def long_clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ten minutes of 720p: more than can be decoded in a few seconds."""
    folder = tmp_path_factory.mktemp("long")
    second = write(folder / "second.mp4", 25, size=(1280, 720))
    return repeated(folder / "minutes.ts", second, 600)


@pytest.mark.parametrize("kill", [signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM])
def test_a_worker_that_dies_fails_its_own_clip_only(
    open_clip: Opened, kill: signal.Signals, make_clip: Callable[[str], Path]
) -> None:
    with open_clip(make_clip("B-frames")) as clip, open_clip(make_clip("HEVC")) as other:
        os.kill(clip.pid, kill)
        sentence = "was killed" if kill is signal.SIGKILL else f"crashed \\({kill.name}\\)"
        for _ in range(2):
            with pytest.raises(DecoderDied, match=rf"^plain\.mp4: .*{sentence}.*\.$"):
                clip.frames([3])
        assert len(other.frames([1, 2])) == 2
        with open_clip(make_clip("B-frames")) as again:
            assert len(again.frames([3])) == 1


@linux
def test_a_worker_that_hangs_is_killed(open_clip: Opened, make_clip: Callable[[str], Path]) -> None:
    with open_clip(make_clip("B-frames"), limits=Limits(wall_seconds=4)) as clip:
        os.kill(clip.pid, signal.SIGSTOP)
        started = time.monotonic()
        told = r"plain\.mp4: decoding took longer than 4 s and was stopped\."
        with pytest.raises(DecoderDied, match=told):
            clip.frames([3])
        assert time.monotonic() - started < 8
        assert not alive(clip.pid)


def test_processor_time_is_limited(long_clip: Path) -> None:
    with pytest.raises(VideoError, match=r"^minutes\.ts needs more than 0\.5 s of processor time"):
        opened(long_clip, opening=SQUARE, limits=Limits(cpu_seconds=0.5))


def test_memory_is_limited(tmp_path: Path) -> None:
    path = write(tmp_path / "large.mp4", 3, size=(3840, 2160), options={"preset": "ultrafast"})
    with pytest.raises(VideoError, match=r"^large\.mp4.* memory"):
        opened(path, opening=SQUARE, limits=Limits(memory_bytes=90_000_000))
    with opened(path, opening=SQUARE) as clip:
        assert clip.info.frames == 3


@linux
def test_no_process_zombie_or_descriptor_is_left(
    make_clip: Callable[[str], Path], tmp_path: Path
) -> None:
    (tmp_path / "noise.mp4").write_bytes(b"\0\0\0\x20ftypisom" + bytes(99))
    gc.collect()
    before = {entry.name for entry in Path("/proc/self/fd").iterdir()}
    pids = []
    for _ in range(3):
        with opened(make_clip("B-frames")) as clip:
            clip.frames([1])
            pids.append(clip.pid)
        with pytest.raises(VideoError):
            opened(tmp_path / "noise.mp4")
        with pytest.raises(VideoError):
            opened(tmp_path / "missing.mp4")
    dropped = opened(make_clip("B-frames"))
    pids.append(dropped.pid)
    del dropped
    gc.collect()
    assert {entry.name for entry in Path("/proc/self/fd").iterdir()} == before
    for pid in pids:
        with pytest.raises(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)


@linux
def test_closing_ends_a_request_in_another_thread(
    long_clip: Path, make_clip: Callable[[str], Path]
) -> None:
    with opened(make_clip("B-frames")) as clip:
        os.kill(clip.pid, signal.SIGSTOP)
        with ThreadPoolExecutor(1) as pool:
            reading = pool.submit(clip.frames, [1])
            time.sleep(0.2)
            clip.close()
            with pytest.raises(VideoError, match=r"^plain\.mp4 was closed\.$"):
                reading.result(5)


def run_code(code: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """In a process of its own."""
    command = [sys.executable, "-W", "ignore", "-c", code, *map(str, arguments)]
    root = Path(__file__).parents[2]
    return subprocess.run(
        command, stdout=subprocess.PIPE, text=True, cwd=root, timeout=60, check=False
    )


ORPHAN = """
import os, subprocess, sys, threading, time
from pathlib import Path
from tests.video.support.open_clips import SQUARE, opened

started = []

class Watched(subprocess.Popen):
    def __init__(self, *rest, **more):
        super().__init__(*rest, **more)
        started.append(self.pid)

subprocess.Popen = Watched
threading.Thread(target=opened, args=(Path(sys.argv[1]),), kwargs={"opening": SQUARE, "decoders": None}, daemon=True).start()
while not started:
    time.sleep(0.01)
time.sleep(1.5)
print(started[0], flush=True)
os.kill(os.getpid(), 9)
"""


@linux
@pytest.mark.parametrize("busy", [True, False])
def test_the_worker_ends_when_its_parent_is_killed(
    busy: bool, make_clip: Callable[[str], Path], long_clip: Path
) -> None:
    """While it decodes ten minutes of video, and while it waits for the next request."""
    run = run_code(ORPHAN, long_clip if busy else make_clip("B-frames"))
    assert run.returncode == -9
    assert gone_within(int(run.stdout), 5)


@linux
def test_several_threads_may_read_one_clip(make_clip: Callable[[str], Path]) -> None:
    with opened(make_clip("long"), read_mode="seek") as clip, ThreadPoolExecutor(8) as pool:
        every = [range(k, 128, 8) for k in range(8)]
        found = list(pool.map(clip.frames, every))
    for slots, frames in zip(every, found, strict=True):
        assert [frame.index for frame in frames] == [slot * 600 // 128 for slot in slots]


@linux
def test_the_worker_has_no_secrets_and_loads_no_models(
    open_clip: Opened, make_clip: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    with open_clip(make_clip("B-frames")) as clip:
        assert b"hf_secret" not in (PROC / str(clip.pid) / "environ").read_bytes()
        maps = (PROC / str(clip.pid) / "maps").read_text()
    assert "libtorch" not in maps
    assert "pydantic" not in maps


def test_nothing_is_imported_from_the_working_directory(
    make_clip: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("av.py", "numpy.py", "json.py", "vrthinker_core.py"):
        (tmp_path / name).write_text("raise SystemExit(3)")
    path = make_clip("B-frames").absolute()
    monkeypatch.chdir(tmp_path)
    with opened(path) as clip:
        assert clip.info.frames == 50
    monkeypatch.chdir(path.parent)
    with opened(Path(path.name)) as clip:
        assert clip.info.frames == 50


@pytest.mark.parametrize(
    "garbage",
    [
        b"",
        b"\0" * 5,
        b"\xff" * 40,
        b"\0\0\0\x02[]" + bytes(4),
        b"\0\0\0\x02{x" + bytes(4),
        b"\0\0\0\x02{}",
        b"\0\0\0\x02{}\0\0\0\x05abc",
        b"\x7f\xff\xff\xff{}",
        b"\0\0\0\x02{}\x7f\xff\xff\xffabc",
        b"\0\x01\0\0" + b"[" * (1 << 16) + bytes(4),
    ],
    ids=range(10),
)
def test_anything_but_a_message_is_an_eof_error(garbage: bytes) -> None:
    """Cut off, too long, no JSON, no object, nested too deep."""
    ours, theirs = Pipe()
    with ours:
        os.write(theirs.fileno(), garbage)
        theirs.close()
        with pytest.raises(EOFError):
            receive_message(ours)


class Touch:
    """Creates a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __reduce__(self) -> tuple[Callable[[Path], None], tuple[Path]]:
        return Path.touch, (self._path,)


def test_a_pickle_is_not_loaded(tmp_path: Path) -> None:
    ours, theirs = Pipe()
    with ours, theirs:
        theirs.send(Touch(tmp_path / "loaded"))
        with pytest.raises(EOFError):
            receive_message(ours)
        theirs.send(Touch(tmp_path / "loaded"))
        ours.recv()
    assert [path.name for path in tmp_path.iterdir()] == ["loaded"], (
        "by the second one, which was loaded on purpose"
    )


def test_the_parent_unpickles_nothing(
    open_clip: Opened, make_clip: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("multiprocessing.connection._ForkingPickler", None)
    with open_clip(make_clip("B-frames")) as clip:
        assert len(clip.frames([1, 2])) == 2


def test_messages_arrive_as_they_were_sent() -> None:
    ours, theirs = Pipe()
    with ours, theirs:
        send_message(theirs, {"path": "a\udcff\n✓", "slots": [1, 2]}, b"\0\1\2")
        send_message(theirs, {})
        assert receive_message(ours) == ({"path": "a\udcff\n✓", "slots": [1, 2]}, b"\0\1\2")
        assert receive_message(ours) == ({}, b"")
