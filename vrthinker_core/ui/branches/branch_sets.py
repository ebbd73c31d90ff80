"""Origin and branches of each open page: kept while it is open, up to a number and a total size."""

import threading
from collections import OrderedDict
from dataclasses import dataclass, field, replace

from vrthinker_core.types.events import Trace
from vrthinker_core.ui.branches.branch_request import BranchRequest
from vrthinker_core.ui.page_values import MAX_PAGES, PageValues
from vrthinker_core.ui.sessions.replay import memory_of, trace_of
from vrthinker_core.ui.sessions.session import Session
from vrthinker_core.ui.votes.disclosure import Disclosure

MAX_RUNS = 8  # of one page, the origin included; beyond them, its oldest branch is dropped
MAX_BYTES = 128 * 2**20  # of all pages' runs, as `memory_of` counts
"""Beyond them, or MAX_PAGES, the page whose branches were shown longest ago loses them."""


@dataclass(frozen=True, slots=True)
class KeptRun:
    """One run of a page that has branches."""

    trace: Trace
    size: int  # bytes of memory
    link: str = ""  # as in its session
    name: str = ""  # under which it is kept for its visitor, as in its session
    disclosure: Disclosure = field(
        default_factory=Disclosure
    )  # what its visitor has been shown of it, as in its session


@dataclass(frozen=True, slots=True)
class BranchSet:
    """An origin and its branches, in the order in which they began. The run that is shown stands in the session."""

    session: str  # the name of the session's run that is shown
    shown: int  # its place in `runs`
    runs: tuple[KeptRun | None, ...]  # None for the one that is shown, unless it was shown before

    @property
    def size(self) -> int:
        """Bytes of memory."""
        return sum(run.size for run in self.runs if run is not None)


class BranchSets:
    """Calls from several threads are safe."""

    def __init__(self) -> None:
        self._sets: OrderedDict[str, BranchSet] = OrderedDict()
        self._requests = PageValues[BranchRequest]()
        self._lock = threading.Lock()

    def get(self, session_id: str, session: Session) -> BranchSet | None:
        """The runs that `session`, the session of that id, shows one of; None where it shows a run that has no branches."""
        with self._lock:
            found = self._sets.get(session_id)
        return found if found is not None and found.session == session.name else None

    def keep(self, session_id: str, session: Session) -> BranchSet:
        """Keep the run that `session` shows, as it stands: another one is to be shown in its place."""
        old = self.get(session_id, session) or BranchSet(session.name, 0, (None,))
        trace = trace_of(session.run.state)
        shown = (
            None
            if trace is None
            else KeptRun(trace, memory_of(trace), session.link, session.kept, session.disclosure)
        )
        runs = tuple(shown if place == old.shown else run for place, run in enumerate(old.runs))
        return self._put(session_id, replace(old, runs=runs))

    def begin(self, session_id: str, before: Session, after: Session) -> None:
        """`after` is a branch of `before`, and is shown in its place."""
        old = self.keep(session_id, before)
        runs = list(old.runs)
        if len(runs) >= MAX_RUNS:
            del runs[
                2 if old.shown == 1 else 1
            ]  # never the origin, nor the run that the branch comes from
        self._put(session_id, BranchSet(after.name, len(runs), (*runs, None)))

    def show(self, session_id: str, after: Session, place: int) -> None:
        """`after` shows the run at that place again; one that never began is left out."""
        with self._lock:
            old = self._sets.get(session_id)
        if old is None:
            return
        place -= sum(run is None for run in old.runs[:place])
        self._put(
            session_id,
            BranchSet(after.name, place, tuple(run for run in old.runs if run is not None)),
        )

    def put_request(self, session_id: str, request: BranchRequest) -> None:
        """What the page's form asked for last: it is sent before a branch waits for the judge."""
        self._requests.put(session_id, request)

    def request(self, session_id: str) -> BranchRequest | None:
        """What `put_request` kept last."""
        return self._requests.get(session_id)

    def forget(self, session_id: str) -> None:
        """The page is closed."""
        with self._lock:
            self._sets.pop(session_id, None)
        self._requests.take(session_id)

    def _put(self, session_id: str, branches: BranchSet) -> BranchSet:
        with self._lock:
            self._sets[session_id] = branches
            self._sets.move_to_end(session_id)
            while len(self._sets) > 1 and (
                len(self._sets) > MAX_PAGES
                or sum(each.size for each in self._sets.values()) > MAX_BYTES
            ):
                self._sets.popitem(last=False)
        return branches
