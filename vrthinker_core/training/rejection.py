"""The second stage: sample rollouts, keep correct ones in the same mix of labels, and fine-tune on them."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path

from vrthinker_core.backends.transformers_local import TransformersBackend
from vrthinker_core.training.cold_start import fine_tune, require_runs, rows_of
from vrthinker_core.training.config import TrainConfig
from vrthinker_core.training.filters import (
    FilterReport,
    Outcome,
    Shares,
    label_shares,
    report_outcomes,
    share_lines,
)
from vrthinker_core.training.metrics import StepMetrics
from vrthinker_core.training.outcome_file import OUTCOMES, read_outcomes
from vrthinker_core.training.pair_set import PairSet, kept_rollouts
from vrthinker_core.training.row_set import keep_learnt_runs, learning_begun, learnt_runs
from vrthinker_core.training.run_folder import RunFolder, Sitting
from vrthinker_core.training.teacher import TeacherJob, run_teacher
from vrthinker_core.types.progress import count


@dataclass(frozen=True, slots=True)
class ChoiceOptions:
    """Which of the runs that survive are learnt from."""

    each: int = 1  # Runs of one pair at most; equal ones count once
    most: int | None = None  # Runs in all at most (paper: up to about 20,000 help)
    tolerance: float = (
        0.03  # A label's share among the chosen runs may be so much above its share among the pairs
    )
    least: float = 0.5  # Share of the surviving runs that balancing leaves at least
    easy: float = 1.0  # Runs of pairs that were right every time, at most, for each run of a pair that was sometimes wrong


@dataclass(frozen=True, slots=True)
class ChosenRuns:
    """The runs to learn from, and how they were come by."""

    outcomes: tuple[Outcome, ...]  # In the order of their pairs
    report: FilterReport  # On all runs
    hard: int  # Chosen runs of pairs that were sometimes wrong
    shares: Shares  # Of the labels of the chosen runs

    @property
    def lines(self) -> list[str]:
        """What survived, by dimension, and the labels before and after, in sentences."""
        chosen = f"{count(len(self.outcomes), 'run')} chosen to learn from; {self.hard:,} of pairs that were sometimes wrong."
        return [*self.report.lines, chosen, *share_lines(self.report.labels_before, self.shares)]


def choose_runs(
    outcomes: Sequence[Outcome], options: ChoiceOptions = ChoiceOptions()
) -> ChosenRuns:
    """Choose among the runs that passed the filters. The same outcomes give the same choice, whatever their order."""
    report = report_outcomes(outcomes)
    survivors = list(
        _some_of_each(sorted(outcomes, key=lambda each: (each.pair, each.sample)), options.each)
    )
    chosen = _Selection(survivors, report.labels_before)
    chosen.drop_easy(options.easy)
    chosen.balance(options.tolerance, round(options.least * len(survivors)))
    chosen.shorten(options.most)
    kept = sorted(chosen.runs(), key=lambda run: (run.outcome.pair, run.outcome.sample))
    found = tuple(run.outcome for run in kept)
    hard = sum(run.right_share < 1 for run in kept)
    return ChosenRuns(found, report, hard, label_shares([outcome.truth for outcome in found]))


@dataclass(frozen=True, slots=True)
class _Survivor:
    outcome: Outcome
    right_share: float  # Of the runs of its pair


_LabelItems = tuple[tuple[str, int], ...]
_Kind = tuple[
    _LabelItems, float
]  # Runs of equal labels and equally easy pairs: none is better than another


def _some_of_each(outcomes: Sequence[Outcome], most: int) -> Iterator[_Survivor]:
    """At most so many surviving runs of each pair, no two of the same words."""
    by_pair: dict[int, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        by_pair[outcome.pair].append(outcome)
    for runs in by_pair.values():
        kept = [run for run in runs if run.kept]
        different = {run.replies or str(run.sample): run for run in reversed(kept)}
        for run in sorted(different.values(), key=lambda each: each.sample)[:most]:
            yield _Survivor(run, len(kept) / len(runs))


class _Selection:
    """Runs by their kind, from which one after another is taken out."""

    def __init__(self, survivors: Sequence[_Survivor], wanted: Shares) -> None:
        """`wanted`: the shares that labels are to have."""
        self._wanted = wanted
        self._kinds: dict[_Kind, list[_Survivor]] = defaultdict(list)
        for run in survivors:
            self._kinds[tuple(run.outcome.truth.items()), run.right_share].append(run)
        self._labels = Counter(pair for run in survivors for pair in run.outcome.truth.items())
        self._named = Counter(name for run in survivors for name in run.outcome.truth)
        self._size = len(survivors)

    def runs(self) -> list[_Survivor]:
        """Those that are left."""
        return [run for runs in self._kinds.values() for run in runs]

    def drop_easy(self, ratio: float) -> None:
        """Take out runs of pairs that were always right, while there are more than `ratio` for each other one.

        Where every pair was always right, they are all there is, and stay.
        """
        easy = sum(len(runs) for (_, right), runs in self._kinds.items() if right == 1)
        hard = self._size - easy
        for _ in range(max(0, easy - int(ratio * hard)) if hard else 0):
            self._take_out(only_easy=True)

    def balance(self, tolerance: float, least: int) -> None:
        """Take out runs until no label has too large a share, or `least` are left."""
        while self._size > least and self._worst() > tolerance:
            self._take_out()

    def shorten(self, most: int | None) -> None:
        """Take out runs until there are at most `most`."""
        while self._size > (inf if most is None else most):
            self._take_out()

    def _excess(self, name: str, label: int) -> float:
        return self._labels[name, label] / self._named[name] - self._wanted[name][label]

    def _worst(self) -> float:
        return max(
            (
                self._excess(name, label)
                for name, label in self._labels
                if self._labels[name, label]
            ),
            default=0.0,
        )

    def _take_out(self, *, only_easy: bool = False) -> None:
        """Take out a run of the kind whose labels are the most frequent above what is wanted; of the easiest pairs first."""
        kinds = [
            kind for kind, runs in self._kinds.items() if runs and (kind[1] == 1 or not only_easy)
        ]
        kind = max(kinds, key=lambda each: (round(self._kind_excess(each[0]), 9), each[1], each[0]))
        run = self._kinds[kind].pop()
        self._size -= 1
        self._labels.subtract(run.outcome.truth.items())
        self._named.subtract(list(run.outcome.truth))

    def _kind_excess(self, labels: _LabelItems) -> float:
        return sum(self._excess(name, label) for name, label in labels)


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
