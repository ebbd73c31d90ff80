"""Opening the judge while the page is already there."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Generator
from dataclasses import replace

from vrthinker_core.backends import Opened
from vrthinker_core.errors import CheckpointError, VrThinkerError
from vrthinker_core.events import Event, Finished
from vrthinker_core.judge import judge
from vrthinker_core.ui.run import Job
from vrthinker_core.video import Decoders

TURNS = 6
"""Replies of a run in which nobody chose their number."""

NOT_KEPT = "The server could not keep its own record of this run. Download the trace if you need it."
"""What a visitor is told when the record could not be written; where it was to be written is the server's own matter."""

MOST_BORROWED = 75
"""Seconds: what a visitor of a shared machine may ask for at once."""


def borrowed(job: Job) -> int:
    """Seconds for which a job needs a borrowed GPU: ten to begin, then reading (1 s) and writing (25 tokens a second) each turn."""
    turns = min(max(job.settings.max_turns or TURNS, 1), MOST_BORROWED)
    return min(MOST_BORROWED, math.ceil(10 + turns * (1 + min(job.settings.max_new_tokens, 300) / 25)))


class Opening:
    """A judge that is being opened in a thread, and what decodes its videos."""

    def __init__(self, open_judge: Callable[[], Opened]) -> None:
        self.decoders = Decoders()
        self._open_judge = open_judge
        self._opened: Opened | None = None
        self._error: VrThinkerError | None = None
        self._thread = threading.Thread(target=self._work, name="opening", daemon=True)
        self._thread.start()

    @property
    def done(self) -> bool:
        """The judge is there, or cannot be opened."""
        return not self._thread.is_alive()

    def wait(self) -> Opened:
        """The judge. Raises VrThinkerError when it cannot be opened."""
        self._thread.join()
        if self._opened is None:
            raise self._error or CheckpointError("The judge could not be opened.")
        return self._opened

    def events(self, job: Job) -> Generator[Event, None, None]:
        """Do a job: the one generator that a GPU machine runs."""
        opened = self.wait()
        for event in judge(
            job.pair,
            opened.backend,
            job.settings,
            cancelled=job.halt.exists,
            trace=job.trace,
            notes=opened.notes,
            decoders=self.decoders,
        ):
            yield replace(event, notes=(NOT_KEPT,)) if isinstance(event, Finished) and event.notes else event

    def close(self) -> None:
        """Nothing is decoded any more."""
        self.decoders.close()

    def _work(self) -> None:
        self.decoders.warm()
        try:
            self._opened = self._open_judge()
        except VrThinkerError as error:
            self._error = error
        except Exception as error:  # noqa: BLE001 - the border of the thread: the page says what happened
            self._error = CheckpointError(f"The judge could not be opened ({type(error).__name__}). Choose another judge.")
