"""The decoding process: `open` once, then `frames` as often as they are asked for, until the parent hangs up."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import BinaryIO

import av.logging
import cv2

from vrthinker_core.errors import VideoError
from vrthinker_core.types.geometry import Grid, Sizing
from vrthinker_core.video.files import shown_name
from vrthinker_core.video.frames.clip_decoder import ClipDecoder, ConvertedFrame
from vrthinker_core.video.frames.plan import Plan
from vrthinker_core.video.limits import CpuBudget, Limits, confine_process, near_memory_limit
from vrthinker_core.video.worker_io import Header, claim_stdout, request_queue, send_message


def main() -> None:
    """Serve one clip on standard input and output."""
    av.logging.set_level(av.logging.PANIC)
    cv2.setNumThreads(1)
    service = DecodeService(claim_stdout())
    asked = request_queue()
    while True:
        service.answer(asked.get())


class DecodeService:
    """Answers requests about one clip."""

    def __init__(self, answers: BinaryIO) -> None:
        """`answers` is the pipe to the parent."""
        self._responses = answers
        self._decoder: ClipDecoder | None = None
        self._budget: CpuBudget | None = None
        self._name = ""

    def answer(self, request: Header) -> None:
        """Pictures as they become ready, then the clip as it is known, or one sentence about what is wrong."""
        try:
            if self._decoder is None:
                self._decoder = self._open(request)
            else:
                self._send_frames(self._decoder, request["slots"])
        except VideoError as error:
            self._respond({"error": str(error), "died": False})
        except Exception as fault:  # noqa: BLE001 - the border: whatever a hostile file provokes is one sentence about that file
            short = isinstance(fault, MemoryError) or near_memory_limit()  # decoders give it many names
            cause = "needs more memory to decode than a video may take" if short else f"cannot be decoded ({type(fault).__name__})"
            self._respond({"error": f"{self._name} {cause}.", "died": short})
        else:
            self._respond({"info": asdict(self._decoder.info), "reading": self._decoder.read_mode})

    def _open(self, request: Header) -> ClipDecoder:
        limits = Limits(**request["limits"])
        confine_process(limits)
        path = Path(request["path"])
        self._name = shown_name(path)
        self._budget = CpuBudget(self._name, limits)
        plan = Plan(Grid(**request["grid"]), Sizing(**request["opening"]), Sizing(**request["later"]), frozenset(request["first"]))
        return ClipDecoder(path, plan, limits, request["reading"], self._budget)

    def _send_frames(self, reel: ClipDecoder, slots: list[int]) -> None:
        assert self._budget is not None
        self._budget.restart()
        for picture in reel.read(slots):
            self._send_frame(picture)

    def _send_frame(self, picture: ConvertedFrame) -> None:
        header = {name: getattr(picture, name) for name in ConvertedFrame.__slots__ if name != "rgb"}
        self._respond({"picture": header}, picture.rgb)

    def _respond(self, header: Header, payload: bytes = b"") -> None:
        try:
            send_message(self._responses, header, payload)
        except OSError:
            os._exit(0)
