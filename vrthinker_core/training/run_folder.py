"""The folder of a training run (`--out`): its state, its checkpoints and its result."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from math import inf
from pathlib import Path
from secrets import token_hex
from typing import Any, ClassVar, Literal

from safetensors import SafetensorError

from vrthinker_core.backends.base import not_cancelled
from vrthinker_core.errors import BadInput, data_errors, os_errors, type_adapter
from vrthinker_core.results.trace_files import CHECKPOINTS, MADE, RESULT, STATE as STATE
from vrthinker_core.storage import hold_folder, remove_parts, write_atomically
from vrthinker_core.training.config import CONFIG, TrainConfig, config_json, read_config
from vrthinker_core.training.metrics import MetricsWriter, StepMetrics, name_of
from vrthinker_core.words import encodable

Listener = Callable[[StepMetrics, int], None]  # A step, and how many there will be


@dataclass(frozen=True, slots=True)
class TimeBudget:
    """One start of a run, or of one stage of it."""

    stopped: Callable[[], bool] = not_cancelled  # Somebody asked it to stop
    deadline: float | None = None  # On the clock of `time.monotonic`; the stage is done then
    tell: Listener = lambda *_: None
    say: Callable[[str], None] = lambda _: None  # Hears sentences on how the stage is run

    @property
    def left(self) -> float:
        """Seconds until the deadline; infinite without one."""
        return inf if self.deadline is None else self.deadline - time.monotonic()

    @property
    def over(self) -> bool:
        """No further step is to begin."""
        return self.stopped() or self.left <= 0

    def part(self, share: float) -> TimeBudget:
        """The same sitting with that share of the time that is left."""
        if self.deadline is None:
            return self
        return replace(self, deadline=time.monotonic() + max(0.0, self.left) * share)


@dataclass(frozen=True, slots=True)
class Processes:
    """How many there are, and which one this is."""

    count: int = 1
    number: int = 0

    @property
    def main(self) -> bool:
        """This one writes, and says how far the training is."""
        return self.number == 0

    @property
    def device(self) -> str | None:
        """This process's own GPU; None with one process or no GPU: the judge may choose."""
        if self.count == 1:
            return None
        import torch

        return f"cuda:{os.environ.get('LOCAL_RANK', '0')}" if torch.cuda.is_available() else None

    def wait(self) -> None:
        """Wait until all of them have come here."""
        if self.count > 1:
            from torch import distributed

            distributed.barrier()

    def agreed(self, said: bool) -> bool:
        """Give what the main process said in all of them; they call it together."""
        if self.count == 1:
            return said
        from accelerate.utils import broadcast_object_list

        return bool(broadcast_object_list([said])[0])


ALONE = Processes()


def world_size() -> int:
    """How many processes `accelerate launch` started, connected or not yet."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def launched_processes() -> Processes:
    """Those that `accelerate launch` started, connected; this one alone if nothing did."""
    if world_size() < 2:
        return ALONE
    import torch
    from accelerate import PartialState

    # A process may wait so long for another one, which plays rollouts meanwhile
    state = PartialState(cpu=not torch.cuda.is_available(), timeout=timedelta(days=7))
    return Processes(state.num_processes, state.process_index)


MAY_CHANGE = (
    *("grpo.steps", "checkpoint_minutes", "gates.", "trackio"),
    *("grpo.shown_every", "grpo.micro_batch", "grpo.trl.vllm"),
)
"""Beginnings of the names of settings that a run may go on with changed."""


def config_difference(before: TrainConfig, now: TrainConfig) -> str:
    """The first setting in which two configurations differ and a run may not; "" if none."""
    old, new = (dict(_flat(json.loads(config_json(each)))) for each in (before, now))
    for name in old:
        # `gates.pairs` may not: of a finite set, what is not held out is learnt from
        fixed = name == "gates.pairs" or not name.startswith(MAY_CHANGE)
        if fixed and old[name] != new[name]:
            return f"{name} {old[name]!r} instead of {new[name]!r}"
    return ""


def _flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every value of a nested table, with its name as `--set` writes it."""
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


ROLLOUTS = "rollouts"  # Folder of rollouts kept as traces, to look at

TrainedStage = Literal["cold-start", "rejection", "grpo"]
StageName = Literal[TrainedStage, "all"]


@dataclass(frozen=True, slots=True)
class TrainingRun:
    """Which run a folder holds, and how far it has come."""

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    stage: StageName
    model: str  # As it was given: a folder or a hub id
    data: str  # As it was given
    teacher: str | None = None  # As it was chosen, "" for none; None in a state of earlier versions
    done: bool = False  # The result is there
    seconds: float = 0.0  # Of all starts until it was done, but for those that were killed
    starts: int = 0
    digest: str | None = None  # Of the pairs; None if they never end or nobody asks for them
    curves: str | None = None  # Its name in trackio, which no other run has


@dataclass(frozen=True, slots=True)
class RunFolder:
    """A folder of a training run, made ready."""

    path: Path
    processes: Processes = ALONE  # That train together; the main one alone writes here

    @property
    def checkpoints(self) -> Path:
        """The folder from which the stage goes on after a stop."""
        return self.path / CHECKPOINTS

    @property
    def result(self) -> Path:
        """The trained judge; there when the stage is done."""
        return self.path / RESULT

    @property
    def state(self) -> TrainingRun:
        """How far the run has come."""
        return read_state(self.path)

    def finish(self, made: Path) -> Path:
        """Make `made`, a folder beside it, the result; the run is done then. Raises OSError."""
        if self.processes.main:
            if self.result.exists():
                shutil.rmtree(self.result)
            made.rename(self.result)
            _sync(self.path)
            _write_state(self.path, replace(self.state, done=True))
        self.processes.wait()
        return self.result


def read_state(out: Path) -> TrainingRun:
    """The state of the run in a folder. Raises BadInput."""
    if (out / "base").is_dir():  # an earlier version made it
        raise BadInput(
            f"{out} holds a run with the stage base, which is gone: name a new folder, and its "
            "checkpoint with --model."
        )
    damaged = f"Name a new folder with --out: {out / STATE} is damaged"
    with os_errors(f"Cannot read {out / STATE}"), data_errors(damaged):
        return type_adapter(TrainingRun).validate_json((out / STATE).read_bytes(), strict=True)


@contextmanager
def open_run_folder(
    out: Path, run: TrainingRun, config: TrainConfig, *, resume: bool, processes: Processes = ALONE
) -> Iterator[RunFolder]:
    """The folder of `run`, held by the main process until the block ends or it dies.

    `resume` goes on with the same run, and begins it if nothing is there yet. Raises BadInput for a
    folder that another process writes, that holds anything else, or in which this run has kept
    something and is not to be resumed; and when the disk is full.
    """
    folder = RunFolder(out, processes)
    if not processes.main:
        processes.wait()  # until the folder is ready; if it is refused, the launcher ends all
        yield folder
        return
    try:
        out.mkdir(parents=True, exist_ok=True)
        with hold_folder(out):
            remove_parts(out)
            state = _run_there(out, run, config, resume)
            write_atomically(out / CONFIG, config_json(config).encode() + b"\n")
            teacher = run.teacher if state.teacher is None else state.teacher
            digest, starts = state.digest or run.digest, state.starts + 1
            _write_state(out, replace(state, teacher=teacher, digest=digest, starts=starts))
            for inside in (out / CHECKPOINTS, out / ROLLOUTS):
                inside.mkdir(exist_ok=True)
                remove_parts(inside)
            processes.wait()
            done, start = state.done, time.monotonic()
            try:
                yield folder
            finally:
                with suppress(OSError, BadInput):  # an earlier error must not be hidden
                    state, spent = read_state(out), 0.0 if done else time.monotonic() - start
                    _write_state(out, replace(state, seconds=state.seconds + spent))
    except (OSError, SafetensorError) as error:
        reason = getattr(error, "strerror", None) or " ".join(str(error).split())[:200]
        raise BadInput(
            f"Cannot write to {out}: {reason}. What was saved before is there still."
        ) from None


@contextmanager
def new_checkpoint(folder: RunFolder) -> Iterator[Path]:
    """An empty folder, which becomes the result if the block ends without an exception."""
    made = folder.path / MADE
    shutil.rmtree(made, ignore_errors=True)
    made.mkdir()
    try:
        yield made
        for path in made.iterdir():
            _sync(path)
        folder.finish(made)
    except BaseException:
        shutil.rmtree(made, ignore_errors=True)
        raise


def _run_there(out: Path, run: TrainingRun, config: TrainConfig, resume: bool) -> TrainingRun:
    """The run that is in the folder, or a new one. Raises BadInput.

    A run that has kept nothing yet, as one that was refused, makes way for any other.
    """
    there = {path.name for path in out.iterdir()}
    if STATE not in there:
        if there - {CONFIG}:
            raise BadInput(
                f"{out} holds other files and no training run: name a new folder with --out."
            )
        return replace(run, curves=f"{name_of(out)}-{token_hex(4)}")
    before = read_state(out)
    files = (path for path in out.rglob("*") if path.name not in (STATE, CONFIG) and path.is_file())
    if not before.done and not any(path.stat().st_size for path in files):
        return replace(run, seconds=before.seconds, starts=before.starts, curves=before.curves)
    _check_same(out, before, run, config)
    if not resume:
        raise BadInput(
            f"{out} holds this run already: go on with --resume, or name a new folder with --out."
        )
    return before


def _check_same(out: Path, before: TrainingRun, run: TrainingRun, config: TrainConfig) -> None:
    """Raise BadInput if the folder's run is another, or may not go on with this configuration."""
    if before.stage != run.stage:
        raise BadInput(
            f"{out} holds a run of the stage {before.stage}, not {run.stage}: name a new folder "
            "with --out."
        )
    for what in ("model", "data", "teacher"):
        old, new = getattr(before, what), getattr(run, what)
        if old != new and None not in (old, new):
            old, new = (encodable(value) or "nothing" for value in (old, new))
            raise BadInput(
                f"{out} holds a run with {what} {old!r} instead of {new!r}: give the same, or name "
                "a new folder with --out."
            )
    if before.digest != run.digest and None not in (before.digest, run.digest):
        changed = f"{encodable(run.data)} holds other pairs than when the run in {out} began"
        raise BadInput(f"{changed}: give them as they were, or name a new folder with --out.")
    config_before = read_config(out)
    if difference := config_difference(config_before, config):
        raise BadInput(
            f"{out} holds a run with {difference}: give the same, or name a new folder with --out."
        )
    steps = config_before.grpo.steps
    if before.done and run.stage in ("grpo", "all") and config.grpo.steps != steps:
        raise BadInput(
            f"{out} holds a run that is done, with grpo.steps={steps}: begin another one from its "
            f"result, with --model {out / RESULT} and a new folder with --out."
        )


def _write_state(out: Path, state: TrainingRun) -> None:
    write_atomically(out / STATE, type_adapter(TrainingRun).dump_json(state, indent=1) + b"\n")


def _sync(path: Path) -> None:
    """Put on the disk what was written to a file, or which names a folder holds."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@dataclass(frozen=True, slots=True)
class StageRun:
    """One start of a stage: what it trains, how, where and for how long."""

    source: str  # The checkpoint that it begins with: a folder or hub id
    config: TrainConfig
    folder: RunFolder
    time_budget: TimeBudget

    @property
    def stopped(self) -> bool:
        """Somebody asked the main process to stop; all processes ask together."""
        return self.folder.processes.agreed(self.time_budget.stopped())

    def finish(self, made: Path) -> Path | None:
        """Make `made` the result; gives None if the run was stopped. Raises OSError."""
        return None if self.stopped else self.folder.finish(made)

    @contextmanager
    def record(self) -> Iterator[Callable[[StepMetrics, int], bool]]:
        """A function that records a step of so many, and says whether it was the last.

        It adds stage and seconds; only the main process records. Raises BadInput.
        """
        if not self.folder.processes.main:
            yield lambda *_: False
            return
        ended, state = time.monotonic(), self.folder.state

        def record(metrics: StepMetrics, total: int) -> bool:
            nonlocal ended
            begun, ended = ended, time.monotonic()
            metrics = replace(metrics, stage=state.stage, seconds=ended - begun)
            writer.write(metrics)
            self.time_budget.tell(metrics, total)
            return self.time_budget.over

        curves = state.curves or name_of(self.folder.path) if self.config.trackio else ""
        with MetricsWriter(self.folder.path, curves) as writer:
            yield record
