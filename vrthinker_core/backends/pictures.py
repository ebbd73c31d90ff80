"""Frames as pictures in a request: exact data and picture ids."""

import base64
import hashlib
import io
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, Literal

from PIL import Image

from vrthinker_core.types import Frame

CACHE_BYTES = 64 * 2**20  # Of a conversation's pictures: about 200 frames of 448 x 448 as PNG

PictureFormat = Literal["bmp", "webp", "png"]
FORMATS: dict[PictureFormat, dict[str, Any]] = {
    "bmp": {},
    "webp": {"lossless": True, "quality": 0, "method": 0},
    "png": {"compress_level": 1},
}
"""Formats without loss, the fastest first, and Pillow's options. A BMP is larger than a network should
carry; WebP takes two thirds of the time and bytes of PNG."""


class PictureCache:
    """One conversation's pictures; `sent` holds the ids that the server has."""

    def __init__(self, max_bytes: int = CACHE_BYTES) -> None:
        self.sent: set[str] = set()
        self._ids: dict[str, str] = {}
        self._encoded: OrderedDict[tuple[str, PictureFormat], str] = OrderedDict()
        self._max_bytes = max_bytes
        self._bytes = 0

    def picture_id(self, frame: Frame) -> str:
        """Return an id, on any machine equal for equal pixels only."""
        if frame.key not in self._ids:
            size = f"{frame.width}x{frame.height}:".encode()
            self._ids[frame.key] = "vrt-" + hashlib.sha256(size + frame.rgb).hexdigest()
        return self._ids[frame.key]

    def video_id(self, frames: Sequence[Frame]) -> str:
        """Return such an id for frames that are sent as one video."""
        return "vrt-" + hashlib.sha256("".join(map(self.picture_id, frames)).encode()).hexdigest()

    def encoded(self, frame: Frame, picture_format: PictureFormat) -> str:
        """Return a picture in base64; a full cache drops the least recently used."""
        key = frame.key, picture_format
        if key in self._encoded:
            self._encoded.move_to_end(key)
            return self._encoded[key]
        encoded = self._encoded[key] = _base64(frame.image, picture_format)
        self._bytes += len(encoded)
        while self._bytes > self._max_bytes and len(self._encoded) > 1:
            self._bytes -= len(self._encoded.popitem(last=False)[1])
        return encoded


def small_picture() -> str:
    """Return a small test picture as PNG in base64."""
    return _base64(Image.new("RGB", (112, 112), (200, 60, 40)), "png")


def _base64(picture: Image.Image, picture_format: PictureFormat) -> str:
    buffer = io.BytesIO()
    picture.save(buffer, picture_format, **FORMATS[picture_format])
    return base64.b64encode(buffer.getvalue()).decode("ascii")
