"""The folder of a training run (`--out`): which stage made it and of what, what is done, its checkpoints and its result."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from secrets import token_hex
from typing import Any, ClassVar, Literal

from safetensors import SafetensorError

from vrthinker_core.backends.base import not_cancelled
from vrthinker_core.errors import BadInput
from vrthinker_core.results.trace_files import CHECKPOINTS as CHECKPOINTS
from vrthinker_core.results.trace_files import MADE
from vrthinker_core.results.trace_files import RESULT as RESULT
from vrthinker_core.results.trace_files import STATE as STATE
from vrthinker_core.storage import hold_folder, remove_parts, type_adapter, write_atomically
from vrthinker_core.text import encodable
from vrthinker_core.training.config import (
    CONFIG,
    TrainConfig,
    config_json,
    read_config,
    write_config,
)
from vrthinker_core.training.metrics import MetricsWriter, StepMetrics, name_of

Listener = Callable[[StepMetrics, int], None]  # A step, and how many there will be


def ignore_step(_: StepMetrics, __: int) -> None:
    """Nobody listens."""


def ignore_line(_: str) -> None:
    """Nobody hears it."""


@dataclass(frozen=True, slots=True)
class Sitting:
    """One start of a run, or of one stage of it."""

    stopped: Callable[[], bool] = (
        not_cancelled  # Whether somebody asked it to stop: what is left is for another sitting
    )
    deadline: float | None = (
        None  # On the clock of `time.monotonic`; the stage is done with what it has then. None for no limit
    )
    tell: Listener = ignore_step
    say: Callable[[str], None] = ignore_line  # Hears sentences on how the stage is run

    @property
    def over(self) -> bool:
        """No further step is to begin."""
        return self.stopped() or (self.deadline is not None and time.monotonic() >= self.deadline)

    @property
    def seconds_left(self) -> float | None:
        """Until the deadline, not below 0; None without one."""
        return None if self.deadline is None else max(0.0, self.deadline - time.monotonic())

    def part(self, share: float) -> Sitting:
        """The same sitting with that share of the time that is left."""
        left = self.seconds_left
        return self if left is None else replace(self, deadline=time.monotonic() + left * share)


def begin_sitting(
    stopped: Callable[[], bool],
    minutes: float | None,
    tell: Listener = ignore_step,
    say: Callable[[str], None] = ignore_line,
) -> Sitting:
    """A sitting that begins now and lasts so many minutes, None for as long as it takes."""
    return Sitting(stopped, None if minutes is None else time.monotonic() + minutes * 60, tell, say)


PATIENCE = timedelta(
    days=7
)  # A process may wait so long for another one, which plays rollouts meanwhile


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
        """The GPU that is this process's own; None where there is one process, or no GPU, and the judge may choose."""
        if self.count == 1:
            return None
        import torch

        return f"cuda:{os.environ.get('LOCAL_RANK', '0')}" if torch.cuda.is_available() else None

    def wait(self) -> None:
        """Until all of them have come here."""
        if self.count > 1:
            from torch import distributed

            distributed.barrier()

    def agreed(self, said: bool) -> bool:
        """What the main process said, in all of them; they call it together."""
        if self.count == 1:
            return said
        from accelerate.utils import broadcast_object_list

        answers: list[bool] = broadcast_object_list([said])
        return answers[0]


ALONE = Processes()


def world_size() -> int:
    """How many processes `accelerate launch` started, connected or not yet."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def launched_processes() -> Processes:
    """Those that `accelerate launch` started, connected; this one alone where nothing did."""
    if world_size() < 2:
        return ALONE
    import torch
    from accelerate import PartialState

    state = PartialState(cpu=not torch.cuda.is_available(), timeout=PATIENCE)
    return Processes(state.num_processes, state.process_index)


MAY_CHANGE = (
    *("grpo.steps", "shares.", "checkpoint_minutes", "gates.", "trackio"),
    *("grpo.shown_every", "grpo.micro_batch", "grpo.trl.vllm"),
)
"""Beginnings of the names of settings that a run may go on with changed: how long, how often, what is enough, where GRPO plays."""

MAY_NOT = ("gates.pairs",)
"""Those among them that it may not: of a finite set, what is not held out is learnt from, and would be other pairs."""


def config_difference(before: TrainConfig, now: TrainConfig) -> str:
    """The first setting in which two configurations differ and a run may not, in words; "" where there is none."""
    pairs = zip(
        _flat(json.loads(config_json(before))), _flat(json.loads(config_json(now))), strict=True
    )
    differing = (
        (name, old, new) for (name, old), (_, new) in pairs if old != new and not _may_change(name)
    )
    return next((f"{name} {old!r} instead of {new!r}" for name, old, new in differing), "")


def _may_change(name: str) -> bool:
    return name.startswith(MAY_CHANGE) and name not in MAY_NOT


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
    teacher: str | None = (
        None  # As it was chosen, "" where there is none; None where a state does not say, as earlier ones
    )
    done: bool = False  # The result is there
    seconds: float = 0.0  # Of all starts until it was done, but for those that were killed
    starts: int = 0
    digest: str | None = (
        None  # Of the pairs; None where they never end, nobody asks for them, or an earlier state does not say
    )
    curves: str | None = (
        None  # Its name in trackio, which no other run has; None where an earlier state does not say
    )


@dataclass(frozen=True, slots=True)
class RunFolder:
    """A folder of a training run, made ready."""

    path: Path
    processes: Processes = ALONE  # That train together; the main one alone writes here

    @property
    def checkpoints(self) -> Path:
        """From which the stage goes on after a stop."""
        return self.path / CHECKPOINTS

    @property
    def rollouts(self) -> Path:
        """Rollouts kept as traces, to look at."""
        return self.path / ROLLOUTS

    @property
    def result(self) -> Path:
        """The trained judge; there when the stage is done."""
        return self.path / RESULT

    @property
    def state(self) -> TrainingRun:
        """How far the run has come."""
        return read_state(self.path)

    def finish(self, made: Path) -> Path:
        """Put the checkpoint in `made`, a folder beside the result, in its place, whole; the run is done then. Raises OSError."""
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
    from pydantic import ValidationError

    if (out / "base").is_dir():  # an earlier version made it
        raise BadInput(
            f"{out} holds a run with the stage base, which is gone: name a new folder, and its checkpoint with --model."
        )
    try:
        return type_adapter(TrainingRun).validate_json((out / STATE).read_bytes(), strict=True)
    except OSError as error:
        raise BadInput(f"Cannot read {out / STATE}: {error.strerror or error}.") from None
    except ValidationError:
        raise BadInput(f"{out / STATE} is damaged: name a new folder with --out.") from None


@contextmanager
def open_run_folder(
    out: Path, run: TrainingRun, config: TrainConfig, *, resume: bool, processes: Processes = ALONE
) -> Iterator[RunFolder]:
    """The folder of `run`, held by the main process until the block ends or it dies.

    `resume` goes on with the same run, and begins it where nothing is there yet. Raises BadInput for a folder that another process
    writes, that holds anything else, or in which this run has kept something and is not to be resumed; and when the disk is full.
    """
    if not processes.main:
        processes.wait()  # until the main process has made it ready; where it is refused, the launcher ends all of them
        yield RunFolder(out, processes)
        return
    try:
        out.mkdir(parents=True, exist_ok=True)
        with hold_folder(out):
            remove_parts(out)
            before = _run_there(out, run, config, resume)
            write_config(out, config)
            state = before or replace(run, curves=f"{name_of(out)}-{token_hex(4)}")
            teacher = run.teacher if state.teacher is None else state.teacher
            _write_state(
                out,
                replace(
                    state,
                    teacher=teacher,
                    digest=state.digest or run.digest,
                    starts=state.starts + 1,
                ),
            )
            folder = RunFolder(out, processes)
            for inside in (folder.checkpoints, folder.rollouts):
                inside.mkdir(exist_ok=True)
                remove_parts(inside)
            processes.wait()
            with _timed(folder):
                yield folder
    except (OSError, SafetensorError) as error:
        reason = getattr(error, "strerror", None) or " ".join(str(error).split())[:200]
        raise BadInput(
            f"Cannot write to {out}: {reason}. What was saved before is there still."
        ) from None


@contextmanager
def _timed(folder: RunFolder) -> Iterator[None]:
    """Add the time of a start to that of the run, unless it was done before."""
    done, start = folder.state.done, time.monotonic()
    try:
        yield
    finally:
        with suppress(OSError, BadInput):  # whatever else happened is worth more
            state, spent = folder.state, 0.0 if done else time.monotonic() - start
            _write_state(folder.path, replace(state, seconds=state.seconds + spent))


@contextmanager
def new_checkpoint(folder: RunFolder) -> Iterator[Path]:
    """An empty folder for the files of the result; it becomes the result when the block ends without an exception."""
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


def _run_there(
    out: Path, run: TrainingRun, config: TrainConfig, resume: bool
) -> TrainingRun | None:
    """The run that is in the folder; None for an empty one, or one that was killed before it was begun. Raises BadInput.

    A run that has kept nothing yet, as one that was refused, makes way for any other.
    """
    there = {path.name for path in out.iterdir()}
    if STATE not in there:
        if there - {CONFIG}:
            raise BadInput(
                f"{out} holds other files and no training run: name a new folder with --out."
            )
        return None
    before = read_state(out)
    if not before.done and not _has_kept(out):
        return replace(run, seconds=before.seconds, starts=before.starts, curves=before.curves)
    _check_same(out, before, run, config)
    if not resume:
        raise BadInput(
            f"{out} holds this run already: go on with --resume, or name a new folder with --out."
        )
    return before


def _check_same(out: Path, before: TrainingRun, run: TrainingRun, config: TrainConfig) -> None:
    """Raises BadInput where the run that is in the folder is another one, or may not go on with this configuration."""
    if before.stage != run.stage:
        raise BadInput(
            f"{out} holds a run of the stage {before.stage}, not {run.stage}: name a new folder with --out."
        )
    for what in ("model", "data", "teacher"):
        old, new = getattr(before, what), getattr(run, what)
        if old != new and None not in (old, new):
            named = (
                f"{what} {encodable(old) or 'nothing'!r} instead of {encodable(new) or 'nothing'!r}"
            )
            raise BadInput(
                f"{out} holds a run with {named}: give the same, or name a new folder with --out."
            )
    if before.digest != run.digest and None not in (before.digest, run.digest):
        changed = f"{encodable(run.data)} holds other pairs than when the run in {out} began"
        raise BadInput(f"{changed}: give them as they were, or name a new folder with --out.")
    config_before = read_config(out)
    if difference := config_difference(config_before, config):
        raise BadInput(
            f"{out} holds a run with {difference}: give the same, or name a new folder with --out."
        )
    if (
        before.done
        and run.stage in ("grpo", "all")
        and config.grpo.steps != config_before.grpo.steps
    ):
        done = f"{out} holds a run that is done, with grpo.steps={config_before.grpo.steps}"
        raise BadInput(
            f"{done}: begin another one from its result, with --model {out / RESULT} and a new folder with --out."
        )


def _has_kept(out: Path) -> bool:
    """Something is in the folder besides what says which run it is, its stages' folders included."""
    others = (
        path for path in out.rglob("*") if path.name not in (STATE, CONFIG) and path.is_file()
    )
    return any(path.stat().st_size for path in others)


def _write_state(out: Path, state: TrainingRun) -> None:
    write_atomically(out / STATE, type_adapter(TrainingRun).dump_json(state, indent=1) + b"\n")


def _sync(path: Path) -> None:
    """What was written to a file, or which names a folder holds, is on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class StageRecord(AbstractContextManager["StageRecord"]):
    """Keeps the steps of one stage in its folder."""

    def __init__(self, folder: RunFolder, config: TrainConfig, sitting: Sitting) -> None:
        """Raises BadInput where nothing can be written."""
        self._writer = MetricsWriter(
            folder.path, folder.state.curves or name_of(folder.path) if config.trackio else ""
        )
        self._sitting, self._lap = sitting, time.monotonic()

    def add(self, metrics: StepMetrics, total: int) -> None:
        """A step of `total` is done. Raises BadInput where the disk is full."""
        self._writer.write(metrics)
        self._sitting.tell(metrics, total)

    def lap(self) -> float:
        """Seconds since the last lap, at first since the record was opened."""
        last, self._lap = self._lap, time.monotonic()
        return self._lap - last

    def __exit__(self, *_: object) -> None:
        self._writer.close()


def stage_record(
    folder: RunFolder, config: TrainConfig, sitting: Sitting
) -> AbstractContextManager[StageRecord | None]:
    """The record of a stage that several processes may train: in the main one; None in the others."""
    return StageRecord(folder, config, sitting) if folder.processes.main else nullcontext()
