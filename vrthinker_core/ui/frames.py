"""The frames of a run at the judge's very pixels, decoded again when somebody looks closer."""

import io
import threading
import time
import weakref
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from vrthinker_core.errors import VrThinkerError
from vrthinker_core.protocols.factory import protocol_of
from vrthinker_core.types import Frame, FrameRef, Side, Thumbnail
from vrthinker_core.types.events import Turn
from vrthinker_core.ui import words
from vrthinker_core.ui.sessions import ShownRun
from vrthinker_core.ui.view import RunView, ThumbnailFiles
from vrthinker_core.video import Clip, DecoderPool

MAX_WAITING = 32  # turns that may wait to be decoded; later requests are told to come again
MAX_RUN_BYTES = 64 * 2**20  # of one run's frames, on the disk
MAX_BYTES = 512 * 2**20  # of all runs'; beyond them, those that were decoded first are dropped
IDLE_SECONDS = 20.0  # after which the videos of the run that was looked at last are closed


class ExactFrames:
    """Decodes frames of runs again, one turn at a time and in one thread: nobody else waits for it.

    The pictures go with the run's thumbnails. The videos of one run at most are open, so that
    paging through its turns decodes nothing twice.
    """

    def __init__(self, decoders: DecoderPool) -> None:
        self._decoders = decoders
        self._thread = ThreadPoolExecutor(1, "exact frames")
        self._lock = threading.Lock()
        self._jobs: dict[tuple[str, int, bool], Future[dict[str, Any]]] = {}
        # A run that is dropped leaves no entry.
        self._stored = weakref.WeakKeyDictionary[ThumbnailFiles, _Stored]()
        self._clips: dict[tuple[Side, Side], Clip] = {}  # open videos, of the run `_open`
        self._open, self._used_at = "", time.monotonic()
        self._closing = False

    def request(
        self, shown: ShownRun, turn: int, swapped: bool = False
    ) -> Future[dict[str, Any]] | None:
        """Return the frames of a run's turn (1-based), soon; None if too many turns are waiting.

        frames ("SIDE-SLOT" to a picture's address; the others stay thumbnails) and note (why).
        `swapped`: of its second run; frames are named in the sides of the first all the same.
        """
        key = (shown.name, turn, swapped)
        with self._lock:
            job = self._jobs.get(key)
            if job is None and len(self._jobs) < MAX_WAITING:
                frames = turns_of(shown, swapped)[turn - 1].frames
                self._jobs[key] = job = self._thread.submit(self._decode, shown, swapped, frames)
                job.add_done_callback(lambda _: self._jobs.pop(key, None))
            return job

    def close_idle(self) -> None:
        """Close the videos that nobody has looked at for a while."""
        self._thread.submit(self._close_videos, IDLE_SECONDS)

    def close(self) -> None:
        """Drop what waits, break off what goes on, and close the videos."""
        self._closing = True
        self._thread.shutdown(wait=False, cancel_futures=True)
        self._close_videos()
        self._thread.shutdown()

    def _close_videos(self, unused: float = 0.0) -> None:
        if time.monotonic() - self._used_at < unused:
            return
        for clip in list(self._clips.values()):
            clip.close()
        self._clips.clear()
        self._open, self._used_at = "", time.monotonic()

    def _decode(
        self, shown: ShownRun, swapped: bool, frames: tuple[Thumbnail, ...]
    ) -> dict[str, Any]:
        """Decode one turn's frames, in the sides of the first run."""
        files, trace = shown.thumbnails, shown.run.trace
        assert trace is not None, "it has turns"
        protocol = protocol_of(trace.started)
        # The run that is looked at is the last to be dropped
        self._stored[files] = stored = self._stored.pop(files, None) or _Stored()
        slots = range(protocol.grid.slots) if protocol else ()
        sources = stored.sources[swapped]
        missing = [each for each in frames if each.ref.slot in slots and each.ref not in sources]
        if self._open != shown.name:
            self._close_videos()
            self._open = shown.name

        def decode_side(side: Side) -> None:
            """Store the frames that the video has where the judge saw them."""
            wanted = {frame.ref.slot: frame for frame in missing if frame.ref.side is side}
            path, told = shown.run.videos[side - 1], side.other if swapped else side
            info = trace.started.clips[side - 1]
            if not (wanted and path and info and protocol):
                return
            self._used_at = time.monotonic()
            with suppress(VrThinkerError):
                if (clip := self._clips.get((side, told))) is None:
                    clip = Clip(path, told, protocol.frame_plan, decoders=self._decoders).open()
                    self._clips[side, told] = clip
                for frame in clip.stream([*wanted]) if clip.info.digest == info.digest else ():
                    seen = wanted[frame.ref.slot]
                    if frame.index != seen.index:
                        continue
                    if not (src := stored.write(files, frame)):
                        return
                    sources[seen.ref] = src

        if not stored.full and not self._closing:
            with ThreadPoolExecutor(len(Side)) as both:
                list(both.map(decode_side, Side))
        self._drop_oldest()
        gone = {frame.ref.side for frame in frames if frame.ref not in sources}
        note = words.NO_ROOM_FOR_FRAMES if stored.full else words.VIDEOS_GONE
        if len(gone) == 1 and not stored.full:
            note = words.VIDEO_GONE.format(int(*gone))
        found = {frame.ref: sources[frame.ref] for frame in frames if frame.ref in sources}
        named = {f"{int(ref.side)}-{ref.slot}": src for ref, src in sorted(found.items())}
        return {"frames": named, "note": note if gone else ""}

    def _drop_oldest(self) -> None:
        *older, _ = self._stored.items()
        for thumbnails, stored in older:
            if sum(each.bytes for each in self._stored.values()) <= MAX_BYTES:
                return
            del self._stored[thumbnails]
            for src in (*stored.sources[0].values(), *stored.sources[1].values()):
                thumbnails.discard(src)


class _Stored:
    """The pictures of one run, up to `MAX_RUN_BYTES`. Safe for threads."""

    def __init__(self) -> None:
        # Addresses of the first run's frames, and of the second's
        self.sources: tuple[dict[FrameRef, str], dict[FrameRef, str]] = {}, {}
        self.bytes, self.full = 0, False  # full: there was no room for a frame
        self._lock = threading.Lock()

    def write(self, files: ThumbnailFiles, frame: Frame) -> str:
        """Write a picture; return its address, "" if there is no room for it."""
        buffer = io.BytesIO()
        frame.image.save(buffer, "PNG", compress_level=1)
        with self._lock:
            taken = self.bytes + buffer.tell()
            fits = not self.full and taken <= MAX_RUN_BYTES
            src = files.add(buffer.getvalue(), ".png") if fits else ""
            self.bytes, self.full = taken if src else self.bytes, not src
            return src


def turns_of(shown: ShownRun, swapped: bool) -> tuple[Turn, ...]:
    """Return the turns of the run or its second, in first sides."""
    runs = RunView.of(shown.run).runs
    return runs[swapped].turns if swapped < len(runs) else ()
