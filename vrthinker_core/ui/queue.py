"""The judge's queue, and what leans on Gradio's insides; `test_gradio_reliance.py` holds that.

Gradio's queue (`max_size`) carries every event of a page. A run waits in `JudgeQueue` for a judge.
"""

import copy
import math
import re
import sys
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from contextvars import ContextVar
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import gradio as gr
from gradio import routes
from gradio.blocks import convert_component_dict_to_list
from gradio.exceptions import InvalidPathError
from gradio.processing_utils import hash_file
from gradio.queueing import Queue
from gradio.route_utils import upload_fn
from gradio.state_holder import SessionState, StateHolder
from gradio.utils import get_upload_folder
from gradio_client.utils import async_traverse  # type: ignore[import-untyped]
from starlette.requests import Request

from vrthinker_core.errors import BadInput
from vrthinker_core.ui import words
from vrthinker_core.ui.visitors import (
    EVENTS,
    UNKNOWN,
    Limit,
    Visitor,
    in_turns,
    refusal_of,
    visitor_of,
)

EXPECT_SECONDS = 5.0  # for a program's run to join the line, once its event is taken
RUNS_WAITING = 2  # of one share, if others wait for the same device

Line = dict[object, Visitor]  # Runs, and whose they are


class JudgeQueue:
    """Each device takes as many runs at once as it may; visitors take turns."""

    def __init__(
        self,
        waiting: int = 24,
        place: Callable[[str], tuple[str, int]] = lambda _: ("local", 1),
        is_loaded: Callable[[str], bool] = lambda _: True,
    ) -> None:
        """Let about `waiting` runs wait for a device.

        Beyond them only who has a fair part already is refused: see `refusal_of`. `place` gives
        the device of a judge and how many runs it takes at once. A run whose judge is not loaded
        yet lets later ones pass.
        """
        self._most, self._place, self._is_loaded = waiting, place, is_loaded
        self._waiting: dict[object, tuple[str, Visitor]] = {}  # runs: judge, whose; in order
        self._running: dict[object, tuple[str, Visitor]] = {}  # the same
        self._coming: list[tuple[float, Visitor]] = []  # programs' runs that have not joined yet
        self._lock = threading.RLock()

    def check(self, judge: str, visitor: Visitor = UNKNOWN) -> None:
        """Raise BadInput if the visitor may not let another run wait for that judge's device."""
        with self._lock:
            if told := self._refusal(judge, visitor):
                raise BadInput(told)

    def _refusal(self, judge: str, visitor: Visitor, coming: Iterable[Visitor] = ()) -> str:
        running, waiting, width = self._line(judge)
        shares = [each.share for each in (*running.values(), *waiting.values(), *coming)]
        own = sum(each.share == visitor.share for each in waiting.values())
        if visitor.counted and RUNS_WAITING * visitor.shares <= own < len(waiting):
            told = f"{own} of your comparisons wait already, and others wait, too."
            return f"{told} Try again once one begins."
        limit = Limit(math.inf, self._most + width, words.BUSY, words.BUSY)
        return refusal_of(limit, visitor, Counter(shares))

    def expect(self, judges: Iterable[str], visitor: Visitor = UNKNOWN) -> bool:
        """Note a program's run that is about to join; False if no judge has room for it."""
        with self._lock:
            earliest = time.monotonic() - EXPECT_SECONDS
            self._coming = [each for each in self._coming if each[0] > earliest]
            coming = [each for _, each in self._coming]
            if all(self._refusal(judge, visitor, coming) for judge in judges):
                return False
            self._coming.append((time.monotonic(), visitor))
            return True

    def arrived(self) -> None:
        """Expect one program less: it has joined, or has been refused."""
        with self._lock:
            self._coming = self._coming[1:]

    def join(self, run: object, judge: str, visitor: Visitor = UNKNOWN) -> None:
        """Let a run wait. Raises BadInput if too many do."""
        with self._lock:
            self.check(judge, visitor)
            self._waiting[run] = judge, visitor

    def take(self, run: object) -> bool:
        """Return whether the run may begin; from then on it holds its place until `leave`."""
        with self._lock:
            if run not in self._waiting:
                return False
            running, waiting, width = self._line(self._waiting[run][0])
            ready = [each for each in waiting if self._is_loaded(self._waiting[each][0])]
            if run not in ready[: max(0, width - len(running))]:
                return False
            self._running[run] = self._waiting.pop(run)
            return True

    def leave(self, run: object) -> None:
        """Give up the run's place, running or waiting."""
        with self._lock:
            self.withdraw(run)
            self._running.pop(run, None)

    def withdraw(self, run: object) -> None:
        """Wait no more; a run that has begun keeps its place."""
        with self._lock:
            self._waiting.pop(run, None)

    def before(self, run: object) -> int:
        """Return how many runs go before a waiting one."""
        with self._lock:
            if run not in self._waiting:
                return 0
            running, waiting, _ = self._line(self._waiting[run][0])
            return [*running, *waiting].index(run)

    def counts(self) -> tuple[int, int]:
        """Return how many runs a judge has, and how many wait."""
        with self._lock:
            return len(self._running), len(self._waiting)

    def _line(self, judge: str) -> tuple[Line, Line, int]:
        """The runs that the judge's device has, those that wait in turns, and how many it takes."""
        device, width = self._place(judge)
        running, waiting = (
            {run: whose for run, (judge, whose) in runs.items() if self._place(judge)[0] == device}
            for runs in (self._running, self._waiting)
        )
        return running, in_turns(waiting, running.values()), width


class QuickState(SessionState):
    """Gradio's session without what only its links need: 20 ms in which nobody is answered."""

    def __init__(self, blocks: gr.Blocks) -> None:
        """Keep no configuration of the components of `blocks`."""
        shown = SimpleNamespace(default_config=blocks.default_config, blocks=())
        super().__init__(cast(gr.Blocks, shown))

    def _update_value_in_config(self, key: int, value: object) -> None:
        """Keep no copy of a value."""


class QuickStates(StateHolder):
    """Gradio's sessions, as `QuickState`."""

    def __getitem__(self, session_id: str) -> SessionState:
        with self.lock:
            self.session_data.setdefault(session_id, QuickState(self.blocks))
        return super().__getitem__(session_id)


NO_FUNCTION = "There is no such function here."
UPLOAD_FIRST = "Upload it first, and name it by the path that the upload gave."
NOT_UPLOADED = f"This file was not uploaded here. {UPLOAD_FIRST}"

MAX_UPLOAD_BYTES = 100 * 2**20  # of one file
MAX_EVENTS = int(EVENTS.whole)
MAX_SESSION_EVENTS = 8  # of one page that wait and go on
# What every open page needs, and `health`: they count neither for a page nor for its visitor
NEEDED = ("follow", "show_judge", "open_linked", "health")

# From a web address, for a visitor, to an upload; raises BadInput
Fetch = Callable[[str, Visitor], Awaitable[Path]]


class FairQueue(Queue):
    """Gradio's queue, which refuses a program at once if no judge's line has room.

    Of 200 programs at once (`load`) the last is told after 0.4 s; by events of their own, 2.0 s.
    No visitor takes all places: of events that wait or go on, `EVENTS` names the most.
    """

    def __init__(self, blocks: gr.Blocks, expect: Callable[[Visitor], bool]) -> None:
        super().__init__(True, 1, 1, MAX_EVENTS, blocks, None)
        self._expect = expect
        self.sleep_when_free = 0.05  # seconds between two looks for new events
        self.progress_update_sleep_when_free = 1.0  # no event here reports progress
        self.ANALYTICS_MAX_EVENTS = 0  # nobody reads them
        # Else whoever has waited longest is forgotten first
        self.pending_messages_per_session.max_size = sys.maxsize

    async def push(self, body: Any, request: Any, username: str | None) -> tuple[bool, Any, Any]:
        """Take an event or refuse: (success, id or sentence, Gradio's reason)."""
        function, visitor = self.blocks.fns.get(body.fn_index), visitor_of(request)
        if told := self._refusal(function, body.session_hash, visitor):
            return False, told, "queue_full"
        if getattr(function, "api_name", "") == "compare" and not self._expect(visitor):
            return False, words.BUSY, "queue_full"
        return await super().push(body, request, username)

    def _refusal(self, function: Any, session_id: object, visitor: Visitor) -> str:
        """Say why no further event is taken; events that every open page needs count for nobody."""
        lines = (line.queue for line in self.event_queue_per_concurrency_id.values())
        every = [event for line in (*lines, *filter(None, self.active_jobs)) for event in line]
        is_needed = getattr(function, "name", "") in NEEDED
        counted = every if is_needed else [each for each in every if each.fn.name not in NEEDED]
        held = Counter(visitor_of(each.request).share for each in counted)
        own = sum(each.session_hash == session_id for each in counted)
        if visitor.counted and not is_needed and own >= MAX_SESSION_EVENTS:
            return words.MANY_EVENTS
        limit = replace(EVENTS, each=math.inf) if is_needed else EVENTS
        return refusal_of(limit, visitor, held)

    def start(self) -> None:
        """Begin, with a place for each event that `push` takes: Gradio has one for each thread."""
        self.max_thread_count = 2 * MAX_EVENTS
        super().start()  # type: ignore[no-untyped-call]


_asking: ContextVar[Visitor] = ContextVar("asking", default=UNKNOWN)  # of the call that goes on


class CheckedBlocks(gr.Blocks):
    """Blocks whose inputs hold uploaded files, web addresses that `fetch` takes, or no files.

    All else is refused with a sentence; Gradio's fetch any address, of any size. Only public
    functions get addresses, for our own `fetch`: the page's events never send one. Outputs that an
    event skips are left alone.
    """

    def __init__(
        self, fetch: Fetch, title: str, expect: Callable[[Visitor], bool] = lambda _: True
    ) -> None:
        super().__init__(title=title, analytics_enabled=False)
        self._fetch_video, self._expect = fetch, expect
        self._heads: dict[str, object] = {}  # the oldest uncollected message of each session

    def open_queue(self) -> None:
        """Give the blocks their queue. No event can be called past it."""
        self.api_open = False
        self._queue = FairQueue(self, self._expect)

    async def drop_uncollected(self) -> list[str]:
        """Drop events of clients that collected nothing since the last call; return their ids.

        Calls that nobody collects would hold the judge for as long as it writes.
        """
        queue, before = self._queue, self._heads
        pending: dict[str, Any] = dict(queue.pending_messages_per_session)
        self._heads = {name: found._queue[0] for name, found in pending.items() if found.qsize()}
        gone = [name for name, head in self._heads.items() if before.get(name) is head]
        for session_id in gone:
            await queue.clean_events(session_hash=session_id)
            queue.pending_messages_per_session.pop(session_id, None)
            queue.pending_event_ids_session.pop(session_id, None)
            self.forget_session(session_id)
        return gone

    async def process_api(self, *args: Any, **more: Any) -> dict[str, Any]:
        """Do as Gradio, and know whose call it is."""
        _asking.set(visitor_of(more.get("request")))
        return await super().process_api(*args, **more)

    async def preprocess_data(
        self, block_fn: Any, inputs: list[Any], *rest: Any, **more: Any
    ) -> list[Any]:
        """Do as Gradio, with files for addresses and defaults. Raises gr.Error with a sentence."""
        if block_fn.fn is None:
            raise gr.Error(NO_FUNCTION, print_exception=False)

        async def fetch(file: dict[str, Any]) -> dict[str, Any]:
            is_web = file["path"].lower().startswith(("http://", "https://"))
            if not is_web or block_fn.api_visibility == "private":
                raise BadInput(NOT_UPLOADED)
            return {**file, "path": str(await self._fetch_video(file["path"], _asking.get()))}

        whole = [*inputs, *(component.value for component in block_fn.inputs[len(inputs) :])]
        try:
            whole = await async_traverse(whole, fetch, _is_url_file)
            return list(await super().preprocess_data(block_fn, whole, *rest, **more))
        except BadInput as bad:
            sentence = str(bad)
        except (InvalidPathError, FileNotFoundError):
            sentence = NOT_UPLOADED
        except Exception:  # noqa: BLE001 - whatever a program sends in place of a value
            sentence = "What was sent does not fit this function's inputs."
        raise gr.Error(sentence, print_exception=False)

    async def postprocess_data(self, block_fn: Any, predictions: Any, state: Any) -> list[Any]:
        """Do as Gradio, for the outputs that change: it would build skipped ones anew."""
        skipped, values, outputs = gr.skip(), predictions, list(block_fn.outputs)
        if isinstance(predictions, dict) and predictions:
            values = convert_component_dict_to_list(outputs, predictions)
        if values == skipped:
            values = [skipped] * len(outputs)
        if not isinstance(values, list | tuple) or skipped not in values:
            return list(await super().postprocess_data(block_fn, predictions, state))
        changing, changed = copy.copy(block_fn), [value for value in values if value != skipped]
        both = zip(outputs, values, strict=True)
        changing.outputs = [output for output, value in both if value != skipped]
        given = changed[0] if len(changed) == 1 else changed
        made = iter(await super().postprocess_data(changing, given, state))
        return [dict(skipped) if value == skipped else next(made) for value in values]

    def forget_session(self, session_id: str) -> None:
        """Drop what Gradio keeps of a visitor who has left."""
        holder = self.state_holder
        with holder.lock:
            holder.session_data.pop(session_id, None)
            holder.time_last_used.pop(session_id, None)


def upload_place(file: Path, name: str) -> Path:
    """Return the upload path of a file; Gradio copies none there."""
    plain = re.sub(r"[^\w.-]", "", name).lstrip(".") or "video"
    return Path(get_upload_folder()) / hash_file(file) / plain


def _is_url_file(value: object) -> bool:
    path = value.get("path") if isinstance(value, dict) and "meta" in value else None
    return isinstance(path, str) and "://" in path


def close_silent(server: Any, before: set[Any]) -> set[Any]:
    """Return connections without a request; close those that had none `before` either.

    uvicorn waits for the head of a request without an end.
    """
    opened = (each for each in server.server_state.connections if hasattr(each, "cycle"))  # by HTTP
    silent = {each for each in opened if each.cycle is None or each.cycle.response_complete}
    for each in silent & before:
        each.transport.close()
    return silent


class ForgottenUploads:
    """What Gradio keeps of uploads for good: their progress and their end."""

    def __init__(self) -> None:
        self._before: set[str] = set()

    def sweep(self) -> None:
        """Forget uploads known at the last sweep, unless they go on."""
        progress = routes.file_upload_statuses
        known = {*progress._signals}
        for upload_id in known & self._before:
            tracked = progress._statuses.get(upload_id)
            if tracked is None or tracked.is_done:
                progress._signals.pop(upload_id, None)
                progress._statuses.pop(upload_id, None)
        self._before = known


async def receive_files(request: Request, folder: Path) -> list[Path]:
    """Return the files of an upload below `folder`, each in a folder named after its content.

    Raises MultiPartException, ClientDisconnect, OSError; HTTPException, ValueError or TypeError if
    it is no upload.
    """
    upload_id = request.query_params.get("upload_id")
    progress = routes.file_upload_statuses if upload_id else None
    try:
        files, _, _ = await upload_fn(
            request, folder, MAX_UPLOAD_BYTES, upload_id, upload_progress=progress
        )
    finally:
        if progress:
            progress.set_done(str(upload_id))
    return [Path(file) for file in files]
