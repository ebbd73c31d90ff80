"""Event handlers of the two videos: uploaded, fetched from a web address, removed. A verdict goes with the videos it belongs to."""

import time
from dataclasses import dataclass
from pathlib import Path

import gradio as gr

from vrthinker_core.errors import VrThinkerError
from vrthinker_core.types import Side
from vrthinker_core.ui.page.layout import PageComponents, Updates, no_updates
from vrthinker_core.ui.page.services import Services, session_id_of
from vrthinker_core.ui.sessions.replay import file_digest
from vrthinker_core.ui.sessions.sessions import Session
from vrthinker_core.ui.view import words


@dataclass(frozen=True, slots=True)
class UploadHandlers:
    """What happens when the video of one side changes. A run that is still going on is left alone."""

    parts: PageComponents
    services: Services
    side: Side

    def on_upload(self, path: str | None, request: gr.Request) -> Updates:
        """A file was uploaded: one that browsers cannot play is shown as a copy."""
        return self._replace_video(Path(path), request, {}) if path else no_updates()

    def on_address(self, address: str | None, request: gr.Request) -> Updates:
        """A web address was entered: its file replaces the video."""
        if not (address or "").strip():
            return {self.parts.status: words.NO_ADDRESS}
        try:
            path = self.services.uploads.fetch(str(address))
        except VrThinkerError as error:
            return {self.parts.status: str(error)}
        return self._replace_video(path, request, self._shown(path, words.FETCHED))

    def on_clear(self, request: gr.Request) -> Updates:
        """A video was removed."""
        session = self.services.session_of(request)
        return self._end_run(request, words.CHANGED) if session is not None and session.run.over else no_updates()

    def _replace_video(self, path: Path, request: gr.Request, playable: Updates) -> Updates:
        """`playable`: what changes on the page when browsers can play the file as it is."""
        before = self.services.session_of(request)
        try:
            shown = self.services.uploads.make_playable(path)
        except VrThinkerError as error:
            return {self.parts.status: str(error)}
        self.services.uploads.hold(session_id_of(request), path, shown)
        session = self.services.session_of(request)
        if session is not None and session.is_replay and (session is not before or _is_older(path, session)):
            return no_updates()  # a saved run with its own videos was opened meanwhile
        updates = playable if shown == path else self._shown(shown, words.COPY_SHOWN)
        if session is None or not session.run.over or self._was_compared(session, path):
            return updates or no_updates()
        return {**updates, **self._end_run(request, words.CHANGED if shown == path else words.COPY_SHOWN)}

    def _shown(self, path: Path, line: str) -> Updates:
        return {self.parts.videos[self.side - 1]: str(path), self.parts.status: line}

    def _end_run(self, request: gr.Request, line: str) -> Updates:
        self.services.sessions.end(session_id_of(request))
        return self.parts.without_run(line)

    def _was_compared(self, session: Session, path: Path) -> bool:
        """Whether the session's run compared this very file: the videos of a saved trace may be uploaded after it."""
        if session.files and session.files[self.side - 1] == path:
            return True
        started = session.run.state.started
        clip = started.clips[self.side - 1] if started else None
        return clip is not None and clip.digest == file_digest(path)


def _is_older(path: Path, session: Session) -> bool:
    """Whether a file came before a session began."""
    try:
        return time.time() - path.stat().st_mtime > time.monotonic() - session.started_at
    except OSError:
        return False
