"""Progress of opening a clip, reported now and then as one share."""

import math
import time
from collections.abc import Callable
from typing import Literal

REPORT_SECONDS = 0.5  # at least, between two reports
QUIET_CPU_SECONDS = 0.5  # of processor time before the first report; most clips are open by then

Phase = Literal["digest", "packets", "frames"]

# Start and end of each phase as shares of the whole. Digest and packets are read from the disk,
# frames are decoded.
_PHASES: dict[Phase, tuple[float, float]] = {
    "digest": (0.0, 0.05),
    "packets": (0.05, 0.1),
    "frames": (0.1, 1.0),
}


class OpeningProgress:
    """Reporter of the share done, 0 to 1, which never falls."""

    def __init__(self, report: Callable[[float], None]) -> None:
        self._report = report
        self._share = 0.0
        self._next_time = time.monotonic() + REPORT_SECONDS
        self._quiet_until = time.process_time() + QUIET_CPU_SECONDS

    def update(self, phase: Phase, done: int, total: int) -> None:
        """Note that `done` of about `total` steps of a phase are done.

        Call it for every step; reports come at most every `REPORT_SECONDS`.
        """
        if time.monotonic() < self._next_time or time.process_time() < self._quiet_until:
            return
        self._next_time = time.monotonic() + REPORT_SECONDS
        start, end = _PHASES[phase]
        self._share = max(
            self._share, start + (end - start) * min(1.0, max(0, done) / max(1, total))
        )
        self._report(self._share)

    def finish(self) -> None:
        """Stop the reports: the clip is open."""
        self._next_time = math.inf
