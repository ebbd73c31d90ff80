"""Event handlers of the two videos: uploaded, fetched from a web address, removed. A verdict goes with the videos it belongs to."""

import time
from collections.abc import Callable
from pathlib import Path

import gradio as gr

from vrthinker_core.errors import VrThinkerError
from vrthinker_core.types import Side
from vrthinker_core.ui.page.layout import PageComponents
from vrthinker_core.ui.page.services import Services, session_id_of
from vrthinker_core.ui.page.updates import Updates, no_updates, without_run
from vrthinker_core.ui.sessions.replay import file_digest
from vrthinker_core.ui.sessions.sessions import Session
from vrthinker_core.ui.view import words

UploadHandler = Callable[[str | None, gr.Request], Updates]
"""Takes the path of an upload, or a web address."""


class UploadHandlers:
    """What happens when the video of one side changes. A run that is still going on is left alone."""

    def __init__(self, parts: PageComponents, services: Services) -> None:
        self._parts = parts
        self._services = services

    def on_upload(self, side: Side) -> UploadHandler:
        """The handler of an upload: a file that browsers cannot play is shown as a copy."""

        def handle(path: str | None, request: gr.Request) -> Updates:
            return self._replace_video(side, Path(path), request, {}) if path else no_updates()

        return handle

    def on_address(self, side: Side) -> UploadHandler:
        """The handler of a web address: its file replaces the video."""

        def handle(address: str | None, request: gr.Request) -> Updates:
            if not (address or "").strip():
                return {self._parts.status: words.NO_ADDRESS}
            try:
                path = self._services.uploads.fetch(str(address))
            except VrThinkerError as error:
                return {self._parts.status: str(error)}
            fetched = {self._parts.videos[side - 1]: str(path), self._parts.status: words.FETCHED}
            return self._replace_video(side, path, request, fetched)

        return handle

    def on_clear(self, request: gr.Request) -> Updates:
        """A video was removed."""
        session = self._services.session_of(request)
        return self._end_run(request, words.CHANGED) if session is not None and session.run.over else no_updates()

    def _replace_video(self, side: Side, path: Path, request: gr.Request, playable: Updates) -> Updates:
        """`playable`: what changes on the page when browsers can play the file as it is."""
        before = self._services.session_of(request)
        try:
            shown = self._services.uploads.make_playable(path)
        except VrThinkerError as error:
            return {self._parts.status: str(error)}
        session = self._services.session_of(request)
        if session is not None and session.is_replay and (session is not before or _is_older(path, session)):
            return no_updates()  # a saved run with its own videos was opened meanwhile
        updates = playable if shown == path else {self._parts.videos[side - 1]: str(shown), self._parts.status: words.COPY_SHOWN}
        if session is None or not session.run.over or _was_compared(session, side, path):
            return updates or no_updates()
        return {**updates, **self._end_run(request, words.CHANGED if shown == path else words.COPY_SHOWN)}

    def _end_run(self, request: gr.Request, line: str) -> Updates:
        self._services.sessions.end(session_id_of(request))
        return without_run(self._parts, line)


def _is_older(path: Path, session: Session) -> bool:
    """Whether a file came before a session began."""
    try:
        return time.time() - path.stat().st_mtime > time.monotonic() - session.started_at
    except OSError:
        return False


def _was_compared(session: Session, side: Side, path: Path) -> bool:
    """Whether the session's run compared this very file: the videos of a saved trace may be uploaded after it."""
    if session.files and session.files[side - 1] == path:
        return True
    started = session.run.state.started
    clip = started.clips[side - 1] if started else None
    return clip is not None and clip.digest == file_digest(path)
