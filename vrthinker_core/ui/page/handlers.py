"""What happens when the parts of the page are used. Everything that is shown comes from `view`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import gradio as gr

from vrthinker_core.errors import BadInput, TraceError
from vrthinker_core.traces import load
from vrthinker_core.types import VideoPair
from vrthinker_core.types.events import Trace
from vrthinker_core.ui.fetch.uploads import Uploads
from vrthinker_core.ui.sessions import settings_form
from vrthinker_core.ui.sessions.judge_loader import JudgeLoader
from vrthinker_core.ui.sessions.replay import matching_videos
from vrthinker_core.ui.sessions.sessions import Session, Sessions
from vrthinker_core.ui.sessions.shared_traces import SharedTraces
from vrthinker_core.ui.sessions.waiting_room import WaitingRoom
from vrthinker_core.ui.view import words
from vrthinker_core.ui.view.dialect_lookup import reply_reader
from vrthinker_core.ui.view.example_cards import Examples
from vrthinker_core.ui.view.page_json import TranscriptJson, ViewJson, replay_status_line, status_line, transcript_json, view_json
from vrthinker_core.ui.view.tiles import captioned_frames

UPDATE_SECONDS = 0.12
"""Seconds between two updates of the page."""

POLL_SECONDS = 0.03
"""Seconds between two looks at the run."""


class Handlers:
    """Each act takes what a visitor brings and gives what their page shows next."""

    def __init__(
        self, opening: JudgeLoader, visits: Sessions, shelf: SharedTraces, examples: Examples, room: WaitingRoom, uploads: Uploads
    ) -> None:
        self._judges = opening
        self._sessions = visits
        self._shared = shelf
        self._examples = examples
        self._waiting_room = room
        self._uploads = uploads
        self._gallery_viewers: set[str] = set()
        """Visitors who look at the frames."""

    # -- a run ---------------------------------------------------------------------------------------------------------

    async def join_queue(self, request: gr.Request) -> tuple[Any, ...]:
        """Take a place in the waiting room. Fails without a word when there is none: `turned_away` says it."""
        if not self._waiting_room.join(session_id_of(request)):
            raise gr.Error(words.BUSY, visible=False, print_exception=False)
        return gr.update(visible=False), gr.update(visible=True), words.WAITING

    async def compare(
        self,
        first: str | None,
        second: str | None,
        prompt: str,
        judge: object,
        protocol: object,
        window: object,
        turns: object,
        frames: object,
        request: gr.Request,
    ) -> AsyncIterator[tuple[Any, ...]]:
        """One run, as it goes."""
        visitor = session_id_of(request)
        with self._waiting_room.active(visitor):
            if not first or not second:
                yield nothing(words.MISSING_VIDEOS, words.MISSING_VIDEOS)
                return
            try:
                who = settings_form.parse_judge(judge, self._judges.names)
                settings = settings_form.parse_settings(protocol, window, turns, frames)
            except BadInput as bad:
                yield nothing(str(bad), str(bad))
                return
            pair = VideoPair(prompt or "", self._uploads.original_of(Path(first)), self._uploads.original_of(Path(second)))
            visit = self._sessions.start_run(visitor, pair, settings, who)
            sent = -1
            try:
                over = False
                while not over and self._sessions.get(visitor) is visit:
                    over = visit.run.over
                    shown = sum(len(turn.frames) for turn in visit.run.state.turns) if visitor in self._gallery_viewers else sent
                    yield *self._run_outputs(visit), gr.skip() if shown == sent else self._gallery_items(visit)
                    sent = shown
                    if not over:  # Gradio says the last update again at the end: nothing must come in between
                        await _next_change(visit)
            finally:
                visit.run.request_stop()

    async def stop(self, request: gr.Request) -> tuple[Any, ...]:
        """Stop the visitor's judge; everything it had seen and written stays."""
        self._waiting_room.leave(session_id_of(request))
        visit = self._sessions.get(session_id_of(request))
        if visit is None or visit.run.over:
            return words.READY, *same(3), *idle()
        await asyncio.to_thread(visit.run.stop)
        return *self._run_outputs(visit), gr.skip(), *idle()

    async def on_failure(self, request: gr.Request) -> tuple[Any, ...]:
        """The queue did not take the run, or it was taken out of the queue."""
        if self._waiting_room.leave(session_id_of(request)):
            return *idle(), words.BUSY
        visit = self._sessions.get(session_id_of(request))
        if visit is None:
            return *idle(), gr.skip()
        await asyncio.to_thread(visit.run.stop)
        return *idle(), self._run_outputs(visit)[0]

    def select_tab(self, event: gr.SelectData, request: gr.Request) -> Any:
        """The frames, for who looks at them; nobody else is sent them."""
        if event.value != words.TAB_FRAMES:
            self._gallery_viewers.discard(session_id_of(request))
            return gr.skip()
        self._gallery_viewers.add(session_id_of(request))
        visit = self._sessions.get(session_id_of(request))
        return [] if visit is None else self._gallery_items(visit)

    def swap_videos(self, first: str | None, second: str | None, request: gr.Request) -> tuple[Any, ...]:
        """Video 1 becomes video 2. A verdict belongs to the order in which the videos were judged, so it goes."""
        visitor = session_id_of(request)
        visit = self._sessions.get(visitor)
        if visit is not None and not visit.run.over:
            return same(6)
        self._sessions.end(visitor)
        return second, first, *nothing(words.READY if visit is None else words.SWAPPED)

    # -- saved runs ----------------------------------------------------------------------------------------------------

    def show_example(self, event: gr.EventData, request: gr.Request) -> tuple[Any, ...]:
        """An example, with its videos."""
        example = self._examples.find(str(event.example))
        if example is None:
            return refused(words.NO_RUN)
        return self._show_replay(request, example.trace, example.name)

    def open_trace(self, path: str | None, request: gr.Request) -> tuple[Any, ...]:
        """A trace from a file that a person chose."""
        try:
            return self._show_replay(request, load(Path(path))) if path else refused(words.NO_FILE)
        except TraceError as error:
            return refused(str(error))

    def open_linked_trace(self, request: gr.Request) -> tuple[Any, ...]:
        """The trace that the page's address names."""
        name = linked_trace(request)
        if not name:
            return same(9)
        example = self._examples.find(name)
        try:
            return self._show_replay(request, example.trace if example else self._shared.get(name), name)
        except TraceError as error:
            return refused(str(error))

    def _show_replay(self, request: gr.Request, trace: Trace, link: str = "") -> tuple[Any, ...]:
        visitor = session_id_of(request)
        former = self._sessions.get(visitor)
        at_hand = [*(former.files if former else ()), *(path for example in self._examples.all for path in example.videos)]
        found = [None if path is None else str(self._uploads.playable_of(path)) for path in matching_videos(trace, at_hand)]
        visit = self._sessions.start_replay(visitor, trace, link)
        gallery = self._gallery_items(visit) if visitor in self._gallery_viewers else gr.skip()
        return *found, trace.started.prompt, *self._run_outputs(visit), gallery, *idle()

    # -- coming and going ----------------------------------------------------------------------------------------------

    def on_unload(self, request: gr.Request) -> None:
        """A visitor has closed or reloaded the page."""
        self._waiting_room.leave(session_id_of(request))
        self._gallery_viewers.discard(session_id_of(request))
        self._sessions.end(session_id_of(request))

    # -- what is shown -------------------------------------------------------------------------------------------------

    def _run_outputs(self, visit: Session) -> tuple[str, ViewJson, TranscriptJson]:
        state = visit.run.state
        shown: ViewJson = {
            "run": visit.name,
            "over": visit.run.over,
            **view_json(state, visit.thumbnails, reply_reader(state.started)),
        }
        if visit.is_replay:
            return replay_status_line(state), {**shown, "notes": [shown["judge"], *shown["notes"]]}, transcript_json(state)
        line = status_line(state, visit.run.seconds) if self._judges.is_loaded(visit.judge) else words.LOADING
        return line, shown, transcript_json(state)

    def _gallery_items(self, visit: Session) -> list[tuple[str, str]]:
        turns = visit.run.state.turns
        found = [(visit.thumbnails.path(half), text) for turn in turns for half, text in captioned_frames(turn.frames)]
        return [(path, text) for path, text in found if path]


async def _next_change(visit: Session) -> None:
    """Wait until there is something new to show, at most a second for the clock's sake."""
    before = visit.run.state
    await asyncio.sleep(UPDATE_SECONDS)
    for _ in range(round((1 - UPDATE_SECONDS) / POLL_SECONDS)):
        if visit.run.state is not before or visit.run.over:
            return
        await asyncio.sleep(POLL_SECONDS)


def same(count: int) -> tuple[Any, ...]:
    """That many parts stay as they are."""
    return (gr.skip(),) * count


def nothing(line: str, ending: str = "") -> tuple[Any, ...]:
    """The parts that a run writes to (status, trace, transcript, gallery), without a run."""
    return line, {"turns": [], "ending": ending}, {"passages": []}, []


def idle() -> tuple[Any, ...]:
    """Compare can be pressed, Stop cannot."""
    return gr.update(visible=True), gr.update(visible=False)


def turned_away() -> tuple[Any, ...]:
    """No place in the waiting room."""
    return *idle(), words.BUSY


def refused(sentence: str) -> tuple[Any, ...]:
    """A saved run that cannot be shown: what stood there before stays, and the reason is said."""
    return *same(3), sentence, *same(3), *same(2)


def session_id_of(request: gr.Request) -> str:
    """The visitor's own name, which lasts as long as the page is open."""
    return str(request.session_hash)


def linked_trace(request: gr.Request) -> str:
    """The name that a link `?trace=NAME` leads to, "" where the page was opened without one."""
    return str(request.query_params.get("trace") or "")
