"""The session of one open page: its latest run, whose it is, and what its visitor has been shown of it."""

import time
from dataclasses import dataclass, field
from pathlib import Path

from vrthinker_core.ui.sessions.background_run import BackgroundRun
from vrthinker_core.ui.sessions.replay import Replay
from vrthinker_core.ui.view.thumbnail_files import ThumbnailFiles
from vrthinker_core.ui.votes.disclosure import Disclosure

VideosAtHand = tuple[Path | None, Path | None]


@dataclass(frozen=True, slots=True)
class Session:
    """The latest run of one open page, live or replayed."""

    name: str  # stands in the URLs of the run's files; it cannot be guessed, so no visitor finds another's
    run: BackgroundRun | Replay
    thumbnails: ThumbnailFiles
    link: str = (
        ""  # the name in `?trace=NAME` that leads to this run already, "" when there is none
    )
    saved_videos: VideosAtHand = (
        None,
        None,
    )  # those that a replayed run compared, where they are at hand
    checks: int = 0  # how often the order was checked
    started_at: float = field(default_factory=time.monotonic)
    owner: str = ""  # the visitor whose run it is, "" for one who is not known
    kept: str = ""  # the name under which it is kept for that visitor, "" for a run that is not
    disclosure: Disclosure = field(default_factory=Disclosure)

    @property
    def is_replay(self) -> bool:
        """The run is a saved one."""
        return isinstance(self.run, Replay)

    @property
    def videos(self) -> VideosAtHand:
        """The videos that were compared; None for one that is not at hand."""
        pair = self.run.pair if isinstance(self.run, BackgroundRun) else None
        return (Path(pair.first), Path(pair.second)) if pair else self.saved_videos

    @property
    def files(self) -> tuple[Path, ...]:
        """The videos that are at hand."""
        return tuple(path for path in self.videos if path is not None)

    @property
    def judge(self) -> str:
        """The judge chosen for a live run, "" for the default judge and for a replay."""
        return self.run.job.judge if isinstance(self.run, BackgroundRun) else ""
