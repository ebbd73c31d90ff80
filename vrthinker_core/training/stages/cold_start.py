"""The first stage: a teacher's runs over labelled pairs that pass the paper's two filters, learnt token by token."""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path

import torch

from vrthinker_core.backends.base import Backend
from vrthinker_core.backends.local.checkpoint.checkpoint_files import locate
from vrthinker_core.training.base.judged_conversations import MODEL, learn_to_judge, minutes_of, minutes_spent
from vrthinker_core.training.base.language_training import LanguageOptions
from vrthinker_core.training.base.part_processes import Figures
from vrthinker_core.training.labelled_pairs.kept_rollouts import kept_rollouts
from vrthinker_core.training.labelled_pairs.pair_set import PairSet
from vrthinker_core.training.labelled_pairs.ready_runs import ReadyRuns
from vrthinker_core.training.monitor.metrics import StepMetrics
from vrthinker_core.training.rows.learnt_runs import keep_learnt_runs, learning_begun, learnt_runs
from vrthinker_core.training.rows.outcome_file import OUTCOMES, read_outcomes
from vrthinker_core.training.run.config import TrainConfig
from vrthinker_core.training.run.run_folder import RunFolder
from vrthinker_core.training.run.sitting import Sitting, ignore_line
from vrthinker_core.training.stages.base import world_of
from vrthinker_core.training.stages.sft_stages import fine_tune, require_runs, rows_of
from vrthinker_core.training.teacher import BackendOfPair, TeacherJob, run_teacher

TEACHER = "teacher"  # Folder of the teacher's runs
CONVERSATIONS = "conversations"  # Folder of what is learnt from judged conversations
CONVERSATION_SHARE = 0.4  # Of the time of a sitting, for these
TEACHER_SHARE = 0.4  # Of the time of a sitting: the rest is for learning
LIVE = 32  # Runs side by side
HOPELESS = 2_000  # Runs after which a teacher of which none is kept is given up


@dataclass(frozen=True, slots=True)
class Teacher:
    """Who writes the runs of the cold start."""

    name: str  # As it was chosen
    open: Callable[[Path | None], Backend | BackendOfPair]
    """Opens it, where it is to play: for the checkpoint that it teaches, None where it teaches none."""
    pairs: PairSet | None = None  # That it is given in the place of the stage's: with the frames of the protocols it speaks


@dataclass(frozen=True, slots=True)
class Lessons:
    """A teacher, and the pairs that it is given."""

    pairs: PairSet
    teacher: Teacher


def cold_start(source: str, lessons: Lessons | ReadyRuns, config: TrainConfig, folder: RunFolder, sitting: Sitting) -> Path | None:
    """Train the checkpoint `source`; gives the trained one, None where the sitting was stopped. Raises BadInput.

    Once it learns, what comes before is over: it goes on from the same conversations and runs.
    """
    sft, begun = config.cold_start.sft, learning_begun(folder.path)
    if begun and (folder.path / CONVERSATIONS / MODEL).is_dir():
        source = str(folder.path / CONVERSATIONS / MODEL)
    elif config.cold_start.judged_minutes and not begun:
        judge = _judged_first(source, config, folder, sitting.part(CONVERSATION_SHARE))
        if judge is None:
            return None
        source = str(judge)
    if isinstance(lessons, ReadyRuns):
        with ExitStack() as videos:
            ready = lessons.kept(config.cold_start.traces, sitting.say if folder.processes.main else ignore_line, videos)
            return fine_tune(rows_of(ready, config.cold_start.traces, source, sitting), source, sft, config, folder, sitting)
    out, teaching = folder.path / TEACHER, sitting.part(TEACHER_SHARE)
    if folder.processes.main and not begun:
        _let_teach(lessons, source, config, out, teaching)
        torch.cuda.empty_cache()  # a teacher may have lain on the GPUs of the other processes, too
    if folder.processes.agreed(sitting.stopped()):
        return None
    outcomes = read_outcomes(out)
    kept = learnt_runs(folder.path, outcomes) if begun else [each for each in outcomes if each.kept][: config.cold_start.traces]
    require_runs(kept, teaching)
    rows = rows_of(kept_rollouts(out, lessons.pairs, kept, keep_tokens=False), len(kept), source, sitting)
    if folder.processes.main:
        keep_learnt_runs(folder.path, kept)
    return fine_tune(rows, source, sft, config, folder, sitting)


def _judged_first(source: str, config: TrainConfig, folder: RunFolder, sitting: Sitting) -> Path | None:
    """The checkpoint that learnt from judged conversations first; None where the sitting was stopped."""
    out = folder.path / CONVERSATIONS
    options = conversation_options(config, minutes_spent(out), sitting)

    def report(part: str, figures: Figures) -> None:
        step, minutes = int(figures["step"]), max(figures["minutes"], 0.01)
        expected = max(step, round(step * minutes_of(part, options.minutes) / minutes))
        sitting.tell(StepMetrics(f"{CONVERSATIONS} {part}", step, 60 * minutes / step, figures["loss"]), expected)

    if folder.processes.main:
        learn_to_judge(locate(source), options, out, report, sitting.stopped)
    return None if folder.processes.agreed(sitting.stopped()) else out / MODEL


def conversation_options(config: TrainConfig, spent: float, sitting: Sitting) -> LanguageOptions:
    """How judged conversations are learnt of which so many minutes are over: as long as is wanted, or as this sitting has time."""
    minutes = config.cold_start.judged_minutes
    if sitting.seconds_left is not None:
        minutes = min(minutes, spent + sitting.seconds_left / 60)
    seconds = config.checkpoint_minutes * 60
    world, gates = world_of(replace(config.base, photos=conversation_photos(config))), config.gates.language
    return LanguageOptions(minutes=minutes, seed=config.seed + 1, save_seconds=seconds, world=world, gates=gates)


def conversation_photos(config: TrainConfig) -> str:
    """The folder of photographs for judged conversations, "" for none: what it has not seen it reads as unsurely as a real clip."""
    return config.cold_start.photos or config.base.photos


def _let_teach(lessons: Lessons, source: str, config: TrainConfig, out: Path, sitting: Sitting) -> None:
    """Play pairs until enough runs are kept, no pair is left, or the sitting is over; the teacher is there only meanwhile."""
    wanted = config.cold_start.traces
    known = read_outcomes(out) if (out / OUTCOMES).exists() else []
    kept = sum(outcome.kept for outcome in known)
    if kept >= wanted:
        return
    pairs, teacher = lessons.pairs, lessons.teacher
    judge = teacher.open(locate(source))
    settings = replace(config.settings, seed=config.seed)
    job = TeacherJob(teacher.name, "", settings, live=min(LIVE, wanted), keep_all=False)
    numbers = count() if pairs.size is None else range(pairs.size)
    made = 0

    def enough() -> bool:
        return kept >= wanted or sitting.over or (kept == 0 and made >= HOPELESS)

    for outcome in run_teacher(pairs, numbers, judge, job, out, enough):
        made, kept = made + 1, kept + outcome.kept
        sitting.tell(StepMetrics("teacher", min(kept, wanted), 0.0, 0.0), wanted)
