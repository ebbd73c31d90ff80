"""The history: every run of each visitor, live and kept. Each visitor has only their own."""

import logging
import secrets
import threading
import time
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypedDict

from vrthinker_core.errors import TraceError
from vrthinker_core.text import encodable
from vrthinker_core.types.events import Trace
from vrthinker_core.types.wording import branch_name
from vrthinker_core.ui import history_words, words
from vrthinker_core.ui.background_run import BackgroundRun
from vrthinker_core.ui.page_sessions import LEFT, Session, Sessions
from vrthinker_core.ui.replay import merge_traces, trace_of
from vrthinker_core.ui.run_store import (
    KEEP_SECONDS,
    MAX_BYTES,
    MAX_TEXT,
    RunRecord,
    RunStore,
    record_of,
)

LOOK_SECONDS = 0.25  # between two looks at a run that goes on
GIVE_WAY_SECONDS = 5.0  # for a run that was left while another one waits for the judge
MAX_LISTED = 200  # runs of one visitor; beyond them, the oldest are deleted


class RunRowJson(TypedDict):
    """One run of the list."""

    name: str
    prompt: str
    judge: str
    branch: str  # where a branch leaves its origin and what differs; "" for a run that is none
    outcome: str
    unchecked: str  # that its order was not checked; "" without a verdict
    begun: float  # seconds since 1970
    over: bool


@dataclass(frozen=True, slots=True)
class Keeping:
    """Where runs are kept, for how long, and how long they go on."""

    folder: Path | None = None  # None: in the server's own folder, which ends with it
    seconds: float = KEEP_SECONDS  # 0: none is kept
    max_bytes: int = MAX_BYTES
    after_leaving: float = 30.0  # seconds for which a run goes on that no page shows


class History:
    """Keeps runs in `store`, turn by turn, and stops abandoned ones."""

    def __init__(self, store: RunStore, sessions: Sessions, keeping: Keeping) -> None:
        self._store, self._sessions, self._keeping = store, sessions, keeping
        self._watchers: set[threading.Thread] = set()
        self._deleted: set[str] = set()  # names of runs that go on and must not be kept
        self._lock = threading.Lock()
        sessions.keeps = self.keeps
        sessions.go_on_after_leaving = self.keeps and keeping.after_leaving > 0
        sessions.on_run = self._on_run
        sessions.on_vote = self._on_vote

    @property
    def keeps(self) -> bool:
        """Whether any run is kept."""
        return self._keeping.seconds > 0

    @property
    def help(self) -> str:
        """Say for how long runs are kept, in one sentence."""
        seconds = self._keeping.seconds
        return history_words.kept_for(seconds) if self.keeps else history_words.NOT_KEPT

    def rows(self, owner: str, votes_first: bool = False) -> list[RunRowJson]:
        """Return the visitor's runs, the latest first.

        `votes_first`: verdicts without their vote are hidden unless a page shows them.
        """
        records, sessions = self._records(owner), self._sessions.runs_of(owner)
        hidden = {session.kept: session.disclosure.hidden for session in sessions}
        rows: dict[str, RunRowJson] = {}
        for name, record in records.items():
            hide = hidden.get(name, votes_first and record.judged and not record.voted)
            rows[name] = {
                "name": name,
                "prompt": record.prompt,
                "judge": words.judge_line(record.judge),
                "branch": _sentence_case(record.branch),
                "outcome": words.HIDDEN if hide else history_words.outcome(record),
                "unchecked": "" if hide else history_words.unchecked(record),
                "begun": record.begun,
                "over": True,
            }
        for session in (session for session in sessions if not session.run.over):
            run, started = session.run, session.run.state.started
            prompt = run.pair.prompt if isinstance(run, BackgroundRun) else ""
            judge = started.judge if started else session.judge
            rows[session.kept] = {
                "name": session.kept,
                "prompt": encodable(prompt)[:MAX_TEXT],
                "judge": words.judge_line(judge) if judge else "",
                "branch": _sentence_case(branch_name(started)[:MAX_TEXT]) if started else "",
                "outcome": history_words.GOES_ON,
                "unchecked": "",
                "begun": _begun(session),
                "over": False,
            }
        return sorted(rows.values(), key=lambda row: -row["begun"])

    def live(self, owner: str, name: str) -> Session | None:
        """Return the visitor's run of that name, if it goes on."""
        return next((run for run in self._sessions.live_runs(owner) if run.kept == name), None)

    def open(self, owner: str, name: str) -> tuple[Trace, list[Path]]:
        """Return the visitor's trace and kept videos. Raises TraceError for other names."""
        record = self._records(owner).get(name)
        if record is None:
            raise TraceError(history_words.NO_SUCH_RUN)
        return self._store.trace(name), self._store.videos(record)

    def videos(self, owner: str, trace: Trace) -> list[Path]:
        """Return the kept videos of this trace that the visitor's own runs compared."""
        digests = {clip.digest for clip in trace.started.clips if clip}
        return [
            path
            for record in self._records(owner).values()
            if digests & {name[:64] for name in record.videos}
            for path in self._store.videos(record)
        ]

    def keep(self, owner: str, trace: Trace, videos: Sequence[Path] = ()) -> str:
        """Keep a saved run that was opened; its name, "" if it is not kept."""
        if not self.keeps or not owner:
            return ""
        name, now = secrets.token_hex(12), time.time()
        record = record_of(owner, trace, now, now + self._keeping.seconds)
        try:
            self._store.put(name, record, trace, videos)
        except OSError as error:
            _warn(error)
            return ""
        self._bound(owner)
        return name

    def delete(self, owner: str, names: Collection[str] | None = None) -> None:
        """Delete the visitor's named runs, or all, with links; stop live ones."""
        for session in self._sessions.live_runs(owner):
            if names is None or session.kept in names:
                self._deleted.add(session.kept)
                session.run.request_stop()
        with self._lock:  # none is being kept meanwhile
            mine = self._records(owner, links=names is None)
            self._store.remove([name for name in mine if names is None or name in names])

    def close(self) -> None:
        """Wait until every run that was stopped is kept."""
        end = time.monotonic() + 5
        for watcher in list(self._watchers):
            watcher.join(max(0.0, end - time.monotonic()))

    def _records(self, owner: str, links: bool = False) -> dict[str, RunRecord]:
        records = self._store.records() if owner and self.keeps else {}
        return {
            name: record
            for name, record in records.items()
            if record.owner == owner and (links or not record.origin)
        }

    def _on_run(self, session: Session) -> None:
        if session.kept:
            watch, given = self._watch, (session,)
            watcher = threading.Thread(target=watch, args=given, name="keep run", daemon=True)
            with self._lock:
                self._watchers.add(watcher)
            watcher.start()

    def _on_vote(self, session: Session) -> str:
        """Keep a run with its visitor's vote; return its name."""
        kept = session.kept
        if kept and (
            self._update(session, anew=False) or self._store.get(kept) or not session.run.over
        ):
            return kept
        trace = trace_of(session.run.state)
        return "" if trace is None else self.keep(session.owner, trace, session.files)

    def _watch(self, session: Session) -> None:
        """Keep one run until it ends, in its own thread."""
        run, is_kept, turns = session.run, False, -1  # turns of both runs that have ended
        assert isinstance(run, BackgroundRun)
        try:
            while not run.wait(LOOK_SECONDS):
                begun = [each for each in run.state.runs if each.started is not None]
                ended = sum(turn.turn is not None for each in begun for turn in each.turns)
                if begun and ended > turns:
                    is_kept = self._update(session, anew=not is_kept) or is_kept
                    turns = ended
                most = self._keeping.after_leaving
                if self._sessions.another_waits(session):
                    most = min(most, GIVE_WAY_SECONDS)
                if self._sessions.seconds_left(session) > most:
                    run.stop()
            self._update(session, anew=not is_kept)
            self._bound(session.owner)
            self._sessions.end(LEFT + session.name)
        finally:
            with self._lock:
                self._deleted.discard(session.kept)
                self._watchers.discard(threading.current_thread())

    def _update(self, session: Session, anew: bool) -> bool:
        """Keep the run so far, unless it was deleted; whether it is kept."""
        name, until = session.kept, time.time() + self._keeping.seconds
        with self._lock:  # the latest state is kept last
            trace, before = trace_of(session.run.state), self._store.get(name)
            if trace is not None and before is not None:
                with suppress(TraceError):  # one that is damaged is replaced
                    trace = merge_traces(trace, self._store.trace(name))
            if trace is None or name in self._deleted:
                return False
            begun, videos = (before.begun, before.videos) if before else (_begun(session), ())
            record = replace(record_of(session.owner, trace, begun, until), videos=videos)
            files = () if videos else session.files
            try:
                return self._store.put(name, record, trace, files, again=not anew) is not None
            except OSError as error:
                _warn(error)
                return False

    def _bound(self, owner: str) -> None:
        if oldest := list(self._records(owner))[:-MAX_LISTED]:
            self._store.remove(oldest)


def _sentence_case(text: str) -> str:
    return text[:1].upper() + text[1:]


def _begun(session: Session) -> float:
    """When the session's run began, in seconds since 1970."""
    return round(time.time() - (time.monotonic() - session.started_at), 3)


def _warn(error: OSError) -> None:
    logging.getLogger(__name__).warning("A run could not be kept: %s", error.strerror or error)
