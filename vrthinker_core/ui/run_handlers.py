"""Event handlers: a run, and saved runs. `page_json` makes what they show of a run."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from pathlib import Path
from typing import NoReturn

import gradio as gr

from vrthinker_core.errors import TraceError
from vrthinker_core.traces import load
from vrthinker_core.types import Side
from vrthinker_core.types.progress import place_in_queue
from vrthinker_core.ui import words
from vrthinker_core.ui.branch_sets import strip_json
from vrthinker_core.ui.gradio_blocks import CheckedBlocks
from vrthinker_core.ui.hidden_view import hidden_transcript, hide_view, votes_first
from vrthinker_core.ui.layout import PageComponents, Updates, no_updates
from vrthinker_core.ui.page_json import (
    ViewJson,
    replay_status_line,
    status_line,
    transcript_json,
    view_json,
)
from vrthinker_core.ui.page_sessions import Session
from vrthinker_core.ui.player_files import PageValues, are_swapped, changed_sides
from vrthinker_core.ui.run_state import reply_reader
from vrthinker_core.ui.run_store import owner_of
from vrthinker_core.ui.saved_run import SavedRun, digests_at_hand, shown_videos, stored_run
from vrthinker_core.ui.services import Services, linked_trace, session_id_of

POLL_SECONDS = 0.03  # between two looks


async def wait_while(holds: Callable[[], object], seconds: float) -> None:
    """Wait until that no longer holds, at most `seconds`."""
    for _ in range(round(seconds / POLL_SECONDS)):
        if not holds():
            return
        await asyncio.sleep(POLL_SECONDS)


PATIENCE_SECONDS = 1.0  # for a follower to see that its page shows another run


class Followers:
    """How many events of each page follow a run.

    Gradio cannot cancel them: it knows only the latest of several of a kind.
    """

    def __init__(self) -> None:
        self._following = Counter[str]()  # by session id

    async def follow(
        self, session_id: str, progress: AsyncIterator[Updates]
    ) -> AsyncIterator[Updates]:
        """Yield the run's progress, until the page shows another one."""
        self._following[session_id] += 1
        try:
            async for updates in progress:
                yield updates
        finally:
            self._following[session_id] -= 1
            if not self._following[session_id]:
                del self._following[session_id]

    async def wait_until_detached(self, session_id: str) -> None:
        """Wait (≤ `PATIENCE_SECONDS`) until no old event can update this page."""
        await wait_while(lambda: self._following[session_id], PATIENCE_SECONDS)


UPDATE_SECONDS = 0.12  # between two updates of the page, at least
CLOCK_SECONDS = 1.0  # between two updates, at most: the status line shows the seconds
PLACE_SECONDS = 0.25  # between two looks at the queue
UNQUEUED_SECONDS = 4.0  # for a comparison to reach the queue; after that the queue refused it
REFUSED_SECONDS = 0.5  # for one that has left the queue to begin, or to say that it was stopped
STREAM_SECONDS = 1.0  # for a run that was stopped to have said so on the page


class Handlers:
    """Handlers of the events of `parts`; each returns the components that change."""

    def __init__(self, blocks: CheckedBlocks, parts: PageComponents, services: Services) -> None:
        self._blocks = blocks
        self._parts = parts
        self._services = services
        self._reading = asyncio.Semaphore(1)  # strangers' traces are large: never two at once
        self._refusals = PageValues[str]()  # why a page was refused a place, until it has said so
        self.followers = Followers()

    def take_place(self, request: gr.Request) -> Updates:
        """Join the waiting room. Raises a silent gr.Error if it is full."""
        has_comparison = self._blocks.limited_queue.has_comparison
        number = self._services.waiting_room.join(session_id_of(request), has_comparison)
        if not number:
            self.refuse(request, words.BUSY)
        return {**self._parts.running_buttons(number), self._parts.status: words.WAITING}

    def refuse(self, request: gr.Request, sentence: str) -> NoReturn:
        """Raise a silent gr.Error; the event that follows says the sentence."""
        self._refusals.put(session_id_of(request), sentence)
        raise gr.Error(sentence, visible=False, print_exception=False)

    def refusal(self, request: gr.Request) -> str:
        """Return why the page got no place; GONE without its files."""
        return self._refusals.take(session_id_of(request)) or words.GONE

    async def show_place(self, request: gr.Request) -> AsyncIterator[Updates]:
        """Yield the visitor's place in the queue, in words, while their comparison waits there.

        BUSY if it has not come there; GONE if it has left without beginning: no files were found.
        """
        yield no_updates()  # an event that yields nothing empties what it may change
        parts, session_id, shown, looks = self._parts, session_id_of(request), words.WAITING, 0
        room, queue = self._services.waiting_room, self._blocks.limited_queue
        number = room.number(session_id)
        while room.waits(session_id):
            looks = 0 if queue.has_comparison(session_id) else looks + 1
            queued = room.was_queued(session_id)
            missing = looks * PLACE_SECONDS > (REFUSED_SECONDS if queued else UNQUEUED_SECONDS)
            if missing and room.leave(session_id, number):
                line = words.GONE if queued else words.BUSY
                yield {parts.status: line, **parts.idle_buttons(number)}
                return
            before = queue.comparisons_before(session_id)
            if before is not None and (line := place_in_queue(before) or words.WAITING) != shown:
                shown = line
                yield {parts.status: line}
            await asyncio.sleep(PLACE_SECONDS)

    async def show_run(
        self, session_id: str, session: Session, number: int
    ) -> AsyncIterator[Updates]:
        """Show a started run, of the place with that number, as it goes.

        If nobody asks for more, it is stopped or left: see `Sessions`.
        """
        judges, release_until = self._services.judges, self._blocks.limited_queue.release_until
        progress = self.run_progress(session_id, session, number)
        try:
            async for updates in release_until(lambda: judges.is_loaded(session.judge), progress):
                yield updates
        except Exception:
            yield self._parts.idle_buttons(number)
            raise
        finally:
            if not self._services.sessions.goes_on(session):
                session.run.request_stop()

    def finished_run(self, session: Session, request: gr.Request) -> Updates:
        """Return everything that shows a run that is over."""
        return {**self.run_updates(session, session_id_of(request)), **self._left_queue(request)}

    def refused_check(self, sentence: str, request: gr.Request) -> Updates:
        """Return the shown run, and why its order cannot be checked."""
        session, parts = self._services.session_of(request), self._parts
        if session is None:
            return {parts.status: sentence}
        view = self._view(session, session_id_of(request))
        return {
            parts.status: self._status_line(session),
            parts.trace: {**view, "refusal": sentence},
        }

    def shown_run(self, request: gr.Request, refusal: str = "") -> Updates:
        """Return the shown run; `refusal`: why the vote could not be kept."""
        session = self._services.session_of(request)
        if session is None:
            return {self._parts.status: words.NO_RUN}
        return self.run_updates(session, session_id_of(request), refusal)

    async def stop(self, shown: object, prompt: str | None, request: gr.Request) -> Updates:
        """Stop the run whose Stop button was pressed, none that came after it.

        What the judge had seen and written stays. `shown` is what the browser holds of the buttons.
        """
        session_id, room = session_id_of(request), self._services.waiting_room
        sent = shown.get("number") if isinstance(shown, dict) else 0
        number = sent if isinstance(sent, int) else 0
        idle = self._parts.idle_buttons(number)
        if room.number(session_id) not in (0, number):
            return idle
        room.leave(session_id, number)
        session = self._services.session_of(request)
        if session is None:
            files = self._services.player_files.get(session_id)
            return {self._parts.status: words.next_step(*files, prompt), **idle}
        await asyncio.to_thread(session.run.stop)
        return {**self.run_updates(session, session_id), **idle}

    def swap_videos(self, first: str | None, second: str | None, request: gr.Request) -> Updates:
        """Swap the videos. A shown run stays, and says what it judged."""
        services, session_id = self._services, session_id_of(request)
        session, files = services.session_of(request), services.player_files
        if services.waiting_room.waits(session_id) or (session and not session.run.over):
            return no_updates()  # the videos that were sent stay those that are shown
        files.swap(session_id)
        services.uploads.swap(session_id)
        swapped: Updates = {self._parts.first: second, self._parts.second: first}
        if session is None:
            return swapped
        changed = changed_sides(session.run.state.started, files.get(session_id))
        line = words.SWAPPED if changed else self._status_line(session)
        return {**swapped, **self.changed_run(session, request, line)}

    async def show_saved(self, event: gr.EventData, request: gr.Request) -> Updates:
        """Show an example or a shared trace; "" shows the empty page."""
        if name := str(getattr(event, "example", "")):
            return await self._show_linked(request, name)
        parts, session_id = self._parts, session_id_of(request)
        self._services.sessions.end(session_id)
        self._services.player_files.forget(session_id)
        await self.followers.wait_until_detached(session_id)
        line = words.NO_RUN if getattr(event, "lost", False) else words.READY
        return {
            parts.first: None,
            parts.second: None,
            parts.prompt: "",
            **parts.without_run(line),
            **self._left_queue(request),
        }

    async def open_trace(self, path: str | None, request: gr.Request) -> Updates:
        """Show the trace in an uploaded file; if unreadable, nothing changes."""
        if not path:
            return {self._parts.status: words.NO_FILE}
        owner, history = owner_of(request.cookies), self._services.history

        def opened() -> SavedRun:
            trace = load(Path(path))
            videos = history.videos(owner, trace)
            return SavedRun(trace, kept=history.keep(owner, trace, videos), videos=videos)

        return await self.read_and_show(request, opened)

    async def open_linked_trace(self, request: gr.Request) -> Updates:
        """Show the trace that the page's address names."""
        name = linked_trace(request)
        return await self._show_linked(request, name) if name else no_updates()

    def changed_run(self, session: Session, request: gr.Request, line: str) -> Updates:
        """Return the run after a player has changed: it stays."""
        if not session.run.over:
            return {}  # its own updates will say so
        view = self._view(session, session_id_of(request))
        return {self._parts.status: line, self._parts.trace: view}

    def end_session(self, session_id: str) -> None:
        """Forget a visitor who has left the page."""
        services = self._services
        services.waiting_room.leave(session_id)
        self._refusals.take(session_id)
        services.uploads.let_go(session_id)
        services.player_files.forget(session_id)
        services.branch_sets.forget(session_id)
        services.sessions.end(session_id)

    def _left_queue(self, request: gr.Request) -> Updates:
        """Leave the queue; the buttons of a page that shows something else."""
        room = self._services.waiting_room
        room.leave(session_id_of(request))
        return self._parts.idle_buttons(room.next_number())

    async def run_progress(
        self, session_id: str, session: Session, number: int
    ) -> AsyncGenerator[Updates, None]:
        """Yield the run as it goes, until it is over or replaced."""
        over, run, before = False, session.run, session.run.state

        def is_shown() -> bool:
            return self._services.sessions.get(session_id) is session

        def is_unchanged() -> bool:
            return run.state is before and not run.over and is_shown()

        while not over and is_shown():
            over = run.over
            updates = self.run_updates(session, session_id)
            buttons = self._parts.idle_buttons if over else self._parts.running_buttons
            yield {**updates, **buttons(number)}
            if not over:
                before = run.state
                await asyncio.sleep(UPDATE_SECONDS)
                await wait_while(is_unchanged, CLOCK_SECONDS - UPDATE_SECONDS)

    async def _show_linked(self, request: gr.Request, name: str) -> Updates:
        return await self.read_and_show(request, lambda: stored_run(self._services, name))

    async def read_and_show(self, request: gr.Request, read: Callable[[], SavedRun]) -> Updates:
        """Show a saved run; if unreadable, say why, and keep the old one."""
        session_id, queue = session_id_of(request), self._blocks.limited_queue
        try:
            async with self._reading:
                updates = await asyncio.to_thread(lambda: self._show_replay(request, read()))
            await self.followers.wait_until_detached(session_id)
            return updates
        except TraceError as error:
            # What would have updated the old run was cancelled when another one was asked for.
            session = self._services.session_of(request)
            if session is None:
                return {**self._left_queue(request), self._parts.status: str(error)}
            await asyncio.to_thread(session.run.stop)
            await wait_while(lambda: queue.has_comparison(session_id), STREAM_SECONDS)
            return {**self.finished_run(session, request), self._parts.status: str(error)}

    def _show_replay(self, request: gr.Request, saved: SavedRun) -> Updates:
        services, parts, session_id = self._services, self._parts, session_id_of(request)
        old, trace, owner = services.session_of(request), saved.trace, owner_of(request.cookies)
        known = [path for example in services.examples.all for path in example.videos]
        known = [*(old.files if old else ()), *known]
        videos = shown_videos(services.uploads, saved, known)
        first, second = (
            None if path is None else str(services.uploads.playable_of(path)) for path in videos
        )
        session = services.sessions.start_replay(
            session_id, trace, saved.link, videos, owner, saved.kept
        )
        session.disclosure.begin(votes_first(request.cookies), bool(saved.kept and trace.vote))
        updates: Updates = {
            parts.first: first,
            parts.second: second,
            parts.prompt: trace.started.prompt,
        }
        services.player_files.put_both(session_id, digests_at_hand(trace, videos))
        return {**updates, **self.finished_run(session, request)}

    def run_updates(self, session: Session, session_id: str, refusal: str = "") -> Updates:
        """Return status, trace and transcript of a run so far."""
        parts, view = self._parts, self._view(session, session_id, refusal)
        hidden = session.disclosure.hidden
        transcript = hidden_transcript() if hidden else transcript_json(session.run.state)
        status = self._status_line(session)
        return {parts.status: status, parts.trace: view, parts.transcript: transcript}

    def _view(self, session: Session, session_id: str, refusal: str = "") -> ViewJson:
        state = session.run.state
        started, changed = state.started, ""
        whole = view_json(state, session.thumbnails, reply_reader(started))
        digests = self._services.player_files.get(session_id)
        if started and (sides := changed_sides(started, digests)):
            names = [clip.name if clip else "" for clip in started.clips]
            changed = words.changed_videos(sides, are_swapped(started, digests), names)
        view: ViewJson = {
            "run": session.name,
            "over": session.run.over,
            "address": session.link,
            "kept": session.kept,
            "changed": changed,
            **whole,
        }
        view["branches"] = strip_json(self._services.branch_sets.get(session_id, session), state)
        if session.is_replay:
            view["notes"] = [view["judge"], *view["notes"]]
            videos = zip(Side, session.saved_videos, strict=True)
            view["stills"] = [int(side) for side, path in videos if path is None]
        hidden, own = session.disclosure.hidden, session.disclosure.voted
        view = hide_view(view) if hidden else view
        return {**view, "ballot": {"hidden": hidden, "own": own, "refusal": refusal}}

    def _status_line(self, session: Session) -> str:
        if session.is_replay:
            return replay_status_line(session.run.state)
        if not self._services.judges.is_loaded(session.judge):
            return words.LOADING
        return status_line(session.run.state, session.run.seconds, session.run.pace)
