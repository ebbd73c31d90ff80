"""Which files of a folder are traces: whatever their names, and nothing that evaluations and trainings keep beside them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.training.rows.test_export import BASE
from vrthinker_core.errors import TraceError
from vrthinker_core.results.result import RESULTS, RUN
from vrthinker_core.traces import to_json
from vrthinker_core.training.config import CONFIG
from vrthinker_core.training.run_folder import STATE
from vrthinker_core.training.trace_folder import read_traces

OTHERS = ("run.json", "report.json", "comparison.json", "ranking.json")


def write(folder: Path, traces: Iterable[str], others: Iterable[str] = ()) -> None:
    for names, data in ((traces, to_json(BASE)), (others, b"{}")):
        for name in names:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(data)


def read(folder: Path) -> tuple[set[str], set[str]]:
    """The names of the traces, and of the files that are named as none."""
    found = list(read_traces([folder]))
    names = [path.relative_to(folder).as_posix() for path, _ in found]
    both = zip(names, found, strict=True)
    refused = {name for name, (_, file) in both if isinstance(file, TraceError)}
    return set(names) - refused, refused


def test_a_trace_may_have_any_name_and_lie_in_any_folder(tmp_path: Path) -> None:
    names = {*OTHERS, STATE, "one.json", "traces/a.json", "other/b.json", "checkpoint/c.json"}
    write(tmp_path, names)
    assert read(tmp_path) == (names, set())


@pytest.mark.parametrize("marks", [(RUN, RESULTS), (STATE, CONFIG)], ids=["evaluation", "training"])
def test_traces_that_a_person_saved_in_the_folder_of_a_run_are_read(
    marks: tuple[str, str], tmp_path: Path
) -> None:
    names = {"mine.json", "traces/a.json", "other/b.json"}
    write(tmp_path, names, marks)
    assert read(tmp_path) == (names, set())


def test_what_evaluations_and_trainings_keep_besides_traces_is_not_named(tmp_path: Path) -> None:
    evaluation = [f"ev/{name}" for name in (*OTHERS, RESULTS)]
    kept = ("held-out.json", "checkpoint/config.json", "checkpoints/model/tokenizer.json")
    training = [f"run/{name}" for name in (STATE, CONFIG, *kept)]
    traces = {"ev/traces/one.json", "run/rollouts/two.json"}
    named = {"other.json", "ev/traces/three.json"}
    write(tmp_path, traces, [*evaluation, *training, *named])
    assert read(tmp_path) == (traces, named)
