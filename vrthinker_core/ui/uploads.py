"""Videos of visitors, and copies of those that browsers cannot play. The page shows the copies, the judge reads the originals."""

import asyncio
import contextlib
import os
import shutil
import tempfile
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from vrthinker_core.errors import BadInput, NoCopy
from vrthinker_core.storage import atomic_path
from vrthinker_core.types import Side
from vrthinker_core.ui.download import NOBODY, DiskBudget, fetch_video
from vrthinker_core.ui.public_addresses import PUBLIC_ONLY, FetchPolicy
from vrthinker_core.video.browser_copies import playable_copy
from vrthinker_core.video.files import shown_name

UNUSED_SECONDS = 600.0  # for a file that nobody uses
HOLDERS = 400  # open pages whose files are known to be used; beyond them, the pages that brought theirs first are forgotten
FETCHES = 4  # downloads for calls of the API that go on at the same time
HELD = (
    4  # files of one player of a page: two for the video that it holds, and two for the one before
)

NO_ROOM = "There is no room here to keep a playable copy of {}; try again in ten minutes."


class Uploads:
    """Copies in `folder` are named after their content, which leads to the original; downloads that `policy` allows: `fetched`.

    `fetched` lies in the folder of all uploads, where each file of a visitor has a folder that is named after its content.
    """

    def __init__(self, folder: Path, fetched: Path, policy: FetchPolicy = PUBLIC_ONLY) -> None:
        self._folder = folder
        self._fetched = fetched
        self._policy = policy
        self._copies: dict[Path, Path] = {}
        self._holders: OrderedDict[str, list[deque[Path]]] = OrderedDict()  # one for each player
        self._fetch_threads = ThreadPoolExecutor(FETCHES, "fetch")
        self._lock = threading.Lock()
        self.budget = DiskBudget()

    def open_arrivals(self) -> Path:
        """An empty folder for files that are arriving, which whoever asks for it removes in the end. Raises OSError."""
        self._fetched.parent.mkdir(parents=True, exist_ok=True)
        return Path(tempfile.mkdtemp(prefix="arriving-", dir=self._fetched.parent))

    def keep(self, file: Path, visitor: str) -> Path:
        """Keep a file that has arrived whole as `visitor`'s, in a folder named as the one it is in. Raises OSError, BadInput."""
        kept = self._fetched.parent / file.parent.name / file.name
        kept.parent.mkdir(exist_ok=True)
        self.budget.take(kept, visitor, file.stat().st_size)
        return file.replace(kept)

    def link(self, file: Path, place: Path) -> Path:
        """A kept file among the uploads, at `place`: linked, or copied from another disk. Raises OSError, BadInput for no room."""
        if place.is_file():
            return place
        place.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(OSError):
            os.link(file, place)
            return self._count(place)
        with atomic_path(place) as part:
            shutil.copyfile(file, part)
        return self._count(place)

    def fetch(self, url: str) -> Path:
        """Download a video. Raises BadInput with a sentence."""
        path = fetch_video(url, self._fetched, policy=self._policy)
        return self._count(path)

    async def fetch_beside(self, url: str) -> Path:
        """The same in one of the threads for downloads alone: hosts that are slow to answer hold up nothing else."""
        return await asyncio.get_running_loop().run_in_executor(
            self._fetch_threads, self.fetch, url
        )

    def make_playable(self, path: Path) -> Path:
        """The file that the page shows: `path` where browsers play it, else a copy.

        Raises VideoError for what is no video, NoCopy where only the copy is missing.
        """
        copy = playable_copy(path, self._folder)
        if copy is None:
            return path
        with self._lock:
            self._copies[path] = copy
        try:
            return self._count(copy)
        except BadInput:
            raise NoCopy(NO_ROOM.format(shown_name(path))) from None

    def original_of(self, path: Path) -> Path:
        """The video that the judge reads where the page shows `path`, which may have been moved: only its name counts."""
        with self._lock:
            return {copy.name: original for original, copy in self._copies.items()}.get(
                path.name, path
            )

    def playable_of(self, path: Path) -> Path:
        """The file that the page shows for the original `path`."""
        with self._lock:
            copy = self._copies.get(path, path)
        return copy if copy.is_file() else path

    def hold(self, session_id: str, side: Side, *files: Path) -> None:
        """The files of that player are used as long as the page is open, those of the video before last no more."""
        with self._lock:
            self._holders.setdefault(session_id, [deque(maxlen=HELD) for _ in Side])[
                side - 1
            ].extend(files)
            while len(self._holders) > HOLDERS:
                self._holders.popitem(last=False)

    def swap(self, session_id: str) -> None:
        """Each player of the page holds the other's video."""
        with self._lock:
            if session_id in self._holders:
                self._holders[session_id].reverse()

    def let_go(self, session_id: str) -> None:
        """The page is closed."""
        with self._lock:
            self._holders.pop(session_id, None)

    def expire(self, used: Iterable[Path]) -> None:
        """Delete every file older than `UNUSED_SECONDS` that is neither `used` nor held, and folders that were left empty."""
        with self._lock:
            in_use = {
                *used,
                *(
                    file
                    for players in self._holders.values()
                    for files in players
                    for file in files
                ),
            }
            in_use |= {copy for original, copy in self._copies.items() if original in in_use}
        # Gradio shows a copy of the file, elsewhere; names in these two folders cannot be guessed.
        names = {file.name for file in in_use if file.parent in (self._folder, self._fetched)}
        for folder in (self._folder, self._fetched.parent):
            for place, folders, files in os.walk(folder, topdown=False):
                for path in (Path(place, name) for name in (*files, *folders)):
                    if path.name not in names and path not in in_use and path != self._fetched:
                        _delete_old(path)
        with self._lock:
            self._copies = {path: copy for path, copy in self._copies.items() if path.exists()}
        self.budget.release_missing()

    def _count(self, path: Path) -> Path:
        """The file, which goes at once when there is no room for it. Raises BadInput."""
        try:
            self.budget.take(path, NOBODY, path.stat().st_size)
        except BadInput:
            path.unlink(missing_ok=True)
            raise
        return path


def _delete_old(path: Path) -> None:
    """Delete an old file, or an empty folder that nothing has happened in for as long."""
    with contextlib.suppress(OSError):
        if path.stat().st_ctime < time.time() - UNUSED_SECONDS:
            path.rmdir() if path.is_dir() else path.unlink()
