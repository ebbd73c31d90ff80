"""Event handlers of the two videos: uploaded, fetched from a web address, removed."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import gradio as gr

from vrthinker_core.errors import VrThinkerError
from vrthinker_core.types import Side
from vrthinker_core.ui.page.layout import PageComponents, Updates, no_updates
from vrthinker_core.ui.page.services import Services, session_id_of
from vrthinker_core.ui.sessions.player_files import EMPTY, changed_sides
from vrthinker_core.ui.sessions.session import Session
from vrthinker_core.ui.view import words
from vrthinker_core.video.files import file_digest

ChangedRun = Callable[[Session, gr.Request, str], Updates]  # how a run is shown after a player has changed


@dataclass(frozen=True, slots=True)
class UploadHandlers:
    """What happens when the video of one side changes. A run that is shown stays: it says that it judged other videos."""

    parts: PageComponents
    services: Services
    side: Side
    changed_run: ChangedRun

    def on_arrival(self, prompt: str | None, first: str | None, second: str | None, request: gr.Request) -> Updates:
        """A file was uploaded and stands in the player: known at once, before a copy of it is made."""
        path = (first, second)[self.side - 1]
        if not path:
            return no_updates()
        return self._changed(request, file_digest(Path(path)), words.next_step(first, second, prompt)) or no_updates()

    def on_upload(self, path: str | None, request: gr.Request) -> Updates:
        """After `on_arrival`: a file that browsers cannot play is shown as a copy."""
        if not path:
            return no_updates()
        shown, digest = self._playable(Path(path), request), file_digest(Path(path))
        if self.services.player_files.get(session_id_of(request))[self.side - 1] != digest:
            return no_updates()  # another file has come meanwhile
        if isinstance(shown, Path):
            return no_updates() if shown == Path(path) else self._shown(shown, words.COPY_SHOWN)
        return {self.parts.status: shown}

    def on_address(self, address: str | None, request: gr.Request) -> Updates:
        """A web address was entered: its file replaces the video."""
        if not (address or "").strip():
            return {self.parts.status: words.NO_ADDRESS}
        before = self.services.session_of(request)
        try:
            path = self.services.uploads.fetch(str(address))
        except VrThinkerError as error:
            return {self.parts.status: str(error)}
        shown, session = self._playable(path, request), self.services.session_of(request)
        if not isinstance(shown, Path):
            return {self.parts.status: shown}
        if session is not None and session.is_replay and session is not before:
            return no_updates()  # a saved run with its own videos was opened meanwhile
        line = words.FETCHED if shown == path else words.COPY_SHOWN
        return {**self._changed(request, file_digest(path), line), **self._shown(shown, line)}

    def on_clear(self, prompt: str | None, first: str | None, second: str | None, request: gr.Request) -> Updates:
        """A video was removed."""
        left = second if self.side is Side.FIRST else first
        return self._changed(request, EMPTY, words.next_step(None, left, prompt)) or no_updates()

    def _playable(self, path: Path, request: gr.Request) -> Path | str:
        """The file that the page shows, which is then held for the visitor, or why there is none."""
        try:
            shown = self.services.uploads.make_playable(path)
        except VrThinkerError as error:
            return str(error)
        self.services.uploads.hold(session_id_of(request), self.side, path, shown)
        return shown

    def _shown(self, path: Path, line: str) -> Updates:
        return {self.parts.videos[self.side - 1]: str(path), self.parts.status: line}

    def _changed(self, request: gr.Request, digest: str, next_step: str) -> Updates:
        """The player holds another file. `next_step` is what the status says where no run is shown."""
        session, players = self.services.session_of(request), self.services.player_files
        players.put(session_id_of(request), self.side, digest)
        if session is None:
            return {self.parts.status: next_step}
        sides = changed_sides(session.run.state.started, players.get(session_id_of(request)))
        return self.changed_run(session, request, words.CHANGED if sides else next_step)
