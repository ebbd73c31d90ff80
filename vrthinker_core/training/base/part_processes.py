"""Parts of a training side by side, each in a process of its own, which ends when it is asked to and when its parent has died."""

import multiprocessing
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from multiprocessing.synchronize import Event

from vrthinker_core.errors import BackendFailed, VrThinkerError
from vrthinker_core.training.base.half_training import Stopped

Figures = Mapping[str, float]
Work = Callable[[str, Callable[[Figures], None], Stopped], None]  # Of the part of that name: says its figures; ends once stopped

ASKED_EVERY = 0.5  # Seconds between two looks at whether to stop


@dataclass(frozen=True, slots=True)
class StopRequest:
    """Whether a part is to end: somebody asked, or nobody is left who could."""

    asked: Event

    def __call__(self) -> bool:
        """Whether it is."""
        parent = multiprocessing.parent_process()
        return self.asked.is_set() or (parent is not None and not parent.is_alive())


def train_side_by_side(names: Sequence[str], work: Work, report: Callable[[str, Figures], None], stopped: Stopped) -> None:
    """Do the work of all these parts at once; `report` gets their figures. Ends when all are done, or soon after `stopped`.

    Raises what a part raised, and BackendFailed where its process died.
    """
    with _processes(names, work) as (asked, running):
        while running:
            if stopped():
                asked.set()
            for receiver in wait(list(running), timeout=ASKED_EVERY):
                assert isinstance(receiver, Connection)
                name, figures = running[receiver], _received(receiver, running[receiver])
                if figures is None:
                    del running[receiver]
                else:
                    report(name, figures)


@contextmanager
def _processes(names: Sequence[str], work: Work) -> Iterator[tuple[Event, dict[Connection, str]]]:
    """The event that asks them to end, and the part behind each connection; they have ended when the block is left."""
    context = multiprocessing.get_context("spawn")
    asked = context.Event()
    running: dict[Connection, str] = {}
    processes: list[BaseProcess] = []
    try:
        for name in names:
            receiver, sender = context.Pipe(duplex=False)
            process = context.Process(target=_run, args=(name, work, StopRequest(asked), sender), daemon=True)
            process.start()
            sender.close()
            processes.append(process)
            running[receiver] = name
        yield asked, running
    finally:
        asked.set()
        for begun in processes:
            begun.join()


def _received(receiver: Connection, name: str) -> Figures | None:
    """The next figures; None when the part is done. Raises what it raised."""
    try:
        message = receiver.recv()
    except EOFError:
        raise BackendFailed(f"The process that trained {name} died: go on with --resume.") from None
    if isinstance(message, Exception):
        raise message
    figures: Figures | None = message
    return figures


def _run(name: str, work: Work, stop: StopRequest, sender: Connection) -> None:
    """The process of one part."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl+C reaches every process of a terminal; the parent asks this one
    try:
        work(name, sender.send, stop)
        sender.send(None)
    except (VrThinkerError, OSError) as error:
        sender.send(error)
