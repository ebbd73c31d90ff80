"""python -m tests.benchmarks.stages [NAME=CHECKPOINT ...] [--run DIR ...] [--pairs N] [--samples K] [--conditions WHOSE] [--jobs N]

What each training stage adds, and what looking is worth.

Every checkpoint judges the same unseen drawn pairs, greedily: labels, format, frames and tokens, with Wilson's 95 % intervals; then
K samples a pair at temperature 1. The last checkpoint (`--conditions all`: each of them) is also measured with the first frames
alone, with random frames and with twelve evenly spread ones in the place of those it asked for, with memory windows of 1 and 2
rounds, with the sides swapped, and over video files. `--run DIR` takes the stages of a folder of `train all`, with their wall
times; of several such runs, trained from different seeds, each stage is also counted over all of them. Rows are measured side by
side, `--jobs` at once, each on its share of the processors. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, islice, product
from pathlib import Path
from statistics import fmean
from typing import Any

import torch

from tests.benchmarks.tools.changed_calls import Change, ChangedCalls, evenly_spread, random_frames
from tests.benchmarks.tools.drawn_measures import UnseenPairs, swapped, unseen_pairs
from tests.benchmarks.tools.judge_scores import (
    COLUMNS,
    Scores,
    Share,
    label_right,
    same_when_swapped,
    sampled,
    scores,
    scores_over,
    share_of,
    share_sum,
)
from tests.benchmarks.tools.options import benchmark_parser
from vrthinker_core.backends.base import BatchBackend
from vrthinker_core.backends.built_in import NANO
from vrthinker_core.backends.transformers_local import TransformersBackend
from vrthinker_core.cpus import cpu_count
from vrthinker_core.drawn.world import FULL, SIMPLE
from vrthinker_core.protocols import make_protocol
from vrthinker_core.training.rollouts import Rollout, play
from vrthinker_core.types import Dimension, Settings

STAGES = ("cold-start", "rejection", "grpo")  # In the order of `train all`
CHECKPOINT, STATE = "checkpoint", "state.json"  # In the folder of a stage
SETTINGS = Settings(protocol="paired", max_new_tokens=512)  # A judge that runs on is not waited for

JOBS = 2  # Rows measured at once unless more are asked for: each holds several GB while it samples

Extra = dict[str, Share | float | str]
"""What a row says besides its scores, by name."""

Named = tuple[str, Path]
"""A checkpoint and what its row is called."""


@dataclass(frozen=True)
class Measured:
    """One row of the study."""

    name: str
    scores: Scores
    seconds: float  # A pair
    extra: Extra

    def row(self) -> str:
        """A line of the table."""
        extra = "; ".join(f"{key} {value}" for key, value in self._extra_words().items())
        cells = [self.name, *self.scores.cells(), f"{self.seconds:.2f}", extra]
        return "| " + " | ".join(cells) + " |"

    def as_json(self) -> dict[str, Any]:
        """The row's counts."""
        found: dict[str, Any] = {"name": self.name, "seconds_a_pair": round(self.seconds, 3)}
        found |= self._extra_words()
        shares = {"format": self.scores.format, "all_four": self.scores.all_four}
        shares |= {each.value: share for each, share in self.scores.right.items()}
        found |= {name: {"count": share.count, "of": share.of} for name, share in shares.items()}
        return found | {
            "frame_pairs": round(self.scores.pairs_of_frames, 2),
            "tokens": round(self.scores.tokens, 1),
        }

    def _extra_words(self) -> dict[str, str]:
        return {
            key: f"{value:.3f}" if isinstance(value, float) else str(value)
            for key, value in self.extra.items()
        }


Task = Callable[[], Measured]
"""Measures one row."""


def over_runs(name: str, rows: Sequence[Measured]) -> Measured:
    """The same stage of several runs as one row: shares of all their pairs, means of the rest."""
    extra: Extra = {"runs": str(len(rows))}
    for key, value in rows[0].extra.items():
        found: list[Any] = [row.extra[key] for row in rows]
        if isinstance(value, Share):
            extra[key] = share_sum(found)
        elif isinstance(value, float):
            extra[key] = fmean(found)
    scores = scores_over([row.scores for row in rows])
    return Measured(name, scores, fmean(row.seconds for row in rows), extra)


def main() -> None:
    """Run the study."""
    options = _parser().parse_args()
    if options.jobs < 1:
        raise SystemExit(f"--jobs must be at least 1, not {options.jobs}")
    judges = [*_stages_of(options.run), *map(_named, options.judges)] or [("nano", NANO)]
    count = options.pairs or (12 if options.quick else 500)
    rows: list[Measured] = []
    world = replace(FULL, photos=options.photos) if options.second_world else SIMPLE
    pairs = unseen_pairs(count, options.seed, world)
    samples = 2 if options.quick else options.samples
    tasks: list[Task] = [partial(_measured, judge, pairs, samples) for judge in judges]
    named = {"all": judges, "last": judges[-1:], "none": []}[options.conditions]
    every = options.conditions == "all"
    tasks += [partial(_looking, *each, every) for each in product(named, [pairs], CONDITIONS)]
    found = _side_by_side(tasks, min(options.jobs, len(tasks)))
    first = islice(found, len(judges))
    for measured in chain(first, _over_all_runs(rows, len(options.run)), found):
        rows.append(measured)
        print(measured.row(), flush=True)
    if options.out:
        head = "| judge | " + " | ".join(COLUMNS) + " | seconds a pair | |"
        lines = [head, "|---" * (len(COLUMNS) + 3) + "|", *(row.row() for row in rows)]
        options.out.write_text("\n".join(lines) + "\n", "utf-8")
    print(json.dumps({"pairs": count, "rows": [row.as_json() for row in rows]}))


def readme_row(result: dict[str, Any]) -> str:
    """The result in a sentence for the README's table."""
    parts = [f"{row['name']} {row['all_four']['count']}" for row in result["rows"]]
    return f"all four labels right of {result['pairs']} unseen drawn pairs: " + ", ".join(parts)


def _side_by_side(tasks: Sequence[Task], jobs: int) -> Iterator[Measured]:
    """In the order of the tasks. The last one is begun first: video files take longest, and then whole rows with their samples."""
    if jobs == 1:
        yield from (task() for task in tasks)
        return
    threads, context = max(1, cpu_count() // jobs), multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, context, torch.set_num_threads, (threads,)) as pool:
        last, *others = (pool.submit(task) for task in (tasks[-1], *tasks[:-1]))
        for future in (*others, last):
            yield future.result()


def _measured(judge: Named, pairs: UnseenPairs, samples: int) -> Measured:
    name, folder = judge
    opened = TransformersBackend.load(str(folder))
    measured = Study(pairs, opened).measure(name, samples=samples)
    opened.close()
    return replace(measured, extra={**measured.extra, **_training_time(folder)})


def _looking(judge: Named, pairs: UnseenPairs, condition: str, named: bool) -> Measured:
    name, folder = judge
    opened = TransformersBackend.load(str(folder))
    called = f"{name}, {condition}" if named else condition
    measured = CONDITIONS[condition](Study(pairs, opened), called)
    opened.close()
    return measured


@dataclass(frozen=True)
class Study:
    """One judge over the pairs, in several ways."""

    pairs: UnseenPairs
    judge: TransformersBackend

    def measure(
        self,
        name: str,
        settings: Settings = SETTINGS,
        judge: BatchBackend | None = None,
        samples: int = 0,
    ) -> Measured:
        """Greedily; with `samples`, so many a pair at temperature 1 besides."""
        start = time.perf_counter()
        rollouts = list(play(self.pairs.labelled, judge or self.judge, settings))
        seconds = (time.perf_counter() - start) / len(rollouts)
        extra: Extra = {
            f"hidden {each.value}": self._hidden_right(rollouts, each)
            for each in (Dimension.VQ, Dimension.MQ)
        }
        if samples:
            warm = replace(settings, temperature=1.0)
            drawn = list(play(self.pairs.labelled, self.judge, warm, samples))
            mean, passed = sampled(drawn, samples)
            extra |= {"mean@1": mean, f"pass@{samples}": passed}
        return Measured(name, scores(rollouts), seconds, extra)

    def first_frames(self, name: str) -> Measured:
        """With the first frames alone."""
        return self.measure(name, replace(SETTINGS, max_turns=1))

    def other_frames(self, name: str, change: Change) -> Measured:
        """With other frames in the place of those it asked for."""
        changed = ChangedCalls(self.judge, make_protocol(SETTINGS, "paired"), change)
        return self.measure(name, judge=changed)

    def window(self, name: str, rounds: int) -> Measured:
        """With a memory window."""
        return self.measure(name, replace(SETTINGS, window=rounds))

    def swapped(self, name: str) -> Measured:
        """With the sides swapped, and how often the verdict is the same."""
        both = (self.pairs.labelled, swapped(self.pairs.labelled))
        given, other = (list(play(pairs, self.judge, SETTINGS)) for pairs in both)
        extra: Extra = {"the same verdict": str(same_when_swapped(given, other))}
        return Measured(name, scores(other), 0.0, extra)

    def files(self, name: str) -> Measured:
        """Over video files."""
        with tempfile.TemporaryDirectory() as folder, self.pairs.as_files(Path(folder)) as coded:
            start = time.perf_counter()
            rollouts = list(play(coded, self.judge, SETTINGS))
            seconds = (time.perf_counter() - start) / len(rollouts)
            return Measured(name, scores(rollouts), seconds, {})

    def _hidden_right(self, rollouts: Sequence[Rollout], dimension: Dimension) -> Share:
        """Of the pairs whose first frames alone would mislead a perfect reader."""
        hidden = self.pairs.hidden(dimension)
        misled = [each for each in rollouts if each.pair.seed in hidden]
        return share_of(misled, lambda each: label_right(each, dimension))


CONDITIONS: dict[str, Callable[[Study, str], Measured]] = {
    "first frames only": Study.first_frames,
    "random frames": partial(Study.other_frames, change=random_frames(0)),
    "twelve frames evenly": partial(Study.other_frames, change=evenly_spread(12)),
    "memory window 1": partial(Study.window, rounds=1),
    "memory window 2": partial(Study.window, rounds=2),
    "sides swapped": Study.swapped,
    "video files (H.264, 224 px)": Study.files,
}
"""How else a judge may look, by the names of the rows."""


def _stages_of(runs: Sequence[Path]) -> list[Named]:
    found = [
        (_row_name(stage, k, len(runs)), run / stage / CHECKPOINT)
        for k, run in enumerate(runs)
        for stage in STAGES
    ]
    return [(name, folder) for name, folder in found if (folder / "config.json").is_file()]


def _row_name(stage: str, run: int, runs: int) -> str:
    return f"{stage}, run {run + 1}" if runs > 1 else stage


def _over_all_runs(rows: Sequence[Measured], runs: int) -> Iterator[Measured]:
    """A row for each stage that all of several runs have."""
    for stage in STAGES if runs > 1 else ():
        names = {_row_name(stage, run, runs) for run in range(runs)}
        found = [row for row in rows if row.name in names]
        if len(found) == runs:
            yield over_runs(f"{stage}, all runs", found)


def _training_time(checkpoint: Path) -> dict[str, str]:
    """How long the stage took, where the checkpoint lies in the folder of a training run."""
    state = checkpoint.parent / STATE
    if not state.is_file():
        return {}
    return {"trained in": f"{json.loads(state.read_text('utf-8'))['seconds'] / 60:.0f} min"}


def _named(argument: str) -> Named:
    name, equals, folder = argument.partition("=")
    return (name, Path(folder)) if equals else (Path(argument).name, Path(argument))


def _parser() -> argparse.ArgumentParser:
    parser = benchmark_parser(__doc__, "12 pairs, 2 samples")
    add = parser.add_argument
    add("judges", nargs="*", help="NAME=FOLDER of a checkpoint; none: the built-in judge")
    add("--run", type=Path, action="append", default=[], help="a folder of `train all`; repeatable")
    add("--pairs", type=int, help="500, with --quick 12")
    add("--samples", type=int, default=8, help="k of pass@k")
    add("--seed", type=int, default=0, help="which unseen pairs")
    add("--second-world", action="store_true", help="two things, counts, photographs")
    add("--photos", type=Path, help="a folder of photographs, with --second-world")
    add("--jobs", type=int, default=min(JOBS, cpu_count()), help="rows measured side by side")
    whose = ("last", "all", "none")
    add("--conditions", choices=whose, default="last", help="who is measured in other ways, too")
    add("--out", type=Path, help="write the table here")
    return parser


if __name__ == "__main__":
    main()
