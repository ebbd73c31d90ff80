"""Rollouts of one pair kept now and then as ordinary traces: `python app.py --runs DIR` opens them side by side."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from vrthinker_core.errors import BadInput
from vrthinker_core.files.atomic_file import write_atomically
from vrthinker_core.results.known_labels import add_labels
from vrthinker_core.traces import to_json
from vrthinker_core.training.rollouts import Rollout
from vrthinker_core.training.rows.rollout_trace import to_trace
from vrthinker_core.training.run.run_folder import ROLLOUTS

SHOWN = 2  # Rollouts of one pair that are kept each time


def keep_rollouts(folder: Path, stage: str, step: int, rollouts: Sequence[Rollout]) -> list[Path]:
    """Keep rollouts with their pictures, named by stage and step; the list of runs shows them in the order of steps.

    The judge's name in each says the step as well, and the labels of the data set stand beside them. Raises BadInput where they
    cannot be written.
    """
    paths = [
        folder / ROLLOUTS / f"{stage}-step-{step:05d}-sample-{number}.json"
        for number in range(len(rollouts))
    ]
    try:
        (folder / ROLLOUTS).mkdir(parents=True, exist_ok=True)
        truths = (rollout.pair.truth for rollout in rollouts)
        add_labels(
            folder / ROLLOUTS, {path.name: truth for path, truth in zip(paths, truths, strict=True)}
        )
        for path, rollout in zip(paths, rollouts, strict=True):
            trace = to_trace(rollout)
            named = replace(trace.started, judge=f"{trace.started.judge}, {stage}, step {step}")
            write_atomically(path, to_json(replace(trace, started=named)))
    except OSError as error:
        raise BadInput(f"Cannot write to {folder / ROLLOUTS}: {error.strerror or error}.") from None
    return paths
