"""A clip as the engine holds it. Decoding happens in a process of its own: a file that crashes or hangs a decoder costs one run."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from vrthinker_core.errors import DecoderDied, VideoError
from vrthinker_core.geometry import Grid, Sizing
from vrthinker_core.types import ClipInfo, Frame, FrameRef, Side
from vrthinker_core.video.files import open_local, shown_name
from vrthinker_core.video.limits import DEFAULT, Limits
from vrthinker_core.video.wire import Header, receive, send

# The process must find this very package, in place or installed, without importing the public names and all that they need: so the
# package is entered by its folder alone. Nothing is taken from the working directory (-P).
_BOOT = (
    "import sys, types; package = types.ModuleType('vrthinker_core'); package.__path__ = [sys.argv[1]]; "
    "sys.modules['vrthinker_core'] = package; from vrthinker_core.video.worker import main; main()"
)
_PACKAGE = Path(__file__).resolve().parents[1]
# Keys and tokens of the parent have no business in a process that decodes hostile files.
_ENVIRONMENT = ("PATH", "HOME", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT", "TEMP", "PYTHONHOME", "PYTHONPATH", "LANG")
# One arena and one thread: address space is what the memory limit counts. Freed pictures go back to the heap, not to the kernel,
# which saves a tenth of the time of a pass over 1080p.
_SETTINGS = {
    "OPENBLAS_NUM_THREADS": "1",
    "MALLOC_ARENA_MAX": "2",
    "MALLOC_MMAP_THRESHOLD_": str(32 << 20),
    "MALLOC_TRIM_THRESHOLD_": str(64 << 20),
}


_DYING_SECONDS = 2.0
"""How long a process that hung up may take to end by itself, so that the cause can be told from its exit code."""


def open_clip(
    path: Path,
    side: Side,
    grid: Grid,
    *,
    opening: Sizing,
    later: Sizing,
    first: Sequence[int],
    limits: Limits = DEFAULT,
    reading: Literal["auto", "whole", "seek"] = "auto",
) -> Clip:
    """Open a video file for one comparison.

    `first` are the slots that are sent before the judge says anything, sized by `opening`; all other slots are sized by `later`.
    `reading` is chosen by the length of the clip unless it is forced. Raises VideoError with one sentence about the file,
    DecoderDied when the decoding process crashed, hung or passed its limits.
    """
    path = Path(path)
    open_local(path).close()
    clip = Clip(path, side, grid, limits)
    try:
        clip._ask(
            {
                "path": str(path.resolve()),
                "grid": asdict(grid),
                "opening": asdict(opening),
                "later": asdict(later),
                "first": list(first),
                "limits": asdict(limits),
                "reading": reading,
            }
        )
    except BaseException:
        clip.close()
        raise
    return clip


class Clip:
    """An opened clip. Close it, or use it in a `with` statement; safe to ask from several threads."""

    info: ClipInfo
    """What is known about the file, health notes included."""
    reading: str
    """How frames are found: "whole" or "seek"."""

    def __init__(self, path: Path, side: Side, grid: Grid, limits: Limits) -> None:
        """Use `open_clip`."""
        self._name = shown_name(path)
        self._side = side
        self._grid = grid
        self._limits = limits
        self._lock = threading.Lock()
        self._failure: str | None = None
        self._process = _start()
        self._end = weakref.finalize(self, _end, self._process, os.getpid())

    @property
    def pid(self) -> int:
        """The decoding process, for whoever watches over processes."""
        return self._process.pid

    def frames(self, slots: Sequence[int]) -> tuple[Frame, ...]:
        """The frames that `slots` mean, in the order asked. Raises VideoError, DecoderDied; ValueError for what is no slot."""
        if not all(0 <= slot < self._grid.slots for slot in slots):
            raise ValueError(f"slots run from 0 to {self._grid.slots - 1}, not {list(slots)}")
        found: dict[int, Frame] = {}
        for picture, rgb in self._ask({"slots": sorted(set(slots))}) if slots else ():
            for slot in picture.pop("slots"):
                found[slot] = Frame(FrameRef(slot, self._side), rgb=rgb, **picture)
        return tuple(found[slot] for slot in slots)

    def close(self) -> None:
        """End the decoding process, also in the middle of its work. May be called again."""
        self._end()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _ask(self, request: Header) -> list[tuple[dict[str, Any], bytes]]:
        """One request and the pictures that answer it; what is said about the clip is taken over."""
        with self._lock:
            if self._failure is not None:
                raise DecoderDied(self._failure)
            if not self._end.alive:
                raise VideoError(f"{self._name} was closed.")
            late = threading.Event()
            try:
                with _deadline(self._process, self._limits.wall_seconds, late):
                    return list(self._exchange(request))
            except (EOFError, OSError, ValueError, TypeError, KeyError):
                raise self._ended(late.is_set()) from None

    def _ended(self, late: bool) -> VideoError:
        if not self._end.alive:
            return VideoError(f"{self._name} was closed.")
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_DYING_SECONDS)
        self.close()
        self._failure = f"{self._name}: {self._cause_of_death(late)}."
        return DecoderDied(self._failure)

    def _exchange(self, request: Header) -> Iterator[tuple[dict[str, Any], bytes]]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        send(self._process.stdin, request)
        while True:
            header, payload = receive(self._process.stdout)
            if "picture" in header:
                yield header["picture"], payload
                continue
            if "error" in header:
                raise (DecoderDied if header["died"] else VideoError)(header["error"])
            info = header["info"]
            self.info = ClipInfo(**(info | {"notes": tuple(info["notes"])}))
            self.reading = header["reading"]
            return

    def _cause_of_death(self, late: bool) -> str:
        code = self._process.returncode
        name = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        if late:
            return f"decoding took longer than {self._limits.wall_seconds:g} s and was stopped"
        if name == "SIGXCPU":
            return f"decoding took more than {self._limits.cpu_seconds:g} s of processor time and was stopped"
        if name == "SIGKILL":
            return "the decoding process was killed, most often because memory ran out"
        return f"the decoder crashed ({name}), so this file cannot be judged"


def _start() -> subprocess.Popen[bytes]:
    environment = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
    return subprocess.Popen(
        [sys.executable, "-P", "-c", _BOOT, str(_PACKAGE)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment | _SETTINGS,
        start_new_session=True,
    )


def _end(process: subprocess.Popen[bytes], owner: int) -> None:
    """No process, no zombie and no open pipe stays behind. A fork of the owner has no say in this."""
    if os.getpid() != owner:
        return
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        with contextlib.suppress(OSError):
            if pipe is not None:
                pipe.close()


@contextlib.contextmanager
def _deadline(process: subprocess.Popen[bytes], seconds: float, late: threading.Event) -> Iterator[None]:
    """Kills the process after `seconds`: whoever reads from it then reads its end."""

    def stop() -> None:
        late.set()
        process.kill()

    timer = threading.Timer(seconds, stop)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
