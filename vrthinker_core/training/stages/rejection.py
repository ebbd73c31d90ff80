"""The second stage: the judge's own runs that pass the same two filters, chosen so that labels stay as they were, learnt."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from vrthinker_core.backends.transformers_local import TransformersBackend
from vrthinker_core.training.labelled_pairs.kept_rollouts import kept_rollouts
from vrthinker_core.training.labelled_pairs.pair_set import PairSet
from vrthinker_core.training.monitor.metrics import StepMetrics
from vrthinker_core.training.rejection_sampling import ChoiceOptions, choose_runs
from vrthinker_core.training.rows.filters import Outcome
from vrthinker_core.training.rows.learnt_runs import keep_learnt_runs, learning_begun, learnt_runs
from vrthinker_core.training.rows.outcome_file import OUTCOMES, read_outcomes
from vrthinker_core.training.run.config import TrainConfig
from vrthinker_core.training.run.run_folder import RunFolder
from vrthinker_core.training.run.sitting import Sitting
from vrthinker_core.training.stages.sft_stages import fine_tune, require_runs, rows_of
from vrthinker_core.training.teacher import TeacherJob, run_teacher

SAMPLES = "samples"  # Folder of the judge's own runs; those of a further process have its number behind it
SAMPLES_SHARE = 0.6  # Of the time of a sitting: the rest is for learning


def rejection(
    source: str, pairs: PairSet, config: TrainConfig, folder: RunFolder, sitting: Sitting
) -> Path | None:
    """Train the checkpoint `source`; gives the trained one, None where the sitting was stopped. Raises BadInput.

    Once it learns, nothing more is played: it goes on from the same runs.
    """
    begun = learning_begun(folder.path)
    sampling = sitting.part(SAMPLES_SHARE)
    if not begun:
        _sample(source, pairs, config, folder, sampling)
    folder.processes.wait()
    if folder.processes.agreed(sitting.stopped()):
        return None
    chosen = (
        learnt_runs(folder.path, _all_outcomes(folder.path))
        if begun
        else _chosen_runs(config, folder, sitting)
    )
    require_runs(chosen, sampling)
    rows = rows_of(
        kept_rollouts(folder.path, pairs, chosen, keep_tokens=True), len(chosen), source, sitting
    )
    if folder.processes.main:
        keep_learnt_runs(folder.path, chosen)
    return fine_tune(rows, source, config.rejection.sft, config, folder, sitting)


def _chosen_runs(config: TrainConfig, folder: RunFolder, sitting: Sitting) -> Sequence[Outcome]:
    """What is learnt from; the main process says what survived, by dimension."""
    options = ChoiceOptions(each=config.rejection.per_pair, most=config.rejection.most)
    chosen = choose_runs(_all_outcomes(folder.path), options)
    for line in chosen.lines if folder.processes.main else ():
        sitting.say(line)
    return chosen.outcomes


def _sample(
    source: str, pairs: PairSet, config: TrainConfig, folder: RunFolder, sitting: Sitting
) -> None:
    """Play this process's share of the pairs that were not played yet, until the sitting is over."""
    options, processes = config.rejection, folder.processes
    settings = replace(config.settings, temperature=options.temperature, seed=config.seed)
    judge = TransformersBackend.load(source, device=processes.device)
    job = TeacherJob(folder.state.model, "", settings, options.samples, live=64, keep_all=False)
    out = folder.path / (SAMPLES if processes.main else f"{SAMPLES}-{processes.number}")
    played = Counter(
        outcome.pair for outcome in _all_outcomes(folder.path, but=out)
    )  # By as many processes as there were before
    shared = range(
        processes.number, min(options.pairs, pairs.size or options.pairs), processes.count
    )
    mine = [number for number in shared if played[number] < options.samples]
    for made, _ in enumerate(
        run_teacher(pairs, mine, judge, job, out, lambda: sitting.over), start=1
    ):
        sitting.tell(StepMetrics("samples", made, 0.0, 0.0), len(mine) * options.samples)


def _all_outcomes(run: Path, but: Path | None = None) -> list[Outcome]:
    """What became of the runs of all processes, of one run once; their files as `run` sees them."""
    found = {}
    for out in sorted(
        path.parent for path in run.glob(f"{SAMPLES}*/{OUTCOMES}") if path.parent != but
    ):
        for outcome in read_outcomes(out):
            found[outcome.pair, outcome.sample] = replace(
                outcome, file=outcome.file and f"{out.name}/{outcome.file}"
            )
    return list(found.values())
