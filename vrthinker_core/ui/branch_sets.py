"""Origin and branches of each open page, limited by memory."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from vrthinker_core.branch_plan import MAX_FRAMES, Changes
from vrthinker_core.errors import BadInput
from vrthinker_core.protocols.sanitize import MAX_PROMPT
from vrthinker_core.text import encodable
from vrthinker_core.types.events import Trace
from vrthinker_core.types.settings import setting
from vrthinker_core.types.wording import DEMO_RUN, branch_name
from vrthinker_core.ui import settings_form, words
from vrthinker_core.ui.hidden_view import Disclosure
from vrthinker_core.ui.page_json import labels_json
from vrthinker_core.ui.page_sessions import Session
from vrthinker_core.ui.player_files import MAX_PAGES, PageValues
from vrthinker_core.ui.replay import memory_of, trace_of
from vrthinker_core.ui.run_state import RunState

MAX_DIGITS = 6  # of a frame's number or a turn's


@dataclass(frozen=True, slots=True)
class BranchRequest:
    """A branch that somebody asked for; the run that is shown may refuse it."""

    turn: int
    changes: Changes
    judge: str = ""  # "" for the judge of the run


def read_request(value: Callable[[str], object], judges: Sequence[str]) -> BranchRequest:
    """Read the form's values by name, None for what was not sent. Raises BadInput."""
    window, sent, prompt = (
        setting("window").parse(value("window")),
        value("frames"),
        value("prompt"),
    )
    if isinstance(sent, str) and len(sent) <= MAX_FRAMES * (MAX_DIGITS + 2):
        frames = [_whole(part) for part in sent.replace(",", " ").split()]
    else:
        frames = [] if sent is None else [None]
    if None in frames:
        raise BadInput(words.BAD_FRAMES)
    if isinstance(prompt, str) and len(prompt) > MAX_PROMPT:
        raise BadInput(words.LONG_PROMPT.format(MAX_PROMPT))
    text = encodable(prompt) if isinstance(prompt, str) else None
    no_tool = value("no_tool") is True
    changes = Changes(tuple(frames), no_tool, window, text)  # type: ignore[arg-type]
    if (turn := _whole(value("turn"))) is None:
        raise BadInput(words.BAD_TURN)
    judge = value("judge")
    return BranchRequest(turn, changes, settings_form.parse_judge(judge, judges) if judge else "")


def _whole(value: object) -> int | None:
    if isinstance(value, int) and not isinstance(value, bool):
        return value if abs(value) < 10**MAX_DIGITS else None
    text = value if isinstance(value, str) else ""
    short = len(text) <= MAX_DIGITS and text.isascii() and text.isdecimal()
    return int(text) if short else None


MAX_RUNS = 8  # of one page, the origin included; beyond them, its oldest branch is dropped
# Of all pages' runs, as `memory_of` counts; beyond them, or MAX_PAGES, the page whose branches were
# shown longest ago loses them.
MAX_BYTES = 128 * 2**20


@dataclass(frozen=True, slots=True)
class KeptRun:
    """One run of a page with branches, with facts of its session."""

    trace: Trace
    size: int  # bytes of memory
    link: str = ""
    name: str = ""
    disclosure: Disclosure = field(default_factory=Disclosure)


@dataclass(frozen=True, slots=True)
class BranchSet:
    """An origin and its branches, in the order they began."""

    session: str  # the name of the session's run that is shown
    shown: int  # its place in `runs`
    runs: tuple[KeptRun | None, ...]  # None for the one that is shown, unless shown before

    @property
    def size(self) -> int:
        """Bytes of memory."""
        return sum(run.size for run in self.runs if run is not None)


class BranchSets:
    """The sets of all pages. Calls from several threads are safe."""

    def __init__(self) -> None:
        self._sets: OrderedDict[str, BranchSet] = OrderedDict()
        self._requests = PageValues[BranchRequest]()
        self._lock = threading.Lock()

    def get(self, session_id: str, session: Session) -> BranchSet | None:
        """Return the branches of the shown run; None without branches."""
        with self._lock:
            found = self._sets.get(session_id)
        return found if found is not None and found.session == session.name else None

    def keep(self, session_id: str, session: Session) -> BranchSet:
        """Keep the shown run as it stands: another one takes its place."""
        old = self.get(session_id, session) or BranchSet(session.name, 0, (None,))
        runs, trace = list(old.runs), trace_of(session.run.state)
        facts = session.link, session.kept, session.disclosure
        runs[old.shown] = None if trace is None else KeptRun(trace, memory_of(trace), *facts)
        return self._put(session_id, replace(old, runs=tuple(runs)))

    def begin(self, session_id: str, before: Session, after: Session) -> None:
        """Show `after`, a branch of `before`, in its place."""
        old = self.keep(session_id, before)
        runs = list(old.runs)
        if len(runs) >= MAX_RUNS:  # never drop the origin, nor the run that the branch comes from
            del runs[2 if old.shown == 1 else 1]
        self._put(session_id, BranchSet(after.name, len(runs), (*runs, None)))

    def show(self, session_id: str, after: Session, place: int) -> None:
        """Show the run at that place as `after`, without unbegun runs."""
        with self._lock:
            old = self._sets.get(session_id)
        if old is not None:
            place -= old.runs[:place].count(None)
            runs = tuple(run for run in old.runs if run is not None)
            self._put(session_id, BranchSet(after.name, place, runs))

    def put_request(self, session_id: str, request: BranchRequest) -> None:
        """Keep the last request of the form until its branch begins."""
        self._requests.put(session_id, request)

    def request(self, session_id: str) -> BranchRequest | None:
        """Return what `put_request` kept last."""
        return self._requests.get(session_id)

    def forget(self, session_id: str) -> None:
        """Forget a page that is closed."""
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


def strip_json(branches: BranchSet | None, state: RunState) -> dict[str, Any] | None:
    """Return a page's runs side by side, `state` being shown; None without branches.

    `note`: why a run has no labels, "" if it has. `differs`: from the origin's label.
    """
    if branches is None:
        return None
    runs = []
    origin: dict[str, int | None] = {}  # labels
    for place, run in enumerate(branches.runs):
        kept = None if place == branches.shown else run
        shown = kept.trace if kept else state
        started, finished = shown.started, shown.finished
        labels = labels_json(finished.verdict if finished else None)
        note = "" if labels else words.GOING_ON if finished is None else words.BRANCH_NO_VERDICT
        if not labels and finished and finished.outside_scope:
            note = DEMO_RUN
        if labels and kept and kept.disclosure.hidden:  # its visitor wants to vote before they see
            note, labels = words.HIDDEN, []
        if place == 0:
            origin = {label["name"]: label["value"] for label in labels}
        name = words.ORIGIN if place == 0 else branch_name(started) if started else words.STARTING
        compared = [
            {
                "name": label["name"],
                "label": label["label"],
                "value": label["value"],
                "differs": bool(origin) and origin.get(label["name"]) != label["value"],
            }
            for label in labels
        ]
        judge, name = started.judge if started else "", name[:1].upper() + name[1:]
        runs.append({"name": name, "judge": judge, "note": note, "labels": compared})
    return {"shown": branches.shown, "runs": runs}
