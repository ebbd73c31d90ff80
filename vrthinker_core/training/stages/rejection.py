"""The second stage: the judge's own runs that pass the same two filters, chosen so that labels stay as they were, learnt."""

from dataclasses import replace
from pathlib import Path

from vrthinker_core.backends.transformers_local import TransformersBackend
from vrthinker_core.training.labelled_pairs.pair_set import PairSet
from vrthinker_core.training.monitor.metrics import StepMetrics
from vrthinker_core.training.rejection_sampling import ChoiceOptions, ChosenRuns, choose_runs
from vrthinker_core.training.rows.outcome_file import read_outcomes
from vrthinker_core.training.run.config import TrainConfig
from vrthinker_core.training.run.run_folder import RunFolder
from vrthinker_core.training.run.sitting import Sitting
from vrthinker_core.training.stages.sft_stages import fine_tune, rows_of
from vrthinker_core.training.teacher import TeacherJob, kept_rollouts, run_teacher

SAMPLES = "samples"  # Folder of the judge's own runs
SAMPLES_SHARE = 0.6  # Of the time of a sitting: the rest is for learning


def rejection(source: str, pairs: PairSet, config: TrainConfig, folder: RunFolder, sitting: Sitting) -> Path | None:
    """Train the checkpoint `source`; gives the trained one, None where the sitting was stopped. Raises BadInput."""
    out = folder.path / SAMPLES
    if folder.processes.main:
        _sample(source, pairs, config, folder, sitting.part(SAMPLES_SHARE))
    if folder.processes.agreed(sitting.stopped()):
        return None
    chosen = chosen_runs(folder, config)
    for line in chosen.lines if folder.processes.main else ():
        sitting.say(line)
    rows = rows_of(kept_rollouts(out, pairs, chosen.outcomes, keep_tokens=True), source)
    return fine_tune(rows, source, config.rejection.sft, config, folder, sitting)


def chosen_runs(folder: RunFolder, config: TrainConfig) -> ChosenRuns:
    """What survived, by dimension, and what is learnt from."""
    return choose_runs(read_outcomes(folder.path / SAMPLES), ChoiceOptions(each=config.rejection.per_pair))


def _sample(source: str, pairs: PairSet, config: TrainConfig, folder: RunFolder, sitting: Sitting) -> None:
    """Play the pairs that were not played yet, until the sitting is over."""
    options = config.rejection
    settings = replace(config.settings, temperature=options.temperature, seed=config.seed)
    judge = TransformersBackend.load(source)
    pairs_played = min(options.pairs, pairs.size or options.pairs)
    job = TeacherJob(folder.state.model, "", settings, options.samples, live=64, keep_all=False)
    wanted = pairs_played * options.samples
    for made, _ in enumerate(run_teacher(pairs, range(pairs_played), judge, job, folder.path / SAMPLES), start=1):
        sitting.tell(StepMetrics("samples", made, 0.0, 0.0), wanted)
        if sitting.over:
            return
