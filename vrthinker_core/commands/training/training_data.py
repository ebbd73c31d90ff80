"""What `train` learns from: pairs with known labels, a teacher for the cold start, or runs that are there already."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from vrthinker_core.__about__ import asset
from vrthinker_core.errors import BadInput

if TYPE_CHECKING:
    from vrthinker_core.training.labelled_pairs.pair_set import PairSet
    from vrthinker_core.training.labelled_pairs.ready_runs import ReadyRuns
    from vrthinker_core.training.labelled_pairs.video_pairs import Layouts
    from vrthinker_core.training.run.config import TrainConfig
    from vrthinker_core.training.run.run_folder import TrainingRun
    from vrthinker_core.training.stages.cold_start import Teacher
    from vrthinker_core.training.stages.pipeline import TrainingData
    from vrthinker_core.types import ProtocolName

SCRIPTED = "scripted"  # As a teacher: the one that knows the truth of drawn pairs


def resolved_model(model: str) -> str:
    """A folder or hub id; the word for the built-in judge means its folder. Raises BadInput where that is missing."""
    return str(asset("nano")) if model == "nano" else model


def named_places(model: str, data: str, out: Path) -> tuple[str, str]:
    """Model and data as a run in `out` is said to have them: with their whole paths, or as an earlier version began it.

    Raises BadInput for a damaged state.
    """
    from vrthinker_core.training.labelled_pairs.open_pairs import absolute_data
    from vrthinker_core.training.run.run_folder import STATE, read_state

    before = read_state(out) if (out / STATE).is_file() else None
    if model != "nano" and Path(model).is_dir():
        same = before is not None and Path(before.model).resolve() == Path(model).resolve()
        model = before.model if before is not None and same else str(Path(model).absolute())
    return model, absolute_data(data, before.data if before is not None else None)


def chosen_teacher(stage: str, data: str, teacher: str | None) -> str | None:
    """The one that was named; of drawn pairs the scripted one, where none is: nobody knows them better."""
    return (
        SCRIPTED
        if teacher is None and _is_drawn(data) and stage in ("cold-start", "all")
        else teacher
    )


def _is_drawn(data: str) -> bool:
    return data.partition(":")[0] in ("drawn", "drawn2")


def open_training_data(run: "TrainingRun", config: "TrainConfig") -> "TrainingData":
    """The pairs, and what the cold start learns from. Raises BadInput and CheckpointError before a weight is read."""
    from vrthinker_core.dialects.factory import frame_layouts
    from vrthinker_core.training.labelled_pairs.open_pairs import open_pairs
    from vrthinker_core.training.labelled_pairs.ready_runs import taught_pairs
    from vrthinker_core.training.stages.pipeline import TrainingData

    ready = _ready_runs(run)
    protocols = _protocols(run, config)
    if ready is not None and run.stage == "cold-start":
        return TrainingData(run.data, None, ready=ready)
    played = (
        protocols[:1] if run.stage in ("grpo", "all") else protocols
    )  # TRL reads the replies of one
    pairs = open_pairs(taught_pairs(run.data), frame_layouts(config.settings, played))
    taught = (
        open_teacher(run.teacher, pairs, frame_layouts(config.settings, protocols))
        if run.teacher
        else None
    )
    return TrainingData(run.data, pairs, taught, ready)


def _protocols(run: "TrainingRun", config: "TrainConfig") -> "tuple[ProtocolName, ...]":
    """Those that are trained: the one of the settings, or all that the model was made for. Raises CheckpointError."""
    from vrthinker_core.dialects.factory import chosen_protocol

    known = _spoken(resolved_model(run.model))
    return (
        known
        if known and config.settings.protocol == "auto"
        else (chosen_protocol(config.settings, known),)
    )


def _spoken(model: str) -> "tuple[ProtocolName, ...]":
    """What a checkpoint speaks whose files are all there. Raises CheckpointError."""
    from vrthinker_core.backends.local.checkpoint.checkpoint_files import check_files, locate
    from vrthinker_core.backends.local.checkpoint.marker import read_marker

    folder = locate(model)
    check_files(folder)
    return read_marker(folder, model).protocols


def _ready_runs(run: "TrainingRun") -> "ReadyRuns | None":
    """The runs that the data hold, where the stage wants some and nobody is to write them. Raises BadInput where there are none."""
    from vrthinker_core.training.labelled_pairs.open_pairs import find_data
    from vrthinker_core.training.labelled_pairs.ready_runs import open_ready_runs

    if run.teacher or run.stage not in ("cold-start", "all"):
        return None
    ready = open_ready_runs(run.data)
    if ready is None:
        if not _is_drawn(run.data):
            find_data(run.data)
        raise BadInput(
            "The cold start learns from the runs of another judge: name it with --teacher, or give its runs with --data, a folder "
            "of traces."
        )
    return ready


def open_teacher(name: str, pairs: "PairSet", layouts: "Layouts") -> "Teacher":
    """The judge of that name; the scripted one speaks all these protocols in turn. Raises BadInput and CheckpointError.

    A checkpoint is only looked at: its weights are read by the process that lets it play, when it does.
    """
    from vrthinker_core.backends import open_backend
    from vrthinker_core.backends.judge_name import parse_judge
    from vrthinker_core.training.drawn_teacher.replies import write_lesson
    from vrthinker_core.training.labelled_pairs.pair_set import DrawnPairSet
    from vrthinker_core.training.stages.cold_start import Teacher
    from vrthinker_core.training.teacher import scripted_teacher

    if name == SCRIPTED:
        if not isinstance(pairs, DrawnPairSet):
            raise BadInput(
                "The scripted teacher knows drawn pairs alone: give --data drawn:SEED, or name another judge."
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
