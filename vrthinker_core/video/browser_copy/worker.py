"""The process that makes a playable copy: what is wrong for a browser is found out, and as little as possible is made anew."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import BinaryIO

import av.logging
import cv2

from vrthinker_core.errors import VideoError
from vrthinker_core.video.browser_copy.browser_support import survey
from vrthinker_core.video.browser_copy.encode import encode
from vrthinker_core.video.browser_copy.remux import remux
from vrthinker_core.video.files import open_local, shown_name
from vrthinker_core.video.frames.container import Source
from vrthinker_core.video.limits import Budget, Limits, confine
from vrthinker_core.video.worker_io import Header, own_output, requests, send

_PIECE = 1 << 20


def main() -> None:
    """One request, one copy."""
    av.logging.set_level(av.logging.PANIC)
    cv2.setNumThreads(1)
    answers = own_output()
    request = requests().get()
    path = Path(request["path"])
    try:
        copy = _make(path, Limits(**request["limits"]))
    except VideoError as error:
        _say(answers, {"error": str(error), "died": False})
    except MemoryError:
        _say(answers, {"error": f"{shown_name(path)} needs more memory to copy than a video may take.", "died": True})
    except Exception as fault:  # noqa: BLE001 - the border: whatever a hostile file provokes is one sentence about that file
        _say(answers, {"error": f"No playable copy of {shown_name(path)} can be made ({type(fault).__name__}).", "died": False})
    else:
        _hand_over(answers, copy)


def _make(path: Path, limits: Limits) -> io.BytesIO | None:
    """The copy, None when none is needed."""
    confine(limits)
    budget = Budget(shown_name(path), limits)
    with open_local(path) as file:
        source = Source(file, shown_name(path), limits)
        found = survey(source, path, budget)
        if found.playable:
            return None
        if found.movable and (copy := remux(source, found.times, budget)) is not None:
            return copy
        return encode(source, budget)


def _hand_over(answers: BinaryIO, copy: io.BytesIO | None) -> None:
    content = copy.getbuffer() if copy is not None else memoryview(b"")
    for start in range(0, len(content), _PIECE):
        _say(answers, {"done": False}, bytes(content[start : start + _PIECE]))
    _say(answers, {"done": True})


def _say(answers: BinaryIO, header: Header, payload: bytes = b"") -> None:
    try:
        send(answers, header, payload)
    except OSError:
        os._exit(0)
