"""The commands `train` and `teacher`. A stopped run can continue in its folder."""

import os
import time
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Exit, Option

from vrthinker_core.__about__ import asset
from vrthinker_core.backends import default_choice, open_backend
from vrthinker_core.backends.judge_name import parse_judge
from vrthinker_core.commands.terminal import (
    INTERRUPTED,
    NO_VERDICT,
    JudgeOption,
    print_error,
    progress,
    progress_line,
    stop_on_signal,
    with_setting_options,
)
from vrthinker_core.errors import BadInput
from vrthinker_core.protocols.factory import chosen_protocol, frame_plans
from vrthinker_core.training.config import (
    CONFIG,
    PresetName,
    TrainConfig,
    changed_config,
    preset_config,
    read_config,
)
from vrthinker_core.training.metrics import StepMetrics
from vrthinker_core.training.run_folder import (
    STATE,
    StageName,
    StageRun,
    TimeBudget,
    TrainingRun,
    launched_processes,
    open_run_folder,
    read_state,
)
from vrthinker_core.types import ProtocolName, Settings
from vrthinker_core.words import encodable, printable, rate_parts

if TYPE_CHECKING:
    from vrthinker_core.training.estimate import ModelShape
    from vrthinker_core.training.pair_set import PairSet
    from vrthinker_core.training.stages import TrainingData
    from vrthinker_core.training.teacher import Teacher

SCRIPTED = "scripted"  # the teacher that knows the labels of drawn pairs


def resolved_model(model: str) -> str:
    """Return a folder or hub id; `nano` becomes its folder. Raises `BadInput` without it."""
    return str(asset("nano")) if model == "nano" else model


def named_model(model: str) -> str:
    """Return the name of a model, a folder with its absolute path."""
    return str(Path(model).absolute()) if model != "nano" and Path(model).is_dir() else model


def chosen_teacher(stage: str, data: str, teacher: str | None) -> str | None:
    """Return the named teacher; `scripted` for cold starts on drawn pairs."""
    from vrthinker_core.training.data import is_drawn

    scripted = stage in ("cold-start", "all") and is_drawn(data)
    return SCRIPTED if teacher is None and scripted else teacher


def open_training_data(run: TrainingRun, config: TrainConfig) -> "TrainingData":
    """Open pairs and teacher or runs; raises `BadInput` and `CheckpointError`."""
    from vrthinker_core.training.data import open_pairs
    from vrthinker_core.training.stages import TrainingData, runs_folder, taught_pairs

    runs = None
    if not run.teacher and run.stage in ("cold-start", "all"):
        runs = runs_folder(run.data)
        if runs is None:
            raise BadInput(
                "The cold start learns from the runs of another judge: name the judge with --teacher, or give a folder of its traces with "
                "--data."
            )
    protocols = _trained_protocols(resolved_model(run.model))
    if not protocols or config.settings.protocol != "auto":
        protocols = (chosen_protocol(config.settings, protocols),)
    if runs is not None and run.stage == "cold-start":
        return TrainingData(None, runs=runs)
    data = taught_pairs(run.data)
    pairs = open_pairs(data, frame_plans(config.settings, protocols), config.seed)
    taught = open_teacher(run.teacher, data, pairs) if run.teacher else None
    return TrainingData(pairs, taught, runs)


def _trained_protocols(model: str) -> tuple[ProtocolName, ...]:
    """Check a checkpoint's files; return its protocols or raise `CheckpointError`."""
    from vrthinker_core.backends.checkpoint_files import check_files, locate, read_marker

    folder = locate(model)
    check_files(folder)
    return read_marker(folder, model).protocols


def open_teacher(name: str, data: str, pairs: "PairSet") -> "Teacher":
    """Return a teacher by name for the pairs of `data`; `scripted` takes their protocols.

    Checks only the files of a checkpoint. The process that runs the teacher reads the weights.
    Raises `BadInput` and `CheckpointError`.
    """
    from vrthinker_core.drawn.teacher import write_lesson
    from vrthinker_core.training.data import is_drawn
    from vrthinker_core.training.teacher import Teacher, scripted_teacher

    if name == SCRIPTED:
        if not is_drawn(data):
            raise BadInput(
                "The scripted teacher knows only drawn pairs: give --data drawn:SEED, or name another judge."
            )
        return Teacher(name, lambda: scripted_teacher(write_lesson), pairs)
    judge = parse_judge(name)
    if judge.kind == "python":  # Also named by the folder of a run to resume: it must not run code
        raise BadInput(f"Run `teacher --judge {name}` first, and give its folder with --data.")
    if judge.kind in ("nano", "hf"):
        _trained_protocols(resolved_model(judge.what or judge.kind))
        return Teacher(name, lambda: open_backend(name), pairs)
    backend = open_backend(name)
    return Teacher(name, lambda: backend, pairs)


def _step_line(
    step: StepMetrics, total: int, starts: dict[str, tuple[int, float]], end: float | None
) -> str:
    """Return progress with pace, time left until `end` at most, and reward, in one line.

    `starts`: by stage the steps before this start and its time; a new stage is added.
    """
    now = time.monotonic()
    # A step without a time does not count for the pace.
    before = step.step - 1 if step.seconds else step.step
    first, begun = starts.setdefault(step.stage, (before, now - step.seconds))
    parts = [f"{step.stage}: {step.step:,} of {total:,}"]
    if step.step > first and now > begun:
        rate = (step.step - first) / (now - begun)
        left = (total - step.step) / rate
        parts += rate_parts(rate, left if end is None else min(left, max(0.0, end - now)))
    if step.reward_total is not None:
        parts.append(f"reward {step.reward_total:.2f}")
    return ", ".join(parts)


def train(
    stage: Annotated[StageName, Argument(help="Stage to train, or all in turn.")],
    *,
    model: Annotated[
        str | None,
        Option(
            help="Checkpoint to start from: a folder, a hub id, or nano. (default for all: nano)"
        ),
    ] = None,
    data: Annotated[
        list[str] | None,
        Option(
            help="drawn:SEED, a data set, a table, rows, or a folder of traces or of a teacher. "
            "Several are mixed, by a weight in DATA=0.5."
        ),
    ] = None,
    out: Annotated[
        Path | None, Option(help="Folder for the run: new, or of the run to --resume.")
    ] = None,
    teacher: Annotated[
        str | None,
        Option(help="Judge that the cold start learns from. (default for drawn pairs: scripted)"),
    ] = None,
    preset: Annotated[
        PresetName | None,
        Option(help="Settings for a size of model. (default: by the model's size)"),
    ] = None,
    resume: Annotated[
        bool, Option("--resume", help="Continue the stopped or killed run in --out.")
    ] = False,
    minutes: Annotated[
        float | None, Option(help="Stop after this many minutes; keep what was learnt.")
    ] = None,
    seed: Annotated[int | None, Option(help="Equal seeds train equal judges. (default: 0)")] = None,
    changes: Annotated[
        list[str] | None,
        Option("--set", help="Change a setting, as in grpo.max_steps=30. Repeatable."),
    ] = None,
    estimate: Annotated[
        bool, Option("--estimate", help="Only print the GPU memory and hours needed.")
    ] = False,
    gpus: Annotated[int, Option(help="Number of 80-GiB GPUs for --estimate.")] = 8,
) -> None:
    """Train a judge: cold start, rejection sampling, GRPO, or all in turn.

    Checkpoints are saved every few minutes. --resume continues a stopped or killed run.
    """
    from vrthinker_core.training.data import absolute_data

    if gpus < 1:
        raise BadInput(f"--gpus {gpus} trains nothing: give a number from 1 up.")
    if minutes is not None and not minutes > 0:
        raise BadInput(f"--minutes {minutes} leaves no time: give a number above 0.")
    if resume and out is not None and (out / STATE).is_file():
        before = read_state(out)
        model, data = model or before.model or None, data or before.data.split("\n")
        teacher = teacher or before.teacher or None
    if out is None and not estimate:
        raise BadInput("--out is missing: name the folder of the run.")
    model = model or ("nano" if stage == "all" and not estimate else None)
    if model is None and not estimate:
        raise BadInput(f"--model is missing: {stage} goes on from a checkpoint.")
    if not data and not estimate:
        raise BadInput("--data is missing: name the pairs to train with, as drawn:1 or a data set.")
    names = "" if estimate else absolute_data("\n".join(data or ()))
    from vrthinker_core.training.estimate import chosen_preset

    kept = out if resume and preset is None and out and (out / CONFIG).is_file() else None
    shape = None if kept or (preset and not estimate) else _shape(model)
    name = preset or (chosen_preset(shape) if shape else "nano")
    config = read_config(kept) if kept else preset_config(name)
    config = changed_config(config, [*(changes or []), *([] if seed is None else [f"seed={seed}"])])
    if config.settings.frames == "random":
        raise BadInput("Frames drawn at random are a control: train with settings.frames=asked.")
    if shape and not preset and os.environ.get("RANK", "0") == "0":
        print(f"Preset {name}, for a model of {shape.weights:,} weights.", flush=True)
    if estimate:
        _print_estimate(stage, shape or _shape(model), config, gpus)
        raise Exit(0)
    assert model is not None
    assert out is not None
    taught = chosen_teacher(stage, names, teacher) or ""
    run = TrainingRun(stage, named_model(model), names, taught)
    raise Exit(_train(run, config, out, minutes, resume))


def _shape(model: str | None) -> "ModelShape":
    """Return the shape of a checked checkpoint, by default of Qwen2.5-VL-7B."""
    from vrthinker_core.backends.checkpoint_files import check_files, locate
    from vrthinker_core.training.estimate import model_shape

    if model is None:
        return model_shape()
    folder = locate(resolved_model(model))
    check_files(folder)
    return model_shape(folder)


def _print_estimate(stage: StageName, shape: "ModelShape", config: TrainConfig, gpus: int) -> None:
    """Print the estimate; raises `BadInput` if a stage cannot run so."""
    from vrthinker_core.training.estimate import estimate
    from vrthinker_core.training.stages import STAGES

    chosen = [name for name in STAGES if stage in (name, "all")]
    found = [estimate(name, shape, config, gpus) for name in chosen]
    for each in found:
        for line in each.lines():
            print(line)
    for each in found:
        if each.problem:
            raise BadInput(f"The stage {each.stage} cannot run so: {each.problem}.")


def _train(
    run: TrainingRun, config: TrainConfig, out: Path, minutes: float | None, resume: bool
) -> int:
    starts: dict[str, tuple[int, float]] = {}
    end = None if minutes is None else time.monotonic() + minutes * 60
    from vrthinker_core.training.stages import train_all, train_stage

    data = open_training_data(run, config)
    if data.pairs is not None:
        run = replace(run, digest=data.pairs.digest)
    processes = launched_processes()
    say = print if processes.main else lambda _: None
    opened = open_run_folder(out, run, config, resume=resume, processes=processes)
    with data.pairs or nullcontext(), opened as folder, stop_on_signal() as stopped:
        if folder.state.done:
            say(printable(f"This run is done: {folder.result}"))
            return 0
        if data.pairs is not None and (said := data.pairs.sharing(config.parts)):
            say(said)
        stage, source = folder.state.stage, resolved_model(folder.state.model)
        with progress_line("steps") as update:

            def tell(step: StepMetrics, total: int) -> None:
                first = not starts
                update(step.step, total, _step_line(step, total, starts, end), first)

            time_budget = TimeBudget(stopped, end)
            if processes.main:
                time_budget = replace(time_budget, tell=tell, say=print_error)
            begun = StageRun(source, config, folder, time_budget)
            made = train_all(begun, data) if stage == "all" else train_stage(stage, begun, data)
    if made is not None:
        say(printable(f"Trained: {made}"))
        return 0
    if processes.main:
        print_error(f"Stopped; go on with --resume --out {encodable(str(out))}.")
    return INTERRUPTED


@with_setting_options
def teacher(
    *,
    data: Annotated[
        list[str],
        Option(
            help="Pairs: drawn:SEED, a data set, a table, rows, or a folder of traces; of a finite "
            "set the part of the cold start. Several are mixed, by a weight in DATA=0.5."
        ),
    ],
    out: Annotated[Path, Option(help="Folder for the runs: a new one, or one to continue.")],
    judge: JudgeOption = None,
    pairs: Annotated[
        int | None, Option(help="Number of pairs, from the first on. (default: all)")
    ] = None,
    samples: Annotated[int, Option(help="Runs per pair.")] = 1,
    changes: Annotated[
        list[str] | None, Option("--set", help="Change a share, as train does: parts.grpo=0.5.")
    ] = None,
    settings: Settings,
) -> None:
    """Run a judge over labelled pairs; report runs fit for training.

    Every run is saved as a trace when it ends. The same command continues after a stop. The judge
    scripted works on drawn pairs only.
    """
    from vrthinker_core.training.data import absolute_data, open_pairs
    from vrthinker_core.training.filters import read_outcomes, report_lines
    from vrthinker_core.training.teacher import Teacher, run_teacher

    if samples < 1:
        raise BadInput(f"--samples {samples} makes no run: give a number from 1 up.")
    if pairs is not None and pairs < 1:
        raise BadInput(f"--pairs {pairs} takes no pair: give a number from 1 up.")
    names = absolute_data("\n".join(data))
    parts = changed_config(preset_config("nano"), changes or []).parts
    choice = judge or default_choice()
    opened = None if choice == SCRIPTED else open_backend(choice)
    trained = () if opened is None else opened.protocols
    plans = frame_plans(settings, (chosen_protocol(settings, trained),))
    whole = open_pairs(names, plans)
    if said := whole.sharing(parts):
        print_error(said)
    pair_set = whole.part("cold-start", parts)
    if opened is None:
        player = open_teacher(choice, names, pair_set)
    else:
        backend = opened  # Never None again, as the type checker sees
        player = Teacher(choice, lambda: backend, pair_set)
    sizes = [size for size in (pairs, pair_set.size) if size is not None]
    if not sizes:
        raise BadInput("Drawn and mixed pairs never end: say how many with --pairs.")
    player = replace(player, data=names, settings=settings, samples=samples, parts=parts)
    numbers = range(min(sizes))
    with whole, stop_on_signal() as stopped, progress("runs") as advance:
        runs = run_teacher(player, numbers, out, stopped)
        for made, _ in enumerate(runs, start=1):
            advance(made, len(numbers) * samples)
    outcomes = read_outcomes(out)
    for line in report_lines(outcomes):
        print(line)
    if stopped():
        print_error("Stopped; call the command again to go on.")
        raise Exit(INTERRUPTED)
    raise Exit(0 if any(each.kept for each in outcomes) else NO_VERDICT)
