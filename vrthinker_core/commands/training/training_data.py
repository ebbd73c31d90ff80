"""The data of `train`: labelled pairs, a teacher or finished runs."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from vrthinker_core.__about__ import asset
from vrthinker_core.errors import BadInput

if TYPE_CHECKING:
    from vrthinker_core.training.cold_start import Teacher
    from vrthinker_core.training.config import TrainConfig
    from vrthinker_core.training.pair_set import Layouts, PairSet
    from vrthinker_core.training.pipeline import TrainingData
    from vrthinker_core.training.run_folder import TrainingRun
    from vrthinker_core.training.sft_data import ReadyRuns
    from vrthinker_core.types import ProtocolName

SCRIPTED = "scripted"  # the teacher that knows the labels of drawn pairs


def resolved_model(model: str) -> str:
    """Return a folder or hub id; `nano` becomes its folder.

    Raises `BadInput` if that folder is missing.
    """
    return str(asset("nano")) if model == "nano" else model


def named_places(model: str, data: str, out: Path) -> tuple[str, str]:
    """Return the names of model and data with absolute paths.

    Keeps the spelling of a run in `out` that an earlier version began. Raises `BadInput` if its
    state is damaged.
    """
    from vrthinker_core.training.data import absolute_data
    from vrthinker_core.training.run_folder import STATE, read_state

    before = read_state(out) if (out / STATE).is_file() else None
    if model != "nano" and Path(model).is_dir():
        same = before is not None and Path(before.model).resolve() == Path(model).resolve()
        model = before.model if before is not None and same else str(Path(model).absolute())
    return model, absolute_data(data, before.data if before is not None else None)


def chosen_teacher(stage: str, data: str, teacher: str | None) -> str | None:
    """Return the named teacher; `scripted` for cold starts on drawn pairs."""
    return (
        SCRIPTED
        if teacher is None and _is_drawn(data) and stage in ("cold-start", "all")
        else teacher
    )


def _is_drawn(data: str) -> bool:
    return data.partition(":")[0] in ("drawn", "drawn2")


def open_training_data(run: "TrainingRun", config: "TrainConfig") -> "TrainingData":
    """Open the pairs, and the cold start's teacher or runs.

    Raises `BadInput` and `CheckpointError` before any weight is read.
    """
    from vrthinker_core.protocols.factory import frame_layouts
    from vrthinker_core.training.data import open_pairs
    from vrthinker_core.training.pipeline import TrainingData
    from vrthinker_core.training.sft_data import taught_pairs

    ready = _ready_runs(run)
    protocols = _protocols(run, config)
    if ready is not None and run.stage == "cold-start":
        return TrainingData(run.data, None, ready=ready)
    # TRL reads the replies of one protocol only.
    played = protocols[:1] if run.stage in ("grpo", "all") else protocols
    pairs = open_pairs(taught_pairs(run.data), frame_layouts(config.settings, played))
    taught = (
        open_teacher(run.teacher, pairs, frame_layouts(config.settings, protocols))
        if run.teacher
        else None
    )
    return TrainingData(run.data, pairs, taught, ready)


def _protocols(run: "TrainingRun", config: "TrainConfig") -> "tuple[ProtocolName, ...]":
    """Return the protocols to train, by default all; raises `CheckpointError`."""
    from vrthinker_core.protocols.factory import chosen_protocol

    known = _spoken(resolved_model(run.model))
    return (
        known
        if known and config.settings.protocol == "auto"
        else (chosen_protocol(config.settings, known),)
    )


def _spoken(model: str) -> "tuple[ProtocolName, ...]":
    """Check a checkpoint's files; return its protocols or raise `CheckpointError`."""
    from vrthinker_core.backends.checkpoint_files import check_files, locate, read_marker

    folder = locate(model)
    check_files(folder)
    return read_marker(folder, model).protocols


def _ready_runs(run: "TrainingRun") -> "ReadyRuns | None":
    """Return the data's runs if the stage needs them.

    Returns None with a teacher, and for a stage without a cold start.

    Raises `BadInput` if the data hold none.
    """
    from vrthinker_core.training.data import find_data
    from vrthinker_core.training.sft_data import open_ready_runs

    if run.teacher or run.stage not in ("cold-start", "all"):
        return None
    ready = open_ready_runs(run.data)
    if ready is None:
        if not _is_drawn(run.data):
            find_data(run.data)
        raise BadInput(
            "The cold start learns from the runs of another judge: name the judge with --teacher, or give a folder of its traces with "
            "--data."
        )
    return ready


def open_teacher(name: str, pairs: "PairSet", layouts: "Layouts") -> "Teacher":
    """Return a teacher by name; `scripted` uses all these protocols in turn.

    Checks only the files of a checkpoint. The process that runs the teacher reads the weights.
    Raises `BadInput` and `CheckpointError`.
    """
    from vrthinker_core.backends import open_backend
    from vrthinker_core.backends.judge_name import parse_judge
    from vrthinker_core.drawn.teacher import write_lesson
    from vrthinker_core.training.cold_start import Teacher
    from vrthinker_core.training.pair_set import DrawnPairSet
    from vrthinker_core.training.teacher import scripted_teacher

    if name == SCRIPTED:
        if not isinstance(pairs, DrawnPairSet):
            raise BadInput(
                "The scripted teacher knows only drawn pairs: give --data drawn:SEED, or name another judge."
            )
        own = replace(
            pairs, grids=tuple((protocol, layout.grid) for protocol, layout in layouts.items())
        )
        return Teacher(name, lambda: scripted_teacher(own, write_lesson), own)
    judge = parse_judge(name)
    if judge.kind in ("nano", "hf"):
        _spoken(resolved_model(judge.what or judge.kind))
        return Teacher(name, lambda: open_backend(name))
    backend = open_backend(name)
    return Teacher(name, lambda: backend)
