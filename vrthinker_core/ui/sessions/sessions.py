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
from vrthinker_core.ui.sessions.background_run import Job, Judging, Run
from vrthinker_core.ui.sessions.replay import Replay
from vrthinker_core.ui.view.thumbnail_files import Album

FRAMES_URL = "frames"
"""Where the server offers the pictures of all runs."""


KEPT = 3600.0
"""Seconds after a visit's beginning for which its files are kept, when nobody says that the visitor has left."""

MOST = 400
"""Visits that are kept at once; beyond them, the oldest that only hold a run which is over make room."""


@dataclass(frozen=True, slots=True)
class Visit:
    """A visitor's latest run, live or replayed. Its name cannot be guessed, so nobody finds another visitor's pictures."""

    name: str
    run: Run | Replay
    album: Album
    link: str = ""
    """Where a link to this run leads already."""
    since: float = field(default_factory=time.monotonic)
    """When it began, in seconds of this machine's clock."""

    @property
    def replayed(self) -> bool:
        """It was saved, here or elsewhere."""
        return isinstance(self.run, Replay)

    @property
    def files(self) -> tuple[Path, ...]:
        """The videos of a live run."""
        pair = self.run.job.pair if isinstance(self.run, Run) else None
        return (Path(pair.first), Path(pair.second)) if pair else ()

    @property
    def judge(self) -> str:
        """The name of the judge who was chosen for a live run."""
        return self.run.job.judge if isinstance(self.run, Run) else ""


class Visits:
    """All visitors of one server. Files live below `root`: the pictures that are offered, and the records that are not."""

    def __init__(self, root: Path, judging: Judging, at_once: int = 1) -> None:
        self.pictures = root / "pictures"
        self.records = root / "records"
        for folder in (self.pictures, self.records):
            folder.mkdir(parents=True, exist_ok=True)
        self._judging = judging
        self._seats = threading.Semaphore(at_once)
        self._visits: dict[str, Visit] = {}
        self._lock = threading.Lock()

    def begin(self, visitor: str, pair: VideoPair, settings: Settings, judge: str = "") -> Visit:
        """Start a run with the judge of that name; the visitor's former run is stopped and cleared away."""
        self.leave(visitor)
        self.sweep()
        name = secrets.token_hex(12)
        record = self.records / name
        record.mkdir()
        run = Run(Job(pair, settings, record / "trace.json", record / "halt", judge), self._judging, self._seats)
        return self._keep(visitor, Visit(name, run, self.album(name)))

    def show(self, visitor: str, trace: Trace, link: str = "") -> Visit:
        """Replay a saved run; the visitor's former run is stopped and cleared away."""
        self.leave(visitor)
        self.sweep()
        name = secrets.token_hex(12)
        return self._keep(visitor, Visit(name, Replay(trace), self.album(name), link))

    def album(self, name: str) -> Album:
        """Where the pictures of that name are kept and offered."""
        return Album(self.pictures / name, f"{FRAMES_URL}/{name}")

    def _keep(self, visitor: str, visit: Visit) -> Visit:
        with self._lock:
            self._visits[visitor] = visit
        return visit

    def sweep(self) -> None:
        """Clear away runs of visitors of whom no farewell came, long after they ended, or when there are too many."""
        oldest = time.monotonic() - KEPT
        with self._lock:
            over = [(visitor, visit.since) for visitor, visit in self._visits.items() if visit.run.over]
            too_many = max(0, len(self._visits) - MOST)
        for number, (visitor, since) in enumerate(over):
            if number < too_many or since < oldest:
                self.leave(visitor)

    def find(self, visitor: str) -> Visit | None:
        """The visitor's latest run, None when there is none."""
        with self._lock:
            return self._visits.get(visitor)

    def named(self, name: str) -> Visit | None:
        """The run of that name, None when there is none (any more)."""
        with self._lock:
            return next((visit for visit in self._visits.values() if visit.name == name), None)

    def leave(self, visitor: str) -> None:
        """The visitor has gone: their judge stops, their files go."""
        with self._lock:
            visit = self._visits.pop(visitor, None)
        if visit is not None:
            visit.run.halt()
            threading.Thread(target=self._clear, args=(visit,), name="clear", daemon=True).start()

    def close(self) -> None:
        """The server ends: every judge stops first, so that none writes its record where no folder is any more."""
        with self._lock:
            visits, self._visits = list(self._visits.values()), {}
        for visit in visits:
            visit.run.halt()
        for visit in visits:
            visit.run.join(2)

    def _clear(self, visit: Visit) -> None:
        visit.run.join(600)
        for folder in (self.pictures / visit.name, self.records / visit.name):
            shutil.rmtree(folder, ignore_errors=True)
