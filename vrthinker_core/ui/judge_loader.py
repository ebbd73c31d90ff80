"""Load judges in a thread, while the page is already being served."""

import logging
import os
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent import futures
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path

from vrthinker_core.backends import NANO_NAME, Backend, default_choice, open_backend
from vrthinker_core.backends.judge_name import judge_title
from vrthinker_core.errors import CheckpointError, VrThinkerError
from vrthinker_core.judge import judge, judge_branch
from vrthinker_core.traces import NOT_SAVED
from vrthinker_core.types.events import Finished, JudgeEvent, Swapped
from vrthinker_core.ui import settings_form
from vrthinker_core.ui.background_run import RunJob
from vrthinker_core.video import DecoderPool

OpenJudge = Callable[[], Backend]  # opens one judge, or raises VrThinkerError

# The note on a run whose trace could not be written, in place of one with a path of the server
TRACE_NOT_KEPT = (
    "The server could not keep its own record of this run. Download the trace if you need it."
)


class JudgeLoader:
    """Opens judges, one after the other, and runs jobs with them and one `DecoderPool`."""

    def __init__(self, judges: Mapping[str, OpenJudge], *, in_thread: bool = True) -> None:
        """Open `judges` (by name) in this order; the first one is the default.

        Without `in_thread`, all have been opened, or have failed to, on return.
        """
        self.decoder_pool = DecoderPool()
        self._futures = {name: futures.Future[Backend]() for name in judges}
        load, name = partial(self._load_all, dict(judges)), "load judges"
        if in_thread:
            threading.Thread(target=load, name=name, daemon=True).start()
        else:
            load()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all judges, also those that cannot be opened."""
        return tuple(self._futures)

    def is_loaded(self, name: str = "") -> bool:
        """Whether that judge ("" for the default) has been opened, or has failed to."""
        return self._future(name).done()

    def get(self, name: str = "") -> Backend:
        """Wait for the judge of that name.

        Raises VrThinkerError if it cannot be opened, BadInput for an unknown name.
        """
        future = self._future(name)
        if error := future.exception():
            raise error.with_traceback(None)  # else each raise would make the traceback longer
        return future.result()

    def find(self, backend_name: str) -> str | None:
        """Find the offered name of a trace's judge, open or awaited."""
        for name, future in self._futures.items():
            if future.done() and not future.exception() and future.result().name == backend_name:
                return name
        awaited = self._futures.get(backend_name)
        return backend_name if awaited and not awaited.done() else None

    def wait_all(self) -> None:
        """Wait until every judge has been opened, or has failed to."""
        futures.wait(self._futures.values())

    def run_job(self, job: RunJob) -> Generator[JudgeEvent, None, None]:
        """Run a job and yield its events; on ZeroGPU, in the GPU's process."""
        backend, pool, stop = self.get(job.judge), self.decoder_pool, job.stop_file.exists
        if job.plan is None:
            events = judge(
                job.pair, backend, job.settings, cancelled=stop, trace=job.trace, decoder_pool=pool
            )
        else:
            events = judge_branch(
                job.plan, job.pair, backend, cancelled=stop, trace=job.trace, decoder_pool=pool
            )
        for event in events:
            last = event.event if isinstance(event, Swapped) else event
            if isinstance(last, Finished):
                notes = (TRACE_NOT_KEPT if n.startswith(NOT_SAVED) else n for n in last.notes)
                last = replace(last, notes=tuple(notes))
                event = Swapped(last) if isinstance(event, Swapped) else last
            yield event

    def close(self) -> None:
        """Stop the decoder processes."""
        self.decoder_pool.close()

    def _future(self, name: str) -> futures.Future[Backend]:
        return self._futures[settings_form.parse_judge(name, self.names)]

    def _load_all(self, judges: Mapping[str, OpenJudge]) -> None:
        self.decoder_pool.preload()
        for name, open_judge in judges.items():
            try:
                self._futures[name].set_result(open_judge())
            except BaseException as error:  # noqa: BLE001 - the page shows what happened
                if not isinstance(error, VrThinkerError):
                    kind = type(error).__name__
                    sentence = f"The judge could not be opened ({kind}). Choose another judge."
                    error = CheckpointError(sentence)
                self._futures[name].set_exception(error)


def judge_openers(chosen: Sequence[str]) -> dict[str, OpenJudge]:
    """Return an opener by name for each choice of `open_backend`.

    The order stays, and equal names get a number. Without a choice: the best judge this machine can
    run and, unless it is the same, the built-in judge.
    """
    openers: dict[str, OpenJudge] = {}
    for choice in chosen:
        title = name = judge_title(choice)
        numbers = count(2)
        while name in openers:
            name = f"{title} {next(numbers)}"
        openers[name] = partial(_open, choice, name)
    if not chosen:
        openers[judge_title(default_choice())] = partial(open_backend, None)
        openers.setdefault(NANO_NAME, partial(_open, "nano", NANO_NAME))
    return openers


def _open(choice: str, name: str) -> Backend:
    """Open a judge; errors have its name in place of its path."""
    try:
        return open_backend(choice, name)
    except VrThinkerError as error:
        shown = name if choice.startswith("server:") else choice  # an address may hold a password
        logging.getLogger(__name__).warning("The judge %s cannot be opened. %s", shown, error)
        source, sentence = choice.partition(":")[2] or choice, str(error)
        path = Path(source).expanduser()
        for written in (str(path.absolute()), str(path), source):
            sentence = sentence.replace(written, name) if os.sep in written else sentence
        raise type(error)(sentence) from error
