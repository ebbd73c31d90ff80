"""Rollouts kept while training: ordinary traces that the page lists and opens."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.drawn_rollouts import look
from tests.training.test_teacher import PAIRS, SCRIPTED, answer
from vrthinker_core import ScriptedBackend
from vrthinker_core.backends.base import Backend
from vrthinker_core.errors import BadInput
from vrthinker_core.traces import load
from vrthinker_core.training.rollouts import Rollout, play
from vrthinker_core.training.row_set import keep_rollouts
from vrthinker_core.training.run_folder import ROLLOUTS
from vrthinker_core.types import Settings
from vrthinker_core.ui.listed_run import Trait
from vrthinker_core.ui.listed_runs import TraceFiles


def judge(step: int) -> ScriptedBackend:
    """A judge that is right from step 10 on."""
    labels = PAIRS.drawn(0).verdict.labels
    if step < 10:
        labels |= {"OA": (labels["OA"] + 1) % 3}
    return ScriptedBackend([look(step), answer(labels)], protocol="paired")


def rollouts(backend: Backend, samples: int = 1) -> list[Rollout]:
    return list(play([PAIRS.pair(0)], backend, Settings(), samples))


def test_the_page_lists_a_judge_that_learns(tmp_path: Path) -> None:
    paths = [
        path
        for step in (0, 5, 10)
        for path in keep_rollouts(tmp_path, "grpo", step, rollouts(judge(step), samples=2))
    ]
    reader = TraceFiles(tmp_path / ROLLOUTS)
    rows = [row for _, row in reader.news() if row is not None]
    names = [path.name for path in paths]
    assert [row.source for row in rows] == names == sorted(names)
    assert rows[-1].source == "grpo-step-00010-sample-1.json"
    assert not any(row.error for row in rows)
    assert {row.prompt for row in rows} == {PAIRS.drawn(0).prompt}
    assert [row.judge[-1] for row in rows[::2]] != [PAIRS.drawn(0).verdict.OA] * 3
    assert rows[-1].judge[-1] == PAIRS.drawn(0).verdict.OA
    assert load(paths[-1]).started.judge == "scripted, grpo, step 10"
    assert {row.data_set for row in rows} == {tuple(label for _, label in PAIRS.drawn(0).verdict)}
    assert [bool(row.traits & Trait.OVERALL) for row in rows] == [True] * 4 + [False] * 2


def test_what_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(BadInput, match="Cannot write"):
        keep_rollouts(tmp_path / "file", "grpo", 0, rollouts(SCRIPTED(0)))
