"""One `Session` for each open page: all that belongs to it. Ending a session is deleting it.

A run that a visitor keeps goes on for a while after its page was left: until then any page of that
visitor may show it again. A session id is Gradio's `session_hash` (a new one each time a page is
opened or reloaded), or one made for an API call.
"""

import secrets
import shutil
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from vrthinker_core.branch_plan import BranchPlan
from vrthinker_core.errors import BadInput
from vrthinker_core.types import Settings, Side, VideoPair, Vote
from vrthinker_core.types.events import Started, Trace
from vrthinker_core.ui import words
from vrthinker_core.ui.history import History
from vrthinker_core.ui.queue import JudgeQueue
from vrthinker_core.ui.run import BackgroundRun, JobRunner, Replay, RunJob, memory_of, trace_of
from vrthinker_core.ui.view import ThumbnailFiles

VideosAtHand = tuple[Path | None, Path | None]
Digests = tuple[str | None, str | None]  # SHA-256 of each side's file; None if unknown
EMPTY = ""  # in place of a digest: the visitor has removed the video of a side

THUMBNAILS_URL = "frames"  # the URL path below which the server offers the thumbnails of all runs
SESSION_SECONDS = 3600.0  # after its last use, if its page is closed and no unload event came
MAX_SESSIONS = 400  # kept at once; beyond them, the oldest whose run is over are dropped
MAX_KEPT_BYTES = 256 * 2**20  # of runs that are over and of branches; beyond them, the oldest go
MAX_BRANCHES = 8  # runs of one page, the origin included; beyond them, its oldest branch is dropped
GIVE_WAY_SECONDS = 5.0  # for a run that was left while another one waits for the judge


@dataclass(slots=True, eq=False)
class ShownRun:
    """A run that pages show, live or saved."""

    name: str  # stands in the URLs of the run's files; it cannot be guessed
    run: BackgroundRun | Replay
    thumbnails: ThumbnailFiles
    owner: str = ""  # the visitor whose run it is, "" for one who is not known
    kept: str = ""  # the name under which it is kept for that visitor, "" for a run that is not
    link: str = ""  # the name in `?trace=NAME` that leads to this run already
    saved_videos: VideosAtHand = None, None  # that a replayed run compared, if they are at hand
    checks: int = 0  # how often the order was checked
    began: float = field(default_factory=time.time)  # seconds since 1970
    hidden: bool = False  # from its visitor, who wants to vote before they see the verdict
    voted: bool = False  # the visitor has voted on the run: its vote is theirs
    stored: bool = False  # it has been kept at least once
    left_at: float | None = None  # since when no page shows it, though it goes on
    size: int | None = None  # bytes of memory, once the run is over

    @property
    def is_replay(self) -> bool:
        """Whether the run is a saved one."""
        return isinstance(self.run, Replay)

    @property
    def videos(self) -> VideosAtHand:
        """The compared videos; None for one that is not at hand."""
        if isinstance(self.run, Replay):
            return self.saved_videos
        return Path(self.run.pair.first), Path(self.run.pair.second)

    @property
    def files(self) -> tuple[Path, ...]:
        """The videos that are at hand."""
        return tuple(path for path in self.videos if path is not None)

    @property
    def judge(self) -> str:
        """A live run's chosen judge; "" for the default and for replays."""
        return self.run.job.judge if isinstance(self.run, BackgroundRun) else ""

    def hide(self, votes_first: bool, voted: bool = False) -> None:
        """Hide the verdict from who votes first, unless they have voted."""
        self.hidden, self.voted = votes_first and not voted, voted


@dataclass(frozen=True, slots=True)
class KeptRun:
    """One run of a page with branches."""

    trace: Trace
    size: int  # bytes of memory
    shown: ShownRun  # what it was shown as


@dataclass(frozen=True, slots=True)
class BranchSet:
    """An origin and its branches, in the order they began."""

    run: str  # the name of the run that is shown
    place: int  # where it stands in `runs`
    runs: tuple[KeptRun | None, ...]  # None for the one that is shown, unless shown before


@dataclass(slots=True, eq=False)
class Session:
    """One open page."""

    id: str
    number: int = 0  # of its latest run; the page ignores what is said of an earlier one
    shown: ShownRun | None = None
    waiting: ShownRun | None = None  # in the judge's queue; it is shown once it begins
    digests: Digests = (None, None)  # of the files in both players
    refused: dict[str, str] = field(default_factory=dict)  # why a file cannot be opened, by digest
    # Files of both players: two for the video that each holds, and two for the one before
    held: tuple[deque[Path], deque[Path]] = field(
        default_factory=lambda: (deque(maxlen=4), deque(maxlen=4))
    )
    judge: str = ""  # the judge that was chosen for the next run; "" for the default
    branch_set: BranchSet | None = None
    # The form that an own run has brought, and what stood there before
    brought: tuple[Mapping[Any, Any], Mapping[Any, Any]] | None = None
    followers: int = 0  # events that send updates of a run
    unfollowed: ShownRun | None = None  # which none of them did at the last sweep
    used_at: float = field(default_factory=time.monotonic)

    def next_number(self) -> int:
        """Return a number above those of all earlier runs."""
        self.number += 1
        return self.number

    @property
    def is_busy(self) -> bool:
        """Whether a run of the page waits or goes on."""
        return self.waiting is not None or (self.shown is not None and not self.shown.run.over)

    @property
    def started(self) -> Started | None:
        """How the shown run began; None without one."""
        return self.shown.run.state.started if self.shown else None

    def put(self, side: Side, digest: str) -> None:
        """Put another file, not refused yet, or EMPTY into one player."""
        first, second = self.digests
        self.digests = (digest, second) if side is Side.FIRST else (first, digest)
        held = {*self.digests} - {digest}
        self.refused = {each: why for each, why in self.refused.items() if each in held}

    @property
    def refusals(self) -> list[str]:
        """Why each player's file is refused; "" if it is not."""
        return [self.refused.get(digest or EMPTY, "") for digest in self.digests]

    def hold(self, side: Side, *files: Path) -> None:
        """Keep the player's files, and the video before, while the page is open."""
        self.held[side - 1].extend(files)

    def swap(self) -> None:
        """Put into each player what the other one held."""
        self.digests, self.held = self.digests[::-1], self.held[::-1]

    @property
    def _judged(self) -> Digests:
        first, second = self.started.clips if self.started else (None, None)
        return first.digest if first else None, second.digest if second else None

    def changed_sides(self) -> tuple[Side, ...]:
        """Return the sides whose player holds another file than the shown run judged."""
        both = zip(Side, self._judged, self.digests, strict=True)
        return tuple(side for side, file, held in both if None not in (file, held) and file != held)

    def is_swapped(self) -> bool:
        """Return whether the players hold the two judged files, swapped."""
        first, second = self._judged
        return None not in (first, second) and first != second and self.digests == (second, first)

    def branches(self) -> BranchSet | None:
        """Return the branches of the shown run; None without branches."""
        found = self.branch_set
        return found if found and self.shown and found.run == self.shown.name else None

    def keep_branch(self) -> BranchSet | None:
        """Keep the shown run as it stands: another one takes its place."""
        if (shown := self.shown) is None:
            return None
        old = self.branches() or BranchSet(shown.name, 0, (None,))
        runs, trace = list(old.runs), trace_of(shown.run.state)
        runs[old.place] = None if trace is None else KeptRun(trace, memory_of(trace), shown)
        return replace(old, runs=tuple(runs))

    def begin_branch(self, name: str, before: BranchSet) -> None:
        """Add the branch of that name to the set, as the run that is shown."""
        runs = list(before.runs)
        if len(runs) >= MAX_BRANCHES:  # never drop the origin, nor the run it comes from
            del runs[2 if before.place == 1 else 1]
        self.branch_set = BranchSet(name, len(runs), (*runs, None))

    def show_branch(self, name: str, before: BranchSet, place: int) -> None:
        """Note that the run at that place is shown as `name`; drop runs that never began."""
        place -= before.runs[:place].count(None)
        self.branch_set = BranchSet(name, place, tuple(filter(None, before.runs)))


class Sessions:
    """All sessions of one server."""

    def __init__(
        self,
        root: Path,
        run_job: JobRunner,
        queue: JudgeQueue,
        history: History,
        after_leaving: float = 30.0,
        is_open: Callable[[str], bool] = lambda _: False,
    ) -> None:
        """Keep below `root` thumbnails, which the server offers, and traces, which it does not.

        `after_leaving`: seconds for which a kept run goes on that no page shows. `is_open`: whether
        a session's page is open.
        """
        self.thumbnail_root = root / "pictures"
        self._trace_root = root / "records"
        for folder in (self.thumbnail_root, self._trace_root):
            folder.mkdir(parents=True, exist_ok=True)
        self._run_job, self._queue, self._history = run_job, queue, history
        self._after_leaving, self._is_open = after_leaving, is_open
        self._sessions: dict[str, Session] = {}
        self._left: dict[str, ShownRun] = {}  # runs that go on without a page, by name
        self._lock = threading.RLock()

    def get(self, session_id: str) -> Session:
        """Return that session, a new one if there is none."""
        if session_id not in self._sessions:
            self.expire()
        with self._lock:
            session = self._sessions.setdefault(session_id, Session(session_id))
        session.used_at = time.monotonic()
        return session

    def find_run(self, name: str) -> ShownRun | None:
        """Return the run of that name as it is shown now; None if gone."""
        found = (run for run in self._runs() if run.name == name)
        return max(found, key=lambda run: run.checks, default=None)

    def start_run(
        self,
        session: Session,
        pair: VideoPair,
        settings: Settings,
        judge: str = "",
        owner: str = "",
        plan: BranchPlan | None = None,
    ) -> ShownRun:
        """Let a run join the queue; a run of this page that waits there is dropped.

        `owner`: whose history it is kept in; "" for the owner of the former run. Their runs that
        were left are stopped. `plan`: the run is a branch. Raises BadInput if too many runs wait.
        """
        name, former = secrets.token_hex(12), session.shown
        folder = self._trace_root / name
        owner = owner or (former.owner if former else "")
        self.drop_waiting(session)
        self._queue.check(judge)
        for left in list(self._left.values()):
            if owner and left.owner == owner:
                left.run.request_stop()
        self.expire(own=session)
        job = RunJob(pair, settings, folder / "trace.json", folder / "stop", judge, plan)
        run = BackgroundRun(job, self._run_job, self._queue)
        kept = name if owner and self._history.keeps else ""
        return self._join(session, ShownRun(name, run, self.thumbnails(name), owner, kept))

    def check_order(
        self,
        session: Session,
        former: ShownRun,
        pair: VideoPair,
        settings: Settings,
        judge: str = "",
    ) -> ShownRun:
        """Let the `pair` of a run that is over be judged again, swapped, as the same run.

        Raises BadInput if the session shows another run by now, or too many runs wait.
        """
        folder, number = self._trace_root / former.name, former.checks + 1
        trace, stop_file = folder / f"swapped-{number}.json", folder / f"stop-{number}"
        job = RunJob(pair.swapped(), replace(settings, swap="off"), trace, stop_file, judge)
        if session.shown is not former or not former.run.over:
            raise BadInput(words.NO_RUN)
        kept = former.kept or (former.name if former.owner and self._history.keeps else "")
        run = BackgroundRun(job, self._run_job, self._queue, former.run.state)
        checked = replace(former, run=run, link="", checks=number, kept=kept, size=None)
        checked.began, checked.left_at = time.time(), None
        return self._join(session, checked)

    def _join(self, session: Session, shown: ShownRun) -> ShownRun:
        run = shown.run
        assert isinstance(run, BackgroundRun)

        def keep() -> None:
            if shown.kept and (trace := trace_of(run.state)) is not None:
                told = shown.kept, shown.owner, trace, shown.began, shown.files
                shown.stored = self._history.update(*told, again=shown.stored) or shown.stored

        with suppress(OSError):  # on a full disk the run goes on, and says that it has no trace
            run.job.trace.parent.mkdir(exist_ok=True)
        try:
            run.start(keep)
        except BadInput:
            if not shown.checks:
                shutil.rmtree(run.job.trace.parent, ignore_errors=True)
            raise
        session.waiting = shown
        session.next_number()
        return shown

    def drop_waiting(self, session: Session) -> None:
        """Take the page's run out of the queue."""
        waiting, session.waiting = session.waiting, None
        if waiting is not None:
            self._queue.withdraw(waiting.run)
            self._release(waiting)

    def start_replay(
        self,
        session: Session,
        trace: Trace,
        link: str = "",
        videos: VideosAtHand = (None, None),
        owner: str = "",
        kept: str = "",
    ) -> ShownRun:
        """Show a saved run; the former run is left or removed."""
        name, size = secrets.token_hex(12), memory_of(trace)
        self.drop_waiting(session)
        self.show(session, None)
        self.expire(size, session)
        run, thumbnails = Replay(trace), self.thumbnails(name)
        shown = ShownRun(name, run, thumbnails, owner, kept, link, videos)
        shown.size, shown.stored = size, bool(kept)
        self.show(session, shown)
        return shown

    def show(self, session: Session, shown: ShownRun | None) -> None:
        """Show another run, or none; the former run is left or removed."""
        with self._lock:
            former, session.shown = session.shown, shown
            if session.waiting is shown:
                session.waiting = None
            if shown is not None:
                shown.left_at = None
                self._left.pop(shown.name, None)
        if former is not None and former is not shown:
            self._release(former)

    def show_begun(self, session: Session, shown: ShownRun) -> str:
        """Show the page's run that has left the queue; return the prompt that a branch brings."""
        run, former = shown.run, session.started
        plan = run.job.plan if isinstance(run, BackgroundRun) else None
        if plan is not None and (before := session.keep_branch()):
            session.begin_branch(shown.name, before)
        self.show(session, shown)
        return plan.prompt if plan and former and plan.prompt != former.prompt else ""

    def add_vote(self, session: Session, shown: ShownRun, vote: Vote) -> None:
        """Keep the visitor's vote with their own copy of the run, which has no link any more.

        Raises BadInput if the session shows another run by now.
        """
        if session.shown is not shown:
            raise BadInput(words.NO_RUN)
        shown.run.add_vote(vote)
        shown.hide(False, voted=True)
        shown.link, shown.size, trace = "", None, trace_of(shown.run.state)
        if trace is None:
            return
        told = shown.kept, shown.owner, trace, shown.began, shown.files
        kept = shown.kept and self._history.update(*told, again=True)
        if not kept and (shown.run.over or not shown.kept):
            shown.kept = self._history.keep(shown.owner, trace, shown.files)

    def live_runs(self, owner: str) -> list[ShownRun]:
        """Return the visitor's kept runs that go on."""
        return [run for run in self.runs_of(owner) if not run.run.over]

    def runs_of(self, owner: str) -> list[ShownRun]:
        """Return the visitor's kept runs that are shown or go on."""
        begun = {run.kept: run for run in self._runs() if run.run.begun}
        return [run for run in begun.values() if owner and run.owner == owner and run.kept]

    def thumbnails(self, name: str) -> ThumbnailFiles:
        """Return the thumbnails of the run (or example) of that name."""
        return ThumbnailFiles(self.thumbnail_root / name, f"{THUMBNAILS_URL}/{name}")

    def files(self) -> list[Path]:
        """Return the videos of all runs, and those that players hold."""
        with self._lock:
            held = [path for each in self._sessions.values() for both in each.held for path in both]
        return [*held, *(path for run in self._runs() for path in run.files)]

    def goes_on(self, shown: ShownRun) -> bool:
        """Whether the run goes on when its page is left."""
        return self._after_leaving > 0 and bool(shown.kept) and shown.run.begun

    def expire(self, more: int = 0, own: Session | None = None) -> None:
        """End sessions that nothing goes on in, but for `own`.

        Those that were not used for `SESSION_SECONDS` and whose page is closed, the oldest beyond
        `MAX_SESSIONS`, and the oldest until runs and `more` bytes take at most `MAX_KEPT_BYTES`. If
        that is not enough, pages whose run waits or goes on lose what they keep beside it.
        """
        earliest = time.monotonic() - SESSION_SECONDS
        with self._lock:
            # Pages that are closed, or have shown nothing, go first
            every = sorted(
                self._sessions.values(),
                key=lambda each: (self._is_open(each.id), bool(each.shown), each.used_at),
            )
        others = [session for session in every if session is not own]
        idle = [session for session in others if not session.is_busy]
        extra, kept = len(every) - MAX_SESSIONS, more + sum(map(_size, every))
        for number, session in enumerate(idle):
            unused = session.used_at < earliest and not self._is_open(session.id)
            if number < extra or unused or kept > MAX_KEPT_BYTES:
                kept -= _size(session)
                self.end(session.id)
        for session in (session for session in others if session.is_busy):
            if kept > MAX_KEPT_BYTES:
                kept -= _size(session)
                session.branch_set = None
                if session.shown is not None and session.shown.run.over:
                    self.show(session, None)

    def drop_unfollowed(self) -> None:
        """End sessions whose run goes on, but was followed neither now nor at the last call."""
        with self._lock:
            sessions = list(self._sessions.values())
        for session in sessions:
            before, run = session.unfollowed, session.waiting or session.shown
            goes_on = session.is_busy and not session.followers
            session.unfollowed = run if goes_on else None
            if before is not None and before is session.unfollowed:
                self.end(session.id)

    def end(self, session_id: str) -> None:
        """Forget a page; its run is left or removed, in a thread."""
        with self._lock:
            session = self._sessions.pop(session_id, None)
        if session is not None:
            self.drop_waiting(session)
            self.show(session, None)

    def close(self) -> None:
        """Stop every run and wait, so that none writes any more."""
        runs = [*self._runs()]
        for shown in runs:
            shown.run.request_stop()
        for shown in runs:
            shown.run.join(2)

    def _runs(self) -> list[ShownRun]:
        with self._lock:
            pages = [run for each in self._sessions.values() for run in (each.shown, each.waiting)]
            return [run for run in (*pages, *self._left.values()) if run is not None]

    def _release(self, shown: ShownRun) -> None:
        """Leave a run that no page shows, or stop and remove it."""
        with self._lock:
            if any(other.run is shown.run for other in self._runs()):
                return
            if self.goes_on(shown) and not shown.run.over:
                shown.left_at = time.monotonic()
                self._left[shown.name] = shown
        if shown.left_at is None:
            shown.run.request_stop()

        def remove() -> None:
            run = shown.run
            while (left := shown.left_at) and isinstance(run, BackgroundRun) and not run.over:
                waits = self._queue.counts()[1]
                most = min(self._after_leaving, GIVE_WAY_SECONDS) if waits else self._after_leaving
                if time.monotonic() - left > most:
                    run.stop()
                run.wait(0.25)
            with self._lock:
                self._left.pop(shown.name, None)
                if any(other.name == shown.name for other in self._runs()):
                    return  # a page shows it again
            run.join(600)
            shown.thumbnails.remove()
            shutil.rmtree(self._trace_root / shown.name, ignore_errors=True)

        threading.Thread(target=remove, name="remove run", daemon=True).start()


def _size(session: Session) -> int:
    """Bytes of memory that a page keeps of runs that are over."""
    shown, branches = session.shown, session.branch_set
    kept = sum(run.size for run in branches.runs if run) if branches else 0
    if shown is None or not shown.run.over:
        return kept
    if shown.size is None:
        shown.size = memory_of(trace_of(shown.run.state))
    return kept + shown.size
