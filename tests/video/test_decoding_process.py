"""Worker processes, fresh and forked: whatever happens to one, one clip fails and nothing is left behind."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from multiprocessing.connection import Pipe
from pathlib import Path
from typing import NoReturn
from unittest.mock import patch

import numpy as np
import psutil
import pytest

from tests.support.waiting import until
from tests.video.support import open_clips
from tests.video.support.open_clips import SQUARE
from tests.video.support.write_clips import write
from vrthinker_core.errors import DecoderDied, VideoError
from vrthinker_core.video import Clip, DecoderPool, Limits
from vrthinker_core.video.process import receive_message

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc and forks")
PROC = Path("/proc")
ROOT = Path(__file__).parents[2]
opened = partial(open_clips.opened, decoders=None)  # each clip in a fresh process
MakeClip = Callable[[str], Path]
Opened = Callable[..., Clip]


def parent_pid(pid: int) -> int:
    return psutil.Process(pid).ppid()


def alive(pid: int) -> bool:
    """Running, not a zombie, not gone."""
    with suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
    return False


def descriptors() -> set[str]:
    gc.collect()
    return {entry.name for entry in Path("/proc/self/fd").iterdir()}


def run_code(code: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """In a process of its own."""
    command = [sys.executable, "-W", "ignore", "-c", code, *map(str, arguments)]
    return subprocess.run(
        command, stdout=subprocess.PIPE, text=True, cwd=ROOT, timeout=60, check=False
    )


@pytest.fixture
def pool() -> Iterator[DecoderPool]:
    with DecoderPool() as found:
        yield found


@pytest.fixture(params=["fresh", "forked"])
def open_clip(request: pytest.FixtureRequest, pool: DecoderPool) -> Opened:
    """Opens each clip in a fresh process, or in a fork of a pool's."""
    return partial(open_clips.opened, decoders=pool if request.param == "forked" else None)


@pytest.mark.parametrize("kill", [signal.SIGKILL, signal.SIGSEGV])
def test_a_worker_that_dies_fails_its_own_clip_only(
    open_clip: Opened, kill: signal.Signals, make_clip: MakeClip
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


def test_a_worker_that_hangs_is_killed(open_clip: Opened, make_clip: MakeClip) -> None:
    with open_clip(make_clip("B-frames"), limits=Limits(wall_seconds=3)) as clip:
        os.kill(clip.pid, signal.SIGSTOP)
        started = time.monotonic()
        told = r"plain\.mp4: decoding took longer than 3 s and was stopped\."
        with pytest.raises(DecoderDied, match=told):
            clip.frames([3])
        assert time.monotonic() - started < 7
        assert not alive(clip.pid)


def test_processor_time_is_limited(make_clip: MakeClip) -> None:
    with pytest.raises(VideoError, match=r"^endless\.ts needs more than 0\.5 s of processor time"):
        opened(make_clip("endless"), opening=SQUARE, limits=Limits(cpu_seconds=0.5))


def test_memory_is_limited(open_clip: Opened, tmp_path: Path) -> None:
    grey = [np.full((2160, 3840, 3), 90, np.uint8)] * 3
    options = {"preset": "ultrafast"}
    path = write(tmp_path / "large.mp4", 3, size=(3840, 2160), pictures=grey, options=options)
    limit = 40_000_000 if open_clip.keywords["decoders"] else 90_000_000  # type: ignore[attr-defined]
    with pytest.raises(VideoError, match=r"^large\.mp4.* memory"):
        open_clip(path, opening=SQUARE, limits=Limits(memory_bytes=limit))
    with open_clip(path, opening=SQUARE) as clip:
        assert clip.info.frames == 3


def test_a_fresh_process_leaves_nothing_behind(make_clip: MakeClip, tmp_path: Path) -> None:
    (tmp_path / "noise.mp4").write_bytes(b"\0\0\0\x20ftypisom" + bytes(99))
    before = descriptors()
    with opened(make_clip("B-frames")) as clip:
        clip.frames([1])
        clip.close()  # twice
    with pytest.raises(VideoError, match=r"plain\.mp4 was closed\."):
        clip.frames([0])
    for name in ("noise.mp4", "missing.mp4"):
        with pytest.raises(VideoError):
            opened(tmp_path / name)
    dropped = opened(make_clip("B-frames"))
    pids = [clip.pid, dropped.pid]
    del dropped
    assert descriptors() == before
    for pid in pids:
        with pytest.raises(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)


def test_a_fork_server_leaves_no_process_and_no_descriptor(make_clip: MakeClip) -> None:
    before = descriptors()
    with DecoderPool() as pool:
        clips = [open_clips.opened(make_clip("B-frames"), decoders=pool) for _ in range(3)]
        pids = [clip.pid for clip in clips]
        server = parent_pid(pids[0])
        clips[0].close()
        until(lambda: not alive(pids[0]))
        assert alive(pids[1])
        del clips[1]
        gc.collect()
        until(lambda: not alive(pids[1]))
    until(lambda: not alive(pids[2]))
    assert not alive(server)
    with pytest.raises(VideoError):
        clips[-1].frames([1])
    clips[-1].close()
    assert descriptors() == before


def test_a_pool_that_is_not_closed_ends_its_server_when_collected(make_clip: MakeClip) -> None:
    pool = DecoderPool()
    with open_clips.opened(make_clip("B-frames"), decoders=pool) as clip:
        server = parent_pid(clip.pid)
    del clip, pool
    gc.collect()
    assert not alive(server)


def refuse(*_: object, **__: object) -> NoReturn:
    raise OSError(11, "Resource temporarily unavailable")


@patch("subprocess.Popen", refuse)
def test_no_descriptor_is_left_where_no_process_can_be_started() -> None:
    before = descriptors()
    with DecoderPool() as pool, pytest.raises(OSError, match="temporarily"):
        pool.start_worker()
    assert descriptors() == before


def test_a_forked_worker_has_a_process_and_descriptors_of_its_own(
    pool: DecoderPool, make_clip: MakeClip
) -> None:
    with (
        open_clips.opened(make_clip("HEVC"), decoders=pool) as other,
        open_clips.opened(make_clip("B-frames"), decoders=pool) as clip,
    ):
        assert clip.pid != other.pid
        assert parent_pid(clip.pid) == parent_pid(other.pid) != os.getpid()
        held = [(PROC / str(clip.pid) / "fd" / str(number)).readlink() for number in range(5)]
        assert held[:3] == [Path("/dev/null")] * 3
        assert held[3].name.startswith("socket:")
        assert held[4] == make_clip("B-frames")
        assert len(list((PROC / str(clip.pid) / "fd").iterdir())) == 5, "and no other clip"
        with opened(make_clip("B-frames")) as fresh:
            assert fresh.info == clip.info
            assert fresh.frames([3, 60]) == clip.frames([3, 60])


def test_a_fork_server_that_dies_is_replaced(pool: DecoderPool, make_clip: MakeClip) -> None:
    with open_clips.opened(make_clip("B-frames"), decoders=pool) as clip:
        server = parent_pid(clip.pid)
        os.kill(server, signal.SIGKILL)
        until(lambda: not alive(server))
        assert len(clip.frames([1])) == 1, "a clip that is open does not need it"
        with open_clips.opened(make_clip("HEVC"), decoders=pool) as another:
            assert parent_pid(another.pid) not in (server, os.getpid())
    until(lambda: not alive(clip.pid))


def test_closing_ends_a_request_in_another_thread(make_clip: MakeClip) -> None:
    with open_clips.opened(make_clip("B-frames")) as clip, ThreadPoolExecutor(1) as threads:
        os.kill(clip.pid, signal.SIGSTOP)
        reading = threads.submit(clip.frames, [1])
        time.sleep(0.2)
        clip.close()
        with pytest.raises(VideoError, match=r"^plain\.mp4 was closed\.$"):
            reading.result(5)


ORPHANS = """
import os, sys, threading, time
from pathlib import Path
import psutil
from tests.video.support.open_clips import SQUARE, opened
from vrthinker_core.video import DecoderPool

path, busy, pool = Path(sys.argv[1]), sys.argv[2] == "busy", None
if sys.argv[3] == "forked":
    pool = DecoderPool()
clips = []
threading.Thread(target=lambda: clips.append(opened(path, opening=SQUARE, decoders=pool)), daemon=True).start()
processes = lambda: psutil.Process().children(recursive=True)
while len(processes()) < (2 if pool else 1) or not (busy or clips):
    time.sleep(0.01)
time.sleep(1 if busy else 0)
print(len(clips), *(process.pid for process in processes()), flush=True)
os.kill(os.getpid(), 9)
"""


@pytest.mark.parametrize("how", [("busy", "fresh"), ("idle", "fresh"), ("idle", "forked")], ids=str)
def test_all_end_when_their_owner_is_killed(how: tuple[str, str], make_clip: MakeClip) -> None:
    """While one decodes ten minutes of video, and while it waits for the next request."""
    busy, kind = how
    run = run_code(ORPHANS, make_clip("endless" if busy == "busy" else "B-frames"), busy, kind)
    assert run.returncode == -9
    clips, *pids = map(int, run.stdout.split())
    assert (clips, len(pids)) == (int(busy == "idle"), 2 if kind == "forked" else 1)
    until(lambda: not any(map(alive, pids)), 10)


FORKED = """
import os, sys
from pathlib import Path
from tests.video.support.open_clips import opened
from vrthinker_core.video import DecoderPool

print("once", flush=True)
with DecoderPool(max_opening=1) as decoders:
    opened(Path(sys.argv[1]), decoders=decoders).close()
    with decoders.opening_slot():
        if os.fork() == 0:
            with decoders.opening_slot(), opened(Path(sys.argv[1]), decoders=decoders) as clip:
                print(len(clip.frames([1, 2])), flush=True)
            os._exit(0)
        os.wait()
    with opened(Path(sys.argv[1]), decoders=decoders) as clip:
        print(len(clip.frames([1, 2, 3])), flush=True)
"""


def test_a_fork_starts_fresh_workers_and_waits_for_no_slot(
    make_clip: MakeClip, tmp_path: Path
) -> None:
    """As on ZeroGPU; and the main module is not run again, also without `if __name__ == "__main__"`."""
    script = tmp_path / "unguarded.py"
    script.write_text(FORKED)
    command = [sys.executable, str(script), str(make_clip("B-frames"))]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    found = subprocess.check_output(command, text=True, timeout=60, env=environment)
    assert found.split() == ["once", "2", "3"]


def test_several_threads_may_read_one_clip(make_clip: MakeClip) -> None:
    long = open_clips.opened(make_clip("long"), read_mode="seek")
    with long as clip, ThreadPoolExecutor(8) as threads:
        every = [range(k, 128, 8) for k in range(8)]
        found = list(threads.map(clip.frames, every))
    for slots, frames in zip(every, found, strict=True):
        assert [frame.index for frame in frames] == [slot * 600 // 128 for slot in slots]


def test_the_worker_has_no_secrets_and_loads_no_models(
    open_clip: Opened, make_clip: MakeClip, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    with open_clip(make_clip("B-frames")) as clip:
        assert b"hf_secret" not in (PROC / str(clip.pid) / "environ").read_bytes()
        maps = (PROC / str(clip.pid) / "maps").read_text()
    assert "libtorch" not in maps
    assert "pydantic" not in maps


def test_nothing_is_imported_from_the_working_directory(
    make_clip: MakeClip, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = make_clip("B-frames").absolute()
    monkeypatch.chdir(tmp_path)
    for name in ("av.py", "numpy.py", "json.py", "vrthinker_core.py"):
        Path(name).write_text("raise SystemExit(3)")
    Path("clip.mp4").symlink_to(path)
    for given in (path, Path("clip.mp4")):
        with opened(given) as clip:
            assert clip.info.frames == 50


GARBAGE = [
    *(b"", b"\0" * 5, b"\xff" * 40, b"\0\0\0\x02[]" + bytes(4), b"\0\0\0\x02{x" + bytes(4)),
    *(b"\0\0\0\x02{}", b"\0\0\0\x02{}\0\0\0\x05abc", b"\x7f\xff\xff\xff{}"),
    *(b"\0\0\0\x02{}\x7f\xff\xff\xffabc", b"\0\x01\0\0" + b"[" * (1 << 16) + bytes(4)),
]


@pytest.mark.parametrize("garbage", GARBAGE, ids=range(10))
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
        assert list(tmp_path.iterdir()) == []
        theirs.send(Touch(tmp_path / "loaded"))
        ours.recv()
    assert (tmp_path / "loaded").exists(), "by the second one, which was loaded on purpose"


def test_the_parent_unpickles_nothing(
    open_clip: Opened, make_clip: MakeClip, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("multiprocessing.connection._ForkingPickler", None)
    with open_clip(make_clip("B-frames")) as clip:
        assert len(clip.frames([1, 2])) == 2
