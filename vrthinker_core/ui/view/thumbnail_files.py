"""Thumbnails as files: each is written once, named by its content, and never rewritten while a browser reads it."""

import hashlib
import shutil
import threading
from pathlib import Path

from vrthinker_core.types import Thumbnail
from vrthinker_core.ui.view.tiles import ImageSource
from vrthinker_core.video.thumbnails import jpeg_size


class ThumbnailFiles:
    """Thumbnails of one run in `folder`, which the server serves under `url` (relative: no path of the machine is shown)."""

    def __init__(self, folder: Path, url: str) -> None:
        self._folder = folder
        self._url = url
        self._sources: dict[bytes, ImageSource] = {}
        self._lock = threading.Lock()
        self._removed = False

    def __call__(self, frame: Thumbnail) -> ImageSource:
        """Where the browser finds the thumbnail; `src` is "" when it is not written (full disk, ended session); the run goes on."""
        if frame.jpeg not in self._sources:
            self._sources[frame.jpeg] = image_source(self.add(frame.jpeg, ".jpg"), frame.jpeg)
        return self._sources[frame.jpeg]

    def remove(self) -> None:
        """Remove the folder, also from under a thread that is still writing into it: what comes later is not written."""
        with self._lock:
            self._removed = True
            shutil.rmtree(self._folder, ignore_errors=True)

    def add(self, data: bytes, suffix: str) -> str:
        """Write a picture; returns its address, "" when it could not be written."""
        path = self._folder / f"{hashlib.blake2b(data, digest_size=10).hexdigest()}{suffix}"
        with self._lock:
            if self._removed:
                return ""
            try:
                self._folder.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)
            except OSError:
                path.unlink(missing_ok=True)
                return ""
        return f"{self._url}/{path.name}"

    def discard(self, src: str) -> None:
        """Remove the picture at that address, as `add` gave it."""
        (self._folder / Path(src).name).unlink(missing_ok=True)


def image_source(src: str, jpeg: bytes) -> ImageSource:
    """A picture at this address; one that is no JPEG has the size of a pixel."""
    width, height = jpeg_size(jpeg)
    return ImageSource(src, max(width, 1), max(height, 1))
