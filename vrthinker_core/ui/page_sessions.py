"""One `Session` for each open page: its latest run and its files, removed when the page is closed.

A run that a visitor keeps goes on for a while after its page was left: until then any page of that
visitor may show it again.

A session id is Gradio's `session_hash` (a new one each time a page is opened or reloaded), or an id
made for an API call.
"""

import secrets
import shutil
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from vrthinker_core.branch_plan import BranchPlan
from vrthinker_core.errors import BadInput
from vrthinker_core.types import Settings, VideoPair, Vote
from vrthinker_core.types.events import Trace
from vrthinker_core.ui import words
from vrthinker_core.ui.background_run import BackgroundRun, JobRunner, RunJob, always
from vrthinker_core.ui.hidden_view import Disclosure
from vrthinker_core.ui.replay import Replay, memory_of, trace_of
from vrthinker_core.ui.tiles import ThumbnailFiles

VideosAtHand = tuple[Path | None, Path | None]


@dataclass(frozen=True, slots=True)
class Session:
    """The latest run of one open page, live or replayed."""

    name: str  # stands in the URLs of the run's files; it cannot be guessed
    run: BackgroundRun | Replay
    thumbnails: ThumbnailFiles
    link: str = ""  # the name in `?trace=NAME` that leads to this run already
    saved_videos: VideosAtHand = None, None  # that a replayed run compared, if they are at hand
    checks: int = 0  # how often the order was checked
    started_at: float = field(default_factory=time.monotonic)
    owner: str = ""  # the visitor whose run it is, "" for one who is not known
    kept: str = ""  # the name under which it is kept for that visitor, "" for a run that is not
    disclosure: Disclosure = field(default_factory=Disclosure)

    @property
    def is_replay(self) -> bool:
        """Whether the run is a saved one."""
        return isinstance(self.run, Replay)

    @property
    def videos(self) -> VideosAtHand:
        """The compared videos; None for one that is not at hand."""
        pair = self.run.pair if isinstance(self.run, BackgroundRun) else None
        return (Path(pair.first), Path(pair.second)) if pair else self.saved_videos

    @property
    def files(self) -> tuple[Path, ...]:
        """The videos that are at hand."""
        return tuple(path for path in self.videos if path is not None)

    @property
    def judge(self) -> str:
        """A live run's chosen judge; "" for the default and for replays."""
        return self.run.job.judge if isinstance(self.run, BackgroundRun) else ""


THUMBNAILS_URL = "frames"  # the URL path below which the server offers the thumbnails of all runs
SESSION_SECONDS = 3600.0  # after its last use, if its page is closed and no unload event came
MAX_SESSIONS = 400  # kept at once; beyond them, the oldest whose run is over are dropped
MAX_KEPT_BYTES = 256 * 2**20  # of the runs that are over; beyond them, the oldest are dropped

LEFT = "left "  # begins the id of a session that no page shows


class Sessions:
    """All sessions of one server.

    Below `root` lie the thumbnails, which the server offers, and the traces, which it does not.
    """

    def __init__(
        self,
        root: Path,
        run_job: JobRunner,
        at_once: int = 1,
        is_loaded: Callable[[str], bool] = always,
    ) -> None:
        """Keep files below `root`. `is_loaded`: whether a job with that judge may begin."""
        self.thumbnail_root = root / "pictures"
        self.trace_root = root / "records"
        for folder in (self.thumbnail_root, self.trace_root):
            folder.mkdir(parents=True, exist_ok=True)
        self._run_job = run_job
        self._is_loaded = is_loaded
        self._judge_slots = threading.Semaphore(at_once)
        self._sessions: dict[str, Session] = {}
        self._sizes: dict[str, int] = {}  # by the session's name, once its run is over
        self._used: dict[str, float] = {}  # when it was used last, by the session's name
        self._left: dict[str, float] = {}  # when a run was left that goes on, by the session's name
        self.keeps = True  # whether the runs of visitors who are known are kept
        self.go_on_after_leaving = False
        self.is_open: Callable[[str], bool] = lambda _: False  # Whether a session's page is open
        self.on_run: Callable[[Session], None] = lambda _: None  # Called for each started run
        # Keeps a vote; returns the name of the kept run
        self.on_vote: Callable[[Session], str] = lambda session: session.kept
        self._lock = threading.Lock()

    def start_run(
        self,
        session_id: str,
        pair: VideoPair,
        settings: Settings,
        judge: str = "",
        owner: str = "",
        plan: BranchPlan | None = None,
    ) -> Session:
        """Start a run with that judge ("" for the default); the former run is stopped and removed.

        `owner`: whose history it is kept in; "" for the owner of the former run. Runs that they
        have left are stopped. `plan`: the run is a branch.
        """
        folder = self.trace_root / secrets.token_hex(12)
        job = RunJob(pair, settings, folder / "trace.json", folder / "stop", judge, plan)
        former = self.get(session_id)
        owner = owner or (former.owner if former else "")
        self.end(session_id)
        with self._lock:
            sessions = list(self._sessions.items())
        for key, left in sessions:
            if owner and key.startswith(LEFT) and left.owner == owner:
                left.run.request_stop()
        self.expire()
        with suppress(OSError):  # on a full disk the run goes on, and says that it has no trace
            folder.mkdir()
        run = BackgroundRun(job, self._run_job, self._judge_slots, self._is_loaded)
        name, kept = folder.name, folder.name if owner and self.keeps else ""
        session = Session(name, run, self.thumbnail_files(name), owner=owner, kept=kept)
        self._add(session_id, session)
        self.on_run(session)
        return session

    def check_order(
        self,
        session_id: str,
        session: Session,
        pair: VideoPair,
        settings: Settings,
        judge: str = "",
    ) -> Session:
        """Judge the `pair` of a run that is over again with the sides swapped, as the same run.

        Raises BadInput if the session shows another run by now.
        """
        folder, number = self.trace_root / session.name, session.checks + 1
        trace, stop_file = folder / f"swapped-{number}.json", folder / f"stop-{number}"
        job = RunJob(pair.swapped(), replace(settings, swap="off"), trace, stop_file, judge)
        with self._lock:
            if self._sessions.get(session_id) is not session or not session.run.over:
                raise BadInput(words.NO_RUN)
            with suppress(OSError):
                folder.mkdir(exist_ok=True)
            self._sizes.pop(session.name, None)
            before, slots = session.run.state, self._judge_slots
            run = BackgroundRun(job, self._run_job, slots, self._is_loaded, before)
            kept = session.kept or (session.name if session.owner and self.keeps else "")
            checked = replace(
                session, run=run, link="", checks=number, started_at=time.monotonic(), kept=kept
            )
            self._sessions[session_id] = checked
        self.on_run(checked)
        return checked

    def add_vote(self, session_id: str, session: Session, vote: Vote) -> None:
        """Keep the visitor's vote with their own copy of the run, which has no link any more.

        Raises BadInput if the session shows another run by now.
        """
        with self._lock:
            if self._sessions.get(session_id) is not session:
                raise BadInput(words.NO_RUN)
            self._sizes.pop(session.name, None)
            session.run.add_vote(vote)
            session.disclosure.vote()
        kept = self.on_vote(session)
        with self._lock:
            if self._sessions.get(session_id) is session and (session.link or kept != session.kept):
                self._sessions[session_id] = replace(session, link="", kept=kept)

    def start_replay(
        self,
        session_id: str,
        trace: Trace,
        link: str = "",
        videos: VideosAtHand = (None, None),
        owner: str = "",
        kept: str = "",
    ) -> Session:
        """Show a saved run; the former run is left or removed."""
        name = secrets.token_hex(12)
        self._sizes[name] = memory_of(trace)
        self.end(session_id)
        self.expire(self._sizes[name])
        run, thumbnails = Replay(trace), self.thumbnail_files(name)
        session = Session(name, run, thumbnails, link, videos, owner=owner, kept=kept)
        return self._add(session_id, session)

    def attach(self, session_id: str, session: Session) -> None:
        """Show a live run also on that page; leave its former run."""
        if self.get(session_id) is not session:
            self.end(session_id)
        with self._lock:
            self._sessions.pop(LEFT + session.name, None)
            self._left.pop(session.name, None)
            self._sessions[session_id] = self._use(session)

    def live_runs(self, owner: str) -> list[Session]:
        """Return the visitor's kept runs that go on, the latest last."""
        return [session for session in self.runs_of(owner) if not session.run.over]

    def runs_of(self, owner: str) -> list[Session]:
        """Return the visitor's kept runs that are shown or go on."""
        with self._lock:
            shown = {id(session): session for session in self._sessions.values()}.values()
        return [session for session in shown if owner and session.owner == owner and session.kept]

    def seconds_left(self, session: Session) -> float:
        """Return seconds since a page has shown the run; 0 if shown."""
        with self._lock:
            left = self._left.get(session.name)
        return 0.0 if left is None else max(1e-9, time.monotonic() - left)

    def another_waits(self, session: Session) -> bool:
        """Whether another run that was not left waits for a judge."""
        with self._lock:
            shown = [run for key, run in self._sessions.items() if not key.startswith(LEFT)]
        return any(
            other is not session and not other.run.over and other.run.state.started is None
            for other in shown
        )

    def thumbnail_files(self, name: str) -> ThumbnailFiles:
        """Return the thumbnails of the run (or example) of that name."""
        return ThumbnailFiles(self.thumbnail_root / name, f"{THUMBNAILS_URL}/{name}")

    def _add(self, session_id: str, session: Session) -> Session:
        with self._lock:
            self._sessions[session_id] = session
            return self._use(session)

    def _use(self, session: Session) -> Session:
        self._used[session.name] = time.monotonic()
        return session

    def expire(self, more: int = 0) -> None:
        """End sessions whose run is over.

        Those that were not used for `SESSION_SECONDS`, the oldest beyond `MAX_SESSIONS`, and the
        oldest until what is kept and `more` bytes take at most `MAX_KEPT_BYTES` of memory. A run
        that goes on is in use, and so is a session whose page is open.
        """
        now = time.monotonic()
        with self._lock:
            every = list(self._sessions.items())
            in_use = {each.name for key, each in every if not each.run.over or self.is_open(key)}
            self._used |= dict.fromkeys(in_use, now)
            used = {each.name: self._used[each.name] for _, each in every}
            unused = {name for name in used.keys() - in_use if used[name] < now - SESSION_SECONDS}
            over = [(key, each) for key, each in every if each.run.over]
            too_many = max(0, len(every) - MAX_SESSIONS)
        kept = more + sum(self._size(session) for _, session in over)
        for number, (session_id, session) in enumerate(over):
            if number < too_many or session.name in unused or kept > MAX_KEPT_BYTES:
                kept -= self._size(session)
                self.end(session_id)

    def get(self, session_id: str) -> Session | None:
        """Return that session; None before its first run and after its end."""
        with self._lock:
            session = self._sessions.get(session_id)
            return session and self._use(session)

    def find_run(self, name: str) -> Session | None:
        """Return the latest session with that run's name; None if gone."""
        with self._lock:
            found = (session for session in self._sessions.values() if session.name == name)
            session = max(found, key=lambda session: session.started_at, default=None)
            return session and self._use(session)

    def files(self) -> list[Path]:
        """Return the videos of all runs that are kept."""
        with self._lock:
            return [file for session in self._sessions.values() for file in session.files]

    def goes_on(self, session: Session) -> bool:
        """Whether the session's run goes on when its page is left."""
        return self.go_on_after_leaving and bool(session.kept) and not session.run.over

    def end(self, session_id: str) -> None:
        """Stop showing the session on that page; return at once.

        If no other page shows its run, that is left, or stopped and removed in a thread.
        """
        with self._lock:
            session = self._sessions.pop(session_id, None)
            if session is None:
                return
            others = [other.run for other in self._sessions.values() if other.name == session.name]
            if session.run in others:
                return
            if session_id != LEFT + session.name and self.goes_on(session):
                self._sessions[LEFT + session.name] = session
                self._left[session.name] = time.monotonic()
                return
            self._left.pop(session.name, None)
            if not others:
                self._sizes.pop(session.name, None)
                self._used.pop(session.name, None)

        def remove_files() -> None:
            session.run.join(600)
            session.thumbnails.remove()
            shutil.rmtree(self.trace_root / session.name, ignore_errors=True)

        session.run.request_stop()
        if not others:  # else another page shows the run from before its order was checked
            threading.Thread(target=remove_files, name="remove files", daemon=True).start()

    def close(self) -> None:
        """Stop every run and wait, so that none writes any more."""
        with self._lock:
            sessions, self._sessions = list(self._sessions.values()), {}
        for session in sessions:
            session.run.request_stop()
        for session in sessions:
            session.run.join(2)

    def _size(self, session: Session) -> int:
        if session.name not in self._sizes:
            self._sizes[session.name] = memory_of(trace_of(session.run.state))
        return self._sizes[session.name]
