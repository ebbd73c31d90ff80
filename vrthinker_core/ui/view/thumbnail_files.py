"""Thumbnails as files: each picture is written once, under the name of its content, and never rewritten while it is being read."""

from __future__ import annotations

import hashlib
import io
from pathlib import Path

from vrthinker_core.types import Thumbnail
from vrthinker_core.ui.view.tiles import ImageSource


class ThumbnailFiles:
    """Pictures of one run in `folder`, which the server offers under `url` (relative, so that no path of the machine is told)."""

    def __init__(self, folder: Path, url: str) -> None:
        self._folder = folder
        self._url = url
        self._known: dict[bytes, ImageSource] = {}

    def __call__(self, frame: Thumbnail) -> ImageSource:
        """Where the browser finds the picture; nowhere when it could not be kept (full disk): the run goes on without it."""
        if frame.jpeg not in self._known:
            self._known[frame.jpeg] = ImageSource(self._keep(frame.jpeg), *jpeg_size(frame.jpeg))
        return self._known[frame.jpeg]

    def path(self, frame: Thumbnail) -> str:
        """Where the picture lies on the disk; "" when it could not be kept."""
        src = self(frame).src
        return str(self._folder / Path(src).name) if src else ""

    def _keep(self, jpeg: bytes) -> str:
        path = self._folder / f"{hashlib.blake2b(jpeg, digest_size=10).hexdigest()}.jpg"
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            path.write_bytes(jpeg)
        except OSError:
            path.unlink(missing_ok=True)
            return ""
        return f"{self._url}/{path.name}"


def jpeg_size(jpeg: bytes) -> tuple[int, int]:
    """Width and height in pixels, from the header alone; a square for what is no picture."""
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(io.BytesIO(jpeg), formats=("JPEG",)) as picture:
            return picture.size
    except (UnidentifiedImageError, OSError, ValueError, SyntaxError):
        return 1, 1
