"""The first stage: a teacher's runs over labelled pairs that pass the paper's two filters, learnt token by token."""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path

import torch

from vrthinker_core.backends.base import Backend
from vrthinker_core.training.labelled_pairs.kept_rollouts import kept_rollouts
from vrthinker_core.training.labelled_pairs.pair_set import PairSet
from vrthinker_core.training.labelled_pairs.ready_runs import ReadyRuns
from vrthinker_core.training.monitor.metrics import StepMetrics
from vrthinker_core.training.rows.outcome_file import OUTCOMES, read_outcomes
from vrthinker_core.training.rows.row_set import keep_learnt_runs, learning_begun, learnt_runs
from vrthinker_core.training.run.config import TrainConfig
from vrthinker_core.training.run.run_folder import RunFolder
from vrthinker_core.training.run.sitting import Sitting, ignore_line
from vrthinker_core.training.stages.sft_stages import fine_tune, require_runs, rows_of
from vrthinker_core.training.teacher import BackendOfPair, TeacherJob, run_teacher

TEACHER = "teacher"  # Folder of the teacher's runs
TEACHER_SHARE = 0.4  # Of the time of a sitting: the rest is for learning
LIVE = 32  # Runs side by side
HOPELESS = 2_000  # Runs after which a teacher of which none is kept is given up


@dataclass(frozen=True, slots=True)
class Teacher:
    """Who writes the runs of the cold start."""

    name: str  # As it was chosen
    open: Callable[[], Backend | BackendOfPair]  # When it is to play
    pairs: PairSet | None = (
        None  # That it is given in the place of the stage's: with the frames of the protocols it speaks
    )


@dataclass(frozen=True, slots=True)
class Lessons:
    """A teacher, and the pairs that it is given."""

    pairs: PairSet
    teacher: Teacher


def cold_start(
    source: str,
    lessons: Lessons | ReadyRuns,
    config: TrainConfig,
    folder: RunFolder,
    sitting: Sitting,
) -> Path | None:
    """Train the checkpoint `source`; gives the trained one, None where the sitting was stopped. Raises BadInput.

    Once it learns, nothing more is played: it goes on from the same runs.
    """
    sft, begun = config.cold_start.sft, learning_begun(folder.path)
    if isinstance(lessons, ReadyRuns):
        with ExitStack() as videos:
            ready = lessons.kept(
                config.cold_start.traces,
                sitting.say if folder.processes.main else ignore_line,
                videos,
            )
            return fine_tune(
                rows_of(ready, config.cold_start.traces, source, sitting),
                source,
                sft,
                config,
                folder,
                sitting,
            )
    out, teaching = folder.path / TEACHER, sitting.part(TEACHER_SHARE)
    if folder.processes.main and not begun:
        _let_teach(lessons, config, out, teaching)
        torch.cuda.empty_cache()  # a teacher may have lain on the GPUs of the other processes, too
    if folder.processes.agreed(sitting.stopped()):
        return None
    outcomes = read_outcomes(out)
    kept = (
        learnt_runs(folder.path, outcomes)
        if begun
        else [each for each in outcomes if each.kept][: config.cold_start.traces]
    )
    require_runs(kept, teaching)
    rows = rows_of(
        kept_rollouts(out, lessons.pairs, kept, keep_tokens=False), len(kept), source, sitting
    )
    if folder.processes.main:
        keep_learnt_runs(folder.path, kept)
    return fine_tune(rows, source, sft, config, folder, sitting)


def _let_teach(lessons: Lessons, config: TrainConfig, out: Path, sitting: Sitting) -> None:
    """Play pairs until enough runs are kept, no pair is left, or the sitting is over; the teacher is there only meanwhile."""
    wanted = config.cold_start.traces
    known = read_outcomes(out) if (out / OUTCOMES).exists() else []
    kept = sum(outcome.kept for outcome in known)
    if kept >= wanted:
        return
    pairs, teacher = lessons.pairs, lessons.teacher
    judge = teacher.open()
    settings = replace(config.settings, seed=config.seed)
    job = TeacherJob(teacher.name, "", settings, live=min(LIVE, wanted), keep_all=False)
    numbers = count() if pairs.size is None else range(pairs.size)
    made = 0

    def enough() -> bool:
        return kept >= wanted or sitting.over or (kept == 0 and made >= HOPELESS)

    for outcome in run_teacher(pairs, numbers, judge, job, out, enough):
        made, kept = made + 1, kept + outcome.kept
        sitting.tell(StepMetrics("teacher", min(kept, wanted), 0.0, 0.0), wanted)
