"""A saved run that is opened: its trace with what is known of it here, and the videos that the players show."""

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
    """A trace, and where it came from."""

    trace: Trace
    link: str = ""  # the name in `?trace=NAME`
    kept: str = ""  # the name in `?run=NAME`, by which its visitor opens it
    videos: Iterable[Path] = ()  # files that are kept with it


def stored_run(services: Services, name: str) -> SavedRun:
    """The run that `?trace=NAME` means: a row of the list, an example, or a shared one. Raises TraceError when there is none."""
    runs, shared = services.runs, services.shared_traces
    if runs is not None and (row := runs.find_now(name)) is not None:
        return SavedRun(runs.trace(row), link=name, videos=runs.videos(row))
    return SavedRun(
        find_saved(services.examples, shared, name), link=name, videos=shared.videos(name)
    )


def shown_videos(uploads: Uploads, saved: SavedRun, known: Iterable[Path]) -> VideosAtHand:
    """The videos that were compared, those that are at hand: among `known` files, or else kept ones, which then are uploads, too.

    A file counts by its content alone, so one that was damaged is not shown.
    """
    kept = list(saved.videos)
    found = matching_videos(saved.trace, [*kept, *known])
    names = [clip.name if clip else "" for clip in saved.trace.started.clips]
    first, second = (
        _among_uploads(uploads, path, name) if path in kept else path
        for path, name in zip(found, names, strict=True)
    )
    return first, second


def _among_uploads(uploads: Uploads, path: Path | None, name: str) -> Path | None:
    """None where there is no room for it."""
    if path is None:
        return None
    with suppress(OSError, VrThinkerError):
        file = uploads.link(path, upload_place(path, Path(name).stem[:80] + path.suffix))
        uploads.make_playable(file)
        return file
    return None


def digests_at_hand(trace: Trace, videos: VideosAtHand) -> Digests:
    """Of the files that are shown for both sides of a saved run; None for one that is not at hand."""
    first, second = (
        clip.digest if clip is not None and path is not None else None
        for clip, path in zip(trace.started.clips, videos, strict=True)
    )
    return first, second
