"""The process that makes a playable copy: what is wrong for a browser is found out, and as little as possible is made anew."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import BinaryIO

import av.logging
import cv2

from vrthinker_core.errors import VideoError
from vrthinker_core.video.browser_copy.browser_support import check_browser_support
from vrthinker_core.video.browser_copy.encode import encode
from vrthinker_core.video.browser_copy.remux import remux
from vrthinker_core.video.files import open_local, shown_name
from vrthinker_core.video.frames.container import VideoSource
from vrthinker_core.video.limits import CpuBudget, Limits, confine_process
from vrthinker_core.video.worker_io import Header, claim_stdout, request_queue, send_message

_CHUNK_BYTES = 1 << 20


def main() -> None:
    """One request, one copy."""
    av.logging.set_level(av.logging.PANIC)
    cv2.setNumThreads(1)
    answers = claim_stdout()
    request = request_queue().get()
    path = Path(request["path"])
    try:
        copy = _make_copy(path, Limits(**request["limits"]))
    except VideoError as error:
        _respond(answers, {"error": str(error), "died": False})
    except MemoryError:
        _respond(answers, {"error": f"{shown_name(path)} needs more memory to copy than a video may take.", "died": True})
    except Exception as fault:  # noqa: BLE001 - the border: whatever a hostile file provokes is one sentence about that file
        _respond(answers, {"error": f"No playable copy of {shown_name(path)} can be made ({type(fault).__name__}).", "died": False})
    else:
        _send_copy(answers, copy)


def _make_copy(path: Path, limits: Limits) -> io.BytesIO | None:
    """The copy, None when none is needed."""
    confine_process(limits)
    budget = CpuBudget(shown_name(path), limits)
    with open_local(path) as file:
        source = VideoSource(file, shown_name(path), limits)
        found = check_browser_support(source, path, budget)
        if found.playable:
            return None
        if found.remuxable and (copy := remux(source, found.packet_times, budget)) is not None:
            return copy
        return encode(source, budget)


def _send_copy(answers: BinaryIO, copy: io.BytesIO | None) -> None:
    content = copy.getbuffer() if copy is not None else memoryview(b"")
    for start in range(0, len(content), _CHUNK_BYTES):
        _respond(answers, {"done": False}, bytes(content[start : start + _CHUNK_BYTES]))
    _respond(answers, {"done": True})


def _respond(answers: BinaryIO, header: Header, payload: bytes = b"") -> None:
    try:
        send_message(answers, header, payload)
    except OSError:
        os._exit(0)
