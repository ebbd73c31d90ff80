"""Judges are loaded in a thread, while the page is already being served."""

import logging
import os
import threading
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from concurrent import futures
from dataclasses import replace
from itertools import count
from pathlib import Path

from vrthinker_core.backends import NANO_NAME, Backend, default_choice, open_backend
from vrthinker_core.backends.judge_name import judge_title
from vrthinker_core.errors import CheckpointError, VrThinkerError
from vrthinker_core.judge import judge, judge_branch
from vrthinker_core.traces import NOT_SAVED
from vrthinker_core.types.events import Finished, JudgeEvent, RunEvent, Swapped
from vrthinker_core.ui import settings_form
from vrthinker_core.ui.background_run import RunJob
from vrthinker_core.video import DecoderPool

OpenJudge = Callable[[], Backend]  # opens one judge; raises VrThinkerError when it cannot be opened

# The note on a run whose trace could not be written, in the place of one that names a path of the server.
TRACE_NOT_KEPT = (
    "The server could not keep its own record of this run. Download the trace if you need it."
)


class JudgeLoader:
    """Opens judges in a thread, one after the other, and runs jobs with them; all share one `DecoderPool`."""

    def __init__(self, judges: Mapping[str, OpenJudge], *, in_thread: bool = True) -> None:
        """`judges`: name and opener of each, in the order in which they are opened; the first one is the default.

        Not `in_thread`, all are open, or have failed to, when it is made.
        """
        self.decoder_pool = DecoderPool()
        self._futures: dict[str, futures.Future[Backend]] = {
            name: futures.Future() for name in judges
        }
        if in_thread:
            threading.Thread(
                target=self._load_all, args=(dict(judges),), name="load judges", daemon=True
            ).start()
        else:
            self._load_all(judges)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all judges, those that cannot be opened included."""
        return tuple(self._futures)

    def is_loaded(self, name: str = "") -> bool:
        """Whether the judge of that name ("" for the default) has been opened, or has failed to."""
        return self._future(name).done()

    def get(self, name: str = "") -> Backend:
        """The judge of that name; waits for it. Raises VrThinkerError when it cannot be opened, BadInput for an unknown name."""
        future = self._future(name)
        if error := future.exception():
            raise error.with_traceback(None)  # else each raise would make the traceback longer
        return future.result()

    def find(self, backend_name: str) -> str | None:
        """The name under which the judge is offered that a trace calls so; None where none is, or is being, opened."""
        opened = (
            name
            for name, future in self._futures.items()
            if future.done() and not future.exception()
        )
        awaited = (
            name
            for name, future in self._futures.items()
            if name == backend_name and not future.done()
        )
        return next(
            (name for name in opened if self.get(name).name == backend_name), next(awaited, None)
        )

    def wait_all(self) -> None:
        """Wait until every judge has been opened, or has failed to."""
        futures.wait(self._futures.values())

    def run_job(self, job: RunJob) -> Generator[JudgeEvent, None, None]:
        """Run a job and yield its events (a `JobRunner`). On ZeroGPU this is the generator that runs in the GPU's process."""
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
            yield (
                Swapped(_without_paths_in(event.event))
                if isinstance(event, Swapped)
                else _without_paths_in(event)
            )

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
            except VrThinkerError as error:
                self._futures[name].set_exception(error)
            except BaseException as error:  # noqa: BLE001 - outermost in the thread: the page shows what happened
                sentence = (
                    f"The judge could not be opened ({type(error).__name__}). Choose another judge."
                )
                self._futures[name].set_exception(CheckpointError(sentence))


def _without_paths_in(event: RunEvent) -> RunEvent:
    if not isinstance(event, Finished):
        return event
    return replace(
        event,
        notes=tuple(TRACE_NOT_KEPT if note.startswith(NOT_SAVED) else note for note in event.notes),
    )


def judge_openers(chosen: Sequence[str]) -> dict[str, OpenJudge]:
    """Name and opener of each judge in `chosen` (written as for `open_backend`), in that order.

    Without a choice: the best judge this machine can run and, unless it is the same, the built-in judge.
    """
    if chosen:
        return {
            name: _opener(choice, name)
            for choice, name in zip(chosen, _distinct(map(judge_title, chosen)), strict=True)
        }
    best = judge_title(default_choice())
    return {best: lambda: open_backend(None)} | (
        {} if best == NANO_NAME else {NANO_NAME: _opener("nano", NANO_NAME)}
    )


def _opener(choice: str, name: str) -> OpenJudge:
    def open_judge() -> Backend:
        try:
            return open_backend(choice, name)
        except VrThinkerError as error:
            shown = (
                name if choice.startswith("server:") else choice
            )  # an address may hold a password
            logging.getLogger(__name__).warning("The judge %s cannot be opened. %s", shown, error)
            raise type(error)(_without_paths(str(error), choice, name)) from error

    return open_judge


def _distinct(names: Iterable[str]) -> list[str]:
    """The same names, with a number behind each that has come before: a, a 2, a 3."""
    found: list[str] = []
    for name in names:
        numbered = (f"{name} {number}" for number in count(2))
        found.append(
            name if name not in found else next(other for other in numbered if other not in found)
        )
    return found


def _without_paths(sentence: str, choice: str, name: str) -> str:
    """The same sentence with the judge's name in the place of its path."""
    source = choice.partition(":")[2] or choice
    path = Path(source).expanduser()
    for written in (str(path.absolute()), str(path), source):
        sentence = sentence.replace(written, name) if os.sep in written else sentence
    return sentence
