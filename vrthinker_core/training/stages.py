"""`train`: one stage, or all in turn, each in a folder of its own.

Here are the first two, which fine-tune on runs of another judge and on own right runs.
"""

import os
import shutil
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from itertools import count, islice
from pathlib import Path
from typing import cast, get_args

import torch

from vrthinker_core.backends.checkpoint import open_for_rendering
from vrthinker_core.backends.checkpoint_files import locate
from vrthinker_core.backends.transformers_local import TransformersBackend
from vrthinker_core.errors import BadInput, ContextFull, TraceError, VideoError
from vrthinker_core.results.layout import EvaluationPair
from vrthinker_core.results.trace_files import MADE
from vrthinker_core.system import free_memory
from vrthinker_core.traces import load
from vrthinker_core.training.config import SftConfig
from vrthinker_core.training.data import absolute_data, kind_of
from vrthinker_core.training.estimate import require_fit
from vrthinker_core.training.filters import (
    OUTCOMES,
    Outcome,
    Reason,
    choose_runs,
    read_outcomes,
    refusal,
    report_lines,
)
from vrthinker_core.training.grpo import run_grpo
from vrthinker_core.training.metrics import StepMetrics, read_metrics
from vrthinker_core.training.pair_set import ClipFrames, DrawnFrames, OpenClips, PairSet
from vrthinker_core.training.rollouts import LabelledPair, Rollout, play
from vrthinker_core.training.run_folder import StageRun, TrainedStage, TrainingRun, open_run_folder
from vrthinker_core.training.sft import bounded_rows, optimizer_steps, too_few_steps, train_sft
from vrthinker_core.training.sharding import check_launch
from vrthinker_core.training.teacher import Teacher, read_identity, run_teacher
from vrthinker_core.training.traces import (
    SHOWN,
    NotForTraining,
    StoredRollout,
    TraceFile,
    keep_rollouts,
    read_traces,
    run_protocol,
    to_rollout,
    trace_videos,
)
from vrthinker_core.types import ProtocolName, VideoPair
from vrthinker_core.types.frames import FramePlan, FrameSource
from vrthinker_core.words import count as counted

STAGES: tuple[TrainedStage, ...] = get_args(TrainedStage)
HOPELESS = 2_000  # Runs after which a teacher without a kept one is given up
SAMPLES = "samples"  # Folder of the judge's own runs; a further process adds its number


@dataclass(frozen=True, slots=True)
class TrainingData:
    """What the stages learn from."""

    pairs: PairSet | None  # None if only the cold start is wanted, and its runs are there
    teacher: Teacher | None = None  # The cold start learns from its runs over the pairs,
    runs: Path | None = None  # or from the traces in a folder


def train_stage(stage: TrainedStage, run: StageRun, data: TrainingData) -> Path | None:
    """Run a stage over its part of the data.

    Returns the checkpoint, None if stopped. Raises BadInput.
    """
    if missing := [name for name in ("trl", "datasets", "peft") if find_spec(name) is None]:
        raise BadInput(f"Training takes {' and '.join(missing)}: run pip install -e '.[train]'.")
    config, processes = run.config, run.folder.processes
    part = data.pairs and data.pairs.part(stage, config.parts)
    held_out = data.pairs and data.pairs.part("held-out", config.parts)
    check_launch(adapters=stage == "grpo" and config.grpo.lora > 0)
    require_fit(stage, run.source, config, processes.count)
    if stage == "cold-start":
        made = cold_start(run, part, data)
    else:
        assert part is not None, "the command opens them"
        made = run_grpo(run, part, held_out) if stage == "grpo" else rejection(run, part)
    if made is not None and held_out is not None and processes.count == 1:
        # Keep rollouts of the result for the page, named by its last step
        step = max((metrics.step for metrics in read_metrics(run.folder.path)), default=0)
        judge = TransformersBackend.load(str(made))
        settings = replace(config.settings, temperature=config.grpo.temperature, seed=config.seed)
        with suppress(VideoError, ContextFull):  # Nothing depends on them
            shown = list(play([held_out.pair(0)], judge, settings, SHOWN))
            keep_rollouts(run.folder.path, stage, step, shown)
        judge.close()
    return made


def train_all(run: StageRun, data: TrainingData) -> Path | None:
    """Run the stages in turn from the checkpoint of `run`.

    Returns the last result, None if stopped: a stage then waits to be resumed. Raises BadInput.
    """
    # A deadline stops a stage as a person does, so that it resumes
    budget = replace(run.time_budget, stopped=lambda: run.time_budget.over, deadline=None)
    folder, model, begun_with = run.folder, run.source, run.folder.state.model
    for stage in STAGES:
        state, path = TrainingRun(stage, begun_with, folder.state.data), folder.path / stage
        with open_run_folder(
            path, state, run.config, resume=True, processes=folder.processes
        ) as inner:
            own = replace(run, source=model, folder=inner, time_budget=budget)
            done = inner.result if inner.state.done else train_stage(stage, own, data)
            if done is None or (folder.processes.agreed(budget.stopped()) and stage != STAGES[-1]):
                return None
        model, begun_with = str(done), f"the result of {stage}"
    made = folder.path / MADE
    if folder.processes.main:
        shutil.rmtree(made, ignore_errors=True)
        shutil.copytree(model, made)
    return folder.finish(made)


def runs_folder(data: str) -> Path | None:
    """Return the folder of runs that `data` names; None if it names pairs alone."""
    kind, _, rest = data.partition(":")
    path = Path(rest if kind == "traces" and rest else data)
    return path if path.is_dir() and "traces" in (kind, kind_of(path)) else None


def taught_pairs(data: str) -> str:
    """Return the pairs of a teacher's folder, else `data`. Raises BadInput."""
    folder = Path(data)
    if not (folder / OUTCOMES).is_file():
        return data
    if given := read_identity(folder).get("data"):
        return absolute_data(given)
    raise BadInput(
        f"{folder} does not say which pairs its teacher was given: give a folder that the "
        "command teacher made."
    )


def run_readers(
    places: Sequence[Path], videos: ExitStack, *, keep_tokens: bool
) -> Iterator[Callable[[], Rollout]]:
    """Yield for each trace a function that reads its first run as a rollout.

    Frames are drawn or decoded again; `videos` closes their files. `keep_tokens` as in `to_rollout`.
    Raises TraceError for a chosen file, as the functions do, beside VideoError and NotForTraining.
    """
    opened: dict[FramePlan, OpenClips] = {}

    def read(path: Path, known: EvaluationPair | None) -> Rollout:
        file = TraceFile(path, load(path), known)
        started, plan = file.trace.started, run_protocol(file.trace).frame_plan
        source: FrameSource | None = DrawnFrames.of_clip(started.clips[0], plan.grid)
        if source is None:
            if plan not in opened:
                opened[plan] = videos.enter_context(OpenClips(plan))
            first, second = (each["path"] for each in trace_videos(file))
            source = ClipFrames(VideoPair(started.prompt, first, second), opened[plan])
        pair = LabelledPair(started.prompt, file.known, source)
        return to_rollout(file.trace, pair, keep_tokens=keep_tokens)

    def damaged(path: Path, error: TraceError) -> None:
        if path in places:  # Else it lies in a folder, beside others
            raise error

    for file in read_traces(places, refused=damaged):
        yield partial(read, file.path, file.pair)


def passing(
    readers: Iterable[Callable[[], Rollout]],
    most: int,
    say: Callable[[str], None],
    held_out: Collection[str] = (),
) -> Iterator[StoredRollout]:
    """Yield runs that pass the filters; `say` hears why others fail.

    `held_out`: the prompts of pairs to measure with.
    """
    found = Counter[Reason | None]()  # None: it passes
    for read in readers:
        if found[None] == most:
            break
        try:
            rollout = read()
            refused = refusal(rollout.run, rollout.pair.truth) or (None, "")
            why = Reason.HELD_OUT if rollout.pair.prompt in held_out else refused[0]
        except NotForTraining:
            why = Reason.STORED
        except VideoError:
            why = Reason.VIDEO
        found[why] += 1
        if why is None:
            yield StoredRollout(rollout, read)
    told = [f"{found[None]:,} of {counted(found.total(), 'run')} pass the filters"]
    told += [f"{number:,} not: {reason}" for reason, number in found.most_common() if reason]
    say("; ".join(told) + ".")


def cold_start(run: StageRun, pairs: PairSet | None, data: TrainingData) -> Path | None:
    """Fine-tune on runs of another judge, in a folder or played now over `pairs`.

    Returns the trained checkpoint, None if the stage was stopped. Raises BadInput.
    """
    config, runs = run.config, data.runs or run.folder.path / "teacher"
    if data.teacher is not None and pairs is not None:
        if run.folder.processes.main and not run.folder.has_learnt:
            _let_teach(run, replace(data.teacher, pairs=pairs), runs)
            torch.cuda.empty_cache()  # The teacher may have lain on other processes' GPUs, too
        if run.over:
            return None
    others = data.pairs.outside("cold-start", config.parts) if data.pairs else ()
    held_out = {pair.prompt for pair in others}
    return _fine_tune(run, [runs], config.cold_start, config.cold_start.traces, held_out)


def _let_teach(run: StageRun, teacher: Teacher, out: Path) -> None:
    """Play pairs until enough runs are kept."""
    config, budget, wanted = run.config, run.time_budget, run.config.cold_start.traces
    settings = replace(config.settings, seed=config.seed)
    teacher = replace(teacher, settings=settings, live=min(32, wanted), keep_all=False)
    made, kept = 0, sum(each.kept for each in _outcomes(run, "teacher"))

    def enough() -> bool:
        return kept >= wanted or budget.over or (kept == 0 and made >= HOPELESS)

    numbers = islice(count(), teacher.pairs.size if kept < wanted else 0)
    for outcome in run_teacher(teacher, numbers, out, enough):
        made, kept = made + 1, kept + outcome.kept
        budget.tell(StepMetrics("teacher", min(kept, wanted), 0.0, 0.0), wanted)


def rejection(run: StageRun, pairs: PairSet) -> Path | None:
    """Let the judge play; fine-tune on a balanced choice of right runs.

    Returns the trained checkpoint, None if the stage was stopped. Raises BadInput.
    """
    options = run.config.rejection
    if not run.folder.has_learnt:
        _sample(run, pairs)
        run.folder.processes.wait()
    if run.over:
        return None
    outcomes = _outcomes(run, SAMPLES)
    chosen = choose_runs(outcomes, each=options.per_pair, most=options.most)
    for line in report_lines(outcomes, chosen):
        run.time_budget.say(line)
    places = [run.folder.path / each.file for each in chosen]
    return _fine_tune(run, places, options, len(chosen))


def _sample(run: StageRun, pairs: PairSet) -> None:
    """Play this process's share of the pairs that are left."""
    config, processes, options = run.config, run.folder.processes, run.config.rejection
    judge = Teacher(
        run.folder.state.model,
        lambda: TransformersBackend.load(run.source, device=processes.device),
        pairs,
        settings=replace(config.settings, temperature=options.temperature, seed=config.seed),
        samples=options.samples,
        live=64,
        keep_all=False,
    )
    out = run.folder.path / (SAMPLES if processes.main else f"{SAMPLES}-{processes.number}")
    # By as many processes as there were before
    played = Counter(each.pair for each in _outcomes(run, SAMPLES, but=out))
    most = min(options.pairs, pairs.size or options.pairs)
    shared = range(processes.number, most, processes.count)
    mine = [number for number in shared if played[number] < options.samples]
    runs = run_teacher(judge, mine, out, lambda: run.time_budget.over)
    for made, _ in enumerate(runs, start=1):
        metrics = StepMetrics("samples", made, 0.0, 0.0)
        run.time_budget.tell(metrics, len(mine) * options.samples)


def _outcomes(run: StageRun, name: str, but: Path | None = None) -> list[Outcome]:
    """Return the outcomes of all processes, with files relative to the run's folder."""
    found = {}
    for out in sorted(path.parent for path in run.folder.path.glob(f"{name}*/{OUTCOMES}")):
        for each in read_outcomes(out) if out != but else ():
            file = each.file and f"{out.name}/{each.file}"
            found[each.pair, each.sample] = replace(each, file=file)
    return list(found.values())


def _fine_tune(
    run: StageRun, places: Sequence[Path], sft: SftConfig, most: int, held_out: Collection[str] = ()
) -> Path | None:
    """Train on stored runs that pass the filters; return the result, None if stopped.

    A source that names no protocol makes a judge of the runs' protocols. Raises BadInput.
    """
    config, folder, processes = run.config, run.folder, run.folder.processes.count
    budget, protocols = run.time_budget, dict[ProtocolName, None]()  # In the runs' order
    judge = TransformersBackend(open_for_rendering(run.source), run.source)

    def checked(readers: Iterable[Callable[[], Rollout]]) -> Iterator[StoredRollout]:
        for number, stored in enumerate(passing(readers, most, budget.say, held_out), start=1):
            budget.tell(StepMetrics("rows", number, 0.0, 0.0), most)
            spoken = cast(ProtocolName, stored.rollout.run.started.dialect)
            if judge.protocols and spoken not in judge.protocols:
                made_for = " and ".join(judge.protocols)
                raise BadInput(
                    f"A run speaks {spoken}, and the model was made for {made_for}: take runs of "
                    "that protocol."
                )
            protocols[spoken] = None
            yield stored

    with ExitStack() as videos:
        # The judge's own tokens are learnt as they are
        readers = run_readers(places, videos, keep_tokens=sft is config.rejection)
        # This process's share of a quarter of the free memory keeps frames
        room = free_memory() // (4 * int(os.environ.get("LOCAL_WORLD_SIZE", "1")))
        rows = list(bounded_rows(checked(readers), judge.loaded, room))
        if not rows:
            raise BadInput(
                "No run passes the filters, so there is nothing to learn from: give more pairs, or "
                "a better teacher."
            )
        if run.over:
            return None
        steps, each = optimizer_steps(len(rows), sft, processes)
        if few := too_few_steps(steps, config.least_steps):
            raise BadInput(f"This stage has too little to learn: {few}.")
        budget.say(f"Rows to learn from: {len(rows):,}, in {steps:,} optimizer steps of {each:,}.")
        with run.record() as record:
            source, out, spoken = locate(run.source), folder.checkpoints, list(protocols)
            made = train_sft(
                rows, source, sft, config, out, lambda step: record(step, steps), spoken
            )
    return run.finish(made)
