"""The judge's queue, and what leans on Gradio's insides; `test_gradio_reliance.py` holds that.

Gradio's queue (`max_size`) carries every event of a page. A run waits in `JudgeQueue` for a judge.

Gradio's blocks take any file below its upload folder and fetch any web address that an input names,
of any size, and refuse without a sentence. These take uploaded files; a call of the API also web
addresses, which our own `fetch` turns into such a file.
"""

import copy
import re
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any

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
from starlette.exceptions import HTTPException
from starlette.requests import Request

from vrthinker_core.errors import BadInput
from vrthinker_core.ui import words

EXPECT_SECONDS = 5.0  # for a program's run to join the line, once its event is taken


class JudgeQueue:
    """First come, first served: each device takes as many runs at once as it may."""

    def __init__(
        self,
        waiting: int = 24,
        place: Callable[[str], tuple[str, int]] = lambda _: ("local", 1),
        is_loaded: Callable[[str], bool] = lambda _: True,
    ) -> None:
        """Let at most `waiting` runs wait for a device.

        `place` gives the device of a judge and how many runs it takes at once. A run whose judge is
        not loaded yet lets later ones pass.
        """
        self._most, self._place, self._is_loaded = waiting, place, is_loaded
        self._waiting: dict[object, str] = {}  # runs to their judges, in order
        self._running: dict[object, str] = {}  # the same
        self._coming: list[float] = []  # when programs' runs were taken that have not joined yet
        self._lock = threading.RLock()

    def check(self, judge: str) -> None:
        """Raise BadInput if too many runs wait for that judge's device."""
        if self.is_full([judge]):
            raise BadInput(words.BUSY)

    def is_full(self, judges: Iterable[str], coming: int = 0) -> bool:
        """Return whether too many runs wait for the devices of all these judges.

        `coming`: runs that are about to join, for any of them.
        """
        with self._lock:
            lines = [self._line(judge) for judge in judges]
        return all(
            len(running) + len(waiting) + coming >= self._most + width
            for running, waiting, width in lines
        )

    def expect(self, judges: Iterable[str]) -> bool:
        """Note a program's run that is about to join; False if there is no room for it."""
        with self._lock:
            earliest = time.monotonic() - EXPECT_SECONDS
            self._coming = [each for each in self._coming if each > earliest]
            if self.is_full(judges, len(self._coming)):
                return False
            self._coming.append(time.monotonic())
            return True

    def arrived(self) -> None:
        """Expect one program less: it has joined, or has been refused."""
        with self._lock:
            self._coming = self._coming[1:]

    def join(self, run: object, judge: str) -> None:
        """Let a run wait. Raises BadInput if too many do."""
        with self._lock:
            self.check(judge)
            self._waiting[run] = judge

    def take(self, run: object) -> bool:
        """Return whether the run may begin; from then on it holds its place until `leave`."""
        with self._lock:
            if run not in self._waiting:
                return False
            running, waiting, width = self._line(self._waiting[run])
            ready = [each for each in waiting if self._is_loaded(self._waiting[each])]
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
            running, waiting, _ = self._line(self._waiting[run])
            return [*running, *waiting].index(run)

    def counts(self) -> tuple[int, int]:
        """Return how many runs a judge has, and how many wait."""
        with self._lock:
            return len(self._running), len(self._waiting)

    def _line(self, judge: str) -> tuple[list[object], list[object], int]:
        """The runs that the judge's device has, those that wait for it, and how many it takes."""
        device, width = self._place(judge)
        running, waiting = (
            [run for run, judge in runs.items() if self._place(judge)[0] == device]
            for runs in (self._running, self._waiting)
        )
        return running, waiting, width


class QuickState(SessionState):
    """Gradio's session without what only its links need: 20 ms in which nobody is answered."""

    def __init__(self, blocks: gr.Blocks) -> None:
        self.blocks_config = copy.copy(blocks.default_config)
        self.config_values: dict[int, Any] = {}
        self.state_data: dict[int, Any] = {}
        self._state_ttl: dict[int, Any] = {}
        self.is_closed, self.STATE_TTL_WHEN_CLOSED = False, 3600

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
MAX_EVENTS = 1000  # that wait for a place among those that go on

Fetch = Callable[[str], Awaitable[Path]]  # from a web address to an upload; raises BadInput


class ProgramsQueue(Queue):
    """Gradio's queue, which refuses a program at once if no judge's line has room.

    Of 200 programs at once (`load`) the last is told after 0.4 s; by events of their own, 2.0 s.
    """

    def __init__(self, blocks: gr.Blocks, expect: Callable[[], bool]) -> None:
        super().__init__(True, 1, 1, MAX_EVENTS, blocks, None)
        self._expect = expect
        self.sleep_when_free = 0.05  # seconds between two looks for new events
        self.progress_update_sleep_when_free = 1.0  # no event here reports progress
        self.ANALYTICS_MAX_EVENTS = 0  # nobody reads them
        # Else whoever has waited longest is forgotten first
        self.pending_messages_per_session.max_size = sys.maxsize

    async def push(self, body: Any, request: Any, username: str | None) -> tuple[bool, Any, Any]:
        """Take an event or refuse: (success, id or sentence, Gradio's reason)."""
        function = self.blocks.fns.get(body.fn_index)
        if function is not None and function.api_name == "compare" and not self._expect():
            return False, words.BUSY, "queue_full"
        return await super().push(body, request, username)


class CheckedBlocks(gr.Blocks):
    """Blocks whose inputs hold uploaded files, web addresses that `fetch` takes, or no files.

    All else is refused with a sentence. Only public functions take web addresses: the page's own
    events never send one. Outputs that an event skips are left alone.
    """

    def __init__(self, fetch: Fetch, title: str, expect: Callable[[], bool] = lambda: True) -> None:
        super().__init__(title=title, analytics_enabled=False)
        self._fetch_video, self._expect = fetch, expect
        self._heads: dict[str, object] = {}  # the oldest uncollected message of each session

    def open_queue(self) -> None:
        """Give the blocks their queue. No event can be called past it."""
        self.api_open = False
        self._queue = ProgramsQueue(self, self._expect)

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
        return gone

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
            return {**file, "path": str(await self._fetch_video(file["path"]))}

        whole = [*inputs, *(component.value for component in block_fn.inputs[len(inputs) :])]
        try:
            whole = await async_traverse(whole, fetch, _is_url_file)
            return list(await super().preprocess_data(block_fn, whole, *rest, **more))
        except gr.Error:
            raise
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
            values = [dict(skipped) for _ in outputs]
        if not isinstance(values, list | tuple) or skipped not in values:
            return list(await super().postprocess_data(block_fn, predictions, state))
        both = [pair for pair in zip(outputs, values, strict=True) if pair[1] != skipped]
        changing, changed = copy.copy(block_fn), [value for _, value in both]
        changing.outputs = [output for output, _ in both]
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


class ForgottenUploads:
    """What Gradio keeps of uploads for good: their progress and their end."""

    def __init__(self) -> None:
        self._before: set[str] = set()

    def sweep(self) -> None:
        """Forget uploads known at the last sweep, unless they go on."""
        progress = routes.file_upload_statuses
        known = {*list(progress._signals), *list(progress._statuses)}
        for upload_id in known & self._before:
            tracked = progress._statuses.get(upload_id)
            if tracked is None or tracked.is_done:
                progress._signals.pop(upload_id, None)
                progress._statuses.pop(upload_id, None)
        self._before = known


async def receive_files(request: Request, folder: Path) -> list[Path]:
    """Return the files of an upload below `folder`, each in a folder named after its content.

    Raises MultiPartException, ClientDisconnect, OSError; ValueError or TypeError if no upload.
    """
    upload_id = request.query_params.get("upload_id")
    progress = routes.file_upload_statuses if upload_id else None
    try:
        files, _, _ = await upload_fn(
            request, folder, MAX_UPLOAD_BYTES, upload_id, upload_progress=progress
        )
    except HTTPException as error:
        raise ValueError(error.detail) from None
    finally:
        if progress:
            progress.set_done(str(upload_id))
    return [Path(file) for file in files]
