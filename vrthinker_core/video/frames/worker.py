"""The worker process of one clip: the first request opens it, each later one asks for frames. It ends when the parent is gone."""

from dataclasses import asdict
from multiprocessing.connection import Connection
from pathlib import Path

import av.logging
import cv2

from vrthinker_core.errors import VideoError
from vrthinker_core.types.geometry import Grid, Sizing
from vrthinker_core.video.files import shown_name
from vrthinker_core.video.frames.clip_decoder import ClipDecoder, ConvertedFrame
from vrthinker_core.video.frames.plan import FramePlan
from vrthinker_core.video.limits import CpuBudget, Limits, confine_process, near_memory_limit
from vrthinker_core.video.worker_io import Header, connect_to_parent, request_queue, respond


def main(handle: int) -> None:
    """Serve one clip over the connection with the number `handle`."""
    av.logging.set_level(av.logging.PANIC)
    cv2.setNumThreads(1)
    parent = connect_to_parent(handle)
    service = DecodeService(parent)
    requests = request_queue(parent)
    while True:
        service.handle(requests.get())


class DecodeService:
    """Handles requests about one clip."""

    def __init__(self, parent: Connection) -> None:
        """Responses are sent to `parent`."""
        self._parent = parent
        self._decoder: ClipDecoder | None = None
        self._budget: CpuBudget | None = None
        self._name = ""

    def handle(self, request: Header) -> None:
        """Respond with frames as they are decoded, then with what is known of the clip; or with a sentence about what is wrong."""
        try:
            if self._decoder is None:
                self._decoder = self._open(request)
            else:
                self._send_frames(self._decoder, request["slots"])
        except VideoError as error:
            respond(self._parent, {"error": str(error), "died": False})
        except Exception as error:  # noqa: BLE001 - whatever a hostile file provokes becomes one sentence about that file
            full = isinstance(error, MemoryError) or near_memory_limit()  # decoders raise many errors for it
            cause = "needs more memory to decode than a video may take" if full else f"cannot be decoded ({type(error).__name__})"
            respond(self._parent, {"error": f"{self._name} {cause}.", "died": full})
        else:
            respond(self._parent, {"info": asdict(self._decoder.info), "read_mode": self._decoder.read_mode, "done": True})

    def _open(self, request: Header) -> ClipDecoder:
        limits = Limits(**request["limits"])
        confine_process(limits)
        path = Path(request["path"])
        self._name = shown_name(path)
        self._budget = CpuBudget(self._name, limits)
        sent = request["plan"]
        plan = FramePlan(Grid(**sent["grid"]), Sizing(**sent["opening"]), Sizing(**sent["later"]), frozenset(sent["first"]))
        return ClipDecoder(path, plan, limits, request["read_mode"], self._budget)

    def _send_frames(self, decoder: ClipDecoder, slots: list[int]) -> None:
        assert self._budget is not None
        self._budget.restart()
        for frame in decoder.read(slots):
            header = {name: getattr(frame, name) for name in ConvertedFrame.__slots__ if name != "rgb"}
            respond(self._parent, {"frame": header, "done": False}, frame.rgb)
