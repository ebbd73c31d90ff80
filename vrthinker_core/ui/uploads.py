"""Videos of visitors, and the copies that browsers can play."""

import asyncio
import tempfile
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

from vrthinker_core.errors import BadInput, NoCopy
from vrthinker_core.storage import link_or_copy
from vrthinker_core.ui.fetch import NOBODY, PUBLIC_ONLY, DiskBudget, FetchPolicy, fetch_video
from vrthinker_core.video.browser_copies import playable_copy
from vrthinker_core.video.files import shown_name

UNUSED_SECONDS = 600.0  # for a file that nobody uses

NO_ROOM = "There is no room here to keep a playable copy of {}; try again in ten minutes."


class Uploads:
    """Copies lie in `folder`, named after their content; `policy` allows downloads to `fetched`.

    `fetched` lies in the folder of all uploads, where each file of a visitor has a folder that is
    named after its content.
    """

    def __init__(self, folder: Path, fetched: Path, policy: FetchPolicy = PUBLIC_ONLY) -> None:
        self._folder, self._fetched, self._policy = folder, fetched, policy
        self._copies: dict[Path, Path] = {}  # by their originals; threads change it in one step
        self._fetch_threads = ThreadPoolExecutor(4, "fetch")  # for calls of the API
        self.budget = DiskBudget()

    @contextmanager
    def arrivals(self) -> Iterator[Path]:
        """Give an empty folder for arriving files, and remove it. Raises OSError."""
        (uploads := self._fetched.parent).mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=uploads, ignore_cleanup_errors=True) as folder:
            try:
                yield Path(folder)
            finally:
                self.budget.release(Path(folder))

    def keep(self, file: Path, visitor: str) -> Path:
        """Keep a file that has arrived whole as `visitor`'s. Raises OSError, BadInput."""
        kept = self._fetched.parent / file.parent.name / file.name
        kept.parent.mkdir(exist_ok=True)
        self.budget.take(kept, visitor, file.stat().st_size)
        return file.replace(kept)

    def link(self, file: Path, place: Path) -> Path:
        """Link or copy a kept file to `place` among the uploads. Raises OSError, BadInput."""
        if place.is_file():
            return place
        place.parent.mkdir(parents=True, exist_ok=True)
        link_or_copy(file, place)
        return self._count(place)

    def fetch(self, url: str) -> Path:
        """Download a video. Raises BadInput with a sentence."""
        return self._count(fetch_video(url, self._fetched, policy=self._policy))

    async def fetch_beside(self, url: str) -> Path:
        """Like fetch(), in a thread for downloads: slow hosts hold up nothing else."""
        return await asyncio.wrap_future(self._fetch_threads.submit(self.fetch, url))

    def make_playable(self, path: Path) -> Path:
        """Return `path` if browsers play it, else a copy. Raises VideoError, NoCopy without one."""
        copy = playable_copy(path, self._folder)
        if copy is None:
            return path
        self._copies[path] = copy
        try:
            return self._count(copy)
        except BadInput:
            raise NoCopy(NO_ROOM.format(shown_name(path))) from None

    def original_of(self, path: Path) -> Path:
        """Return the judge's video for the shown `path`: only its name counts."""
        originals = {copy.name: original for original, copy in self._copies.copy().items()}
        return originals.get(path.name, path)

    def playable_of(self, path: Path) -> Path:
        """Return the file that the page shows for the original `path`."""
        copy = self._copies.get(path, path)
        return copy if copy.is_file() else path

    def expire(self, used: Iterable[Path]) -> None:
        """Delete old files that are not `used`, and folders that are empty."""
        in_use, copies = set(used), self._copies.copy()
        in_use |= {copy for original, copy in copies.items() if original in in_use}
        # Gradio shows a copy of the file, elsewhere; names in these two folders cannot be guessed.
        names = {file.name for file in in_use if file.parent in (self._folder, self._fetched)}
        for folder in (self._folder, self._fetched.parent):
            for path in sorted(folder.rglob("*"), reverse=True):  # a folder after its files
                if path.name in names or path in in_use or path == self._fetched:
                    continue
                with suppress(OSError):  # a folder is not empty
                    if path.stat().st_ctime < time.time() - UNUSED_SECONDS:
                        path.rmdir() if path.is_dir() else path.unlink()
        for path in copies:
            if not path.exists():
                del self._copies[path]
        self.budget.release_missing()

    def _count(self, path: Path) -> Path:
        """Count the file, or delete it and raise BadInput without room."""
        try:
            self.budget.take(path, NOBODY, path.stat().st_size)
        except BadInput:
            path.unlink(missing_ok=True)
            raise
        return path
