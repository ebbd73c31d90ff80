"""Saved runs: each visitor's own, links to them, and examples.

Runs of visitors lie in a folder that servers may share: traces and videos as files, all else in
`runs.sqlite`. A file that no row names was left by a killed server.
"""

import errno
import logging
import math
import os
import re
import secrets
import shutil
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from sqlite3 import Connection
from typing import Annotated, Any, TypeVar

from pydantic import Field

from vrthinker_core.errors import TraceError, type_adapter
from vrthinker_core.storage import link_or_copy, remove_parts, write_atomically
from vrthinker_core.traces import load, merge_traces, to_json
from vrthinker_core.types import Preference, Side
from vrthinker_core.types.events import StopReason, Trace
from vrthinker_core.types.order import OrderEffect
from vrthinker_core.types.wording import DEMO_RUN, SCRIPTED
from vrthinker_core.ui import words
from vrthinker_core.ui.view import RunView, ThumbnailFiles, group_tiles
from vrthinker_core.video.files import file_digest
from vrthinker_core.words import count

T = TypeVar("T")

MAX_TEXT = 400  # characters of the prompt, of the judge's name, and of the branch's
MAX_LISTED = 200  # runs of one visitor, the latest
MAX_BYTES = 4 * 10**9
MAX_RUNS = 5000
MAX_UNWRITTEN = 50  # runs in memory that could not be written yet
KEEP_SECONDS = 24 * 3600.0
LOCK_SECONDS = 10.0  # for another server to finish with the folder, while nobody waits
READ_SECONDS = 1.0  # for the same, while an event waits
PATIENCE_SECONDS = 0.5  # of a run or an event for the writer
BALLAST_BYTES = 4 * 2**20  # given up when the disk is full
RESERVED_BYTES = 2**20  # of table and journal, for what a full disk must allow
RESERVE = 0.05  # of what is free and kept: beneath it the oldest runs go

NAME = re.compile(r"[0-9a-f]{24}")  # of a run; it cannot be guessed
VIDEO = re.compile(r"[0-9a-f]{64}(\.[a-z0-9]{1,8})?")  # SHA-256 of its content, and its suffix
TABLE = """CREATE TABLE IF NOT EXISTS runs (
    name TEXT PRIMARY KEY, owner TEXT NOT NULL, begun REAL NOT NULL, until REAL NOT NULL,
    origin TEXT NOT NULL, record BLOB NOT NULL)"""
# Each statement commits: the second one writes what the first wrote into the journal
FILL = f"""CREATE TABLE IF NOT EXISTS reserve (filling BLOB);
    INSERT INTO reserve VALUES (randomblob({RESERVED_BYTES}));
    UPDATE reserve SET filling = randomblob({RESERVED_BYTES});
    DROP TABLE reserve"""

ShortText = Annotated[str, Field(max_length=MAX_TEXT)]
VideoName = Annotated[str, Field(pattern=f"^{VIDEO.pattern}$")]
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
    videos: Annotated[tuple[VideoName, ...], Field(max_length=2)] = ()  # that it compared
    # Of a link: the run that it shows
    origin: Annotated[str, Field(pattern=f"^({NAME.pattern})?$")] = ""
    voted: bool = False  # there is a vote on it
    branch: ShortText = ""  # what a branch is called; "" for a run that is none

    @classmethod
    def of(cls, owner: str, trace: Trace, begun: float, until: float, **kept: Any) -> "RunRecord":
        """Return the record of that run; `kept`: its videos, and the origin of a link."""
        view = RunView(trace)
        return cls(
            owner,
            trace.started.prompt[:MAX_TEXT],
            trace.started.judge[:MAX_TEXT],
            begun,
            until,
            ending=view.finished.stop if view.finished else None,
            judged=view.verdict is not None,
            overall=view.verdict.OA if view.verdict else None,
            outside_scope=view.outside_scope,
            scripted=view.scripted,
            order=view.order.overall if view.order else None,
            voted=trace.vote is not None,
            branch=view.name[:MAX_TEXT],
            **kept,
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
        tells = self.judged and not (instead or self.scripted)
        verb = "by" if self.order is OrderEffect.FLIPS else "says" if self.judged else "asked"
        is_other = self.branch == f"judge {self.judge}"  # which is said below
        return {
            "name": name,
            "prompt": self.prompt[:MAX_TEXT],
            "judge": words.judge_line(self.judge, verb=verb) if self.judge else "",
            "branch": "" if is_other else self.branch[:1].upper() + self.branch[1:MAX_TEXT],
            "outcome": instead or self.outcome,
            "unchecked": words.ORDER_LINES[self.order] if tells else "",
            "begun": self.begun,  # seconds since 1970
            "over": instead != words.GOES_ON,
        }


def votes_first(cookies: Mapping[str, str]) -> bool:
    """Whether a visitor votes blind (`blind.js` sets the cookie)."""
    return cookies.get("vote_first") == "on"


def check_seen(hidden: bool, said: str = words.HIDDEN) -> None:
    """Raise TraceError for what its visitor sees after they have voted."""
    if hidden:
        raise TraceError(said)


@dataclass(frozen=True, slots=True)
class _Unwritten:
    """A run so far that is not in the folder yet."""

    owner: str
    trace: Trace
    begun: float
    videos: Sequence[Path]
    again: bool  # It has been kept before, so it was deleted if no row names it


class History:
    """About `max_bytes` bytes and `MAX_RUNS` runs in `folder`, each for `seconds`.

    If more room is needed, the largest owner's oldest run goes first. Each video is kept once, by
    its content: linked if `is_ours` says that nobody else writes to the file, copied otherwise.
    Safe to call from threads and processes.

    One thread writes, and no event waits long for it: what cannot be written now is kept in memory
    until it can. A full disk takes nothing away: the table's journal exists beforehand, rows are
    marked before their files go, and `BALLAST_BYTES` are given up for the next write.
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
        self._ahead = time.time() - time.monotonic()  # a clock that jumps makes no run old
        self._database, self._ballast = folder / "runs.sqlite", folder / "ballast"
        self._traces, self._videos = folder / "traces", folder / "videos"
        for each in (self._traces, self._videos):
            each.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._lock = threading.RLock()  # of what is in memory
        self._unwritten: dict[str, _Unwritten] = {}
        self._gone: set[str] = set()  # deleted, but not yet in the folder
        self._writer = ThreadPoolExecutor(1, "history")
        self._checked = False  # the whole table, not only its head
        earlier = [*(folder / "records").glob("*.json")]  # as earlier versions kept them
        with self._table() as runs:
            for path in earlier:
                with suppress(ValueError):
                    record = type_adapter(RunRecord).validate_json(path.read_bytes())
                    if NAME.fullmatch(path.stem):
                        self._insert(runs, path.stem, record)
        for path in earlier:  # not before they are in the table for good
            path.unlink(missing_ok=True)
        self.sweep()

    def rows(self, owner: str, votes_first: bool, hidden: Mapping[str, bool]) -> dict[str, Any]:
        """Return the rows of the visitor's latest runs by name, the latest first.

        `hidden`: of the runs that a page shows, whether the verdict is hidden. `votes_first`: so it
        is of other runs without a vote. Raises TraceError if the table cannot be read now.
        """
        latest, rows = sorted(self._records(owner).items(), key=lambda row: -row[1].begun), {}
        for name, record in latest[:MAX_LISTED]:
            hide = hidden.get(name, votes_first and record.judged and not record.voted)
            rows[name] = record.row(name, words.HIDDEN if hide else "")
        return rows

    def open(self, owner: str, name: str) -> tuple[Trace, list[Path]]:
        """Return the visitor's trace and kept videos. Raises TraceError for other names."""
        if (run := self._unwritten_of(owner).get(name)) is not None:
            return run.trace, [*run.videos]
        if (record := self._records(owner).get(name)) is None:
            raise TraceError(words.NO_SUCH_RUN)
        return load(self._traces / f"{name}.json"), self._files(record.videos)

    def videos(self, owner: str, trace: Trace) -> list[Path]:
        """Return the kept videos of this trace that the visitor's own runs compared."""
        digests = {clip.digest for clip in trace.started.clips if clip}
        own = self._records(owner).values()
        kept = {video[:64]: video for record in own for video in record.videos}
        return self._files([kept[digest] for digest in digests & kept.keys()])

    def keep(self, owner: str, trace: Trace, videos: Sequence[Path] = ()) -> str:
        """Keep a saved run that was opened; its name, "" if it is not kept.

        A trace that the visitor has kept already stays the same run.
        """
        data = to_json(trace)
        for name in self._records(owner):
            with suppress(OSError):
                path = self._traces / f"{name}.json"
                if path.stat().st_size == len(data) and path.read_bytes() == data:
                    return name
        name = secrets.token_hex(12)
        return name if self.update(name, owner, trace, time.time(), videos, again=False) else ""

    def update(
        self, name: str, owner: str, trace: Trace, begun: float, videos: Sequence[Path], again: bool
    ) -> bool:
        """Keep a run so far, `again` unless it has been deleted; return whether it is kept.

        A run that cannot be written now stays in memory until it can be.
        """
        if not self.keeps or not owner:
            return False
        with self._lock:
            before = self._unwritten.get(name)
            again = again and (before is None or before.again)
            self._unwritten[name] = _Unwritten(owner, trace, begun, videos, again)
            for oldest in [*self._unwritten][:-MAX_UNWRITTEN]:
                del self._unwritten[oldest]
        written = self._writer.submit(self._write, name)
        with suppress(TimeoutError):
            return written.result(PATIENCE_SECONDS)
        return True

    def delete(self, owner: str, names: Collection[str] | None = None) -> None:
        """Delete the visitor's runs of these names, or all, with the links to them."""
        found = {*self._records(owner, links=names is None)}
        gone = found if names is None else found.intersection(names)
        with self._lock:
            for name in gone:
                self._unwritten.pop(name, None)
            self._gone |= gone
        with suppress(TimeoutError):
            self._writer.submit(self._remove_gone).result(PATIENCE_SECONDS)

    def share(self, run: str, trace: Trace, owner: str = "", videos: Sequence[Path] = ()) -> str:
        """Keep a run's trace for `?trace=NAME`; return its only name. Raises OSError."""

        def work(runs: Connection) -> str:
            for name in self._select("origin = ? AND owner = ?", run, owner):
                with suppress(TraceError):  # a damaged one
                    if load(self._traces / f"{name}.json") == trace:
                        return name
            name, kept = secrets.token_hex(12), self._keep_videos(videos)
            self._put(runs, name, owner, trace, self._now(), videos=kept, origin=run)
            return name

        return self._writer.submit(self._with_room, work).result(LOCK_SECONDS)

    def is_link(self, name: str) -> bool:
        """Whether `?trace=NAME` leads to a run here."""
        return bool((record := self._get(name)) and record.origin)

    def linked(self, name: str) -> tuple[Trace, list[Path]]:
        """Return trace and kept videos behind `?trace=NAME`. Raises TraceError without one."""
        if (record := self._get(name)) is None or not record.origin:
            raise TraceError(words.NO_SUCH_LINK)
        return load(self._traces / f"{name}.json"), self._files(record.videos)

    def sweep(self) -> None:
        """Write what could not be written; remove old runs, and files without a row."""
        self._writer.submit(self._sweep).result()

    # -- the writer's thread -----------------------------------------------------------------------

    def _sweep(self) -> None:
        for name in [*self._unwritten]:
            self._write(name)
        for folder in (self._traces, self._videos):
            remove_parts(folder)
        self._remove_gone()
        with self._table() as runs:
            self._make_room(runs)
        if not self._ballast.exists():
            with suppress(OSError):
                with self._table() as runs:
                    runs.executescript(FILL)
                if shutil.disk_usage(self._traces).free > 2 * BALLAST_BYTES:  # zeros take no room
                    write_atomically(self._ballast, os.urandom(BALLAST_BYTES))

    def _write(self, name: str) -> bool:
        """Write a run so far; return whether it is kept, and keep it in memory if it is not."""
        with self._lock:
            run = self._unwritten.get(name)
        if run is None:
            return self._get(name) is not None

        def work(runs: Connection) -> bool:
            before, trace, begun = self._get(name), run.trace, run.begun
            if before is not None:
                begun = before.begun
                with suppress(TraceError):  # one that is damaged is replaced
                    trace = merge_traces(trace, load(self._traces / f"{name}.json"))
            elif run.again:
                return False
            kept = before.videos if before else ()
            if not kept:
                needs = sum(path.stat().st_size for path in run.videos if path.is_file())
                if shutil.disk_usage(self._videos).free < needs:
                    self._make_room(runs, needs)
                kept = self._keep_videos(run.videos)
            self._put(runs, name, run.owner, trace, begun, videos=kept)
            if before is None or trace.finished:  # not at each turn: every file is looked at
                self._make_room(runs)
            return True

        try:
            kept = self._with_room(work)
        except (OSError, TraceError) as error:
            told = getattr(error, "strerror", None) or error
            logging.getLogger(__name__).warning("A run could not be kept yet: %s", told)
            return False
        with self._lock:
            if self._unwritten.get(name) is run:
                del self._unwritten[name]
        return kept

    def _remove_gone(self) -> None:
        """Remove what was deleted, with the links to it; later if the table cannot be used."""
        with self._lock:
            gone = {*self._gone}

        def work(runs: Connection) -> None:
            links = runs.execute("SELECT name, origin FROM runs WHERE origin != ''")
            self._remove(runs, gone | {name for name, origin in links if origin in gone})

        try:
            self._with_room(work)
        except OSError as error:
            logging.getLogger(__name__).warning("Runs could not be deleted yet: %s", error)
            return
        with self._lock:
            self._gone -= gone

    def _with_room(self, work: Callable[[Connection], T]) -> T:
        """Do some work alone; on a full disk once more, without ballast and old runs."""
        try:
            with self._table() as runs:
                return work(runs)
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            self._ballast.unlink(missing_ok=True)
        with self._table() as runs:
            self._make_room(runs)
            self._remove(runs, ())
        with self._table() as runs:
            return work(runs)

    @contextmanager
    def _table(
        self, begin: str = "BEGIN IMMEDIATE", patience: float = LOCK_SECONDS
    ) -> Iterator[Connection]:
        """Give the table, by default with nobody else in the folder. Raises OSError."""
        try:
            with closing(self._connect(patience)) as runs, runs:
                runs.execute(begin)
                yield runs
        except sqlite3.Error as error:
            full = getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_FULL
            told = f"the list of runs cannot be used: {error}"
            raise OSError(errno.ENOSPC if full else errno.EIO, told) from error

    def _connect(self, patience: float) -> Connection:
        """Open the table; put a damaged one aside."""
        runs = sqlite3.connect(self._database, timeout=patience, isolation_level=None)
        try:
            # A journal that stays needs no room on a full disk; one in memory would not outlive us
            runs.execute("PRAGMA journal_mode = PERSIST")
            runs.execute(TABLE)  # This reads the head of the file alone
            if not self._checked and runs.execute("PRAGMA quick_check(1)").fetchone() != ("ok",):
                raise sqlite3.DatabaseError
            self._checked = True
            return runs
        except sqlite3.DatabaseError as error:
            runs.close()
            if isinstance(error, sqlite3.OperationalError):  # locked, or the disk is full
                raise
            self._database.replace(self._database.with_suffix(".damaged"))
            return self._connect(patience)

    def _now(self) -> float:
        """Seconds since 1970 by a clock that only goes forward."""
        return self._ahead + time.monotonic()

    def _insert(self, runs: Connection, name: str, record: RunRecord) -> None:
        json = type_adapter(RunRecord).dump_json(record)
        values = name, record.owner, record.begun, record.until, record.origin, json
        runs.execute("INSERT OR REPLACE INTO runs VALUES (?, ?, ?, ?, ?, ?)", values)

    def _select(self, where: str, *values: object) -> dict[str, RunRecord]:
        """Readable records by name, the oldest first. Raises TraceError if it takes too long."""
        query = f"SELECT name, record FROM runs WHERE until > ? AND {where} ORDER BY begun"
        try:
            with self._table("BEGIN", READ_SECONDS) as runs:
                rows = runs.execute(query, (self._now(), *values)).fetchall()
        except OSError:
            raise TraceError(words.LIST_BUSY) from None
        found = {}
        for name, json in rows:
            with suppress(ValueError):  # of pydantic: a row of another version
                if name not in self._gone:
                    found[name] = type_adapter(RunRecord).validate_json(json)
        return found

    def _get(self, name: str) -> RunRecord | None:
        return self._select("name = ?", name).get(name) if NAME.fullmatch(name) else None

    def _records(self, owner: str, links: bool = False) -> dict[str, RunRecord]:
        if not owner or not self.keeps:
            return {}
        found = self._select("owner = ?" if links else "owner = ? AND origin = ''", owner)
        for name, run in self._unwritten_of(owner).items():
            found[name] = RunRecord.of(owner, run.trace, run.begun, math.inf)
        return found

    def _unwritten_of(self, owner: str) -> dict[str, _Unwritten]:
        with self._lock:
            return {name: run for name, run in self._unwritten.items() if run.owner == owner}

    def _files(self, names: Sequence[str]) -> list[Path]:
        return [path for name in names if (path := self._videos / name).is_file()]

    def _put(
        self, runs: Connection, name: str, owner: str, trace: Trace, begun: float, **kept: Any
    ) -> None:
        """Keep a run. Raises OSError."""
        write_atomically(self._traces / f"{name}.json", to_json(trace))
        until = self._now() + self._seconds
        self._insert(runs, name, RunRecord.of(owner, trace, begun, until, **kept))

    def _keep_videos(self, paths: Sequence[Path]) -> tuple[str, ...]:
        """Keep videos; return the names of those that could be kept."""
        names = []
        for path in paths:
            with suppress(OSError):  # one of more than half of all bytes is not even read
                if path.stat().st_size <= self._max_bytes // 2 and (digest := file_digest(path)):
                    whole = digest + path.suffix.lower()
                    name = whole if VIDEO.fullmatch(whole) else digest
                    link_or_copy(path, self._videos / name, may_link=self._is_ours(path))
                    names.append(name)
        return tuple(names)

    def _rows(self, runs: Connection) -> Iterator[tuple[str, str, float, list[str]]]:
        """Yield name, owner, end and files of each run, the latest first; its trace first."""
        query = "SELECT name, owner, until, record FROM runs ORDER BY begun DESC"
        for name, owner, until, json in runs.execute(query):
            files = [f"{name}.json"]
            with suppress(ValueError):
                files += type_adapter(RunRecord).validate_json(json).videos
            yield name, owner, until, files

    def _all_files(self) -> list[Path]:
        """Return all traces and videos that are whole."""
        paths = (*self._traces.iterdir(), *self._videos.iterdir())
        return [path for path in paths if path.suffix == ".json" or VIDEO.fullmatch(path.name)]

    def _make_room(self, runs: Connection, needs: int = 0) -> None:
        """Remove runs that are too old; then, for room, the oldest of the largest owner.

        `needs`: bytes that are to be free besides the reserve.
        """
        sizes = Counter({path.name: path.stat().st_size for path in self._all_files()})
        needed, gone, free = Counter[str](), set[str](), shutil.disk_usage(self._traces).free
        counts, held = Counter[str](), Counter[str]()
        rows = list[tuple[int, int, str, list[str]]]()  # with what its owner has since this run
        for name, owner, until, files in self._rows(runs):
            if until <= self._now() or files[0] not in sizes:  # a crash may cost one
                gone.add(name)
                free += sizes[files[0]]
                continue
            counts[owner] += 1
            held[owner] += sum(sizes[each] for each in files)
            rows.append((counts[owner], held[owner], name, files))
            needed.update(files)
        taken, extra = sum(sizes[each] for each in needed), max(0, len(rows) - MAX_RUNS)
        needs = needs if needs < free + taken else 0  # else nothing helps
        rows = sorted(rows, key=lambda row: row[0])[::-1]  # of equal ones the oldest first
        rows[extra:] = sorted(rows[extra:], key=lambda row: -row[1])
        for number, (*_, name, files) in enumerate(rows):
            reserve = RESERVE * (free + taken) + needs
            if number >= extra and taken <= self._max_bytes and free >= reserve:
                break
            gone.add(name)
            needed.subtract(files)
            freed = sum(sizes[each] for each in files if not needed[each])
            taken, free = taken - freed, free + freed
        if gone:
            self._remove(runs, gone)

    def _remove(self, runs: Connection, names: Collection[str]) -> None:
        """Mark runs as too old; remove every file that no other run names, then the marked rows.

        A mark changes a row in place, which a full disk allows.
        """
        runs.executemany("UPDATE runs SET until = 0 WHERE name = ?", [(name,) for name in names])
        runs.commit()
        runs.execute("BEGIN IMMEDIATE")
        named = {file for *_, until, files in self._rows(runs) if until > 0 for file in files}
        for path in self._all_files():
            if path.name not in named:
                path.unlink(missing_ok=True)
        runs.execute("DELETE FROM runs WHERE until = 0")


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
    def videos(self) -> list[Path]:
        """The videos of all."""
        return [path for example in self.by_name.values() for path in example.videos]

    def cards(self, thumbnails_of: Callable[[str], ThumbnailFiles]) -> list[dict[str, Any]]:
        """Return name, row (its heading), title, prompt, what it is, and a picture of each video.

        `hero`: of real footage, the clips and what is asked of them.
        """
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
            credit = f"Scripted. Real footage: {example.credit}" if example.credit else ""
            clips = [f"examples/{name}/{video.name}" for video in example.videos]
            about = credit or " · ".join(["Drawn"] * drawn + [count(len(turns), "turn")])
            cards.append(
                {
                    "name": name,
                    "row": words.EXAMPLE_ROWS.get(kind, "Examples"),
                    "title": title[:1].upper() + title[1:],
                    "prompt": started.prompt,
                    "about": about,
                    "folded": kind == words.FOLDED,
                    "hero": credit and {**words.HERO, "clips": clips},
                    "pictures": [thumbnails(halves[s]).src if s in halves else "" for s in Side],
                }
            )
        return cards
