"""Origin and branches of each open page: kept while it is open, up to a number and a total size."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypedDict

from vrthinker_core.branch_plan import MAX_FRAMES, Changes
from vrthinker_core.errors import BadInput
from vrthinker_core.protocols.sanitize import MAX_PROMPT
from vrthinker_core.text import encodable
from vrthinker_core.types.events import Finished, Started, Trace
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
    """A branch that somebody asked for; whether the run that is shown can have it is another question."""

    turn: int
    changes: Changes
    judge: str = ""  # "" for the judge of the run


def read_request(value: Callable[[str], object], judges: Sequence[str]) -> BranchRequest:
    """The form's values by name, None for what was not sent. Raises BadInput."""
    window, judge = setting("window").parse(value("window")), value("judge")
    frames, no_tool, prompt = _frames(value("frames")), value("no_tool") is True, value("prompt")
    changes = Changes(frames, no_tool, window, _prompt(prompt))  # type: ignore[arg-type]
    return BranchRequest(
        _turn(value("turn")), changes, settings_form.parse_judge(judge, judges) if judge else ""
    )


def _turn(value: object) -> int:
    number = _whole(value)
    if number is None:
        raise BadInput(words.BAD_TURN)
    return number


def _frames(value: object) -> tuple[int, ...]:
    if value in (None, ""):
        return ()
    parts = (
        value.replace(",", " ").split()
        if isinstance(value, str) and len(value) <= MAX_FRAMES * (MAX_DIGITS + 2)
        else [""]
    )
    numbers = [_whole(part) for part in parts]
    if None in numbers:
        raise BadInput(words.BAD_FRAMES)
    return tuple(number for number in numbers if number is not None)


def _whole(value: object) -> int | None:
    if isinstance(value, int) and not isinstance(value, bool):
        return value if abs(value) < 10**MAX_DIGITS else None
    text = value if isinstance(value, str) else ""
    return (
        int(text) if 0 < len(text) <= MAX_DIGITS and text.isascii() and text.isdecimal() else None
    )


def _prompt(value: object) -> str | None:
    if not isinstance(value, str):
        return None
    if len(value) > MAX_PROMPT:
        raise BadInput(words.LONG_PROMPT.format(MAX_PROMPT))
    return encodable(value)


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


class StripLabelJson(TypedDict):
    """What one run says about one dimension."""

    name: str
    label: str
    value: int | None
    differs: bool  # from the origin's label


class StripRunJson(TypedDict):
    """One run."""

    name: str
    judge: str
    note: str  # why there are no labels, "" where there are
    labels: list[StripLabelJson]


class StripJson(TypedDict):
    """Origin and branches, side by side."""

    shown: int
    runs: list[StripRunJson]


def strip_json(branches: BranchSet | None, state: RunState) -> StripJson | None:
    """The runs of a page, of which `state` is shown; None where that has no branches."""
    if branches is None:
        return None
    facts: list[tuple[Started | None, Finished | None]] = [
        (state.started, state.finished)
        if run is None or place == branches.shown
        else (run.trace.started, run.trace.finished)
        for place, run in enumerate(branches.runs)
    ]
    hidden = [
        run is not None and place != branches.shown and run.disclosure.hidden
        for place, run in enumerate(branches.runs)
    ]
    first = [] if hidden[0] else _labels(facts[0][1], {})
    origin = {label["name"]: label["value"] for label in first}
    runs = [
        _hidden_run(place, *run) if hidden[place] else _run(place, *run, origin)
        for place, run in enumerate(facts)
    ]
    return {"shown": branches.shown, "runs": runs}


def _hidden_run(place: int, started: Started | None, finished: Finished | None) -> StripRunJson:
    """A run on which its visitor wants to vote before they see what the judge says."""
    shown = _run(place, started, finished, {})
    return {**shown, "note": words.HIDDEN, "labels": []} if shown["labels"] else shown


def _run(
    place: int, started: Started | None, finished: Finished | None, origin: dict[str, int | None]
) -> StripRunJson:
    labels = _labels(finished, origin)
    name = words.ORIGIN if place == 0 else branch_name(started) if started else words.STARTING
    name = name[:1].upper() + name[1:]
    without = DEMO_RUN if finished and finished.outside_scope else words.BRANCH_NO_VERDICT
    note = "" if labels else words.GOING_ON if finished is None else without
    return {"name": name, "judge": started.judge if started else "", "note": note, "labels": labels}


def _labels(finished: Finished | None, origin: dict[str, int | None]) -> list[StripLabelJson]:
    labels = labels_json(finished.verdict if finished else None)
    return [
        StripLabelJson(
            name=label["name"],
            label=label["label"],
            value=label["value"],
            differs=bool(origin) and origin.get(label["name"]) != label["value"],
        )
        for label in labels
    ]
