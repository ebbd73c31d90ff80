"""The first stage: learn a teacher's runs that pass the paper's two filters, token by token."""

import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path

import torch

from vrthinker_core.backends.base import Backend
from vrthinker_core.backends.checkpoint import open_for_rendering
from vrthinker_core.backends.checkpoint_files import locate
from vrthinker_core.backends.transformers_local import TransformersBackend
from vrthinker_core.errors import BadInput
from vrthinker_core.system import free_memory
from vrthinker_core.training.config import TrainConfig
from vrthinker_core.training.filters import Outcome
from vrthinker_core.training.metrics import StepMetrics
from vrthinker_core.training.outcome_file import OUTCOMES, read_outcomes
from vrthinker_core.training.pair_set import PairSet, kept_rollouts
from vrthinker_core.training.row_set import RowSet, keep_learnt_runs, learning_begun, learnt_runs
from vrthinker_core.training.run_folder import StageRun, TimeBudget
from vrthinker_core.training.sft import optimizer_steps, rows_a_step, train_sft
from vrthinker_core.training.sft_data import SftData
from vrthinker_core.training.teacher import BackendOfPair, TeacherJob, run_teacher
from vrthinker_core.training.teaching import NotForTraining
from vrthinker_core.training.trace_folder import StoredRollout


def rows_of(run: StageRun, rollouts: Iterable[StoredRollout], most: int) -> RowSet:
    """The token rows of the rollouts (at most `most`), as the tokenizer of the source has them.

    Raises BadInput if there are none, or one is of a protocol that the model was not made for.
    """
    judge = TransformersBackend(open_for_rendering(run.source), run.source)
    # This process's share of a quarter of the free memory keeps frames
    processes = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    rows = RowSet(judge.loaded, free_memory() // (4 * processes))
    try:
        for number, stored in enumerate(rollouts, start=1):
            run.time_budget.tell(StepMetrics("rows", number, 0.0, 0.0), most)
            spoken = stored.rollout.run.started.dialect
            if judge.protocols and spoken not in judge.protocols:
                made_for = " and ".join(judge.protocols)
                raise BadInput(
                    f"A run speaks {spoken}, and the model was made for {made_for}: take runs of "
                    "that protocol."
                )
            rows.add(stored)
    except NotForTraining as error:
        raise BadInput(f"A kept run cannot be learnt from: {error}.") from None
    if not rows:
        raise BadInput(
            "No run passes the filters, so there is nothing to learn from: give more pairs, or a "
            "better teacher."
        )
    return rows


def fine_tune(run: StageRun, rows: RowSet) -> Path | None:
    """Train on the rows; gives the result, None if the sitting was stopped. Raises BadInput.

    A source that names no protocol makes a judge of those that the rows speak.
    """
    config, folder, count = run.config, run.folder, run.folder.processes.count
    sft = (config.cold_start if folder.state.stage == "cold-start" else config.rejection).sft
    steps, each = optimizer_steps(len(rows), sft, count), rows_a_step(sft, count)
    run.time_budget.say(
        f"Rows to learn from: {len(rows):,}, in {steps:,} optimizer steps of {each:,}."
    )
    with run.record() as record:
        checkpoint, out, protocols = locate(run.source), folder.checkpoints, rows.protocols
        made = train_sft(
            rows, checkpoint, sft, config, out, lambda step: record(step, steps), protocols
        )
    return run.finish(made)


TEACHER_SHARE = 0.25  # Of the time; turning its runs into rows takes as long again
HOPELESS = 2_000  # Runs after which a teacher without a kept one is given up


@dataclass(frozen=True, slots=True)
class Teacher:
    """Who writes the runs of the cold start."""

    name: str  # As it was chosen
    open: Callable[[], Backend | BackendOfPair]  # When it is to play
    pairs: PairSet | None = None  # In place of the stage's: with the frames of its own protocols


def cold_start(run: StageRun, lessons: Teacher | SftData) -> Path | None:
    """Train the source; gives the trained checkpoint, None if the sitting was stopped.

    Once it learns, nothing more is played: it goes on from the same runs. Raises BadInput.
    """
    wanted, main = run.config.cold_start.traces, run.folder.processes.main
    if isinstance(lessons, SftData):
        with ExitStack() as videos:
            say = run.time_budget.say if main else lambda _: None
            return fine_tune(run, rows_of(run, lessons.kept(wanted, say, videos), wanted))
    begun, pairs = learning_begun(run.folder.path), lessons.pairs
    assert pairs is not None, "the pipeline names them"
    out, teaching = run.folder.path / "teacher", run.time_budget.part(TEACHER_SHARE)
    if main and not begun:
        _let_teach(lessons, pairs, run.config, out, teaching)
        torch.cuda.empty_cache()  # a teacher may have lain on the GPUs of the other processes, too
    if run.stopped:
        return None
    outcomes = read_outcomes(out)
    passed = [each for each in outcomes if each.kept][:wanted]
    kept = learnt_runs(run.folder.path, outcomes) if begun else passed
    rollouts = kept_rollouts(out, pairs, kept, keep_tokens=False)
    return learn_kept(run, kept, rollouts, late=teaching.over)


def learn_kept(
    run: StageRun, kept: Sequence[Outcome], rollouts: Iterable[StoredRollout], *, late: bool
) -> Path | None:
    """Fine-tune on the rollouts of the kept runs, which a resumed stage learns from again.

    Raises BadInput, also if there are none because playing came too `late`.
    """
    if not kept and late:
        raise BadInput(
            "No run passed the filters in the time that there was for playing: go on with --resume "
            "and more --minutes."
        )
    rows = rows_of(run, rollouts, len(kept))
    if run.folder.processes.main:
        keep_learnt_runs(run.folder.path, kept)
    return fine_tune(run, rows)


def _let_teach(
    teacher: Teacher, pairs: PairSet, config: TrainConfig, out: Path, time_budget: TimeBudget
) -> None:
    """Play pairs until enough runs are kept; the teacher is there only meanwhile."""
    wanted = config.cold_start.traces
    known = read_outcomes(out) if (out / OUTCOMES).exists() else []
    kept = sum(outcome.kept for outcome in known)
    if kept >= wanted:
        return
    judge = teacher.open()
    settings = replace(config.settings, seed=config.seed)
    job = TeacherJob(teacher.name, "", settings, live=min(32, wanted), keep_all=False)
    numbers = count() if pairs.size is None else range(pairs.size)
    made = 0

    def enough() -> bool:
        return kept >= wanted or time_budget.over or (kept == 0 and made >= HOPELESS)

    for outcome in run_teacher(pairs, numbers, judge, job, out, enough):
        made, kept = made + 1, kept + outcome.kept
        time_budget.tell(StepMetrics("teacher", min(kept, wanted), 0.0, 0.0), wanted)
