"""Facts about two clips that are measured, not judged: no winner, no score."""

import math
import statistics
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from itertools import chain
from typing import Literal, NamedTuple

from vrthinker_core.errors import VideoError
from vrthinker_core.types import Frame, Side, VideoPair
from vrthinker_core.types.messages import Cancelled
from vrthinker_core.video.clip import Clip, PairOpening
from vrthinker_core.video.process import DecoderPool, Header

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
    with (
        ThreadPoolExecutor(len(Side)) as executor,
        closing(PairOpening(pair, None, decoder_pool, executor, _MeasuredClip)) as opening,
    ):
        while opening.next_shares(cancelled) is not None:
            pass
        first, second, error = opening.clips()
    if cancelled() or not (isinstance(first, _MeasuredClip) and isinstance(second, _MeasuredClip)):
        raise error or VideoError("The videos were closed while they were measured.")
    one, two = first.findings, second.findings
    facts = sorted((*one.facts, *two.facts), key=lambda fact: fact.start)
    return Measurement((one.video, two.video), (*facts, *_sharper(one, two)))


class _Findings(NamedTuple):
    video: MeasuredVideo
    facts: list[MeasuredFact]
    pictures: list[bytes]  # luma at the same moments of every video


class _MeasuredClip(Clip):
    """A clip that is measured while it opens, and gives no frames."""

    findings: _Findings

    def _read_response(self, header: Header, payload: bytes) -> Iterator[Frame]:
        """Check the response of a process that decodes hostile files."""
        size = _COLUMNS * int(header["rows"])
        pictures = [payload[at : at + size] for at in range(0, len(payload), size)]
        curve = [tuple(map(float, header[name])) for name in ("times", "differences")]
        video = MeasuredVideo(float(header["seconds"]), *curve)
        facts = [_fact(self.side, video, *event) for event in header["events"]]
        times = chain(*((fact.start, fact.end) for fact in facts))
        if not all(map(math.isfinite, (video.seconds, *chain(*curve), *times))):
            raise ValueError("no findings")
        self.findings = _Findings(video, facts, pictures)
        return iter(())


def _fact(
    side: Side, video: MeasuredVideo, kind: FactKind, start: float, end: float
) -> MeasuredFact:
    name, span = f"Video {side:d}", f"from {start:.1f} to {end:.1f} s"
    whole = start == 0 and end == video.seconds
    text = {
        "freeze": f"{name} stands still {'throughout' if whole else span}.",
        "jump": f"{name} jumps at {start:.1f} s.",
        "cut": f"{name} cuts to another picture at {start:.1f} s.",
        "blur": f"{name} is less sharp {span}.",
        "brightness": f"Brightness steps at {start:.1f} s in video {side:d}.",
    }[kind]
    return MeasuredFact(kind, (side,), float(start), float(end), text)


def _sharper(one: _Findings, two: _Findings) -> Iterator[MeasuredFact]:
    """Yield which video is sharper, if both show the same pictures."""
    pairs = list(zip(one.pictures, two.pictures, strict=False))
    known = [ratio for pair in pairs if (ratio := _sharpness(*pair))]
    for side, ratios in zip(Side, zip(*known, strict=True), strict=False):
        if 2 * len(known) >= len(pairs) and min(ratios) >= 1.25:
            text = f"Video {side:d} is {min(10.0, statistics.median(ratios)):.1f} × sharper."
            end = min(one.video.seconds, two.video.seconds)
            yield MeasuredFact("sharpness", tuple(Side), 0.0, end, text)


def _sharpness(one: bytes, two: bytes) -> tuple[float, float] | None:
    """Return how much stronger the first's fine detail is, and the second's.

    Only detail that both pictures share counts, so noise is not taken for sharpness. Returns None
    for different pictures.
    """
    import numpy as np  # The page and the command line need no arrays otherwise

    rows = min(len(one), len(two)) // _COLUMNS // 8 * 8
    if abs(len(one) - len(two)) > 2 * _COLUMNS or not rows:
        return None
    both = [np.frombuffer(each, np.uint8, rows * _COLUMNS) for each in (one, two)]
    pictures = np.array(both, np.float64).reshape(2, rows, _COLUMNS)
    coarse = pictures.reshape(2, rows // 8, 8, _COLUMNS // 8, 8).mean((2, 4)).reshape(2, -1)
    fine = 2 * pictures[:, 2:-2, 2:-2] - pictures[:, :-4, 2:-2] - pictures[:, 4:, 2:-2]
    fine += 2 * pictures[:, 2:-2, 2:-2] - pictures[:, 2:-2, :-4] - pictures[:, 2:-2, 4:]
    (low, shared_low), (_, other_low) = np.cov(coarse)
    (high, shared), (_, other) = np.cov(fine.reshape(2, -1))
    if shared_low <= 0.97 * math.sqrt(low * other_low) or shared <= 0.3 * math.sqrt(high * other):
        return None
    return float(shared / other * other_low / shared_low), float(shared / high * low / shared_low)
