"""The run store: runs on disk with their traces and videos, up to an age and a number of bytes. Servers may share its folder.

A run is there once its record is: that is written last and removed first. Whatever no record names is what a killed server left.
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
VIDEO = re.compile(
    r"[0-9a-f]{64}(\.[a-z0-9]{1,8})?"
)  # the SHA-256 of its content and the ending of its name

ShortText = Annotated[str, Field(max_length=MAX_TEXT)]
Moment = Annotated[float, Field(ge=0, allow_inf_nan=False)]  # Seconds since 1970
VideoName = Annotated[str, Field(pattern=f"^{VIDEO.pattern}$")]


@dataclass(frozen=True, slots=True)
class RunRecord:
    """A kept run without its trace."""

    owner: Annotated[
        str, Field(pattern=r"^([0-9a-f]{64})?$")
    ]  # of the visitor, as `visitors.owner_of` gives it; "" for nobody's
    prompt: ShortText
    judge: ShortText
    begun: Moment
    until: Moment  # when it is dropped
    ending: StopReason | None = None  # None for a run that was cut off, or has not ended
    judged: bool = False  # it gave a verdict
    overall: Preference | None = None  # the verdict's label for the whole
    outside_scope: bool = False  # the judge cannot judge such videos
    order: OrderEffect | None = (
        None  # what the order does to the overall label; None if it was not checked
    )
    videos: Annotated[
        tuple[VideoName, ...], Field(max_length=2)
    ] = ()  # of the kept files that it compared
    origin: Annotated[str, Field(pattern=f"^({NAME.pattern})?$")] = (
        ""  # of a link: the run that it shows
    )
    voted: bool = False  # there is a vote on it
    branch: ShortText = ""  # what a branch is called; "" for a run that is none


def record_of(owner: str, trace: Trace, begun: float, until: float, origin: str = "") -> RunRecord:
    """The record of that run."""
    started, finished = trace.started, trace.finished
    verdict, ending = (finished.verdict, finished.stop) if finished else (None, None)
    judged, overall = verdict is not None, verdict.OA if verdict else None
    check = order_of(trace.runs)
    prompt, judge = started.prompt[:MAX_TEXT], started.judge[:MAX_TEXT]
    voted, branch = trace.vote is not None, branch_name(started)[:MAX_TEXT]
    return RunRecord(
        owner,
        prompt,
        judge,
        begun,
        until,
        ending,
        judged,
        overall,
        bool(finished and finished.outside_scope),
        check.overall if check else None,
        origin=origin,
        voted=voted,
        branch=branch,
    )


def record_json(record: RunRecord) -> bytes:
    """The record as it is written."""
    return type_adapter(RunRecord).dump_json(record)


def read_record(path: Path) -> RunRecord | None:
    """The record in that file; None where none can be read or what it says cannot be."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_RECORD_BYTES + 1)
        record = type_adapter(RunRecord).validate_json(data)
    except (OSError, ValueError):  # Of pydantic, too
        return None
    return record if len(data) <= MAX_RECORD_BYTES else None


COOKIE = "vr-thinker-visitor"
COOKIE_SECONDS = 30 * 24 * 3600  # after the page was opened last
_VALUE = re.compile(r"[A-Za-z0-9_-]{43}")  # 32 random bytes


def owner_of(cookies: Mapping[str, str]) -> str:
    """The visitor who sent these cookies, as 64 hexadecimal digits; "" for one who has none of ours."""
    value = cookies.get(COOKIE, "")
    return hashlib.sha256(value.encode()).hexdigest() if _VALUE.fullmatch(value) else ""


class VisitorCookieMiddleware:
    """ASGI middleware: gives each browser that opens the page a cookie. `in_frame`: the page is embedded in one of another site."""

    def __init__(self, app: ASGIApp, in_frame: bool = False) -> None:
        self._app = app
        # A cookie of a page in a frame is only taken with these, and is then another one for each site around it.
        self._where = "SameSite=None; Secure; Partitioned" if in_frame else "SameSite=Lax"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on; the answer to one for the page itself sets the cookie, the same one for as long as it comes."""
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


SPACE_DISK = Path("/data")


def usable_folder(chosen: Path | None, environment: Mapping[str, str] = os.environ) -> Path | None:
    """The folder that was `chosen`, otherwise the first that can be written; None where there is none."""
    return next(
        (
            folder
            for folder in ([chosen] if chosen else _folders(environment))
            if _is_writable(folder)
        ),
        None,
    )


def _folders(environment: Mapping[str, str]) -> Iterator[Path]:
    if environment.get("SPACE_ID") and SPACE_DISK.is_dir():
        yield SPACE_DISK / "vr-thinker-runs"
    cache = environment.get("LOCALAPPDATA" if sys.platform == "win32" else "XDG_CACHE_HOME")
    if cache or environment.get("HOME") or sys.platform == "win32":
        yield Path(cache or Path.home() / ".cache") / "vr-thinker" / "runs"


def _is_writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


if sys.platform != "win32":
    import fcntl

MAX_BYTES = 4 * 10**9
MAX_RUNS = 5000
KEEP_SECONDS = 24 * 3600.0

IsOurs = Callable[[Path], bool]


def nobodys(_path: Path) -> bool:
    """No file is the server's own."""
    return False


class RunStore:
    """At most `max_bytes` bytes and `MAX_RUNS` runs in `folder`, the oldest of which go first; each is kept for `keep_seconds`.

    Each video is kept once, by its content: linked where `is_ours` says that nobody else writes to the file, copied otherwise.
    Calls from several threads and processes are safe.
    """

    def __init__(
        self,
        folder: Path,
        max_bytes: int = MAX_BYTES,
        keep_seconds: float = KEEP_SECONDS,
        is_ours: IsOurs = nobodys,
    ) -> None:
        """Opens the folder, or makes it. Raises OSError."""
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
        self._known: dict[
            str, tuple[int, RunRecord | None]
        ] = {}  # by name: when the file was written, and what it says
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
        """Keep a run; the record as it is kept, with the names of those videos that are. Raises OSError.

        With `again` a kept run is replaced; None where it has been deleted meanwhile.
        """
        data, digests = (
            to_json(trace),
            [(file_digest(path), path) for path in videos if self._fits(path)],
        )
        with self._locked():
            if again and self.get(name) is None:
                return None
            names = tuple(
                kept for digest, path in digests if (kept := self._keep_video(digest, path))
            )
            record = replace(record, videos=names) if names else record
            write_atomically(self._traces / f"{name}.json", data)
            write_atomically(self._records / f"{name}.json", record_json(record))
            if not again:  # one that grows is counted by the next sweep
                self._drop_oldest()
        return record

    def records(self) -> dict[str, RunRecord]:
        """All runs that are kept, by name; the oldest is the first."""
        now = time.time()
        return {name: record for name, record in self._read_all().items() if record.until > now}

    def _read_all(self) -> dict[str, RunRecord]:
        """Every record that can be read, also of runs that are too old. A file is read again only when it has changed."""
        found = {}
        with self._lock:
            for path in self._records.glob("*.json"):
                with suppress(OSError):
                    written = path.stat().st_mtime_ns
                    known = self._known.get(path.stem)
                    found[path.stem] = (
                        known if known and known[0] == written else (written, read_record(path))
                    )
            self._known = found
        runs = {
            name: record for name, (_, record) in found.items() if NAME.fullmatch(name) and record
        }
        return dict(sorted(runs.items(), key=lambda item: item[1].begun))

    def get(self, name: str) -> RunRecord | None:
        """The record of that run; None when there is none (any more)."""
        record = read_record(self._records / f"{name}.json") if NAME.fullmatch(name) else None
        return record if record and record.until > time.time() else None

    def trace(self, name: str) -> Trace:
        """The trace of that run. Raises TraceError when there is none (any more), or what is there is damaged."""
        if self.get(name) is None:
            raise TraceError(history_words.NO_SUCH_RUN)
        return load(self._traces / f"{name}.json")

    def videos(self, record: RunRecord) -> list[Path]:
        """The kept files of the videos that it compared, those that are there."""
        return [path for name in record.videos if (path := self._videos / name).is_file()]

    def remove(self, names: Collection[str]) -> None:
        """Remove these runs, and the links to them."""
        with self._locked():
            runs = self.records()
            gone = {name for name in runs if name in names or runs[name].origin in names}
            self._remove(gone, runs)

    def sweep(self) -> None:
        """Remove runs that are too old, damaged records of that age, and what servers left that were killed."""
        with self._locked():
            for folder in self._folders:
                remove_parts(folder)
            runs = self._read_all()
            self._remove(runs.keys() - self.records().keys(), runs)
            if self._is_locked:
                self._remove_unnamed(runs)
            self._drop_oldest()

    def _remove_unnamed(self, runs: dict[str, RunRecord]) -> None:
        """What no record names. A damaged record goes with its trace when it is as old as runs get."""
        for path in self._records.glob("*.json"):
            with suppress(OSError):
                if path.stem not in runs and path.stat().st_mtime < time.time() - self.keep_seconds:
                    path.unlink()
        named = {path.name for path in self._records.glob("*.json")}
        for path in self._traces.glob("*.json"):
            if path.name not in named:
                _unlink(path)
        videos = {name for record in runs.values() for name in record.videos}
        for path in self._videos.iterdir():
            if VIDEO.fullmatch(path.name) and path.name not in videos:
                _unlink(path)

    def _fits(self, path: Path) -> bool:
        """A video of more than half of all bytes there may be is not even read."""
        with suppress(OSError):
            return path.stat().st_size <= self._max_bytes // 2
        return False

    def _keep_video(self, digest: str, path: Path) -> str:
        """The name under which a video is kept now; "" where it cannot be."""
        name = digest + (
            path.suffix.lower() if re.fullmatch(r"\.[a-z0-9]{1,8}", path.suffix.lower()) else ""
        )
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
            oldest = next(iter(runs))
            self._remove({oldest}, runs)

    def _remove(self, names: Collection[str], runs: dict[str, RunRecord]) -> None:
        """Remove these runs, which are then no more among `runs`, and the videos that no other one compared."""
        videos = {video for name in names for video in runs.pop(name).videos}
        for name in names:
            _unlink(self._records / f"{name}.json")
            _unlink(self._traces / f"{name}.json")
        for video in videos - {video for record in runs.values() for video in record.videos}:
            _unlink(self._videos / video)

    def _bytes(self) -> int:
        total = 0
        for folder in self._folders:
            for path in folder.iterdir():
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
                self._is_locked = _take(lock)
                yield
            finally:
                self._depth -= 1
                self._is_locked = False
                os.close(lock)


def _take(lock: int) -> bool:
    if sys.platform == "win32":
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
    except OSError:
        return False
    return True


def _unlink(path: Path) -> None:
    with suppress(OSError):
        path.unlink()
