"""A saved run that is opened: its trace, names and videos."""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from vrthinker_core.errors import VrThinkerError
from vrthinker_core.types.events import Trace
from vrthinker_core.ui.gradio_blocks import upload_place
from vrthinker_core.ui.page_sessions import VideosAtHand
from vrthinker_core.ui.player_files import Digests
from vrthinker_core.ui.replay import matching_videos
from vrthinker_core.ui.services import Services
from vrthinker_core.ui.shared_traces import find_saved
from vrthinker_core.ui.uploads import Uploads


@dataclass(frozen=True, slots=True)
class SavedRun:
    """A trace, and its source."""

    trace: Trace
    link: str = ""  # the name in `?trace=NAME`
    kept: str = ""  # the name in `?run=NAME`, by which its visitor opens it
    videos: Iterable[Path] = ()  # files that are kept with it


def stored_run(services: Services, name: str) -> SavedRun:
    """Find the run of `?trace=NAME`. Raises TraceError without one."""
    runs, shared = services.runs, services.shared_traces
    if runs is not None and (row := runs.find_now(name)) is not None:
        return SavedRun(runs.trace(row), link=name, videos=runs.videos(row))
    trace = find_saved(services.examples, shared, name)
    return SavedRun(trace, link=name, videos=shared.videos(name))


def shown_videos(uploads: Uploads, saved: SavedRun, known: Iterable[Path]) -> VideosAtHand:
    """Find the compared videos among `known` and kept files; kept ones become uploads, too.

    A file counts by its content alone, so a damaged one is not shown.
    """
    kept = list(saved.videos)
    found = list(matching_videos(saved.trace, [*kept, *known]))
    for side, (path, clip) in enumerate(zip(found, saved.trace.started.clips, strict=True)):
        if path is None or path not in kept:
            continue
        found[side] = None  # if there is no room for it
        name = Path(clip.name if clip else "").stem[:80] + path.suffix
        with suppress(OSError, VrThinkerError):
            file = uploads.link(path, upload_place(path, name))
            uploads.make_playable(file)
            found[side] = file
    first, second = found
    return first, second


def digests_at_hand(trace: Trace, videos: VideosAtHand) -> Digests:
    """Return the digests of the shown files; None for missing ones."""
    first, second = (
        clip.digest if clip is not None and path is not None else None
        for clip, path in zip(trace.started.clips, videos, strict=True)
    )
    return first, second
