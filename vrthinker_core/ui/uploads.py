"""Videos of visitors, and the copies that browsers can play."""

import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from vrthinker_core.errors import BadInput, NoCopy
from vrthinker_core.storage import link_or_copy
from vrthinker_core.ui.fetch import PUBLIC_ONLY, FetchPolicy, fetch_video
from vrthinker_core.ui.visitors import BYTES, Limit, Shares, Turns, Visitor
from vrthinker_core.video.browser_copies import playable_copy
from vrthinker_core.video.files import shown_name

UNUSED_SECONDS = 600.0  # for a file that nobody uses
FETCHES, COPIES = 8, 2  # at once: a fetch waits for a host, a copy takes a processor

NO_ROOM = "There is no room here to keep a playable copy of {}; try again in ten minutes."


class Uploads:
    """Copies lie in `folder`, named after their content; `policy` allows downloads to `fetched`.

    `fetched` lies in the folder of all uploads, where each file of a visitor has a folder that is
    named after its content.
    """

    def __init__(
        self, folder: Path, fetched: Path, policy: FetchPolicy = PUBLIC_ONLY, limit: Limit = BYTES
    ) -> None:
        self._folder, self._fetched, self._policy = folder, fetched, policy
        self.shares = Shares(limit)  # in bytes; the folder of files that arrive counts for them
        self._copies: dict[Path, Path] = {}  # by their originals; threads change it in one step
        self._fetching, self._copying = Turns(FETCHES, "fetch"), Turns(COPIES, "copy")

    @contextmanager
    def arrivals(self) -> Iterator[Path]:
        """Give an empty folder for arriving files, and remove it. Raises OSError."""
        (uploads := self._fetched.parent).mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=uploads, ignore_cleanup_errors=True) as folder:
            try:
                yield Path(folder)
            finally:
                self.shares.release(Path(folder))

    def keep(self, file: Path, visitor: Visitor) -> Path:
        """Keep a file that has arrived whole as `visitor`'s. Raises OSError, BadInput."""
        kept = self._fetched.parent / file.parent.name / file.name
        kept.parent.mkdir(exist_ok=True)
        self.shares.take(kept, visitor, file.stat().st_size)
        return file.replace(kept)

    def link(self, file: Path, place: Path, visitor: Visitor) -> Path:
        """Link or copy a kept file to `place` among the uploads. Raises OSError, BadInput."""
        if place.is_file():
            return place
        place.parent.mkdir(parents=True, exist_ok=True)
        link_or_copy(file, place)
        return self._count(place, visitor)

    async def fetch_beside(self, url: str, visitor: Visitor) -> Path:
        """Download a video, in turns: slow hosts hold up nothing else. Raises BadInput."""
        fetch = partial(fetch_video, url, self._fetched, policy=self._policy)
        return await self._fetching.run(visitor, lambda: self._count(fetch(), visitor))

    async def make_playable_beside(self, path: Path, visitor: Visitor) -> Path:
        """Like make_playable(), in turns."""
        return await self._copying.run(visitor, self.make_playable, path, visitor)

    def make_playable(self, path: Path, visitor: Visitor) -> Path:
        """Return `path` if browsers play it, else a copy. Raises VideoError, NoCopy without one."""
        copy = playable_copy(path, self._folder)
        if copy is None:
            return path
        self._copies[path] = copy
        if copy in self.shares.held():  # it was made for another visitor
            return copy
        try:
            return self._count(copy, visitor)
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
        for counted in self.shares.held():
            if isinstance(counted, Path) and not counted.exists():
                self.shares.release(counted)

    def _count(self, path: Path, visitor: Visitor) -> Path:
        """Count the file, or delete it and raise BadInput without room."""
        try:
            self.shares.take(path, visitor, path.stat().st_size)
        except BadInput:
            path.unlink(missing_ok=True)
            raise
        return path
