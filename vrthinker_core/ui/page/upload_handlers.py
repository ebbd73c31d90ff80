"""Videos come and go: by upload, by web address, taken away. A verdict goes with the videos it belongs to."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gradio as gr

from vrthinker_core.errors import VrThinkerError
from vrthinker_core.types import Side
from vrthinker_core.ui.fetch.uploads import Uploads
from vrthinker_core.ui.page.handlers import nothing, same, session_id_of
from vrthinker_core.ui.sessions.replay import file_digest
from vrthinker_core.ui.sessions.sessions import Session, Sessions
from vrthinker_core.ui.view import words

UploadHandler = Callable[[str | None, gr.Request], tuple[Any, ...]]
"""Takes what a person gave; answers the player and the parts that a run writes to."""


class UploadHandlers:
    """What happens when the video of one side changes. A run that is still going on is left alone."""

    def __init__(self, visits: Sessions, uploads: Uploads) -> None:
        self._sessions = visits
        self._uploads = uploads

    def on_upload(self, side: Side) -> UploadHandler:
        """A file was uploaded: browsers that cannot play it are shown a copy."""

        def act(path: str | None, request: gr.Request) -> tuple[Any, ...]:
            return self._replace_video(side, Path(path), request, gr.skip(), gr.skip()) if path else same(5)

        return act

    def on_address(self, side: Side) -> UploadHandler:
        """A web address was given: what stands there takes the place of the video."""

        def act(address: str | None, request: gr.Request) -> tuple[Any, ...]:
            if not (address or "").strip():
                return _said(words.NO_ADDRESS)
            try:
                path = self._uploads.fetch(str(address))
            except VrThinkerError as error:
                return _said(str(error))
            return self._replace_video(side, path, request, str(path), words.FETCHED)

        return act

    def on_clear(self, request: gr.Request) -> tuple[Any, ...]:
        """A video was taken away."""
        visit = self._sessions.get(session_id_of(request))
        return self._end_run(request, words.CHANGED) if visit is not None and visit.run.over else same(4)

    def _replace_video(self, side: Side, path: Path, request: gr.Request, player: object, line: object) -> tuple[Any, ...]:
        """`player` and `line` are what the player and the status show when browsers can play the file as it is."""
        before = self._sessions.get(session_id_of(request))
        try:
            shown = self._uploads.make_playable(path)
        except VrThinkerError as error:
            return _said(str(error))
        now = self._sessions.get(session_id_of(request))
        if now is not None and now.is_replay and (now is not before or _is_older(path, now)):
            return same(5)  # a saved run with its own videos has taken the place of this one meanwhile
        if shown != path:
            player, line = str(shown), words.COPY_SHOWN
        if now is None or not now.run.over or _was_compared(now, side, path):
            return player, line, *same(3)
        return player, *self._end_run(request, words.COPY_SHOWN if shown != path else words.CHANGED)

    def _end_run(self, request: gr.Request, line: str) -> tuple[Any, ...]:
        self._sessions.end(session_id_of(request))
        return nothing(line)


def _said(line: str) -> tuple[Any, ...]:
    return gr.skip(), line, *same(3)


def _is_older(path: Path, visit: Session) -> bool:
    """Whether a file came before a visit began."""
    try:
        return time.time() - path.stat().st_mtime > time.monotonic() - visit.started_at
    except OSError:
        return False


def _was_compared(visit: Session, side: Side, path: Path) -> bool:
    """Whether this very file was compared there: whoever opens a saved trace may bring its videos afterwards."""
    if visit.files and visit.files[side - 1] == path:
        return True
    started = visit.run.state.started
    clip = started.clips[side - 1] if started else None
    return clip is not None and clip.digest == file_digest(path)
