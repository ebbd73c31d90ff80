"""A clip as the engine holds it. Decoding happens in a process of its own: a file that crashes or hangs a decoder costs one run."""

from __future__ import annotations

import contextlib
import os
import subprocess
import threading
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from vrthinker_core.errors import DecoderDied, VideoError
from vrthinker_core.types import ClipInfo, Frame, FrameRef, Side
from vrthinker_core.types.geometry import Grid, Sizing
from vrthinker_core.video.files import open_local, shown_name
from vrthinker_core.video.frames.plan import ReadMode
from vrthinker_core.video.limits import DEFAULT, Limits
from vrthinker_core.video.processes import process
from vrthinker_core.video.processes.pool import DecoderPool
from vrthinker_core.video.worker_io import Header, receive_message, send_message

_EXIT_SECONDS = 2.0
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
    read_mode: ReadMode = "auto",
    decoders: DecoderPool | None = None,
) -> Clip:
    """Open a video file for one comparison.

    `first` are the slots that are sent before the judge says anything, sized by `opening`; all other slots are sized by `later`.
    `reading` is chosen by the length of the clip unless it is forced. `decoders` gives the decoding process, and a place to open
    the clip in, for which this may wait; without them a fresh process is started at once. Raises VideoError with one sentence about
    the file, DecoderDied when the decoding process crashed, hung or passed its limits.
    """
    path = Path(path)
    open_local(path).close()
    request = {
        "path": str(path.resolve()),
        "grid": asdict(grid),
        "opening": asdict(opening),
        "later": asdict(later),
        "first": list(first),
        "limits": asdict(limits),
        "reading": read_mode,
    }
    with decoders.opening_slot() if decoders else contextlib.nullcontext():
        clip = Clip(path, side, grid, limits, decoders)
        try:
            clip._request(request)
        except BaseException:
            clip.close()
            raise
    return clip


class Clip:
    """An opened clip. Close it, or use it in a `with` statement; safe to ask from several threads."""

    info: ClipInfo
    """What is known about the file, health notes included."""
    read_mode: ReadMode
    """How frames are found in the end: "whole" or "seek"."""

    def __init__(self, path: Path, side: Side, grid: Grid, limits: Limits, decoders: DecoderPool | None = None) -> None:
        """Use `open_clip`."""
        self._name = shown_name(path)
        self._side = side
        self._grid = grid
        self._limits = limits
        self._lock = threading.Lock()
        self._failure: str | None = None
        self._process = decoders.start_worker() if decoders else process.start_process(process.WORKER)
        self._end = weakref.finalize(self, process.end_process, self._process, os.getpid())

    @property
    def pid(self) -> int:
        """The decoding process, for whoever watches over processes."""
        return self._process.pid

    def frames(self, slots: Sequence[int]) -> tuple[Frame, ...]:
        """The frames that `slots` mean, in the order asked. Raises VideoError, DecoderDied; ValueError for what is no slot."""
        if not all(0 <= slot < self._grid.slots for slot in slots):
            raise ValueError(f"slots run from 0 to {self._grid.slots - 1}, not {list(slots)}")
        found = {frame.ref.slot: frame for frame in self._request({"slots": sorted(set(slots))})} if slots else {}
        if not found.keys() >= set(slots):
            raise VideoError(f"{self._name}: the decoder left frames out.")
        return tuple(found[slot] for slot in slots)

    def close(self) -> None:
        """End the decoding process, also in the middle of its work. May be called again."""
        self._end()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _request(self, request: Header) -> list[Frame]:
        """One request and the frames that answer it; what is said about the clip is taken over."""
        with self._lock:
            if self._failure is not None:
                raise DecoderDied(self._failure)
            if not self._end.alive:
                raise VideoError(f"{self._name} was closed.")
            late = threading.Event()
            try:
                with process.deadline(self._process, self._limits.wall_seconds, late):
                    return list(self._exchange(request))
            except (EOFError, OSError, ValueError, TypeError, KeyError):
                raise self._death_error(late.is_set()) from None

    def _death_error(self, late: bool) -> VideoError:
        if not self._end.alive:
            return VideoError(f"{self._name} was closed.")
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_EXIT_SECONDS)
        self.close()
        self._failure = f"{self._name}: {process.cause_of_death(self._process.wait(), late, self._limits)}."
        return DecoderDied(self._failure)

    def _exchange(self, request: Header) -> Iterator[Frame]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        send_message(self._process.stdin, request)
        while True:
            header, payload = receive_message(self._process.stdout)
            if "picture" in header:
                yield from self._frames(payload, **header["picture"])
                continue
            if "error" in header:
                raise (DecoderDied if header["died"] else VideoError)(header["error"])
            info = header["info"]
            self.info = ClipInfo(**(info | {"notes": tuple(info["notes"])}))
            self.read_mode = header["reading"]
            return

    def _frames(self, rgb: bytes, slots: list[int], **known: Any) -> Iterator[Frame]:
        if len(rgb) != known["width"] * known["height"] * 3:
            raise ValueError("a picture of another size than announced")
        return (Frame(FrameRef(slot, self._side), rgb=rgb, **known) for slot in slots)
