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
from vrthinker_core.ui.page.handlers import nothing, same, visitor_of
from vrthinker_core.ui.sessions.replay import digest
from vrthinker_core.ui.sessions.sessions import Visit, Visits
from vrthinker_core.ui.view import words

Act = Callable[[str | None, gr.Request], tuple[Any, ...]]
"""Takes what a person gave; answers the player and the parts that a run writes to."""


class Arrivals:
    """What happens when the video of one side changes. A run that is still going on is left alone."""

    def __init__(self, visits: Visits, uploads: Uploads) -> None:
        self._visits = visits
        self._uploads = uploads

    def uploaded(self, side: Side) -> Act:
        """A file was uploaded: browsers that cannot play it are shown a copy."""

        def act(path: str | None, request: gr.Request) -> tuple[Any, ...]:
            return self._arrived(side, Path(path), request, gr.skip(), gr.skip()) if path else same(5)

        return act

    def named(self, side: Side) -> Act:
        """A web address was given: what stands there takes the place of the video."""

        def act(address: str | None, request: gr.Request) -> tuple[Any, ...]:
            if not (address or "").strip():
                return _said(words.NO_ADDRESS)
            try:
                path = self._uploads.fetch(str(address))
            except VrThinkerError as error:
                return _said(str(error))
            return self._arrived(side, path, request, str(path), words.FETCHED)

        return act

    def taken(self, request: gr.Request) -> tuple[Any, ...]:
        """A video was taken away."""
        visit = self._visits.find(visitor_of(request))
        return self._forget(request, words.CHANGED) if visit is not None and visit.run.over else same(4)

    def _arrived(self, side: Side, path: Path, request: gr.Request, player: object, line: object) -> tuple[Any, ...]:
        """`player` and `line` are what the player and the status show when browsers can play the file as it is."""
        before = self._visits.find(visitor_of(request))
        try:
            shown = self._uploads.prepare(path)
        except VrThinkerError as error:
            return _said(str(error))
        now = self._visits.find(visitor_of(request))
        if now is not None and now.replayed and (now is not before or _older(path, now)):
            return same(5)  # a saved run with its own videos has taken the place of this one meanwhile
        if shown != path:
            player, line = str(shown), words.COPY_SHOWN
        if now is None or not now.run.over or _was_compared(now, side, path):
            return player, line, *same(3)
        return player, *self._forget(request, words.COPY_SHOWN if shown != path else words.CHANGED)

    def _forget(self, request: gr.Request, line: str) -> tuple[Any, ...]:
        self._visits.leave(visitor_of(request))
        return nothing(line)


def _said(line: str) -> tuple[Any, ...]:
    return gr.skip(), line, *same(3)


def _older(path: Path, visit: Visit) -> bool:
    """Whether a file came before a visit began."""
    try:
        return time.time() - path.stat().st_mtime > time.monotonic() - visit.since
    except OSError:
        return False


def _was_compared(visit: Visit, side: Side, path: Path) -> bool:
    """Whether this very file was compared there: whoever opens a saved trace may bring its videos afterwards."""
    if visit.files and visit.files[side - 1] == path:
        return True
    started = visit.run.state.started
    clip = started.clips[side - 1] if started else None
    return clip is not None and clip.digest == digest(path)
