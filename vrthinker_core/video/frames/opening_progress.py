"""How far the opening of a clip has come: steps of the work become one share of the whole, reported now and then."""

import math
import time
from collections.abc import Callable
from typing import Literal

REPORT_SECONDS = 0.5  # between two reports, at least
QUIET_CPU_SECONDS = 0.5  # of processor time, before the first report: most clips are open by then

Phase = Literal["digest", "packets", "frames"]

# Where each phase begins and ends, as shares of the whole: digest and packets come from the disk, frames are decoded.
_PHASES: dict[Phase, tuple[float, float]] = {
    "digest": (0.0, 0.05),
    "packets": (0.05, 0.1),
    "frames": (0.1, 1.0),
}


class OpeningProgress:
    """Reports the share of the work that is done, 0 to 1, which never falls."""

    def __init__(self, report: Callable[[float], None]) -> None:
        self._report = report
        self._share = 0.0
        self._next_time = time.monotonic() + REPORT_SECONDS
        self._quiet_until = time.process_time() + QUIET_CPU_SECONDS

    def update(self, phase: Phase, done: int, total: int) -> None:
        """`done` of about `total` steps of a phase are over. Called for every step."""
        if time.monotonic() < self._next_time or time.process_time() < self._quiet_until:
            return
        self._next_time = time.monotonic() + REPORT_SECONDS
        start, end = _PHASES[phase]
        self._share = max(
            self._share, start + (end - start) * min(1.0, max(0, done) / max(1, total))
        )
        self._report(self._share)

    def finish(self) -> None:
        """The clip is open: whatever is decoded from now on is no longer reported."""
        self._next_time = math.inf
