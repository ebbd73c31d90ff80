"""The run store: runs on disk with traces and videos, up to an age and a number of bytes.

Servers may share its folder. A run's record is written last and removed first: files that no
record names were left by a killed server.
"""

import hashlib
import os
import re
import secrets
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from pydantic import Field
from starlette.datastructures import MutableHeaders
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from vrthinker_core.errors import TraceError
from vrthinker_core.storage import atomic_path, remove_parts, type_adapter, write_atomically
from vrthinker_core.traces import load, to_json
from vrthinker_core.types import Preference
from vrthinker_core.types.events import StopReason, Trace
from vrthinker_core.types.order import OrderEffect, order_of
from vrthinker_core.types.wording import branch_name
from vrthinker_core.ui import history_words
from vrthinker_core.video.files import file_digest

MAX_RECORD_BYTES = 64 * 2**10
MAX_TEXT = 400  # characters of the prompt, of the judge's name, and of the branch's

NAME = re.compile(r"[0-9a-f]{24}")  # of a run; it cannot be guessed
VIDEO = re.compile(r"[0-9a-f]{64}(\.[a-z0-9]{1,8})?")  # SHA-256 of its content, and its suffix

ShortText = Annotated[str, Field(max_length=MAX_TEXT)]
Moment = Annotated[float, Field(ge=0, allow_inf_nan=False)]  # Seconds since 1970
VideoName = Annotated[str, Field(pattern=f"^{VIDEO.pattern}$")]
OwnerName = Annotated[str, Field(pattern=r"^([0-9a-f]{64})?$")]
RunName = Annotated[str, Field(pattern=f"^({NAME.pattern})?$")]


@dataclass(frozen=True, slots=True)
class RunRecord:
    """A kept run without its trace."""

    owner: OwnerName  # the visitor, as `owner_of` gives it; "" for nobody's
    prompt: ShortText
    judge: ShortText
    begun: Moment
    until: Moment  # when it is dropped
    ending: StopReason | None = None  # None for a run that was cut off, or has not ended
    judged: bool = False  # it gave a verdict
    overall: Preference | None = None  # the verdict's label for the whole
    outside_scope: bool = False  # the judge cannot judge such videos
    order: OrderEffect | None = None  # of the overall label; None if it was not checked
    videos: Annotated[tuple[VideoName, ...], Field(max_length=2)] = ()  # that it compared
    origin: RunName = ""  # of a link: the run that it shows
    voted: bool = False  # there is a vote on it
    branch: ShortText = ""  # what a branch is called; "" for a run that is none


def record_of(owner: str, trace: Trace, begun: float, until: float, origin: str = "") -> RunRecord:
    """Return the record of that run."""
    started, finished, check = trace.started, trace.finished, order_of(trace.runs)
    verdict = finished.verdict if finished else None
    return RunRecord(
        owner,
        started.prompt[:MAX_TEXT],
        started.judge[:MAX_TEXT],
        begun,
        until,
        ending=finished.stop if finished else None,
        judged=verdict is not None,
        overall=verdict.OA if verdict else None,
        outside_scope=bool(finished and finished.outside_scope),
        order=check.overall if check else None,
        origin=origin,
        voted=trace.vote is not None,
        branch=branch_name(started)[:MAX_TEXT],
    )


def _read_record(path: Path) -> RunRecord | None:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_RECORD_BYTES + 1)
        record = type_adapter(RunRecord).validate_json(data)
    except (OSError, ValueError):  # Of pydantic, too
        return None
    return record if len(data) <= MAX_RECORD_BYTES else None


COOKIE = "vr-thinker-visitor"
COOKIE_SECONDS = 30 * 24 * 3600  # after the page was opened last


def owner_of(cookies: Mapping[str, str]) -> str:
    """Return these cookies' visitor as 64 hexadecimal digits; "" without ours."""
    value = cookies.get(COOKIE, "")
    is_ours = re.fullmatch(r"[A-Za-z0-9_-]{43}", value)  # 32 random bytes
    return hashlib.sha256(value.encode()).hexdigest() if is_ours else ""


class VisitorCookieMiddleware:
    """ASGI middleware that gives each browser a cookie when it opens the page.

    `in_frame`: the page is embedded in another site's page.
    """

    def __init__(self, app: ASGIApp, in_frame: bool = False) -> None:
        self._app = app
        # In a frame a cookie is only taken with these, and is another one for each site around it.
        self._where = "SameSite=None; Secure; Partitioned" if in_frame else "SameSite=Lax"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on; one for the page sets the cookie."""
        if scope["type"] != "http" or scope["path"] != "/" or scope["method"] != "GET":
            await self._app(scope, receive, send)
            return
        cookies = HTTPConnection(scope).cookies
        value = cookies[COOKIE] if owner_of(cookies) else secrets.token_urlsafe(32)
        cookie = f"{COOKIE}={value}; Path=/; Max-Age={COOKIE_SECONDS}; HttpOnly; {self._where}"

        async def send_with_cookie(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).append("set-cookie", cookie)
            await send(message)

        await self._app(scope, receive, send_with_cookie)


def usable_folder(chosen: Path | None, environment: Mapping[str, str] = os.environ) -> Path | None:
    """Return the `chosen` folder, else the first writable one, or None."""
    folders, space_disk = list[Path](), Path("/data")
    if environment.get("SPACE_ID") and space_disk.is_dir():
        folders.append(space_disk / "vr-thinker-runs")
    cache = environment.get("LOCALAPPDATA" if sys.platform == "win32" else "XDG_CACHE_HOME")
    if cache or environment.get("HOME") or sys.platform == "win32":
        folders.append(Path(cache or Path.home() / ".cache") / "vr-thinker" / "runs")
    for folder in [chosen] if chosen else folders:
        with suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            with tempfile.TemporaryFile(dir=folder):
                return folder
    return None


if sys.platform != "win32":
    import fcntl

MAX_BYTES = 4 * 10**9
MAX_RUNS = 5000
KEEP_SECONDS = 24 * 3600.0


class RunStore:
    """At most `max_bytes` bytes and `MAX_RUNS` runs in `folder`, each for `keep_seconds`.

    The oldest go first. Each video is kept once, by its content: linked if `is_ours` says that
    nobody else writes to the file, copied otherwise. Safe to call from threads and processes.
    """

    def __init__(
        self,
        folder: Path,
        max_bytes: int = MAX_BYTES,
        keep_seconds: float = KEEP_SECONDS,
        is_ours: Callable[[Path], bool] = lambda _: False,
    ) -> None:
        """Open the folder, or make it. Raises OSError."""
        self.keep_seconds = keep_seconds
        self._max_bytes = max_bytes
        self._is_ours = is_ours
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._folders = self._records, self._traces, self._videos = [
            folder / name for name in ("records", "traces", "videos")
        ]
        for each in self._folders:
            each.mkdir(exist_ok=True)
        # By name: when the file was written, and what it says
        self._known: dict[str, tuple[int, RunRecord | None]] = {}
        self._lock = threading.RLock()
        self._depth = 0
        self._is_locked = False
        self.sweep()

    def put(
        self,
        name: str,
        record: RunRecord,
        trace: Trace,
        videos: Sequence[Path] = (),
        *,
        again: bool = False,
    ) -> RunRecord | None:
        """Keep a run; return its record, with the names of those videos that are kept.

        With `again` a kept run is replaced; None if it has been deleted meanwhile. Raises OSError.
        """
        data, digests = to_json(trace), list[tuple[str, Path]]()
        for path in videos:
            with suppress(OSError):  # one of more than half of all bytes is not even read
                if path.stat().st_size <= self._max_bytes // 2:
                    digests.append((file_digest(path), path))
        with self._locked():
            if again and self.get(name) is None:
                return None
            names = tuple(filter(None, (self._keep_video(*video) for video in digests)))
            record = replace(record, videos=names) if names else record
            write_atomically(self._traces / f"{name}.json", data)
            json = type_adapter(RunRecord).dump_json(record)
            write_atomically(self._records / f"{name}.json", json)
            if not again:  # one that grows is counted by the next sweep
                self._drop_oldest()
        return record

    def records(self) -> dict[str, RunRecord]:
        """Return all kept runs by name, the oldest first."""
        now = time.time()
        return {name: record for name, record in self._read_all().items() if record.until > now}

    def _read_all(self) -> dict[str, RunRecord]:
        """Every readable record, also of runs that are too old."""
        found = {}
        with self._lock:
            for path in self._records.glob("*.json"):
                with suppress(OSError):
                    written, known = path.stat().st_mtime_ns, self._known.get(path.stem)
                    if known is None or known[0] != written:
                        known = written, _read_record(path)
                    found[path.stem] = known
            self._known = found
        runs = [(name, run) for name, (_, run) in found.items() if NAME.fullmatch(name) and run]
        return dict(sorted(runs, key=lambda item: item[1].begun))

    def get(self, name: str) -> RunRecord | None:
        """Return that run's record; None if there is none (any more)."""
        record = _read_record(self._records / f"{name}.json") if NAME.fullmatch(name) else None
        return record if record and record.until > time.time() else None

    def trace(self, name: str) -> Trace:
        """Return that run's trace. Raises TraceError if it is gone or damaged."""
        if self.get(name) is None:
            raise TraceError(history_words.NO_SUCH_RUN)
        return load(self._traces / f"{name}.json")

    def videos(self, record: RunRecord) -> list[Path]:
        """Return the kept files of its videos, those that are there."""
        return [path for name in record.videos if (path := self._videos / name).is_file()]

    def remove(self, names: Collection[str]) -> None:
        """Remove these runs, and the links to them."""
        with self._locked():
            runs = self.records()
            gone = {name for name in runs if name in names or runs[name].origin in names}
            self._remove(gone, runs)

    def sweep(self) -> None:
        """Remove too old runs, old damaged records, and files without a record."""
        with self._locked():
            for folder in self._folders:
                remove_parts(folder)
            runs = self._read_all()
            self._remove(runs.keys() - self.records().keys(), runs)
            if self._is_locked:
                earliest, videos = time.time() - self.keep_seconds, _videos_of(runs)
                for path in self._records.glob("*.json"):
                    with suppress(OSError):
                        if path.stem not in runs and path.stat().st_mtime < earliest:
                            path.unlink()
                named = {path.name for path in self._records.glob("*.json")}
                unnamed = [path for path in self._traces.glob("*.json") if path.name not in named]
                kept = {path.name for path in self._videos.iterdir() if VIDEO.fullmatch(path.name)}
                for path in (*unnamed, *(self._videos / name for name in kept - videos)):
                    _unlink(path)
            self._drop_oldest()

    def _keep_video(self, digest: str, path: Path) -> str:
        """Keep a video; its name, "" if it cannot be kept."""
        suffix = path.suffix.lower()
        name = digest + (suffix if re.fullmatch(r"\.[a-z0-9]{1,8}", suffix) else "")
        kept = self._videos / name
        with suppress(OSError):
            if kept.is_file():
                return name
            if not digest:
                return ""
            if self._is_ours(path):
                with suppress(OSError):  # another disk
                    os.link(path, kept)
                    return name
            with atomic_path(kept) as part:
                shutil.copyfile(path, part)
            return name
        return ""

    def _drop_oldest(self) -> None:
        runs = self.records()
        while runs and (len(runs) > MAX_RUNS or self._bytes() > self._max_bytes):
            self._remove({next(iter(runs))}, runs)

    def _remove(self, names: Collection[str], runs: dict[str, RunRecord]) -> None:
        """Remove these runs, also from `runs`, and videos of no other."""
        videos = _videos_of({name: runs.pop(name) for name in names})
        for name in names:
            _unlink(self._records / f"{name}.json")
            _unlink(self._traces / f"{name}.json")
        for video in videos - _videos_of(runs):
            _unlink(self._videos / video)

    def _bytes(self) -> int:
        total = 0
        for path in (path for folder in self._folders for path in folder.iterdir()):
            with suppress(OSError):
                total += path.stat().st_size
        return total

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Alone in the folder, as far as its file system has locks."""
        with self._lock:
            if self._depth:
                yield
                return
            self._depth += 1
            lock = os.open(self._folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
            try:
                with suppress(OSError):
                    if sys.platform != "win32":
                        fcntl.flock(lock, fcntl.LOCK_EX)
                        self._is_locked = True
                yield
            finally:
                self._depth -= 1
                self._is_locked = False
                os.close(lock)


def _videos_of(runs: Mapping[str, RunRecord]) -> set[str]:
    return {video for record in runs.values() for video in record.videos}


def _unlink(path: Path) -> None:
    with suppress(OSError):
        path.unlink()
