"""Saved runs: each visitor's own, links to them, and examples.

Runs of visitors lie in a folder that servers may share: traces and videos as files, all else in
`runs.sqlite`. A file that no row names was left by a killed server.
"""

import hashlib
import logging
import re
import secrets
import sqlite3
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from vrthinker_core.errors import TraceError
from vrthinker_core.storage import link_or_copy, remove_parts, type_adapter, write_atomically
from vrthinker_core.traces import load, merge_traces, to_json
from vrthinker_core.types import Preference, Side
from vrthinker_core.types.events import StopReason, Trace
from vrthinker_core.types.order import OrderEffect, order_of
from vrthinker_core.types.wording import DEMO_RUN, NOT_SWAP_TESTED, SCRIPTED, branch_name
from vrthinker_core.ui import words
from vrthinker_core.ui.view import ThumbnailFiles, group_tiles
from vrthinker_core.video.files import file_digest
from vrthinker_core.words import count

MAX_TEXT = 400  # characters of the prompt, of the judge's name, and of the branch's
MAX_LISTED = 200  # runs of one visitor; beyond them, the oldest are deleted
MAX_BYTES = 4 * 10**9
MAX_RUNS = 5000
KEEP_SECONDS = 24 * 3600.0
LOCK_SECONDS = 10.0  # for another server to finish with the folder

NAME = re.compile(r"[0-9a-f]{24}")  # of a run; it cannot be guessed
VIDEO = re.compile(r"[0-9a-f]{64}(\.[a-z0-9]{1,8})?")  # SHA-256 of its content, and its suffix
TABLE = """CREATE TABLE IF NOT EXISTS runs (
    name TEXT PRIMARY KEY, owner TEXT NOT NULL, begun REAL NOT NULL, until REAL NOT NULL,
    origin TEXT NOT NULL, record BLOB NOT NULL)"""

ShortText = Annotated[str, Field(max_length=MAX_TEXT)]
Moment = Annotated[float, Field(ge=0, allow_inf_nan=False)]  # Seconds since 1970


@dataclass(frozen=True, slots=True)
class RunRecord:
    """A kept run without its trace; servers since a34fd25 read and write it."""

    owner: Annotated[str, Field(pattern=r"^([0-9a-f]{64})?$")]  # see `owner_of`; "" for nobody's
    prompt: ShortText
    judge: ShortText
    begun: Moment
    until: Moment  # when it is dropped
    ending: StopReason | None = None  # None for a run that was cut off, or has not ended
    judged: bool = False  # it gave a verdict
    overall: Preference | None = None  # the verdict's label for the whole
    outside_scope: bool = False  # the judge cannot judge such a pair
    scripted: bool = False  # a person wrote the replies as an example
    order: OrderEffect | None = None  # of the overall label; None if it was not checked
    # Names of the videos that it compared
    videos: Annotated[
        tuple[Annotated[str, Field(pattern=f"^{VIDEO.pattern}$")], ...], Field(max_length=2)
    ] = ()
    # Of a link: the run that it shows
    origin: Annotated[str, Field(pattern=f"^({NAME.pattern})?$")] = ""
    voted: bool = False  # there is a vote on it
    branch: ShortText = ""  # what a branch is called; "" for a run that is none

    @classmethod
    def of(
        cls, owner: str, trace: Trace, begun: float, until: float, origin: str = ""
    ) -> "RunRecord":
        """Return the record of that run, without its videos."""
        finished, order = trace.finished, order_of(trace.runs)
        verdict = finished.verdict if finished else None
        return cls(
            owner,
            trace.started.prompt[:MAX_TEXT],
            trace.started.judge[:MAX_TEXT],
            begun,
            until,
            ending=finished.stop if finished else None,
            judged=verdict is not None,
            overall=verdict.OA if verdict else None,
            outside_scope=finished is not None and finished.outside_scope,
            scripted=finished is not None and finished.scripted,
            order=order.overall if order else None,
            origin=origin,
            voted=trace.vote is not None,
            branch=branch_name(trace.started)[:MAX_TEXT],
        )

    @property
    def outcome(self) -> str:
        """What became of the run, by its verdict if possible."""
        if self.outside_scope or self.scripted:
            return DEMO_RUN if self.outside_scope else SCRIPTED
        if self.judged:
            return words.winner_line(self.overall, self.order)
        ending = self.ending
        return words.ENDS.get(ending, words.NO_VERDICT) if ending else words.NEVER_ENDED

    def row(self, name: str, instead: str = "") -> dict[str, Any]:
        """Return the run's row in its visitor's list; `instead`: words in place of its outcome."""
        unchecked = self.judged and self.order is None and not (instead or self.scripted)
        return {
            "name": name,
            "prompt": self.prompt[:MAX_TEXT],
            "judge": words.judge_line(self.judge[:MAX_TEXT]) if self.judge else "",
            "branch": self.branch[:1].upper() + self.branch[1:MAX_TEXT],
            "outcome": instead or self.outcome,
            "unchecked": NOT_SWAP_TESTED if unchecked else "",
            "begun": self.begun,  # seconds since 1970
            "over": instead != words.GOES_ON,
        }


COOKIE = "vr-thinker-visitor"


def owner_of(cookies: Mapping[str, str]) -> str:
    """Return these cookies' visitor as 64 hexadecimal digits; "" without ours."""
    value = cookies.get(COOKIE, "")
    is_ours = re.fullmatch(r"[A-Za-z0-9_-]{43}", value)  # 32 random bytes
    return hashlib.sha256(value.encode()).hexdigest() if is_ours else ""


def votes_first(cookies: Mapping[str, str]) -> bool:
    """Whether a visitor has switched on "Vote first" (`verdict.js` sets the cookie)."""
    return cookies.get("vote_first") == "on"


def check_seen(hidden: bool, said: str = words.HIDDEN) -> None:
    """Raise TraceError for what its visitor sees after they have voted."""
    if hidden:
        raise TraceError(said)


class History:
    """At most `max_bytes` bytes and `MAX_RUNS` runs in `folder`, each for `seconds`.

    The oldest go first. Each video is kept once, by its content: linked if `is_ours` says that
    nobody else writes to the file, copied otherwise. Safe to call from threads and processes.
    """

    def __init__(
        self,
        folder: Path,
        seconds: float = KEEP_SECONDS,
        max_bytes: int = MAX_BYTES,
        is_ours: Callable[[Path], bool] = lambda _: False,
    ) -> None:
        """Open the folder, or make it. With 0 `seconds` only links are kept. Raises OSError."""
        self.keeps = seconds > 0  # whether any visitor's run is kept
        self.help = words.kept_for(seconds) if self.keeps else words.NOT_KEPT
        self._seconds, self._max_bytes = seconds or KEEP_SECONDS, max_bytes
        self._is_ours = is_ours
        self._database = folder / "runs.sqlite"
        self._traces, self._videos = folder / "traces", folder / "videos"
        for each in (self._traces, self._videos):
            each.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._lock = threading.RLock()  # held while a run is read, merged and written
        earlier = [*(folder / "records").glob("*.json")]  # as earlier versions kept them
        with self._alone(check=True) as runs:
            runs.execute("PRAGMA user_version = 1")
            for path in earlier:
                with suppress(ValueError):
                    record = type_adapter(RunRecord).validate_json(path.read_bytes())
                    if NAME.fullmatch(path.stem):
                        self._insert(runs, path.stem, record)
        for path in earlier:  # not before they are in the table for good
            path.unlink(missing_ok=True)
        self.sweep()

    def rows(self, owner: str, votes_first: bool, hidden: Mapping[str, bool]) -> dict[str, Any]:
        """Return the rows of the visitor's runs by name, the latest first.

        `hidden`: of the runs that a page shows, whether the verdict is hidden. `votes_first`: so it
        is of other runs without a vote.
        """
        rows = {}
        for name, record in reversed(self._records(owner).items()):
            hide = hidden.get(name, votes_first and record.judged and not record.voted)
            rows[name] = record.row(name, words.HIDDEN if hide else "")
        return rows

    def open(self, owner: str, name: str) -> tuple[Trace, list[Path]]:
        """Return the visitor's trace and kept videos. Raises TraceError for other names."""
        record = self._records(owner).get(name)
        if record is None:
            raise TraceError(words.NO_SUCH_RUN)
        return load(self._traces / f"{name}.json"), self._files(record)

    def videos(self, owner: str, trace: Trace) -> list[Path]:
        """Return the kept videos of this trace that the visitor's own runs compared."""
        digests = {clip.digest for clip in trace.started.clips if clip}
        records = self._records(owner).values()
        kept = [each for each in records if digests & {video[:64] for video in each.videos}]
        return [path for record in kept for path in self._files(record)]

    def keep(self, owner: str, trace: Trace, videos: Sequence[Path] = ()) -> str:
        """Keep a saved run that was opened; its name, "" if it is not kept."""
        name = secrets.token_hex(12)
        return name if self.update(name, owner, trace, time.time(), videos, again=False) else ""

    def update(
        self, name: str, owner: str, trace: Trace, begun: float, videos: Sequence[Path], again: bool
    ) -> bool:
        """Keep a run so far, `again` unless it has been deleted; return whether it is kept."""
        if not self.keeps or not owner:
            return False
        try:
            with self._alone() as runs:  # the latest state is kept last
                before = self._get(name)
                if before is not None:
                    begun = before.begun
                    with suppress(TraceError):  # one that is damaged is replaced
                        trace = merge_traces(trace, load(self._traces / f"{name}.json"))
                elif again:
                    return False
                kept = before.videos if before and before.videos else self._keep_videos(videos)
                record = RunRecord.of(owner, trace, begun, time.time() + self._seconds)
                self._put(runs, name, replace(record, videos=kept), trace)
                if before is None or trace.finished:  # not at each turn: every file is looked at
                    self._drop_old(runs)
            if before is None and (oldest := list(self._records(owner))[:-MAX_LISTED]):
                self.delete(owner, oldest)
            return True
        except OSError as error:
            told = error.strerror or error
            logging.getLogger(__name__).warning("A run could not be kept: %s", told)
            return False

    def delete(self, owner: str, names: Collection[str] | None = None) -> None:
        """Delete the visitor's runs of these names, or all, with the links to them."""
        with self._alone() as runs:
            found = self._records(owner, links=names is None)
            gone = {name for name in found if names is None or name in names}
            links = runs.execute("SELECT name, origin FROM runs WHERE origin != ''")
            gone |= {name for name, origin in links if origin in gone}
            self._remove(runs, gone)

    def share(self, run: str, trace: Trace, owner: str = "", videos: Sequence[Path] = ()) -> str:
        """Keep a run's trace for `?trace=NAME`; return its only name. Raises OSError."""
        with self._alone() as runs:
            for name in self._select("origin = ? AND owner = ?", run, owner):
                with suppress(TraceError):  # a damaged one
                    if load(self._traces / f"{name}.json") == trace:
                        return name
            name, now = secrets.token_hex(12), time.time()
            record = RunRecord.of(owner, trace, now, now + self._seconds, origin=run)
            self._put(runs, name, replace(record, videos=self._keep_videos(videos)), trace)
            self._drop_old(runs)
        if self._get(name) is None:
            raise OSError(words.NO_ROOM)
        return name

    def is_link(self, name: str) -> bool:
        """Whether `?trace=NAME` leads to a run here."""
        return bool((record := self._get(name)) and record.origin)

    def linked(self, name: str) -> tuple[Trace, list[Path]]:
        """Return trace and kept videos behind `?trace=NAME`. Raises TraceError without one."""
        record = self._get(name)
        if record is None or not record.origin:
            raise TraceError(words.NO_SUCH_LINK)
        return load(self._traces / f"{name}.json"), self._files(record)

    def sweep(self) -> None:
        """Remove runs that are too old or too many, and files without a row."""
        with self._alone() as runs:
            for folder in (self._traces, self._videos):
                remove_parts(folder)
            self._drop_old(runs)
            self._remove(runs, ())

    # -- the folder ------------------------------------------------------------------------------

    @contextmanager
    def _alone(self, check: bool = False) -> Iterator[sqlite3.Connection]:
        """Give the table, with nobody else in the folder. Raises OSError."""
        with self._lock, self._table(check) as runs, runs:
            runs.execute("BEGIN IMMEDIATE")
            yield runs

    @contextmanager
    def _table(self, check: bool = False) -> Iterator[sqlite3.Connection]:
        try:
            with closing(self._connect(check)) as runs:
                yield runs
        except sqlite3.Error as error:
            raise OSError(f"the list of runs cannot be used: {error}") from error

    def _connect(self, check: bool = False) -> sqlite3.Connection:
        """Open the table; put a damaged one aside. Without `check` only its head is checked."""
        runs = sqlite3.connect(self._database, timeout=LOCK_SECONDS, isolation_level=None)
        try:
            runs.execute(TABLE)
            if check and (found := runs.execute("PRAGMA quick_check").fetchone()) != ("ok",):
                raise sqlite3.DatabaseError(found)
            return runs
        except sqlite3.DatabaseError as error:
            runs.close()
            if isinstance(error, sqlite3.OperationalError):  # locked, or the disk is full
                raise
            self._database.replace(self._database.with_suffix(".damaged"))
            return self._connect()

    def _insert(self, runs: sqlite3.Connection, name: str, record: RunRecord) -> None:
        json = type_adapter(RunRecord).dump_json(record)
        values = name, record.owner, record.begun, record.until, record.origin, json
        runs.execute("INSERT OR REPLACE INTO runs VALUES (?, ?, ?, ?, ?, ?)", values)

    def _select(self, where: str, *values: object) -> dict[str, RunRecord]:
        """Readable records by name, the oldest first. Raises OSError."""
        query = f"SELECT name, record FROM runs WHERE until > ? AND {where} ORDER BY begun"
        with self._table() as runs:
            rows = runs.execute(query, (time.time(), *values)).fetchall()
        found = {}
        for name, json in rows:
            with suppress(ValueError):  # of pydantic: a row of another version
                found[name] = type_adapter(RunRecord).validate_json(json)
        return found

    def _get(self, name: str) -> RunRecord | None:
        return self._select("name = ?", name).get(name) if NAME.fullmatch(name) else None

    def _records(self, owner: str, links: bool = False) -> dict[str, RunRecord]:
        if not owner or not self.keeps:
            return {}
        return self._select("owner = ?" if links else "owner = ? AND origin = ''", owner)

    def _files(self, record: RunRecord) -> list[Path]:
        return [path for name in record.videos if (path := self._videos / name).is_file()]

    def _put(self, runs: sqlite3.Connection, name: str, record: RunRecord, trace: Trace) -> None:
        """Keep a run. Raises OSError."""
        write_atomically(self._traces / f"{name}.json", to_json(trace))
        self._insert(runs, name, record)

    def _keep_videos(self, paths: Sequence[Path]) -> tuple[str, ...]:
        """Keep videos; return the names of those that could be kept."""
        names = []
        for path in paths:
            with suppress(OSError):  # one of more than half of all bytes is not even read
                if path.stat().st_size > self._max_bytes // 2 or not (digest := file_digest(path)):
                    continue
                suffix = path.suffix.lower()
                name = digest + (suffix if re.fullmatch(r"\.[a-z0-9]{1,8}", suffix) else "")
                link_or_copy(path, self._videos / name, may_link=self._is_ours(path))
                names.append(name)
        return tuple(names)

    def _drop_old(self, runs: sqlite3.Connection) -> None:
        """Remove runs that are too old, and the oldest until the others have room."""
        rows = runs.execute("SELECT name, until FROM runs ORDER BY begun").fetchall()
        traces = {path.stem for path in self._traces.iterdir()}  # a crash may cost one
        gone = {name for name, until in rows if until <= time.time() or name not in traces}
        if gone:
            self._remove(runs, gone)
        names = [name for name, _ in rows if name not in gone]
        while names and (len(names) > MAX_RUNS or self._bytes() > self._max_bytes):
            self._remove(runs, {names.pop(0)})

    def _remove(self, runs: sqlite3.Connection, names: Collection[str]) -> None:
        """Remove these runs, and every file that no run names."""
        runs.executemany("DELETE FROM runs WHERE name = ?", [(name,) for name in names])
        named = set()
        for name, json in runs.execute("SELECT name, record FROM runs"):
            named.add(self._traces / f"{name}.json")
            with suppress(ValueError):
                record = type_adapter(RunRecord).validate_json(json)
                named |= {self._videos / video for video in record.videos}
        videos = (path for path in self._videos.iterdir() if VIDEO.fullmatch(path.name))
        for path in {*self._traces.glob("*.json"), *videos} - named:
            path.unlink(missing_ok=True)

    def _bytes(self) -> int:
        files = (*self._traces.iterdir(), *self._videos.iterdir())
        return sum(path.stat().st_size for path in files)


@dataclass(frozen=True, slots=True)
class SavedRun:
    """A trace, and its source."""

    trace: Trace
    videos: Sequence[Path] = ()  # files that are kept with it, or an example's own
    link: str = ""  # the name in `?trace=NAME`
    kept: str = ""  # the name in `?run=NAME`, by which its visitor opens it
    credit: str = ""  # of an example's footage that is not ours: title, owner and licence


class Examples:
    """The readable examples in `folder`, in the order of their rows."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.by_name: dict[str, SavedRun] = {}
        rows = {kind: row for row, kind in enumerate(words.EXAMPLE_ROWS)}
        paths = sorted(folder.glob("*/trace.json"))
        # Those in no row come last
        paths.sort(key=lambda path: rows.get(path.parent.name.partition("-")[0], len(rows)))
        for path in paths:
            videos = (path.with_name("first.mp4"), path.with_name("second.mp4"))
            with suppress(TraceError):
                source, credit = path.with_name("SOURCE.txt"), ""
                if source.is_file():
                    credit = source.read_text(encoding="utf-8").partition("\n")[0]
                self.by_name[path.parent.name] = SavedRun(load(path), videos, credit=credit)

    @property
    def seconds(self) -> list[float]:
        """How long each run took, the shortest first; a script's time says nothing."""
        ends = (example.trace.finished for example in self.by_name.values())
        return sorted(end.seconds for end in ends if end and not end.scripted)

    def cards(self, thumbnails_of: Callable[[str], ThumbnailFiles]) -> list[dict[str, Any]]:
        """Return name, row (its heading), title, prompt, what it is, and a picture of each video."""
        cards = []
        for name, example in self.by_name.items():
            thumbnails = thumbnails_of(name)
            started, turns = example.trace.started, example.trace.turns
            tiles = group_tiles(turns[0].frames) if turns else []
            halves = tiles[len(tiles) // 2].halves if tiles else {}
            kind, _, rest = name.partition("-")
            title = rest if kind in words.EXAMPLE_ROWS else name
            title = title.lstrip("0123456789-").replace("-", " ")
            drawn = all(clip and clip.drawn for clip in started.clips)
            credit = words.REAL_FOOTAGE.format(example.credit) if example.credit else ""
            about = credit or " · ".join([words.DRAWN] * drawn + [count(len(turns), "turn")])
            cards.append(
                {
                    "name": name,
                    "row": words.EXAMPLE_ROWS.get(kind, words.EXAMPLES),
                    "title": title[:1].upper() + title[1:],
                    "prompt": started.prompt,
                    "about": about,
                    "folded": kind == words.FOLDED,
                    "pictures": [thumbnails(halves[s]).src if s in halves else "" for s in Side],
                }
            )
        return cards
