"""The command `train`: a stage of the paper's training, or all of them, as a run in a folder that goes on after a stop."""

from contextlib import AbstractContextManager, nullcontext
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vrthinker_core.commands.arguments import INTERRUPTED, print_error, stop_on_signal
from vrthinker_core.commands.training.step_progress import StepPace, step_progress
from vrthinker_core.errors import BadInput
from vrthinker_core.text import encodable

if TYPE_CHECKING:
    from vrthinker_core.training.run.config import TrainConfig
    from vrthinker_core.training.run.run_folder import TrainingRun
    from vrthinker_core.training.stages.pipeline import TrainingData


class StageOption(StrEnum):
    """A stage."""

    COLD_START = "cold-start"
    REJECTION = "rejection"
    GRPO = "grpo"
    ALL = "all"


class PresetOption(StrEnum):
    """A size."""

    NANO = "nano"
    SEVEN_B = "7b"


def train(
    stage: Annotated[StageOption, typer.Argument(help="The stage; all begins with the cold start.")],
    *,
    model: Annotated[str, typer.Option(help="Checkpoint to begin with: a folder, a hub id, or nano for the built-in judge.")],
    data: Annotated[str, typer.Option(help="drawn:SEED, a data set, a table, rows, or a folder of traces.")],
    out: Annotated[Path, typer.Option(help="Folder of the run: a new one, or that of a run to --resume.")],
    teacher: Annotated[str | None, typer.Option(help="Judge whose runs the cold start learns from, as --judge elsewhere.")] = None,
    preset: Annotated[PresetOption | None, typer.Option(help="The figures of a size. [default: nano]")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on where the run in --out was stopped or killed.")] = False,
    minutes: Annotated[float | None, typer.Option(help="End after so many minutes, with what there is then.")] = None,
    seed: Annotated[int | None, typer.Option(help="Equal seeds train equal judges. [default: 0]")] = None,
    changes: Annotated[list[str] | None, typer.Option("--set", help="Change a setting: grpo.steps=30. May come again.")] = None,
) -> None:
    """Train a judge: cold start, rejection sampling, GRPO, or all in turn.

    Checkpoints are kept every few minutes. A run that was stopped or killed goes on with --resume.
    """
    from vrthinker_core.backends.built_in import NANO
    from vrthinker_core.training.run.run_folder import TrainingRun

    if minutes is not None and not minutes > 0:
        raise BadInput(f"--minutes {minutes} leaves no time: give a number above 0.")
    config = _config(out, preset, seed, changes or [], resume)
    run = TrainingRun(stage.value, str(NANO) if model == "nano" else model, data)
    raise typer.Exit(_train(run, config, out, (teacher, minutes, resume)))


def _config(out: Path, preset: PresetOption | None, seed: int | None, changes: list[str], resume: bool) -> "TrainConfig":
    """What was chosen; that of the run which goes on, where nothing was."""
    from vrthinker_core.training.run.config import CONFIG, changed_config, preset_config, read_config

    if resume and preset is None and seed is None and not changes and (out / CONFIG).is_file():
        return read_config(out)
    seeds = [] if seed is None else [f"seed={seed}"]
    return changed_config(preset_config(preset.value if preset else "nano"), [*changes, *seeds])


def _train(run: "TrainingRun", config: "TrainConfig", out: Path, start: tuple[str | None, float | None, bool]) -> int:
    """Open everything and train; gives the exit status."""
    from vrthinker_core.training.run.run_folder import open_run_folder
    from vrthinker_core.training.run.sitting import begin_sitting
    from vrthinker_core.training.stages.pipeline import train_all, train_stage

    teacher, minutes, resume = start
    data = _data(run, config, teacher)
    files = data.pairs if isinstance(data.pairs, AbstractContextManager) else nullcontext()
    with files, open_run_folder(out, run, config, resume=resume) as folder, stop_on_signal() as stopped:
        if folder.state.done:
            print(encodable(f"This run is done: {folder.result}"))
            return 0
        with step_progress(StepPace(minutes)) as tell:
            sitting = begin_sitting(stopped, minutes, tell)
            if run.stage == "all":
                made = train_all(run.model, data, config, folder, sitting)
            else:
                assert run.stage != "base", "no choice of the command"
                made = train_stage(run.stage, run.model, data, config, folder, sitting)
    if made is None:
        print_error(f"Stopped; go on with --resume --out {encodable(str(out))}.")
        return INTERRUPTED
    print(encodable(f"Trained: {made}"))
    return 0


def _data(run: "TrainingRun", config: "TrainConfig", teacher: str | None) -> "TrainingData":
    """The pairs, and the teacher where a stage needs one. Raises BadInput and CheckpointError before a weight is read."""
    from vrthinker_core.backends import open_backend
    from vrthinker_core.backends.local.checkpoint.checkpoint_files import check_files, locate
    from vrthinker_core.backends.local.checkpoint.marker import read_marker
    from vrthinker_core.dialects import make_dialect
    from vrthinker_core.dialects.factory import chosen_protocol, frame_layout
    from vrthinker_core.training.labelled_pairs.open_pairs import open_pairs
    from vrthinker_core.training.stages.cold_start import Teacher
    from vrthinker_core.training.stages.pipeline import TrainingData

    if teacher is None and run.stage in ("cold-start", "all"):
        raise BadInput("The cold start learns from the runs of another judge: name it with --teacher.")
    folder = locate(run.model)
    check_files(folder)
    protocol = chosen_protocol(config.settings, read_marker(folder, run.model).protocols)
    pairs = open_pairs(run.data, frame_layout(make_dialect(config.settings, protocol)))
    judge = Teacher(teacher, open_backend(teacher)) if teacher is not None else None
    return TrainingData(run.data, pairs, judge)
