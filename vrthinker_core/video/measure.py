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
    facts = [_fact(side, *event) for side in Side for event in (one, two)[side - 1].events]
    facts.sort(key=lambda fact: fact.start)
    return Measurement((one.video, two.video), (*facts, *_sharper(one, two)))


class _Findings(NamedTuple):
    """What a worker found, checked, because it decodes a hostile file."""

    video: MeasuredVideo
    events: list[tuple[FactKind, float, float, bool]]
    pictures: list[bytes]  # luma at the same moments of every video
    rows: int  # of a picture

    @classmethod
    def read(cls, header: Header, payload: bytes) -> "_Findings":
        """Read a response; raises `ValueError`, `TypeError`, `KeyError` for any other."""
        rows, seconds = int(header["rows"]), float(header["seconds"])
        curves = [tuple(map(float, header[name])) for name in ("times", "differences")]
        events = [(kind, float(start), float(end)) for kind, start, end in header["events"]]
        numbers = [
            seconds,
            *curves[0],
            *curves[1],
            *(each for event in events for each in event[1:]),
        ]
        kinds = {kind for kind, _, _ in events}
        size = _COLUMNS * rows
        if not (
            all(map(math.isfinite, numbers))
            and len(curves[0]) == len(curves[1]) <= 300
            and kinds <= set(get_args(FactKind)[:-1])
            and rows > 0 == len(payload) % size
        ):
            raise ValueError("no findings")
        pictures = [payload[at : at + size] for at in range(0, len(payload), size)]
        whole = [(*event, event[1:] == (0.0, seconds)) for event in events]
        return cls(MeasuredVideo(seconds, *curves), whole, pictures, rows)


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


def _fact(side: Side, kind: FactKind, start: float, end: float, whole: bool) -> MeasuredFact:
    video, span = f"Video {side:d}", f"from {start:.1f} to {end:.1f} s"
    texts = {
        "freeze": f"{video} stands still {'throughout' if whole else span}.",
        "jump": f"{video} jumps at {start:.1f} s.",
        "cut": f"{video} cuts to another picture at {start:.1f} s.",
        "blur": f"{video} is less sharp {span}.",
        "brightness": f"Brightness steps at {start:.1f} s in video {side:d}.",
    }
    return MeasuredFact(kind, (side,), start, end, texts[kind])


def _sharper(one: _Findings, two: _Findings) -> Iterator[MeasuredFact]:
    """Yield which video is sharper, only if both show the same pictures."""
    if abs(one.rows - two.rows) > 2:
        return
    pairs = list(zip(one.pictures, two.pictures, strict=False))
    rows = min(one.rows, two.rows)
    for side, ratios in (
        (Side.FIRST, [_sharpness(first, second, rows) for first, second in pairs]),
        (Side.SECOND, [_sharpness(second, first, rows) for first, second in pairs]),
    ):
        known = [ratio for ratio in ratios if ratio is not None]
        if known and 2 * len(known) >= len(pairs) and min(known) >= 1.25:
            text = f"Video {side:d} is {min(10.0, statistics.median(known)):.1f} × sharper."
            end = min(one.video.seconds, two.video.seconds)
            yield MeasuredFact("sharpness", tuple(Side), 0.0, end, text)


def _sharpness(sharp: bytes, blurred: bytes, rows: int) -> float | None:
    """Return how much stronger fine detail is, None for different pictures.

    Only detail that both pictures share counts, so noise is not taken for sharpness.
    """
    import numpy as np  # The page and the command line need no arrays otherwise

    size = rows * _COLUMNS
    pictures = np.array(
        [np.frombuffer(each[:size], np.uint8) for each in (sharp, blurred)], np.float64
    )
    pictures = pictures.reshape(2, rows, _COLUMNS)
    across, down = rows // 8, _COLUMNS // 8
    coarse = pictures[:, : 8 * across, : 8 * down].reshape(2, across, 8, down, 8).mean((2, 4))
    coarse -= coarse.mean((1, 2), keepdims=True)
    (low, low_both), (_, low_other) = np.einsum("aij,bij->ab", coarse, coarse)
    fine = 4 * pictures[:, 2:-2, 2:-2] - pictures[:, :-4, 2:-2] - pictures[:, 4:, 2:-2]
    fine -= pictures[:, 2:-2, :-4] + pictures[:, 2:-2, 4:]
    (high, both), (_, other) = np.einsum("aij,bij->ab", fine, fine)
    same = low_both > 0.97 * math.sqrt(low * low_other) > 0 and both > 0.5 * math.sqrt(high * other)
    return float(both / other / (low_both / low_other)) if same else None
