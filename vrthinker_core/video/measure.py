"""Facts about two clips that are measured, not judged: no winner, no score."""

import contextlib
import math
import statistics
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal, NamedTuple, get_args

from vrthinker_core.errors import DecoderDied, VideoError, VrThinkerError
from vrthinker_core.types import Side, VideoPair
from vrthinker_core.types.messages import Cancelled
from vrthinker_core.video.clip import POLL_SECONDS, first_error
from vrthinker_core.video.files import open_local, shown_name
from vrthinker_core.video.limits import Limits
from vrthinker_core.video.process import DecoderPool, Header, Worker, start_worker

FactKind = Literal["freeze", "jump", "cut", "blur", "brightness", "sharpness"]

_COLUMNS = 480  # of the pictures that sharpness is compared on


@dataclass(frozen=True, slots=True)
class MeasuredFact:
    """Something that is certain about one video, or about both.

    Attributes:
        kind: "sharpness" compares the videos, all others are about one of them.
        sides: The videos that the fact is about.
        start: Seconds from the first frame.
        end: Seconds from the first frame; `start` for a moment.
        text: The fact as a sentence.
    """

    kind: FactKind
    sides: tuple[Side, ...]
    start: float
    end: float
    text: str


@dataclass(frozen=True, slots=True)
class MeasuredVideo:
    """The motion of one video, as a curve of at most 300 points.

    Attributes:
        seconds: Length of the measured part, at most about 60.
        times: Seconds of frames from the first one, ascending.
        differences: Mean difference of a frame's luma from the frame before, 0 to 255.
    """

    seconds: float
    times: tuple[float, ...]
    differences: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Measurement:
    """What was measured on a pair.

    Attributes:
        videos: The motion of the first and the second video.
        facts: Everything that is certain, by time.
    """

    videos: tuple[MeasuredVideo, MeasuredVideo]
    facts: tuple[MeasuredFact, ...]


def measure(
    pair: VideoPair,
    *,
    cancelled: Cancelled = lambda: False,
    decoder_pool: DecoderPool | None = None,
) -> Measurement:
    """Measure freezes, jumps, cuts, blur, brightness and sharpness of two videos.

    Decodes every frame of the first 60 s, in processes of `decoder_pool` or new ones.
    Raises `VideoError` for an unreadable video, as a comparison does, and if `cancelled`.
    """
    workers: list[Worker] = []
    executor = ThreadPoolExecutor(2)
    futures = {
        side: executor.submit(_find, Path(path), workers, cancelled, decoder_pool)
        for side, path in zip(Side, (pair.first, pair.second), strict=True)
    }
    executor.shutdown(wait=False)
    while wait(futures.values(), POLL_SECONDS).not_done:
        if cancelled():
            for worker in workers:
                worker.end()
    failed: dict[Side, VrThinkerError] = {
        side: type(error)(f"Video {side:d}: {error}")
        for side, future in futures.items()
        if isinstance(error := future.exception(), VrThinkerError)
    }
    if failed:
        raise first_error(failed) or AssertionError
    one, two = (future.result() for future in futures.values())
    facts = [
        _fact(side, each, *event)
        for side, each in zip(Side, (one, two), strict=True)
        for event in each.events
    ]
    facts.sort(key=lambda fact: fact.start)
    return Measurement((one.video, two.video), (*facts, *_sharper(one, two)))


class _Findings(NamedTuple):
    """What a worker found."""

    video: MeasuredVideo
    events: list[tuple[FactKind, float, float]]
    pictures: list[bytes]  # luma at the same moments of every video
    rows: int  # of a picture

    @classmethod
    def read(cls, header: Header, payload: bytes) -> "_Findings":
        """Read a response; raises `ValueError`, `TypeError`, `KeyError` for any other.

        The worker decodes a hostile file.
        """
        size, seconds = _COLUMNS * int(header["rows"]), float(header["seconds"])
        times, differences = (tuple(map(float, header[name])) for name in ("times", "differences"))
        events = [(kind, float(start), float(end)) for kind, start, end in header["events"]]
        numbers = seconds, *times, *differences, *(each for event in events for each in event[1:])
        known = {event[0] for event in events} <= set(get_args(FactKind))
        if not known or not all(map(math.isfinite, numbers)) or len(times) > 300 or size <= 0:
            raise ValueError("no findings")
        pictures = [payload[at : at + size] for at in range(0, len(payload) - size + 1, size)]
        return cls(MeasuredVideo(seconds, times, differences), events, pictures, header["rows"])


def _find(
    path: Path, workers: list[Worker], cancelled: Cancelled, pool: DecoderPool | None
) -> _Findings:
    open_local(path).close()
    name, limits = shown_name(path), Limits()
    request = {"path": str(path.resolve()), "limits": asdict(limits), "measure": True}
    with pool.opening_slot(cancelled) if pool else contextlib.nullcontext():
        worker = pool.start_worker() if pool else start_worker()
        workers.append(worker)
        try:
            [(header, payload)] = worker.request(request, limits.wall_seconds)
            return _Findings.read(header, payload)
        except (EOFError, OSError, ValueError, TypeError, KeyError):
            if cancelled():
                raise VideoError(f"{name} was closed.") from None
            raise DecoderDied(f"{name}: {worker.cause_of_death(limits)}.") from None
        finally:
            worker.end()
            worker.connection.close()


def _fact(side: Side, found: _Findings, kind: FactKind, start: float, end: float) -> MeasuredFact:
    video, span = f"Video {side:d}", f"from {start:.1f} to {end:.1f} s"
    whole = start == 0 and end == found.video.seconds
    texts = {
        "freeze": f"{video} stands still {'throughout' if whole else span}.",
        "jump": f"{video} jumps at {start:.1f} s.",
        "cut": f"{video} cuts to another picture at {start:.1f} s.",
        "blur": f"{video} is less sharp {span}.",
        "brightness": f"Brightness steps at {start:.1f} s in video {side:d}.",
    }
    return MeasuredFact(kind, (side,), start, end, texts[kind])


def _sharper(one: _Findings, two: _Findings) -> Iterator[MeasuredFact]:
    """Yield which video is sharper, if both show the same pictures."""
    rows = min(one.rows, two.rows)
    if abs(one.rows - two.rows) > 2 or rows < 16:
        return
    pairs = list(zip(one.pictures, two.pictures, strict=False))
    known = [ratio for pair in pairs if (ratio := _sharpness(*pair, rows))]
    for side, ratios in zip(Side, zip(*known, strict=True), strict=False):
        if 2 * len(known) >= len(pairs) and min(ratios) >= 1.25:
            text = f"Video {side:d} is {min(10.0, statistics.median(ratios)):.1f} × sharper."
            end = min(one.video.seconds, two.video.seconds)
            yield MeasuredFact("sharpness", tuple(Side), 0.0, end, text)


def _sharpness(one: bytes, two: bytes, rows: int) -> tuple[float, float] | None:
    """Return how much stronger the first's fine detail is, and the second's.

    Only detail that both pictures share counts, so noise is not taken for sharpness. Returns None
    for different pictures.
    """
    import numpy as np  # The page and the command line need no arrays otherwise

    both = [np.frombuffer(each, np.uint8, rows * _COLUMNS) for each in (one, two)]
    pictures = np.array(both, np.float64).reshape(2, rows, _COLUMNS)
    blocks = pictures[:, : rows // 8 * 8].reshape(2, rows // 8, 8, _COLUMNS // 8, 8).mean((2, 4))
    coarse = (blocks - blocks.mean((1, 2), keepdims=True)).reshape(2, -1)
    fine = 4 * pictures[:, 2:-2, 2:-2] - pictures[:, :-4, 2:-2] - pictures[:, 4:, 2:-2]
    fine = (fine - pictures[:, 2:-2, :-4] - pictures[:, 2:-2, 4:]).reshape(2, -1)
    (low, low_both), (_, low_other) = coarse @ coarse.T
    (high, high_both), (_, high_other) = fine @ fine.T
    same = low_both > 0.97 * math.sqrt(low * low_other) and low_both > 0
    if not same or high_both <= 0.3 * math.sqrt(high * high_other):
        return None
    first, second = high_both / high_other, high_both / high
    return float(first * low_other / low_both), float(second * low / low_both)
