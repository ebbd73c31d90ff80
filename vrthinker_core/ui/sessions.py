"""One `Session` for each open page: all that belongs to it. Ending a session is deleting it.

A run that a visitor keeps goes on for a while after its page was left: until then any page of that
visitor may show it again. A session id is Gradio's `session_hash` (a new one each time a page is
opened or reloaded), or one made for an API call.
"""

import secrets
import shutil
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from vrthinker_core.branch_plan import BranchPlan
from vrthinker_core.errors import BadInput
from vrthinker_core.storage import write_atomically
from vrthinker_core.system import memory_of
from vrthinker_core.traces import storable
from vrthinker_core.types import Settings, Side, VideoPair, Vote
from vrthinker_core.types.events import Started, Trace
from vrthinker_core.ui import words
from vrthinker_core.ui.history import History, SavedRun
from vrthinker_core.ui.judges import OwnHost
from vrthinker_core.ui.queue import JudgeQueue
from vrthinker_core.ui.run import BackgroundRun, FoundVideos, JobRunner, Replay, RunJob
from vrthinker_core.ui.view import Json, RunView, ThumbnailFiles
from vrthinker_core.ui.visitors import UNKNOWN, Visitor
from vrthinker_core.video.files import file_digest
from vrthinker_core.video.timeline import claims_drawn

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
    checks: int = 0  # how often the order was checked
    began: float = field(default_factory=time.time)  # seconds since 1970
    hidden: bool = False  # from its visitor, who wants to vote before they see the verdict
    voted: bool = False  # the visitor has voted on the run: its vote is theirs
    stored: bool = False  # it has been kept at least once
    size: int | None = None  # bytes of memory, once the run is over
    folder: Path = Path()  # of its files
    _files: dict[str, Trace] = field(default_factory=dict, init=False, repr=False)
    _page: tuple[object, Json] = field(default=(None, {}), init=False, repr=False)

    def file(self, name: str, trace: Trace, render: Callable[[Trace], bytes]) -> Path:
        """Return the run as a file, which is made once for each state. Raises OSError, BadInput."""
        path = self.folder / f"saved {name}"
        if self._files.get(name) != trace or not path.is_file():
            write_atomically(path, render(trace))
            self._files[name] = trace
        return path

    def page(self) -> Json:
        """Return `RunView.page`; a run that is over is drawn once."""
        run = self.run
        state = (run.trace, run.changes) if run.over else None
        if state is None or self._page[0] != state:
            self._page = state, RunView.of(run).page(self.thumbnails)
            self.size = None
        return self._page[1]

    @property
    def files(self) -> tuple[Path, ...]:
        """The compared videos that are at hand."""
        return tuple(path for path in self.run.videos if path is not None)


@dataclass(slots=True)
class Player:
    """One player of a page."""

    digest: str | None = None  # SHA-256 of its file; None if unknown, "" if removed
    refusal: str = ""  # why that file cannot be opened
    drawn: bool = True  # it has the mark of a drawn clip, or is not known to have none
    # Its files: two for the video that it holds, and two for the one before
    held: deque[Path] = field(default_factory=lambda: deque(maxlen=4))

    def put(self, path: Path | None) -> None:
        """Note the file that it holds now, which is not refused yet."""
        self.drawn = path is None or claims_drawn(path)  # before the digest, which says: known
        self.digest, self.refusal = file_digest(path) if path else "", ""


@dataclass(slots=True, eq=False)
class Session:
    """One open page."""

    id: str
    number: int = 0  # of its latest run; the page ignores what is said of an earlier one
    shown: ShownRun | None = None
    waiting: ShownRun | None = None  # in the judge's queue; it is shown once it begins
    players: list[Player] = field(default_factory=lambda: [Player(), Player()])
    judge: str = ""  # the judge that was chosen for the next run; "" for the default
    # What the visitor has at each host. Their keys are kept here alone
    own: dict[str, OwnHost] = field(default_factory=dict, repr=False)
    host: str = ""  # whose models the dialog lists
    branches: Sequence[ShownRun] = ()  # an origin, then its branches, the shown run among them
    # The form that an own run has brought, and what stood there before
    brought: tuple[Mapping[Any, Any], Mapping[Any, Any]] | None = None
    followers: int = 0  # events that send updates of a run
    drawn: ShownRun | None = None  # the run whose end the page has been sent
    unfollowed: ShownRun | None = None  # the run that nobody followed at the last sweep
    used_at: float = field(default_factory=time.monotonic)

    def next_number(self) -> int:
        """Return the next number: it grows with each run of the page."""
        self.number += 1
        return self.number

    @property
    def visitor(self) -> str:
        """Whose page it is: the owner of its run, else nobody else's."""
        return (self.shown.owner if self.shown else "") or self.id

    @property
    def holds_real(self) -> bool:
        """Whether there are two videos, and one is known not to be drawn."""
        there = all(player.digest and not player.refusal for player in self.players)
        return there and not all(player.drawn for player in self.players)

    @property
    def is_busy(self) -> bool:
        """Whether a run of the page waits or goes on."""
        return self.waiting is not None or (self.shown is not None and not self.shown.run.over)

    def put(self, started: Started | None = None, videos: FoundVideos = (None, None)) -> None:
        """Note that the players hold the videos of a run, or others; none is refused yet."""
        clips = started.clips if started else (None, None)
        for player, clip, path in zip(self.players, clips, videos, strict=True):
            player.digest = clip.digest if clip and path else None
            player.refusal, player.drawn = "", clip is None or clip.drawn

    @property
    def _files(self) -> list[tuple[str | None, str | None]]:
        """The digests of each side's file that the shown run judged, and its player holds."""
        trace = self.shown.run.trace if self.shown else None
        clips = trace.started.clips if trace else (None, None)
        judged = [clip.digest if clip else None for clip in clips]
        return [(file, player.digest) for file, player in zip(judged, self.players, strict=True)]

    def changed_sides(self) -> tuple[Side, ...]:
        """Return the sides whose player holds another file than the shown run judged."""
        both = zip(Side, self._files, strict=True)
        return tuple(side for side, files in both if None not in files and files[0] != files[1])

    def removed_sides(self) -> tuple[Side, ...]:
        """Return the sides whose player was emptied after the shown run had judged its video."""
        return tuple(side for side in self.changed_sides() if self.players[side - 1].digest == "")

    def is_swapped(self) -> bool:
        """Return whether the players hold the two judged files, swapped."""
        judged, held = zip(*self._files, strict=True)
        return judged == held[::-1] and len({*judged} - {None}) == 2


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
        self._left: dict[ShownRun, float] = {}  # runs that go on without a page, and since when
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
        visitor: Visitor = UNKNOWN,
        plan: BranchPlan | None = None,
    ) -> ShownRun:
        """Let a run join the queue; a run of this page that waits there is dropped.

        The history of `visitor` keeps the run; without a cookie, the history of the owner of the
        former run. Runs that this owner has left are stopped. `plan`: the run is a branch. Raises
        BadInput if too many runs wait.
        """
        name, former = secrets.token_hex(12), session.shown
        owner = visitor.owner or (former.owner if former else "")
        self.drop_waiting(session)
        self._queue.check(judge, visitor)
        for left in [*self._left]:
            if owner and left.owner == owner:
                left.run.request_stop()
        self.expire(own=session)
        folder = self._trace_root / name
        job = RunJob(pair, settings, folder / "trace.json", folder / "stop", judge, plan)
        run = BackgroundRun(job, self._run_job, self._queue, visitor=visitor)
        shown = ShownRun(name, run, self.thumbnails(name), owner, folder=folder)
        return self._join(session, run, shown)

    def check_order(
        self,
        session: Session,
        former: ShownRun,
        pair: VideoPair,
        settings: Settings,
        judge: str = "",
        visitor: Visitor = UNKNOWN,
    ) -> ShownRun:
        """Let the `pair` of a run that is over be judged again, swapped, as the same run.

        Raises BadInput if the session shows another run by now, or too many runs wait.
        """
        folder, number = self._trace_root / former.name, former.checks + 1
        trace, stop_file = folder / f"swapped-{number}.json", folder / f"stop-{number}"
        job = RunJob(pair.swapped(), replace(settings, swap="off"), trace, stop_file, judge)
        if session.shown is not former or not former.run.over:
            raise BadInput(words.NO_RUN)
        run = BackgroundRun(job, self._run_job, self._queue, former.run.trace, visitor)
        checked = replace(former, run=run, link="", checks=number, began=time.time(), size=None)
        return self._join(session, run, checked)

    def _join(self, session: Session, run: BackgroundRun, shown: ShownRun) -> ShownRun:
        if not shown.kept and shown.owner and self._history.keeps:
            # Another name: the page's address holds it, and files are had by the first name alone
            shown.kept = secrets.token_hex(12)
        run.start(partial(self._keep, shown))
        with self._lock:
            if is_open := self._sessions.get(session.id) is session:
                session.waiting = shown
        if not is_open:  # its page was left meanwhile, and nobody else knows the run
            self._queue.withdraw(run)
            run.request_stop()
            raise BadInput(words.NO_RUN)
        session.number += 1
        return shown

    def _keep(self, shown: ShownRun) -> bool:
        """Keep the run so far for its visitor, unless they have deleted it."""
        if (trace := shown.run.trace) is None or not shown.kept:
            return False
        told = shown.kept, shown.owner, storable(trace), shown.began, shown.files
        kept = self._history.update(*told, again=shown.stored)
        shown.stored = shown.stored or kept
        return kept

    def drop_waiting(self, session: Session) -> None:
        """Take the page's run out of the queue."""
        waiting, session.waiting = session.waiting, None
        if waiting is not None:
            self._queue.withdraw(waiting.run)
            self._release(waiting)

    def start_replay(
        self, session: Session, saved: SavedRun, videos: FoundVideos = (None, None), owner: str = ""
    ) -> ShownRun:
        """Show a saved run; the former run is left or removed."""
        name, size = secrets.token_hex(12), memory_of(saved.trace)
        self.drop_waiting(session)
        self.show(session, None)
        self.expire(size, session)
        run, thumbnails = Replay(saved.trace, videos), self.thumbnails(name)
        folder = self._trace_root / name
        folder.mkdir(exist_ok=True)
        shown = ShownRun(name, run, thumbnails, owner, saved.kept, saved.link, folder=folder)
        shown.size, shown.stored = size, bool(saved.kept)
        self.show(session, shown)
        return shown

    def show(self, session: Session, shown: ShownRun | None) -> None:
        """Show another run, or none; the former run is left or removed."""
        with self._lock:
            former, session.shown = session.shown, shown
            if session.waiting is shown:
                session.waiting = None
            if shown is not None:
                self._left.pop(shown, None)
        if former is not None and former is not shown:
            self._release(former)

    def show_begun(self, session: Session, shown: ShownRun) -> str:
        """Show the page's run that has left the queue; return the prompt that a branch brings."""
        former, branches = session.shown, session.branches
        plan = shown.run.job.plan if isinstance(shown.run, BackgroundRun) else None
        if former is not None and plan is not None:
            runs = [*branches] if former in branches else [former]
            if len(runs) >= MAX_BRANCHES:  # never drop the origin, nor the run it comes from
                del runs[2 if runs[1] is former else 1]
            session.branches = [*runs, shown]
        elif former is not None and former.name == shown.name:  # its order is checked
            session.branches = [shown if run is former else run for run in branches]
        self.show(session, shown)
        before = former.run.trace if former else None
        return plan.prompt if plan and before and plan.prompt != before.started.prompt else ""

    def add_vote(self, session: Session, shown: ShownRun, vote: Vote) -> None:
        """Keep the visitor's vote with their own copy of the run, which has no link any more.

        Raises BadInput if the session shows another run by now.
        """
        if session.shown is not shown:
            raise BadInput(words.NO_RUN)
        shown.run.add_vote(vote)
        shown.hidden, shown.voted, shown.link, shown.size = False, True, "", None
        trace = shown.run.trace
        if trace and not self._keep(shown) and (shown.run.over or not shown.kept):
            shown.kept = self._history.keep(shown.owner, storable(trace), shown.files)

    def runs_of(self, owner: str) -> list[ShownRun]:
        """Return the visitor's kept runs that are shown or go on."""
        own = (run for run in self._runs() if owner and run.owner == owner)
        return [*{run.kept: run for run in own if run.kept and run.run.begun}.values()]

    def followers_of(self, shown: ShownRun) -> int:
        """Return how many events send updates of this run, to all pages."""
        pages = (each for each in self._pages() if shown in (each.shown, each.waiting))
        return sum(each.followers for each in pages)

    def thumbnails(self, name: str) -> ThumbnailFiles:
        """Return the thumbnails of the run (or example) of that name."""
        return ThumbnailFiles(self.thumbnail_root / name, f"{THUMBNAILS_URL}/{name}")

    def files(self) -> list[Path]:
        """Return the videos of all runs, and those that players hold."""
        players = (player for each in self._pages() for player in each.players)
        held = (path for player in players for path in player.held)
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
        every = self._pages()
        extra, kept = len(every) - MAX_SESSIONS, more + sum(map(_size, every))
        held = Counter[str]()
        for each in every:
            held[each.visitor] += _size(each)

        def order(each: Session) -> tuple[object, ...]:
            """Drop closed pages first, then pages of the largest owner; busy pages last."""
            is_open = self._is_open(each.id)
            return each.is_busy, is_open, bool(each.shown), -held[each.visitor], each.used_at

        others = sorted((each for each in every if each is not own), key=order)
        for number, session in enumerate(others):
            too_much, busy = kept > MAX_KEPT_BYTES, session.is_busy
            unused = session.used_at < earliest and not self._is_open(session.id)
            if too_much or (not busy and (number < extra or unused)):
                kept -= _size(session)
                session.branches = ()
                if not busy:
                    self.end(session.id)
                elif session.shown is not None and session.shown.run.over:
                    self.show(session, None)

    def drop_unfollowed(self) -> None:
        """End sessions whose run goes on, but was followed neither now nor at the last call."""
        for session in self._pages():
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
        runs = self._runs()
        for shown in runs:
            shown.run.request_stop()
        for shown in runs:
            shown.run.join(2)

    def _pages(self) -> list[Session]:
        with self._lock:
            return [*self._sessions.values()]

    def _runs(self) -> list[ShownRun]:
        with self._lock:
            pages = [run for each in self._pages() for run in (each.shown, each.waiting)]
            return [run for run in (*pages, *self._left) if run is not None]

    def _release(self, shown: ShownRun) -> None:
        """Leave a run that no page shows, or stop and remove it."""
        with self._lock:
            if any(other.run is shown.run for other in self._runs()):
                return
            if self.goes_on(shown) and not shown.run.over:
                self._left[shown] = time.monotonic()
            else:
                shown.run.request_stop()

        def remove() -> None:
            run = shown.run
            while (left := self._left.get(shown)) and not run.over:
                waits = self._queue.counts()[1]
                most = min(self._after_leaving, GIVE_WAY_SECONDS) if waits else self._after_leaving
                if time.monotonic() - left > most:
                    run.stop()
                run.join(0.25)
            run.join(600)  # until its end is kept
            with self._lock:
                self._left.pop(shown, None)
                if any(other.name == shown.name for other in self._runs()):
                    return  # a page shows it again
            shown.thumbnails.remove()
            shutil.rmtree(self._trace_root / shown.name, ignore_errors=True)

        threading.Thread(target=remove, name="remove run", daemon=True).start()


def _size(session: Session) -> int:
    """Bytes of memory that a page keeps of runs that are over."""
    over = {run for run in (*session.branches, session.shown) if run and run.run.over}
    for run in over:
        if run.size is None:
            run.size = memory_of((run.run.trace, run._page))
    return sum(run.size or 0 for run in over)
