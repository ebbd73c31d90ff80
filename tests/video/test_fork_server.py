"""Forked workers are as separate and as limited as fresh ones, and end as surely."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.video.support.open_clips import SQUARE, opened
from tests.video.support.write_clips import write
from tests.video.test_decoding_process import PROC, alive, gone_within, run_code
from vrthinker_core.errors import VideoError
from vrthinker_core.video import DecoderPool, Limits

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks are made on Linux only")


@pytest.fixture
def decoders() -> Iterator[DecoderPool]:
    with DecoderPool() as found:
        yield found


def parent_pid(pid: int) -> int:
    return int((PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()[1])


def test_every_clip_has_its_own_process(
    decoders: DecoderPool, make_clip: Callable[[str], Path]
) -> None:
    with (
        opened(make_clip("B-frames"), decoders=decoders) as one,
        opened(make_clip("HEVC"), decoders=decoders) as two,
    ):
        assert one.pid != two.pid
        assert parent_pid(one.pid) == parent_pid(two.pid) != os.getpid()
        with opened(make_clip("B-frames"), decoders=None) as fresh:
            assert fresh.info == one.info
            assert fresh.frames([3, 60]) == one.frames([3, 60])


def test_each_forked_worker_has_its_own_limits_and_descriptors(
    decoders: DecoderPool, tmp_path: Path, make_clip: Callable[[str], Path]
) -> None:
    path = write(tmp_path / "large.mp4", 3, size=(3840, 2160), options={"preset": "ultrafast"})
    with pytest.raises(VideoError, match=r"^large\.mp4.* memory"):
        opened(path, opening=SQUARE, limits=Limits(memory_bytes=40_000_000), decoders=decoders)
    with (
        opened(path, opening=SQUARE, decoders=decoders) as clip,
        opened(make_clip("B-frames"), decoders=decoders) as small,
    ):
        assert clip.info.frames == 3
        held = [(PROC / str(small.pid) / "fd" / str(number)).readlink() for number in range(5)]
        assert held[:3] == [Path("/dev/null")] * 3
        assert held[3].name.startswith("socket:")
        assert held[4] == make_clip("B-frames")
        assert len(list((PROC / str(small.pid) / "fd").iterdir())) == 5, (
            "nothing of the fork server, and no other clip"
        )


def test_no_process_zombie_or_descriptor_is_left(make_clip: Callable[[str], Path]) -> None:
    gc.collect()
    before = {entry.name for entry in Path("/proc/self/fd").iterdir()}
    with DecoderPool() as decoders:
        clips = [opened(make_clip("B-frames"), decoders=decoders) for _ in range(3)]
        pids = [clip.pid for clip in clips]
        server = parent_pid(pids[0])
        clips[0].close()
        assert gone_within(pids[0], 5)
        assert alive(pids[1])
        del clips[1]
        gc.collect()
        assert gone_within(pids[1], 5)
    assert gone_within(pids[2], 5)
    assert not alive(server)
    with pytest.raises(VideoError):
        clips[-1].frames([1])
    clips[-1].close()
    assert {entry.name for entry in Path("/proc/self/fd").iterdir()} == before


def test_a_pool_that_is_not_closed_ends_its_server_when_collected(
    make_clip: Callable[[str], Path],
) -> None:
    decoders = DecoderPool()
    clip = opened(make_clip("B-frames"), decoders=decoders)
    server = parent_pid(clip.pid)
    clip.close()
    del clip, decoders
    gc.collect()
    assert not alive(server)


def test_no_descriptor_is_left_where_no_process_can_be_started(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(11, "Resource temporarily unavailable")

    monkeypatch.setattr("subprocess.Popen", refuse)
    gc.collect()
    before = {entry.name for entry in Path("/proc/self/fd").iterdir()}
    with DecoderPool() as decoders, pytest.raises(OSError, match="temporarily"):
        decoders.start_worker()
    assert {entry.name for entry in Path("/proc/self/fd").iterdir()} == before


def test_a_fork_server_that_dies_is_replaced(
    decoders: DecoderPool, make_clip: Callable[[str], Path]
) -> None:
    with opened(make_clip("B-frames"), decoders=decoders) as clip:
        server = parent_pid(clip.pid)
        os.kill(server, signal.SIGKILL)
        assert gone_within(server, 5)
        assert len(clip.frames([1])) == 1, "a clip that is open does not need it"
        with opened(make_clip("HEVC"), decoders=decoders) as another:
            assert parent_pid(another.pid) not in (server, os.getpid())
    assert gone_within(clip.pid, 5)


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


def test_server_and_workers_end_when_their_owner_is_killed(
    make_clip: Callable[[str], Path],
) -> None:
    run = run_code(KILLED, make_clip("B-frames"))
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
def test_the_main_module_is_not_run_again(
    how: str, make_clip: Callable[[str], Path], tmp_path: Path
) -> None:
    """Also without `if __name__ == "__main__"`."""
    (tmp_path / "unguarded.py").write_text(UNGUARDED)
    arguments = {
        "script": [str(tmp_path / "unguarded.py")],
        "module": ["-m", "unguarded"],
        "-c": ["-c", UNGUARDED],
    }
    command = [sys.executable, *arguments.get(how, ["-"]), str(make_clip("B-frames"))]
    path = os.pathsep.join([str(Path(__file__).parents[2]), str(tmp_path)])
    run = subprocess.run(
        command, input=UNGUARDED, stdout=subprocess.PIPE, text=True, timeout=60, check=True,
        env=os.environ | {"PYTHONPATH": path},
    )  # fmt: skip
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


def test_a_fork_of_the_owner_starts_fresh_workers(make_clip: Callable[[str], Path]) -> None:
    """As on ZeroGPU, where each request is served by a fork of the server."""
    assert run_code(FORKED, make_clip("B-frames")).stdout.split() == ["2", "3"]
