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

ChangedRun = Callable[
    [Session, gr.Request, str], Updates
]  # how a run is shown after a player has changed


@dataclass(frozen=True, slots=True)
class UploadHandlers:
    """What happens when the video of one side changes. A run that is shown stays: it says that it judged other videos."""

    parts: PageComponents
    services: Services
    side: Side
    changed_run: ChangedRun

    def on_arrival(
        self, prompt: str | None, first: str | None, second: str | None, request: gr.Request
    ) -> Updates:
        """A file was uploaded and stands in the player: known at once, before a copy of it is made."""
        path = (first, second)[self.side - 1]
        if not path:
            return no_updates()
        self._put(file_digest(Path(path)), request)
        return self._changed(self._line(prompt, first, second, request), request) or no_updates()

    def on_upload(
        self, prompt: str | None, first: str | None, second: str | None, request: gr.Request
    ) -> Updates:
        """After `on_arrival`: a file that browsers cannot play is shown as a copy."""
        path = (first, second)[self.side - 1]
        if not path:
            return no_updates()
        shown, digest = self._playable(Path(path), request), file_digest(Path(path))
        session_id, players = session_id_of(request), self.services.player_files
        if players.get(session_id)[self.side - 1] != digest:
            return no_updates()  # another file has come meanwhile
        if shown == Path(path):
            return no_updates()
        if isinstance(shown, Path):
            return self._shown(
                shown, f"{words.COPY_SHOWN} {self._line(prompt, first, second, request)}"
            )
        if isinstance(shown, NoCopy):
            self.services.uploads.hold(session_id, self.side, Path(path), Path(path))
            return {
                self.parts.status: f"{shown} {words.NO_COPY} {self._line(prompt, first, second, request)}"
            }
        if isinstance(shown, VideoUnavailable):  # it can be compared later
            return {self.parts.status: f"{shown} {self._line(prompt, first, second, request)}"}
        players.refuse(session_id, digest, str(shown))
        return {self.parts.status: self._line(prompt, first, second, request)}

    def on_address(
        self,
        address: str | None,
        prompt: str | None,
        first: str | None,
        second: str | None,
        request: gr.Request,
    ) -> Updates:
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
            return {self.parts.status: str(shown)}
        if session is not None and session.is_replay and session is not before:
            return no_updates()  # a saved run with its own videos was opened meanwhile
        self._put(file_digest(path), request)
        line = self._line(prompt, first, second, request)
        return {
            **self._changed(line, request),
            **self._shown(shown, line if shown == path else f"{words.COPY_SHOWN} {line}"),
        }

    def on_clear(
        self, prompt: str | None, first: str | None, second: str | None, request: gr.Request
    ) -> Updates:
        """A video was removed."""
        self._put(EMPTY, request)
        return self._changed(self._line(prompt, first, second, request), request) or no_updates()

    def _playable(self, path: Path, request: gr.Request) -> Path | VrThinkerError:
        """The file that the page shows, which is then held for the visitor, or why there is none."""
        try:
            shown = self.services.uploads.make_playable(path)
        except VrThinkerError as error:
            return error
        self.services.uploads.hold(session_id_of(request), self.side, path, shown)
        return shown

    def _shown(self, path: Path, line: str) -> Updates:
        return {self.parts.videos[self.side - 1]: str(path), self.parts.status: line}

    def _put(self, digest: str, request: gr.Request) -> None:
        """The player holds another file."""
        self.services.player_files.put(session_id_of(request), self.side, digest)

    def _line(
        self, prompt: str | None, first: str | None, second: str | None, request: gr.Request
    ) -> str:
        """What the status says of the inputs: that the run which is shown judged other videos, or else the next step."""
        session, players, session_id = (
            self.services.session_of(request),
            self.services.player_files,
            session_id_of(request),
        )
        digests, refusals = players.get(session_id), players.refusals(session_id)
        if (
            session is not None
            and changed_sides(session.run.state.started, digests)
            and not any(refusals)
        ):
            return words.CHANGED
        # What the browser has sent is older than what is known of this player, and of a file that came to the other one meanwhile.
        paths = (digests[0], second) if self.side is Side.FIRST else (first, digests[1])
        here = [
            bool(path or digest) and not refusal
            for path, digest, refusal in zip(paths, digests, refusals, strict=True)
        ]
        return words.next_step(
            here[0], here[1], prompt, [refusal for refusal in refusals if refusal]
        )

    def _changed(self, line: str, request: gr.Request) -> Updates:
        """The page after a player has changed."""
        session = self.services.session_of(request)
        return (
            {self.parts.status: line}
            if session is None
            else self.changed_run(session, request, line)
        )
