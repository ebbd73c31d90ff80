"""A folder of video copies that every browser plays.

A copy is an MP4 without audio. Its timestamps are the original's, shifted so that the first frame
is at 0. A worker process reads the original, writes no file and sends the copy as bytes.
"""

import contextlib
import hashlib
import itertools
from collections.abc import Generator
from dataclasses import asdict
from pathlib import Path

from vrthinker_core.errors import DecoderDied, NoCopy, VideoError
from vrthinker_core.storage import atomic_path
from vrthinker_core.video.files import open_local, shown_name
from vrthinker_core.video.limits import Limits
from vrthinker_core.video.process import start_worker

# More processor time than a comparison gets, because encoding comes on top of decoding.
COPY_LIMITS = Limits(cpu_seconds=60.0, wall_seconds=90.0)
MAX_COPY_BYTES = 300_000_000  # of a copy that is kept


def playable_copy(source: Path, folder: Path, *, limits: Limits = COPY_LIMITS) -> Path | None:
    """Return the path of a playable copy, None if not needed.

    None means that Chromium, Firefox and Safari play the file as it is. The copy is an MP4 in
    `folder`, named by a hash of the source. An existing copy is returned unchanged.

    Raises `VideoError` with one sentence if the file is no video, `NoCopy` if the copy passes a
    limit or cannot be kept, or if the worker process crashed.
    """
    copy = folder / f"{_digest(source)}.mp4"
    if copy.is_file():
        return copy
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return _write_copy(copy, _copy_chunks(source, limits), shown_name(source))
    except DecoderDied as died:
        raise NoCopy(str(died)) from None
    except OSError as error:
        copies = f"No playable copy of {shown_name(source)}"
        raise NoCopy(f"{copies} could be kept: {error.strerror}.") from None


def _digest(source: Path) -> str:
    """Hash content and suffix, because browser support depends on both."""
    suffix = source.suffix.lower().encode("utf-8", "replace")
    digest = hashlib.blake2b(b"playable/2" + suffix, digest_size=16)
    with open_local(source) as file:
        try:
            return hashlib.file_digest(file, lambda: digest).hexdigest()
        except OSError as error:
            raise VideoError(f"{shown_name(source)} cannot be read: {error.strerror}.") from None


def _write_copy(copy: Path, chunks: Generator[bytes, None, None], name: str) -> Path | None:
    with contextlib.closing(chunks):
        first = next(chunks, b"")
        if not first:
            return None
        with atomic_path(copy) as part, part.open("wb") as file:
            for chunk in itertools.chain([first], chunks):
                if file.tell() + len(chunk) > MAX_COPY_BYTES:
                    limit = f"more than {MAX_COPY_BYTES // 1_000_000} MB"
                    raise NoCopy(f"A playable copy of {name} would have {limit}: cut it shorter.")
                file.write(chunk)
    return copy


def _copy_chunks(source: Path, limits: Limits) -> Generator[bytes, None, None]:
    """Yield the worker's chunks; none if browsers play the file."""
    worker = start_worker("vrthinker_core.video.copy_worker")
    request = {"path": str(source.resolve()), "limits": asdict(limits)}
    try:
        for _, chunk in worker.request(request, limits.wall_seconds):
            yield chunk
    except (EOFError, OSError, ValueError, TypeError, KeyError):
        raise DecoderDied(f"{shown_name(source)}: {worker.cause_of_death(limits)}.") from None
    finally:
        worker.end()
        worker.connection.close()
