"""Load judges in a thread, while the page is already being served; run jobs with them."""

import logging
import os
import secrets
import threading
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from concurrent import futures
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from pathlib import Path
from weakref import WeakValueDictionary

import gradio as gr

from vrthinker_core.backends import NANO_NAME, Backend, default_choice, open_backend
from vrthinker_core.backends.base import RemoteBackend
from vrthinker_core.backends.judge_name import judge_title
from vrthinker_core.backends.served_model import ServedModel
from vrthinker_core.backends.server_errors import Secret
from vrthinker_core.errors import (
    BackendFailed,
    BackendRefused,
    BadInput,
    CheckpointError,
    VrThinkerError,
)
from vrthinker_core.runner import judge, judge_branch
from vrthinker_core.traces import NOT_SAVED
from vrthinker_core.types.events import Finished, JudgeEvent, StopReason, Swapped
from vrthinker_core.ui import words
from vrthinker_core.ui.run import JobRunner, RunJob
from vrthinker_core.video import DecoderPool

# Of a trace that could not be written, in place of a note with a path of the server
TRACE_NOT_KEPT = (
    "The server could not keep its own record of this run. Download the trace if you need it."
)
SERVED_AT_ONCE = 8  # runs of one served or hosted judge
OWN = " · your key "  # between model and random part in the name of a visitor's own judge


@dataclass(frozen=True, slots=True)
class OwnHost:
    """A host that a visitor has a key for: their page alone holds it."""

    secret: Secret
    models: Sequence[ServedModel] = ()  # that see pictures; () if the host does not list them
    name: str = ""  # of the judge that was opened there
    backend: Backend | None = None


OpenJudge = Callable[[], Backend]  # opens one judge, or raises VrThinkerError


def judge_openers(chosen: Sequence[str]) -> dict[str, OpenJudge]:
    """Return an opener by name for each choice of `open_backend`; equal names get a number.

    Without a choice: the best judge this machine can run and, if it is another, the built-in one.
    """
    openers: dict[str, OpenJudge] = {}
    for choice in chosen:
        name = _free_name(judge_title(choice), openers)
        openers[name] = partial(_open, choice, name)
    if not chosen:
        openers[judge_title(default_choice())] = partial(open_backend, None)
        openers.setdefault(NANO_NAME, partial(_open, "nano", NANO_NAME))
    return openers


def _free_name(title: str, taken: Collection[str]) -> str:
    """Return the title, with a number if it is taken."""
    name, numbers = title, count(2)
    while name in taken:
        name = f"{title} {next(numbers)}"
    return name


def _open(choice: str, name: str) -> Backend:
    """Open a judge; errors have its name in place of its path."""
    try:
        return open_backend(choice, name)
    except VrThinkerError as error:
        shown = name if choice.startswith("server:") else choice  # it may hold a password
        logging.getLogger(__name__).warning("The judge %s cannot be opened. %s", shown, error)
        source, sentence = choice.partition(":")[2] or choice, str(error)
        path = Path(source).expanduser()
        for written in (str(path.absolute()), str(path), source):
            sentence = sentence.replace(written, name) if os.sep in written else sentence
        raise type(error)(sentence) from error


class JudgeLoader:
    """Opens judges, one after the other, and runs jobs with them and one `DecoderPool`."""

    def __init__(self, judges: Mapping[str, OpenJudge], *, in_thread: bool = True) -> None:
        """Open `judges` by name; the first is the default. Without `in_thread`, wait for all."""
        self.decoder_pool = DecoderPool()
        self.seconds: dict[str, float] = {}  # of the latest answered run, by the judge's own name
        self._added: dict[str, str] = {}  # the names of judges that were added, by their choices
        # A visitor's own judges, which their sessions hold: with a session its judges are gone
        self._own: WeakValueDictionary[str, Backend] = WeakValueDictionary()
        self._lock = threading.Lock()
        self._futures = {name: futures.Future[Backend]() for name in judges}
        if in_thread:
            load = partial(self._load, judges)
            threading.Thread(target=load, name="load judges", daemon=True).start()
        else:
            self._load(judges)

    @property
    def names(self) -> tuple[str, ...]:
        """The judges that every visitor may choose, also those that cannot be opened."""
        return tuple(self._futures)

    def add(self, choice: str) -> str:
        """Offer another judge, which opens in a thread; return its name.

        One that could not be opened is tried again.
        """
        with self._lock:
            name = self.named(choice) or _free_name(judge_title(choice), self._futures)
            before = self._futures.get(name)
            if before is not None and not (before.done() and before.exception()):
                return name
            self._added[choice] = name
            self._futures = {**self._futures, name: futures.Future()}
        opener = {name: partial(_open, choice, name)}
        threading.Thread(target=self._load, args=(opener,), name="load judge", daemon=True).start()
        return name

    def named(self, choice: str) -> str:
        """Return the name under which that judge is offered; "" if it is not."""
        title = judge_title(choice) if choice.startswith(("hf:", "nano")) else ""
        return self._added.get(choice) or (title if title in self._futures else "")

    def choice(self, name: str) -> str:
        """Return what was added under that name; "" for a judge of the server's own."""
        return next((choice for choice, added in self._added.items() if added == name), "")

    def add_own(self, backend: Backend) -> str:
        """Return the name of a visitor's own judge, which lasts as long as they hold it."""
        name = f"{backend.name}{OWN}{secrets.token_hex(8)}"
        self._own[name] = backend
        return name

    def choose(self, value: object) -> str:
        """Return the judge that was asked for, also without its brackets; the first by default.

        Raises BadInput for one that is not offered.
        """
        if value in (None, ""):
            return self.names[0]
        for names in (self.names, [name.partition(" (")[0] for name in self.names]):
            if value in names:
                return self.names[names.index(value)]  # type: ignore[arg-type]
        offered = ", ".join(self.names)
        raise BadInput(f"There is no judge {str(value)[:40]!r} here. Choose {offered}.")

    def device(self, name: str, at_once: int) -> tuple[str, int]:
        """Return what runs that judge, and how many runs it takes at once.

        All judges on this machine share it: `at_once` runs. A server batches what it is sent, and
        all judges with visitors' keys together are one server.
        """
        if OWN in name:
            return OWN, SERVED_AT_ONCE
        served = isinstance(self.look(name := self.choose(name))[0], RemoteBackend)
        return (name, max(at_once, SERVED_AT_ONCE)) if served else ("local", at_once)

    def is_loaded(self, name: str = "") -> bool:
        """Whether that judge ("" for the default) has been opened, or has failed to."""
        return OWN in name or self._futures[self.choose(name)].done()

    def get(self, name: str = "") -> Backend:
        """Wait for that judge. Raises VrThinkerError if it cannot be had, BadInput if unknown."""
        if OWN in name:
            if (own := self._own.get(name)) is None:
                raise BackendRefused(words.KEY_GONE)
            return own
        future = self._futures[self.choose(name)]
        if error := future.exception():
            raise error.with_traceback(None)  # else each raise would make the traceback longer
        return future.result()

    def look(self, name: str = "") -> tuple[Backend | None, str]:
        """Return that judge, None if it is not open, and why it cannot be had, "" if it loads."""
        try:
            return (self.get(name) if self.is_loaded(name) else None), ""
        except VrThinkerError as error:
            return None, str(error)

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
        begin = partial(judge, job.pair, backend, job.settings)
        if job.plan is not None:
            begin = partial(judge_branch, job.plan, job.pair, backend)
        for event in begin(cancelled=stop, trace=job.trace, decoder_pool=pool):
            last = event.event if isinstance(event, Swapped) else event
            if isinstance(last, Finished):
                if last.stop is StopReason.ANSWERED:
                    self.seconds[backend.name] = last.seconds
                notes = (TRACE_NOT_KEPT if n.startswith(NOT_SAVED) else n for n in last.notes)
                last = replace(last, notes=tuple(notes))
                event = Swapped(last) if isinstance(event, Swapped) else last
            yield event

    def close(self) -> None:
        """Stop the decoder processes."""
        self.decoder_pool.close()

    def _load(self, judges: Mapping[str, OpenJudge]) -> None:
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


def naming_gpu_errors(
    run_job: JobRunner, open_judge: Callable[[str], object], run_here: JobRunner | None = None
) -> JobRunner:
    """Return the runner with ZeroGPU's refusal as BackendFailed, which says why and until when.

    `open_judge` raises if the job's judge cannot be had: no GPU is borrowed for that, nor for a
    judge that runs elsewhere, whose jobs go to `run_here`.
    """

    def events(job: RunJob) -> Generator[JudgeEvent, None, None]:
        if isinstance(open_judge(job.judge), RemoteBackend) and run_here is not None:
            yield from run_here(job)
            return
        what = "No GPU could be borrowed."
        try:
            for event in run_job(job):
                what = "The GPU was taken back before the judge had answered."
                yield event
        except gr.Error as refusal:
            raise BackendFailed(f"{what} {str(refusal.message).strip()}") from None

    return events
