"""The decoding process: `open` once, then `frames` as often as they are asked for, until the parent hangs up."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import BinaryIO

import av.logging
import cv2

from vrthinker_core.errors import VideoError
from vrthinker_core.geometry import Grid, Sizing
from vrthinker_core.video.files import shown_name
from vrthinker_core.video.frames.clip_decoder import Picture, Reel
from vrthinker_core.video.frames.plan import Plan
from vrthinker_core.video.limits import Budget, Limits, confine, memory_ran_short
from vrthinker_core.video.worker_io import Header, own_output, requests, send


def main() -> None:
    """Serve one clip on standard input and output."""
    av.logging.set_level(av.logging.PANIC)
    cv2.setNumThreads(1)
    service = Service(own_output())
    asked = requests()
    while True:
        service.answer(asked.get())


class Service:
    """Answers requests about one clip."""

    def __init__(self, answers: BinaryIO) -> None:
        """`answers` is the pipe to the parent."""
        self._answers = answers
        self._reel: Reel | None = None
        self._budget: Budget | None = None
        self._name = ""

    def answer(self, request: Header) -> None:
        """Pictures as they become ready, then the clip as it is known, or one sentence about what is wrong."""
        try:
            if self._reel is None:
                self._reel = self._open(request)
            else:
                self._send_pictures(self._reel, request["slots"])
        except VideoError as error:
            self._say({"error": str(error), "died": False})
        except Exception as fault:  # noqa: BLE001 - the border: whatever a hostile file provokes is one sentence about that file
            short = isinstance(fault, MemoryError) or memory_ran_short()  # decoders give it many names
            cause = "needs more memory to decode than a video may take" if short else f"cannot be decoded ({type(fault).__name__})"
            self._say({"error": f"{self._name} {cause}.", "died": short})
        else:
            self._say({"info": asdict(self._reel.info), "reading": self._reel.reading})

    def _open(self, request: Header) -> Reel:
        limits = Limits(**request["limits"])
        confine(limits)
        path = Path(request["path"])
        self._name = shown_name(path)
        self._budget = Budget(self._name, limits)
        plan = Plan(Grid(**request["grid"]), Sizing(**request["opening"]), Sizing(**request["later"]), frozenset(request["first"]))
        return Reel(path, plan, limits, request["reading"], self._budget)

    def _send_pictures(self, reel: Reel, slots: list[int]) -> None:
        assert self._budget is not None
        self._budget.restart()
        for picture in reel.pictures(slots):
            self._send(picture)

    def _send(self, picture: Picture) -> None:
        header = {name: getattr(picture, name) for name in Picture.__slots__ if name != "rgb"}
        self._say({"picture": header}, picture.rgb)

    def _say(self, header: Header, payload: bytes = b"") -> None:
        try:
            send(self._answers, header, payload)
        except OSError:
            os._exit(0)
