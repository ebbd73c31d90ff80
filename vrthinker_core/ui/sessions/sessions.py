"""Who is on the page: each visitor's run and files, and what is cleared away when they leave."""

from __future__ import annotations

import secrets
import shutil
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from vrthinker_core.types import Settings, VideoPair
from vrthinker_core.types.events import Trace
from vrthinker_core.ui.sessions.background_run import BackgroundRun, JobRunner, RunJob
from vrthinker_core.ui.sessions.replay import Replay
from vrthinker_core.ui.view.thumbnail_files import ThumbnailFiles

THUMBNAILS_URL = "frames"
"""Where the server offers the pictures of all runs."""


KEEP_SECONDS = 3600.0
"""Seconds after a visit's beginning for which its files are kept, when nobody says that the visitor has left."""

MAX_SESSIONS = 400
"""Visits that are kept at once; beyond them, the oldest that only hold a run which is over make room."""


@dataclass(frozen=True, slots=True)
class Session:
    """A visitor's latest run, live or replayed. Its name cannot be guessed, so nobody finds another visitor's pictures."""

    name: str
    run: BackgroundRun | Replay
    thumbnails: ThumbnailFiles
    link: str = ""
    """Where a link to this run leads already."""
    started_at: float = field(default_factory=time.monotonic)
    """When it began, in seconds of this machine's clock."""

    @property
    def is_replay(self) -> bool:
        """It was saved, here or elsewhere."""
        return isinstance(self.run, Replay)

    @property
    def files(self) -> tuple[Path, ...]:
        """The videos of a live run."""
        pair = self.run.job.pair if isinstance(self.run, BackgroundRun) else None
        return (Path(pair.first), Path(pair.second)) if pair else ()

    @property
    def judge(self) -> str:
        """The name of the judge who was chosen for a live run."""
        return self.run.job.judge if isinstance(self.run, BackgroundRun) else ""


class Sessions:
    """All visitors of one server. Files live below `root`: the pictures that are offered, and the records that are not."""

    def __init__(self, root: Path, judging: JobRunner, at_once: int = 1) -> None:
        self.thumbnail_root = root / "pictures"
        self.trace_root = root / "records"
        for folder in (self.thumbnail_root, self.trace_root):
            folder.mkdir(parents=True, exist_ok=True)
        self._run_job = judging
        self._judge_slots = threading.Semaphore(at_once)
        self._sessions: dict[str, Session] = {}
        self._lock = threading.Lock()

    def start_run(self, visitor: str, pair: VideoPair, settings: Settings, judge: str = "") -> Session:
        """Start a run with the judge of that name; the visitor's former run is stopped and cleared away."""
        self.end(visitor)
        self.expire()
        name = secrets.token_hex(12)
        record = self.trace_root / name
        record.mkdir()
        run = BackgroundRun(RunJob(pair, settings, record / "trace.json", record / "halt", judge), self._run_job, self._judge_slots)
        return self._keep(visitor, Session(name, run, self.thumbnail_files(name)))

    def start_replay(self, visitor: str, trace: Trace, link: str = "") -> Session:
        """Replay a saved run; the visitor's former run is stopped and cleared away."""
        self.end(visitor)
        self.expire()
        name = secrets.token_hex(12)
        return self._keep(visitor, Session(name, Replay(trace), self.thumbnail_files(name), link))

    def thumbnail_files(self, name: str) -> ThumbnailFiles:
        """Where the pictures of that name are kept and offered."""
        return ThumbnailFiles(self.thumbnail_root / name, f"{THUMBNAILS_URL}/{name}")

    def _keep(self, visitor: str, visit: Session) -> Session:
        with self._lock:
            self._sessions[visitor] = visit
        return visit

    def expire(self) -> None:
        """Clear away runs of visitors of whom no farewell came, long after they ended, or when there are too many."""
        oldest = time.monotonic() - KEEP_SECONDS
        with self._lock:
            over = [(visitor, visit.started_at) for visitor, visit in self._sessions.items() if visit.run.over]
            too_many = max(0, len(self._sessions) - MAX_SESSIONS)
        for number, (visitor, since) in enumerate(over):
            if number < too_many or since < oldest:
                self.end(visitor)

    def get(self, visitor: str) -> Session | None:
        """The visitor's latest run, None when there is none."""
        with self._lock:
            return self._sessions.get(visitor)

    def find_run(self, name: str) -> Session | None:
        """The run of that name, None when there is none (any more)."""
        with self._lock:
            return next((visit for visit in self._sessions.values() if visit.name == name), None)

    def end(self, visitor: str) -> None:
        """The visitor has gone: their judge stops, their files go."""
        with self._lock:
            visit = self._sessions.pop(visitor, None)
        if visit is not None:
            visit.run.request_stop()
            threading.Thread(target=self._clear, args=(visit,), name="clear", daemon=True).start()

    def close(self) -> None:
        """The server ends: every judge stops first, so that none writes its record where no folder is any more."""
        with self._lock:
            visits, self._sessions = list(self._sessions.values()), {}
        for visit in visits:
            visit.run.request_stop()
        for visit in visits:
            visit.run.join(2)

    def _clear(self, visit: Session) -> None:
        visit.run.join(600)
        for folder in (self.thumbnail_root / visit.name, self.trace_root / visit.name):
            shutil.rmtree(folder, ignore_errors=True)
