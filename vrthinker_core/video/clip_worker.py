"""The worker process of one clip.

The first request opens the clip, each later one reads frames. The process ends when the parent is
gone.
"""

from dataclasses import asdict
from multiprocessing.connection import Connection
from pathlib import Path

import av.logging
import cv2

from vrthinker_core.errors import VideoError
from vrthinker_core.types.frames import FramePlan, Grid, Sizing
from vrthinker_core.video.clip_decoder import ClipDecoder, OpeningProgress
from vrthinker_core.video.files import shown_name
from vrthinker_core.video.limits import CpuBudget, Limits, confine_process, near_memory_limit
from vrthinker_core.video.process import Header, connect_to_parent, respond


def main(handle: int) -> None:
    """Serve one clip over the connection with the descriptor `handle`."""
    av.logging.set_level(av.logging.PANIC)
    cv2.setNumThreads(1)
    parent, requests = connect_to_parent(handle)
    decoder, name = None, ""
    while True:
        request = requests.get()
        name = name or shown_name(Path(request["path"]))
        try:
            if decoder is None:
                decoder = _open(parent, request, name)
            else:
                decoder.budget.restart()
                for frame, rgb in decoder.read(request["slots"]):
                    respond(parent, {"frame": frame, "done": False}, rgb)
                    del rgb  # frees the pixels before the next frame is decoded
        except VideoError as error:
            respond(parent, {"error": str(error), "died": False})
        except Exception as error:  # noqa: BLE001 - any error of a hostile file is one sentence
            # Decoders raise many kinds of errors when memory runs out.
            full = isinstance(error, MemoryError) or near_memory_limit()
            cause = f"cannot be decoded ({type(error).__name__})"
            cause = "needs more memory to decode than a video may take" if full else cause
            respond(parent, {"error": f"{name} {cause}.", "died": full})
        else:
            info, read_mode = asdict(decoder.info), decoder.read_mode
            respond(parent, {"info": info, "read_mode": read_mode, "done": True})


def _open(parent: Connection, request: Header, name: str) -> ClipDecoder:
    limits, sent = Limits(**request["limits"]), request["plan"]
    confine_process(limits)
    sizings = Sizing(**sent["opening"]), Sizing(**sent["later"])
    plan = FramePlan(Grid(**sent["grid"]), *sizings, frozenset(sent["first"]))
    progress = OpeningProgress(lambda share: respond(parent, {"share": share, "done": False}))
    path, budget = Path(request["path"]), CpuBudget(name, limits)
    return ClipDecoder(path, plan, request["read_mode"], budget, progress)
