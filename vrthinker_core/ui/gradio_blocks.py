"""Everything that leans on Gradio's insides; `test_gradio_reliance.py` holds what must not change.

Gradio's blocks take any file below its upload folder and fetch any web address that an input names,
of any size, and refuse without a sentence. These take uploaded files; a call of the API also web
addresses, which our own `fetch` turns into such a file.
"""

import asyncio
import copy
import re
import secrets
import sys
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack, aclosing
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import unquote

import gradio as gr
from gradio import routes
from gradio.blocks import convert_component_dict_to_list
from gradio.exceptions import InvalidPathError
from gradio.processing_utils import hash_file
from gradio.queueing import Queue
from gradio.route_utils import upload_fn
from gradio.utils import get_upload_folder, run_coro_in_background
from starlette.exceptions import HTTPException
from starlette.requests import Request

from vrthinker_core.errors import BadInput

COLLECT_SECONDS = 10.0  # a client that does not wait for its messages for so long has left
SWEEP_SECONDS = 1.0  # between two looks for such clients
MAX_AT_ONCE = 1000  # events that go on at the same time: a page that waits for its judge is one

NO_FUNCTION = "There is no such function here."

Item = TypeVar("Item")


class SessionMessages(asyncio.Queue[Any]):
    """The messages for one client."""

    def __init__(self) -> None:
        super().__init__()
        self._readers = 0
        self._last_read = time.monotonic()

    async def get(self) -> Any:
        """Return the next message."""
        self._readers += 1
        try:
            return await super().get()
        finally:
            self._readers -= 1
            self._last_read = time.monotonic()

    @property
    def is_abandoned(self) -> bool:
        """Whether nobody has waited for a message for `COLLECT_SECONDS`."""
        return not self._readers and time.monotonic() - self._last_read > COLLECT_SECONDS


class LimitedQueue(Queue):
    """At most `max_waiting` events of `limited_id`, the comparisons, wait; others always may.

    `on_taken` is told of each session whose comparison is to wait here, `on_abandoned` of each with
    events whose messages nobody collects. Those events are dropped.
    """

    def __init__(
        self,
        blocks: Any,
        limited_id: str,
        max_waiting: int,
        on_taken: Callable[[str], None],
        on_abandoned: Callable[[str], None],
    ) -> None:
        super().__init__(
            True, MAX_AT_ONCE, 1, max_size=None, blocks=blocks, default_concurrency_limit=None
        )
        self.sleep_when_free = 0.05  # seconds between two looks for new events, if there is none
        self.progress_update_sleep_when_free = SWEEP_SECONDS  # no event here reports progress
        self.ANALYTICS_MAX_EVENTS = 0  # nobody reads them, and each event would sum up all others
        # Else whoever has waited longest is forgotten first
        self.pending_messages_per_session.max_size = sys.maxsize
        self._limited_id, self._max_waiting = limited_id, max_waiting
        self._on_taken, self._on_abandoned = on_taken, on_abandoned
        self._released = 0  # comparisons that run but hold no place, since their judge is not ready

    def start(self) -> None:
        """Start with more events at once than threads, and the sweep."""
        super().start()  # type: ignore[no-untyped-call]
        self.active_jobs = [None] * MAX_AT_ONCE
        run_coro_in_background(self._sweep)

    async def push(self, body: Any, request: Any, username: str | None) -> tuple[bool, Any, Any]:
        """Take an event or refuse: (success, id or sentence, Gradio's reason)."""
        function = self.blocks.fns.get(body.fn_index)
        if function is None or function.fn is None:
            return False, NO_FUNCTION, "error"
        is_comparison = function.concurrency_id == self._limited_id
        if is_comparison and self.counts()[1] >= self._max_waiting:
            full = f"Queue is full: {self._max_waiting} comparisons wait already. Try again later."
            return False, full, "queue_full"
        body.session_hash = body.session_hash or secrets.token_hex(12)
        self.pending_messages_per_session.setdefault(body.session_hash, SessionMessages())
        taken, said, reason = await super().push(body, request, username)
        if taken and is_comparison:
            self._on_taken(body.session_hash)
        return taken, said, reason

    def counts(self) -> tuple[int, int]:
        """Return how many comparisons run, and how many wait."""
        queue = self.event_queue_per_concurrency_id.get(self._limited_id)
        if not queue:
            return 0, 0
        return max(0, queue.current_concurrency), len(queue.queue) + self._released

    def comparisons_before(self, session_id: str) -> int | None:
        """Return how many comparisons go before that session's; None without one."""
        queue = self.event_queue_per_concurrency_id.get(self._limited_id)
        waiting = [event.session_hash for event in queue.queue] if queue else []
        if session_id not in waiting:
            return None
        return self.counts()[0] + self._released + waiting.index(session_id)

    def has_comparison(self, session_id: str) -> bool:
        """Whether a comparison of that session waits or runs."""
        return any(
            event.concurrency_id == self._limited_id and event.session_hash == session_id
            for event in self.event_ids_to_events.values()
        )

    async def release_until(
        self, ready: Callable[[], bool], items: AsyncGenerator[Item, None]
    ) -> AsyncIterator[Item]:
        """Yield a comparison's items. Until `ready`, another runs in its place."""
        async with aclosing(items):
            with ExitStack() as released:
                if not ready():
                    self._release_places(1)
                    released.callback(self._release_places, -1)
                async for item in items:
                    if ready():
                        released.close()
                    yield item

    def _release_places(self, number: int) -> None:
        self.event_queue_per_concurrency_id[self._limited_id].current_concurrency -= number
        self._released += number

    async def _sweep(self) -> None:
        while not self.stopped:
            await asyncio.sleep(SWEEP_SECONDS)
            await self.drop_uncollected()

    async def drop_uncollected(self) -> None:
        """Drop the events of forgotten sessions, and those whose messages nobody collects."""
        for session_id in {event.session_hash for event in self.event_ids_to_events.values()}:
            if session_id not in self.pending_messages_per_session:
                await self.clean_events(session_hash=session_id)
                self._on_abandoned(session_id)
        for session_id, messages in list(self.pending_messages_per_session.items()):
            if not isinstance(messages, SessionMessages) or not messages.is_abandoned:
                continue
            # A client that has collected everything gets a new queue with its next event.
            del self.pending_messages_per_session[session_id]
            events = self.pending_event_ids_session.get(session_id, set())
            uncollected = not messages.empty() or not events.isdisjoint(self.event_ids_to_events)
            await self.clean_events(session_hash=session_id)
            self.pending_event_ids_session.pop(session_id, None)
            if uncollected:
                self._on_abandoned(session_id)


NOT_UPLOADED = "This file was not uploaded here. Upload it first, and name it by the path that the upload gave."

MAX_UPLOAD_BYTES = 100 * 2**20  # of one file

Fetch = Callable[[str], Awaitable[Path]]  # from a web address to an upload; raises BadInput


class CheckedBlocks(gr.Blocks):
    """Blocks whose inputs hold uploaded files, web addresses that `fetch` takes, or no files.

    All else is refused with a sentence. Only public functions take web addresses: the page's own
    events never send one, and many of them wait in no queue. Outputs that an event skips are left
    alone. `limit_queue` gives the blocks their queue.
    """

    fetch: Fetch
    limited_queue: LimitedQueue

    def limit_queue(
        self,
        limited_id: str,
        max_waiting: int,
        on_taken: Callable[[str], None],
        on_abandoned: Callable[[str], None],
    ) -> None:
        """Replace Gradio's queue; see `LimitedQueue`. No event can be called past it."""
        self.api_open = False
        self._queue = self.limited_queue = LimitedQueue(
            self, limited_id, max_waiting, on_taken, on_abandoned
        )

    async def preprocess_data(
        self, block_fn: Any, inputs: list[Any], *rest: Any, **more: Any
    ) -> list[Any]:
        """Do as Gradio, with files for web addresses and defaults for inputs left out.

        Raises gr.Error with a sentence.
        """
        if block_fn.fn is None:
            raise gr.Error(NO_FUNCTION, print_exception=False)
        whole = [*inputs, *(component.value for component in block_fn.inputs[len(inputs) :])]
        try:
            if _has_url(whole):
                whole = await self._with_fetched_files(whole, block_fn.api_visibility != "private")
            return list(await super().preprocess_data(block_fn, whole, *rest, **more))
        except BadInput as bad:
            raise gr.Error(str(bad), print_exception=False) from None
        except (InvalidPathError, FileNotFoundError):
            raise gr.Error(NOT_UPLOADED, print_exception=False) from None
        except gr.Error:
            raise
        except Exception:  # noqa: BLE001 - whatever a program sends in place of a value
            sentence = "What was sent does not fit this function's inputs."
            raise gr.Error(sentence, print_exception=False) from None

    async def postprocess_data(self, block_fn: Any, predictions: Any, state: Any) -> list[Any]:
        """Do as Gradio, for the outputs that change: it would build skipped ones anew.

        No copy of the values is kept.
        """
        skipped, values, outputs = gr.skip(), predictions, list(block_fn.outputs)
        try:
            if isinstance(predictions, dict) and predictions:
                values = convert_component_dict_to_list(outputs, predictions)
            if values == skipped:
                values = [dict(skipped) for _ in outputs]
            if not isinstance(values, list | tuple) or skipped not in values:
                return list(await super().postprocess_data(block_fn, predictions, state))
            both = [pair for pair in zip(outputs, values, strict=True) if pair[1] != skipped]
            changing, changed = copy.copy(block_fn), [value for _, value in both]
            changing.outputs = [output for output, _ in both]
            made: Iterator[Any] = iter(())
            if changed:
                given = changed if len(changed) > 1 else changed[0]
                made = iter(await super().postprocess_data(changing, given, state))
            return [dict(skipped) if value == skipped else next(made) for value in values]
        finally:
            if state is not None:
                state.config_values.clear()

    def forget_session(self, session_id: str) -> None:
        """Drop what Gradio keeps of a visitor who has left."""
        holder = self.state_holder
        with holder.lock:
            holder.session_data.pop(session_id, None)
            holder.time_last_used.pop(session_id, None)

    def waiting_files(self) -> set[Path]:
        """Return the files that waiting events name, by path or address."""
        queues = self._queue.event_queue_per_concurrency_id.values()
        data = [event.data.data for queue in queues for event in queue.queue if event.data]
        return {Path(unquote(text.rpartition("/file=")[2])) for text in _texts(data)}

    async def _with_fetched_files(self, value: Any, may_fetch: bool) -> Any:
        if isinstance(value, list | tuple):
            return [await self._with_fetched_files(part, may_fetch) for part in value]
        if not isinstance(value, dict):
            return value
        if not _is_url_file(value):
            parts = value.items()
            return {name: await self._with_fetched_files(part, may_fetch) for name, part in parts}
        if not may_fetch or not value["path"].lower().startswith(("http://", "https://")):
            raise BadInput(NOT_UPLOADED)
        return {**value, "path": str(await self.fetch(value["path"]))}


def upload_place(file: Path, name: str) -> Path:
    """Return the upload path of a file; Gradio copies none there."""
    plain = re.sub(r"[^\w.-]", "", name).lstrip(".") or "video"
    return Path(get_upload_folder()) / hash_file(file) / plain


def _has_url(value: object) -> bool:
    if isinstance(value, dict):
        return _is_url_file(value) or any(map(_has_url, value.values()))
    return isinstance(value, list | tuple) and any(map(_has_url, value))


def _texts(value: object) -> Iterator[str]:
    """Every text in JSON values that may be a path."""
    if isinstance(value, str) and len(value) < 4096:
        yield value
    elif isinstance(value, dict | list | tuple):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _texts(part)


def _is_url_file(value: dict[str, Any]) -> bool:
    path = value.get("path")
    return isinstance(path, str) and "meta" in value and "://" in path


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
