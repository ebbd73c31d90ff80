"""The second stage: fine-tune on correct rollouts of the judge, in the same mix of labels."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from vrthinker_core.backends.transformers_local import TransformersBackend
from vrthinker_core.training.cold_start import learn_kept
from vrthinker_core.training.filters import (
    FilterReport,
    LabelShares,
    Outcome,
    label_shares,
    report_outcomes,
    share_lines,
)
from vrthinker_core.training.metrics import StepMetrics
from vrthinker_core.training.outcome_file import OUTCOMES, read_outcomes
from vrthinker_core.training.pair_set import PairSet, kept_rollouts
from vrthinker_core.training.row_set import learning_begun, learnt_runs
from vrthinker_core.training.run_folder import StageRun, TimeBudget
from vrthinker_core.training.teacher import TeacherJob, run_teacher
from vrthinker_core.words import count


@dataclass(frozen=True, slots=True)
class ChosenRuns:
    """The runs to learn from, and how they were chosen."""

    outcomes: tuple[Outcome, ...]  # In the order of their pairs
    report: FilterReport  # On all runs
    hard: int  # Chosen runs of pairs that were sometimes wrong
    shares: LabelShares  # Of the labels of the chosen runs

    @property
    def lines(self) -> list[str]:
        """What survived, by dimension, and the labels before and after, in sentences."""
        runs = count(len(self.outcomes), "run")
        chosen = f"{runs} chosen to learn from; {self.hard:,} of pairs that were sometimes wrong."
        return [*self.report.lines, chosen, *share_lines(self.report.labels_before, self.shares)]


def choose_runs(
    outcomes: Sequence[Outcome],
    *,
    each: int = 1,  # Runs of one pair at most; equal ones count once
    most: int | None = None,  # Runs in all at most (paper: up to about 20,000 help)
    tolerance: float = 0.03,  # Of a label's share, above its share among the pairs
    least: float = 0.5,  # Share of the surviving runs that balancing leaves at least
    easy: float = 1.0,  # Runs of pairs that were always right, at most, for each other run
) -> ChosenRuns:
    """Choose among the runs that passed the filters. The order of the outcomes does not matter."""
    report = report_outcomes(outcomes)
    by_pair: dict[int, list[Outcome]] = defaultdict(list)
    for outcome in sorted(outcomes, key=lambda run: (run.pair, run.sample)):
        by_pair[outcome.pair].append(outcome)
    survivors = []
    for runs in by_pair.values():
        kept = [run for run in runs if run.kept]
        different = {run.replies or str(run.sample): run for run in reversed(kept)}
        some = sorted(different.values(), key=lambda run: run.sample)[:each]
        survivors += [(run, len(kept) / len(runs)) for run in some]
    chosen = _Selection(survivors, report.labels_before)
    always = sum(right == 1 for _, right in survivors)
    # If every pair was always right, they are all there is, and stay
    if hard := len(survivors) - always:
        for _ in range(always - int(easy * hard)):
            chosen.take_out(only_easy=True)
    while chosen.size > round(least * len(survivors)) and chosen.worst_excess > tolerance:
        chosen.take_out()
    while most is not None and chosen.size > most:
        chosen.take_out()
    left = (run for runs in chosen.kinds.values() for run in runs)
    found = tuple(sorted(left, key=lambda run: (run.pair, run.sample)))
    hard = sum(len(runs) for (_, right), runs in chosen.kinds.items() if right < 1)
    return ChosenRuns(found, report, hard, label_shares([outcome.truth for outcome in found]))


# Labels, and the share of right runs of the pair: of runs of one kind none is better than another
_Kind = tuple[tuple[tuple[str, int], ...], float]


class _Selection:
    """Runs by their kind, from which one after another is taken out."""

    def __init__(self, survivors: Sequence[tuple[Outcome, float]], wanted: LabelShares) -> None:
        """`survivors`: runs and their pairs' shares of right runs; `wanted`: shares of labels."""
        self._wanted = wanted
        self.kinds: dict[_Kind, list[Outcome]] = defaultdict(list)
        for run, right in survivors:
            self.kinds[tuple(run.truth.items()), right].append(run)
        self._labels = Counter(label for run, _ in survivors for label in run.truth.items())
        self._named = Counter(name for run, _ in survivors for name in run.truth)

    @property
    def size(self) -> int:
        return sum(map(len, self.kinds.values()))

    @property
    def worst_excess(self) -> float:
        return max(
            (self._excess(*each) for each in self._labels if self._labels[each]), default=0.0
        )

    def _excess(self, name: str, label: int) -> float:
        return self._labels[name, label] / self._named[name] - self._wanted[name][label]

    def take_out(self, *, only_easy: bool = False) -> None:
        """Take out a run whose labels are the most frequent above `wanted`; of easy pairs first."""
        kinds = [
            kind for kind, runs in self.kinds.items() if runs and (kind[1] == 1 or not only_easy)
        ]

        def order(kind: _Kind) -> tuple[float, float, object]:
            labels, right = kind
            return round(sum(self._excess(*each) for each in labels), 9), right, labels

        run = self.kinds[max(kinds, key=order)].pop()
        self._labels.subtract(run.truth.items())
        self._named.subtract(list(run.truth))


SAMPLES = "samples"  # Folder of the judge's own runs; a further process adds its number
SAMPLES_SHARE = 0.6  # Of the time of a sitting: the rest is for learning


def rejection(run: StageRun, pairs: PairSet) -> Path | None:
    """Train the source; gives the trained checkpoint, None if the sitting was stopped.

    Once it learns, nothing more is played: it goes on from the same runs. Raises BadInput.
    """
    folder, options = run.folder, run.config.rejection
    begun, sampling = learning_begun(folder.path), run.time_budget.part(SAMPLES_SHARE)
    if not begun:
        _sample(run, pairs, sampling)
    folder.processes.wait()
    if run.stopped:
        return None
    outcomes = _all_outcomes(folder.path)
    chosen: Sequence[Outcome]
    if begun:
        chosen = learnt_runs(folder.path, outcomes)
    else:
        choice = choose_runs(outcomes, each=options.per_pair, most=options.most)
        chosen = choice.outcomes
        for line in choice.lines if folder.processes.main else ():
            run.time_budget.say(line)
    rollouts = kept_rollouts(folder.path, pairs, chosen, keep_tokens=True)
    return learn_kept(run, chosen, rollouts, late=sampling.over)


def _sample(run: StageRun, pairs: PairSet, time_budget: TimeBudget) -> None:
    """Play this process's share of the pairs that are left, until the sitting is over."""
    config, folder, options = run.config, run.folder, run.config.rejection
    settings = replace(config.settings, temperature=options.temperature, seed=config.seed)
    processes = folder.processes
    judge = TransformersBackend.load(run.source, device=processes.device)
    job = TeacherJob(folder.state.model, "", settings, options.samples, live=64, keep_all=False)
    out = folder.path / (SAMPLES if processes.main else f"{SAMPLES}-{processes.number}")
    # By as many processes as there were before
    played = Counter(outcome.pair for outcome in _all_outcomes(folder.path, but=out))
    most = min(options.pairs, pairs.size or options.pairs)
    shared = range(processes.number, most, processes.count)
    mine = [number for number in shared if played[number] < options.samples]
    runs = run_teacher(pairs, mine, judge, job, out, lambda: time_budget.over)
    for made, _ in enumerate(runs, start=1):
        time_budget.tell(StepMetrics("samples", made, 0.0, 0.0), len(mine) * options.samples)


def _all_outcomes(run: Path, but: Path | None = None) -> list[Outcome]:
    """What became of the runs of all processes, of one run once; their files as `run` sees them."""
    found = {}
    for out in sorted(path.parent for path in run.glob(f"{SAMPLES}*/{OUTCOMES}")):
        for each in read_outcomes(out) if out != but else ():
            file = each.file and f"{out.name}/{each.file}"
            found[each.pair, each.sample] = replace(each, file=file)
    return list(found.values())
