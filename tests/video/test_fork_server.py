"""Decoding processes that are forked: as separate, as bounded and as mortal as fresh ones."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.video.support.open_clips import SQUARE, opened
from tests.video.support.write_clips import write
from tests.video.test_decoding_process import PROC, alive, gone_within
from vrthinker_core.errors import DecoderDied, VideoError
from vrthinker_core.video import DecoderPool, Limits

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks are made on Linux only")


@pytest.fixture
def decoders() -> Iterator[DecoderPool]:
    with DecoderPool() as found:
        yield found


def parent(pid: int) -> int:
    return int((PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()[1])


def test_every_clip_has_a_process_of_its_own(decoders: DecoderPool, kind: Callable[[str], Path]) -> None:
    with opened(kind("B-frames"), decoders=decoders) as one, opened(kind("HEVC"), decoders=decoders) as two:
        assert one.pid != two.pid
        assert parent(one.pid) == parent(two.pid) != os.getpid()
        with opened(kind("B-frames")) as fresh:
            assert fresh.info == one.info
            assert fresh.frames([3, 60]) == one.frames([3, 60])


@pytest.mark.parametrize("kill", [signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM])
def test_one_that_dies_costs_its_own_clip(decoders: DecoderPool, kill: signal.Signals, kind: Callable[[str], Path]) -> None:
    with opened(kind("B-frames"), decoders=decoders) as clip, opened(kind("HEVC"), decoders=decoders) as other:
        os.kill(clip.pid, kill)
        sentence = "was killed" if kill is signal.SIGKILL else f"crashed \\({kill.name}\\)"
        with pytest.raises(DecoderDied, match=rf"^plain\.mp4: .*{sentence}.*\.$"):
            clip.frames([3])
        assert len(other.frames([1, 2])) == 2
        with opened(kind("B-frames"), decoders=decoders) as again:
            assert len(again.frames([3])) == 1


def test_one_that_hangs_is_stopped(decoders: DecoderPool, kind: Callable[[str], Path]) -> None:
    with opened(kind("B-frames"), limits=Limits(wall_seconds=4), decoders=decoders) as clip:
        os.kill(clip.pid, signal.SIGSTOP)
        with pytest.raises(DecoderDied, match=r"plain\.mp4: decoding took longer than 4 s and was stopped\."):
            clip.frames([3])
        assert not alive(clip.pid)


def test_the_limits_bind_each_of_them(decoders: DecoderPool, tmp_path: Path, kind: Callable[[str], Path]) -> None:
    path = write(tmp_path / "large.mp4", 3, size=(3840, 2160), options={"preset": "ultrafast"})
    with pytest.raises(VideoError, match=r"^large\.mp4.* memory"):
        opened(path, opening=SQUARE, limits=Limits(memory_bytes=40_000_000), decoders=decoders)
    with opened(path, opening=SQUARE, decoders=decoders) as clip, opened(kind("B-frames"), decoders=decoders) as small:
        assert clip.info.frames == 3
        held = [(PROC / str(small.pid) / "fd" / str(number)).readlink() for number in range(5)]
        assert held[:3] == [Path("/dev/null")] * 3
        assert held[3].name.startswith("socket:")
        assert held[4] == kind("B-frames")
        assert len(list((PROC / str(small.pid) / "fd").iterdir())) == 5, "nothing of the fork server, and no other clip"


def test_nothing_is_left_behind(kind: Callable[[str], Path]) -> None:
    gc.collect()
    before = {entry.name for entry in Path("/proc/self/fd").iterdir()}
    with DecoderPool() as decoders:
        clips = [opened(kind("B-frames"), decoders=decoders) for _ in range(3)]
        pids = [clip.pid for clip in clips]
        nursery = parent(pids[0])
        clips[0].close()
        assert gone_within(pids[0], 5)
        assert alive(pids[1])
        del clips[1]
        gc.collect()
        assert gone_within(pids[1], 5)
    assert gone_within(pids[2], 5)
    assert not alive(nursery)
    with pytest.raises(VideoError):
        clips[-1].frames([1])
    clips[-1].close()
    assert {entry.name for entry in Path("/proc/self/fd").iterdir()} == before


def test_who_forgets_to_close_leaves_nothing_either(kind: Callable[[str], Path]) -> None:
    decoders = DecoderPool()
    clip = opened(kind("B-frames"), decoders=decoders)
    nursery = parent(clip.pid)
    clip.close()
    del clip, decoders
    gc.collect()
    assert not alive(nursery)


def test_a_nursery_that_dies_is_replaced(decoders: DecoderPool, kind: Callable[[str], Path]) -> None:
    with opened(kind("B-frames"), decoders=decoders) as clip:
        nursery = parent(clip.pid)
        os.kill(nursery, signal.SIGKILL)
        assert gone_within(nursery, 5)
        assert len(clip.frames([1])) == 1, "a clip that is open does not need it"
        with opened(kind("HEVC"), decoders=decoders) as another:
            assert parent(another.pid) not in (nursery, os.getpid())
    assert gone_within(clip.pid, 5)


def test_many_threads_may_open(decoders: DecoderPool, kind: Callable[[str], Path]) -> None:
    found = []

    def look() -> None:
        with opened(kind("B-frames"), decoders=decoders) as clip:
            found.append(clip.frames([7])[0].index)

    threads = [threading.Thread(target=look) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [2] * 12


KILLED = """
import os, sys
from pathlib import Path
from tests.video.support.open_clips import opened
from vrthinker_core.video import DecoderPool

decoders = DecoderPool()
clip = opened(Path(sys.argv[1]), decoders=decoders)
print(clip.pid, Path(f"/proc/{clip.pid}/stat").read_text().rpartition(")")[2].split()[1], flush=True)
os.kill(os.getpid(), 9)
"""


def test_all_end_when_their_owner_is_killed(kind: Callable[[str], Path]) -> None:
    command = [sys.executable, "-c", KILLED, str(kind("B-frames"))]
    run = subprocess.run(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2], check=False)
    worker, server = (int(pid) for pid in run.stdout.split())
    assert gone_within(worker, 5)
    assert gone_within(server, 5)


UNGUARDED = """
import sys
from pathlib import Path
from tests.video.support.open_clips import opened
from vrthinker_core.video import DecoderPool

print("once", flush=True)
decoders = DecoderPool()
print(len(opened(Path(sys.argv[1]), decoders=decoders).frames([1, 2])))
"""


@pytest.mark.parametrize("how", ["script", "module", "-c", "standard input"])
def test_the_main_module_is_not_run_again(how: str, kind: Callable[[str], Path], tmp_path: Path) -> None:
    """Also without `if __name__ == "__main__"`."""
    (tmp_path / "unguarded.py").write_text(UNGUARDED)
    arguments = {"script": [str(tmp_path / "unguarded.py")], "module": ["-m", "unguarded"], "-c": ["-c", UNGUARDED]}
    command = [sys.executable, *arguments.get(how, ["-"]), str(kind("B-frames"))]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[2]), str(tmp_path)])}
    run = subprocess.run(command, input=UNGUARDED, stdout=subprocess.PIPE, text=True, env=environment, check=True, timeout=60)
    assert run.stdout.split() == ["once", "2"]


FORKED = """
import os, sys
from pathlib import Path
from tests.video.support.open_clips import opened
from vrthinker_core.video import DecoderPool

with DecoderPool() as decoders:
    opened(Path(sys.argv[1]), decoders=decoders).close()
    if os.fork() == 0:
        with opened(Path(sys.argv[1]), decoders=decoders) as clip:
            print(len(clip.frames([1, 2])), flush=True)
        os._exit(0)
    os.wait()
    with opened(Path(sys.argv[1]), decoders=decoders) as clip:
        print(len(clip.frames([1, 2, 3])), flush=True)
"""


def test_a_fork_of_the_owner_has_processes_of_its_own(kind: Callable[[str], Path]) -> None:
    """As on a shared GPU, where each visitor is served by a fork of the server."""
    command = [sys.executable, "-W", "ignore", "-c", FORKED, str(kind("B-frames"))]
    run = subprocess.run(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2], check=True, timeout=60)
    assert run.stdout.split() == ["2", "3"]
