"""Event handlers of the two videos: uploaded, fetched from a web address, removed."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import gradio as gr

from vrthinker_core.errors import NoCopy, VideoUnavailable, VrThinkerError
from vrthinker_core.types import Side
from vrthinker_core.ui import words
from vrthinker_core.ui.layout import PageComponents, Updates, no_updates
from vrthinker_core.ui.page_sessions import Session
from vrthinker_core.ui.player_files import EMPTY, changed_sides
from vrthinker_core.ui.services import Services, session_id_of
from vrthinker_core.video.files import file_digest


@dataclass(frozen=True, slots=True)
class UploadHandlers:
    """Handlers for the video of one side; a shown run stays."""

    parts: PageComponents
    services: Services
    side: Side
    changed_run: Callable[[Session, gr.Request, str], Updates]  # shows it after a change

    def on_arrival(
        self, prompt: str | None, first: str | None, second: str | None, request: gr.Request
    ) -> Updates:
        """Note a file that was uploaded, before a copy of it is made."""
        path = (first, second)[self.side - 1]
        if not path:
            return no_updates()
        digest = file_digest(Path(path))
        return self._changed(digest, prompt, first, second, request) or no_updates()

    def on_upload(
        self, prompt: str | None, first: str | None, second: str | None, request: gr.Request
    ) -> Updates:
        """Show a copy of a file that browsers cannot play, after `on_arrival`."""
        path = (first, second)[self.side - 1]
        if not path:
            return no_updates()
        shown, digest = self._playable(Path(path), request), file_digest(Path(path))
        session_id, players = session_id_of(request), self.services.player_files
        if players.get(session_id)[self.side - 1] != digest or shown == Path(path):
            return no_updates()  # another file has come meanwhile, or browsers play this one
        status, line = self.parts.status, self._line(prompt, first, second, request)
        if isinstance(shown, Path):
            player = self.parts.videos[self.side - 1]
            return {player: str(shown), status: f"{words.COPY_SHOWN} {line}"}
        if isinstance(shown, NoCopy):
            self.services.uploads.hold(session_id, self.side, Path(path), Path(path))
            return {status: f"{shown} {words.NO_COPY} {line}"}
        if isinstance(shown, VideoUnavailable):  # it can be compared later
            return {status: f"{shown} {line}"}
        players.refuse(session_id, digest, str(shown))
        return {status: self._line(prompt, first, second, request)}

    def on_address(
        self,
        address: str | None,
        prompt: str | None,
        first: str | None,
        second: str | None,
        request: gr.Request,
    ) -> Updates:
        """Replace the video by the file at a web address."""
        if not (address or "").strip():
            return {self.parts.status: words.NO_ADDRESS}
        before = self.services.session_of(request)
        try:
            path = self.services.uploads.fetch(str(address))
        except VrThinkerError as error:
            return {self.parts.status: str(error)}
        shown, session = self._playable(path, request), self.services.session_of(request)
        if not isinstance(shown, Path):
            return {self.parts.status: str(shown)}
        if session is not None and session.is_replay and session is not before:
            return no_updates()  # a saved run with its own videos was opened meanwhile
        changed = self._changed(file_digest(path), prompt, first, second, request)
        line = self._line(prompt, first, second, request)
        line = line if shown == path else f"{words.COPY_SHOWN} {line}"
        return {**changed, self.parts.videos[self.side - 1]: str(shown), self.parts.status: line}

    def on_clear(
        self, prompt: str | None, first: str | None, second: str | None, request: gr.Request
    ) -> Updates:
        """Note that the video was removed."""
        return self._changed(EMPTY, prompt, first, second, request) or no_updates()

    def _playable(self, path: Path, request: gr.Request) -> Path | VrThinkerError:
        """Hold and return the file to show, or return the error."""
        try:
            shown = self.services.uploads.make_playable(path)
        except VrThinkerError as error:
            return error
        self.services.uploads.hold(session_id_of(request), self.side, path, shown)
        return shown

    def _line(
        self, prompt: str | None, first: str | None, second: str | None, request: gr.Request
    ) -> str:
        """Say that the shown run judged other videos, or else the next step."""
        session_id, players = session_id_of(request), self.services.player_files
        session = self.services.session_of(request)
        digests, refusals = players.get(session_id), players.refusals(session_id)
        changed = session is not None and changed_sides(session.run.state.started, digests)
        if changed and not any(refusals):
            return words.CHANGED
        # The browser's values are older than what is known of this player.
        paths = (digests[0], second) if self.side is Side.FIRST else (first, digests[1])
        here = [
            bool(path or digest) and not refusal
            for path, digest, refusal in zip(paths, digests, refusals, strict=True)
        ]
        return words.next_step(here[0], here[1], prompt, list(filter(None, refusals)))

    def _changed(
        self,
        digest: str,
        prompt: str | None,
        first: str | None,
        second: str | None,
        request: gr.Request,
    ) -> Updates:
        """Note the player's new file, and show the page after that."""
        self.services.player_files.put(session_id_of(request), self.side, digest)
        line, session = (
            self._line(prompt, first, second, request),
            self.services.session_of(request),
        )
        if session is None:
            return {self.parts.status: line}
        return self.changed_run(session, request, line)
