"""The folder of a training run (`--out`): state, checkpoints and result."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from pathlib import Path
from secrets import token_hex
from typing import Any, Literal

from safetensors import SafetensorError

from vrthinker_core.backends.base import not_cancelled
from vrthinker_core.errors import BadInput, data_errors, os_errors, type_adapter
from vrthinker_core.results.trace_files import CHECKPOINTS, RESULT, STATE as STATE
from vrthinker_core.storage import hold_folder, remove_parts, write_atomically
from vrthinker_core.training.config import CONFIG, TrainConfig, config_json, read_config
from vrthinker_core.training.metrics import MetricsWriter, StepMetrics


@dataclass(frozen=True, slots=True)
class TimeBudget:
    """What ends a start of a run, and who hears its progress."""

    stopped: Callable[[], bool] = not_cancelled  # Somebody asked it to stop
    deadline: float | None = None  # On the clock of `time.monotonic`
    tell: Callable[[StepMetrics, int], None] = lambda *_: None  # Hears a step of so many
    say: Callable[[str], None] = lambda _: None  # Hears sentences on how the stage runs

    @property
    def over(self) -> bool:
        """Whether no further step begins."""
        late = self.deadline is not None and time.monotonic() >= self.deadline
        return late or self.stopped()


@dataclass(frozen=True, slots=True)
class Processes:
    """The number of processes that train together, and which one this is."""

    count: int = 1
    number: int = 0

    @property
    def main(self) -> bool:
        """Whether this one writes, and tells the progress."""
        return self.number == 0

    @property
    def device(self) -> str | None:
        """This process's GPU; None if the judge may choose."""
        if self.count == 1:
            return None
        import torch

        return f"cuda:{os.environ.get('LOCAL_RANK', '0')}" if torch.cuda.is_available() else None

    def wait(self) -> None:
        """Wait until all processes are here."""
        if self.count > 1:
            from torch import distributed

            distributed.barrier()

    def agreed(self, said: bool) -> bool:
        """Return the main process's value in all processes, which call this together."""
        if self.count == 1:
            return said
        from accelerate.utils import broadcast_object_list

        return bool(broadcast_object_list([said])[0])


def world_size() -> int:
    """Return the number of processes that `accelerate launch` started, connected or not."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def launched_processes() -> Processes:
    """Connect the processes of `accelerate launch`; without it return this one alone."""
    if world_size() < 2:
        return Processes()
    import torch
    from accelerate import PartialState

    # A process waits so long for another one that plays rollouts
    state = PartialState(cpu=not torch.cuda.is_available(), timeout=timedelta(days=7))
    return Processes(state.num_processes, state.process_index)


ROLLOUTS = "rollouts"  # Folder of rollouts kept as traces, to look at

TrainedStage = Literal["cold-start", "rejection", "grpo"]
StageName = Literal[TrainedStage, "all"]


@dataclass(frozen=True, slots=True)
class TrainingRun:
    """Which run a folder holds, and whether it is done."""

    stage: StageName
    model: str  # As it was given: a folder or a hub id
    data: str  # As it was given
    teacher: str | None = None  # As it was chosen; "" without one, None if nobody asks
    done: bool = False  # The result is there
    digest: str | None = None  # Of the pairs; None if they never end or nobody asks
    curves: str | None = None  # Its name in trackio, which no other run has


@dataclass(frozen=True, slots=True)
class RunFolder:
    """The folder of a training run, ready for use."""

    path: Path
    processes: Processes = Processes()  # They train together; the main one alone writes here

    @property
    def checkpoints(self) -> Path:
        """The folder of the trainer's checkpoints."""
        return self.path / CHECKPOINTS

    @property
    def has_learnt(self) -> bool:
        """Whether a checkpoint was saved, so that training data must stay."""
        return any(self.checkpoints.glob("trainer/checkpoint-*"))

    @property
    def result(self) -> Path:
        """The trained judge; there when the run is done."""
        return self.path / RESULT

    @property
    def state(self) -> TrainingRun:
        """The state on the disk. Raises BadInput."""
        return read_state(self.path)

    def finish(self, made: Path) -> Path:
        """Make the folder `made` the result; raises OSError. The run is done then."""
        if self.processes.main:
            for path in made.iterdir():
                _sync(path)
            shutil.rmtree(self.result, ignore_errors=True)
            made.rename(self.result)
            _sync(self.path)
            _write_state(self.path, replace(self.state, done=True))
        self.processes.wait()
        return self.result


def read_state(out: Path) -> TrainingRun:
    """Return the state of the run in a folder. Raises BadInput."""
    damaged = f"Name a new folder with --out: {out / STATE} is damaged"
    with os_errors(f"Cannot read {out / STATE}"), data_errors(damaged):
        return type_adapter(TrainingRun).validate_json((out / STATE).read_bytes(), strict=True)


MAY_CHANGE = (
    *("checkpoint_minutes", "held_out_pairs", "least_steps", "trackio", "grpo.max_steps"),
    *("grpo.eval_steps", "grpo.shown_every", "grpo.per_device_train_batch_size", "grpo.vllm_"),
)
"""Beginnings of the names of settings that may change when a run resumes."""


def _identity(run: TrainingRun, config: TrainConfig) -> dict[str, Any]:
    """Return by name what a resumed run must share; config fields as `--set` names them."""
    own = {"stage": run.stage, "model": run.model, "data": run.data, "teacher": run.teacher}
    own["digest of the pairs"] = run.digest
    found: dict[str, Any] = {name: value for name, value in own.items() if value is not None}
    ended = run.done and run.stage in ("grpo", "all")  # It makes no further steps
    flat = list(asdict(config).items())
    for name, value in flat:
        if isinstance(value, dict):
            flat += [(f"{name}.{inner}", each) for inner, each in value.items()]
        elif not name.startswith(MAY_CHANGE) or (ended and name == "grpo.max_steps"):
            found[name] = value
    return found


@contextmanager
def open_run_folder(
    out: Path,
    run: TrainingRun,
    config: TrainConfig,
    *,
    resume: bool,
    processes: Processes = Processes(),
) -> Iterator[RunFolder]:
    """Open the folder of `run`; the main process holds it meanwhile.

    `resume` continues the same run, or begins it in an empty folder. Raises BadInput if another
    process writes there, if the folder holds another run or other files, if it holds this run and
    `resume` is false, and if the disk is full.
    """
    folder = RunFolder(out, processes)
    if not processes.main:
        processes.wait()  # until the folder is ready; if it is refused, the launcher ends all
        yield folder
        return
    try:
        with hold_folder(out):
            state = _checked_state(out, run, config, resume)
            write_atomically(out / CONFIG, config_json(config).encode() + b"\n")
            _write_state(out, replace(state, digest=state.digest or run.digest))
            for inside in (folder.checkpoints, out / ROLLOUTS):
                inside.mkdir(exist_ok=True)
                remove_parts(inside)
            processes.wait()
            yield folder
    except (OSError, SafetensorError) as error:
        reason = getattr(error, "strerror", None) or " ".join(str(error).split())[:200]
        raise BadInput(
            f"Cannot write to {out}: {reason}. Go on with --resume from what was saved before."
        ) from None


def _checked_state(out: Path, run: TrainingRun, config: TrainConfig, resume: bool) -> TrainingRun:
    """Return the state in the folder, or a new one. Raises BadInput.

    A run that has kept nothing yet, such as a refused one, makes way for any other.
    """
    there = {path.name for path in out.iterdir()}
    if STATE not in there:
        if there - {CONFIG}:
            raise BadInput(
                f"{out} holds other files and no training run: name a new folder with --out."
            )
        return replace(run, curves=f"{out.absolute().name}-{token_hex(4)}")
    before = read_state(out)
    files = (path for path in out.rglob("*") if path.name not in (STATE, CONFIG) and path.is_file())
    if not before.done and not any(path.stat().st_size for path in files):
        return replace(run, curves=before.curves)
    now = _identity(replace(run, done=before.done), config)
    for name, old in _identity(before, read_config(out)).items():
        if (new := now.get(name, old)) != old:
            raise BadInput(
                f"{out} holds a run with {name} {old!r} instead of {new!r}: give the same, or name "
                "a new folder with --out."
            )
    if not resume:
        raise BadInput(
            f"{out} holds this run already: go on with --resume, or name a new folder with --out."
        )
    return before


def _sync(path: Path) -> None:
    """Flush a file, or the names in a folder, to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _write_state(out: Path, state: TrainingRun) -> None:
    write_atomically(out / STATE, type_adapter(TrainingRun).dump_json(state, indent=1) + b"\n")


@dataclass(frozen=True, slots=True)
class StageRun:
    """One start of a stage: its model, settings, folder and time."""

    source: str  # The checkpoint that it begins with: a folder or hub id
    config: TrainConfig
    folder: RunFolder
    time_budget: TimeBudget

    @property
    def over(self) -> bool:
        """Whether the main process was stopped or its time is up."""
        return self.folder.processes.agreed(self.time_budget.over)

    def finish(self, made: Path) -> Path | None:
        """Make `made` the result, or return None if stopped. Raises OSError."""
        stopped = self.folder.processes.agreed(self.time_budget.stopped())
        return None if stopped else self.folder.finish(made)

    @contextmanager
    def record(self) -> Iterator[Callable[[StepMetrics, int], bool]]:
        """Yield a function that records a step and returns whether to stop.

        It adds stage and seconds; only the main process records. Raises BadInput.
        """
        if not self.folder.processes.main:
            yield lambda *_: False
            return
        state, times = self.folder.state, [time.monotonic()]
        curves = state.curves if self.config.trackio else None
        with MetricsWriter(self.folder.path, curves) as writer:

            def record(metrics: StepMetrics, total: int) -> bool:
                times.append(time.monotonic())
                seconds = times[-1] - times[-2]
                metrics = replace(metrics, stage=state.stage, seconds=seconds)
                writer.write(metrics)
                self.time_budget.tell(metrics, total)
                return self.time_budget.over

            yield record
