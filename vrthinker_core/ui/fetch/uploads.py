"""Videos of visitors, and copies of those that browsers cannot play. The page shows the copies, the judge reads the originals."""

import contextlib
import threading
import time
from pathlib import Path

from vrthinker_core.ui.fetch.download import fetch_video
from vrthinker_core.ui.fetch.public_addresses import PUBLIC_ONLY, FetchPolicy
from vrthinker_core.video.browser_copy.copy import playable_copy

KEEP_SECONDS = 3600.0  # for a copy or a download; by then Gradio has a copy of its own for the page


class Uploads:
    """Copies in `folder` are named after their content, which leads to the original; downloads that `policy` allows: `fetched`."""

    def __init__(self, folder: Path, fetched: Path, policy: FetchPolicy = PUBLIC_ONLY) -> None:
        self._folder = folder
        self._fetched = fetched
        self._policy = policy
        self._copies: dict[Path, Path] = {}
        self._lock = threading.Lock()

    def fetch(self, url: str) -> Path:
        """Download a video. Raises BadInput with a sentence."""
        self._expire()
        return fetch_video(url, self._fetched, policy=self._policy)

    def make_playable(self, path: Path) -> Path:
        """The file that the page shows: `path` where browsers play it, else a copy. Raises VideoError for what is no video."""
        self._expire()
        copy = playable_copy(path, self._folder)
        if copy is None:
            return path
        with self._lock:
            self._copies[path] = copy
        return copy

    def original_of(self, path: Path) -> Path:
        """The video that the judge reads where the page shows `path`, which may have been moved: only its name counts."""
        with self._lock:
            return {copy.name: original for original, copy in self._copies.items()}.get(path.name, path)

    def playable_of(self, path: Path) -> Path:
        """The file that the page shows for the original `path`."""
        with self._lock:
            copy = self._copies.get(path, path)
        return copy if copy.is_file() else path

    def _expire(self) -> None:
        """Delete old copies and downloads; an original that is asked for again gets a new copy."""
        oldest = time.time() - KEEP_SECONDS
        with contextlib.suppress(OSError):
            broken_off = self._fetched.parent.glob("tmp*")  # Gradio never deletes an upload that breaks off
            for file in (*self._folder.glob("*.mp4"), *self._fetched.glob("*.*"), *broken_off):
                if file.is_file() and file.stat().st_mtime < oldest:
                    file.unlink(missing_ok=True)
        with self._lock:
            self._copies = {path: copy for path, copy in self._copies.items() if path.exists()}
