"""The worker process that makes a browser copy.

It remuxes the file if possible and encodes it otherwise.
"""

import io
from pathlib import Path

import av
import cv2

from vrthinker_core.errors import VideoError
from vrthinker_core.video.browser_copy.browser_support import check_browser_support
from vrthinker_core.video.browser_copy.encode import encode
from vrthinker_core.video.browser_copy.remux import remux
from vrthinker_core.video.files import open_local, shown_name
from vrthinker_core.video.frames.container import VideoSource
from vrthinker_core.video.limits import CpuBudget, Limits, confine_process, near_memory_limit
from vrthinker_core.video.worker_io import connect_to_parent, request_queue, respond

_CHUNK_BYTES = 1 << 20


def main(handle: int) -> None:
    """Serve one request over the connection with the descriptor `handle`."""
    av.logging.set_level(av.logging.PANIC)
    cv2.setNumThreads(1)
    parent = connect_to_parent(handle)
    request = request_queue(parent).get()
    path, limits = Path(request["path"]), Limits(**request["limits"])
    budget = CpuBudget(shown_name(path), limits)
    try:
        copy = _make_copy(path, limits, budget)
    except VideoError as error:
        # If the copy passed a limit, the error says nothing about the file.
        respond(parent, {"error": str(error), "died": budget.is_spent or near_memory_limit()})
    except MemoryError:
        respond(
            parent,
            {
                "error": f"{shown_name(path)} needs more memory to copy than a video may take.",
                "died": True,
            },
        )
    except Exception as error:  # noqa: BLE001 - whatever a hostile file provokes becomes one sentence about that file
        respond(
            parent,
            {
                "error": f"No playable copy of {shown_name(path)} can be made ({type(error).__name__}).",
                "died": True,
            },
        )
    else:
        copy.seek(0)
        while chunk := copy.read(_CHUNK_BYTES):
            respond(parent, {"done": False}, chunk)
        respond(parent, {"done": True})


def _make_copy(path: Path, limits: Limits, budget: CpuBudget) -> io.BytesIO:
    confine_process(limits)
    with open_local(path) as file:
        source = VideoSource(file, budget)
        support = check_browser_support(source, path)
        if support.playable:
            return io.BytesIO()
        if support.remuxable and (copy := remux(source, support.packet_times)) is not None:
            return copy
        return encode(source)
