"""Rollouts kept while training: ordinary traces that the page lists and opens."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.training.test_teacher import PAIRS, SCRIPTED, answer
from tests.training.test_token_rows import look
from vrthinker_core import ScriptedBackend
from vrthinker_core.backends.base import Backend
from vrthinker_core.errors import BadInput
from vrthinker_core.traces import load
from vrthinker_core.training.rollouts import Rollout, play
from vrthinker_core.training.rows.row_set import keep_rollouts
from vrthinker_core.training.run.run_folder import ROLLOUTS
from vrthinker_core.types import Settings
from vrthinker_core.ui.runs.folder_readers import TraceFiles
from vrthinker_core.ui.runs.listed_run import Trait


def judge(step: int) -> ScriptedBackend:
    """A judge that is right from step 10 on."""
    labels = PAIRS.drawn(0).verdict.labels
    return ScriptedBackend(
        [look(step), answer(labels if step >= 10 else labels | {"OA": (labels["OA"] + 1) % 3})],
        protocol="paired",
    )


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
    assert (
        [row.source for row in rows]
        == [path.name for path in paths]
        == sorted(path.name for path in paths)
    )
    assert rows[-1].source == "grpo-step-00010-sample-1.json"
    assert not any(row.error for row in rows)
    assert {row.prompt for row in rows} == {PAIRS.drawn(0).prompt}
    assert [row.judge[-1] for row in rows[::2]] != [PAIRS.drawn(0).verdict.OA] * 3
    assert rows[-1].judge[-1] == PAIRS.drawn(0).verdict.OA
    assert load(paths[-1]).started.judge == "scripted, grpo, step 10"
    assert {row.data_set for row in rows} == {tuple(label for _, label in PAIRS.drawn(0).verdict)}
    assert [bool(row.traits & Trait.OVERALL) for row in rows] == [
        True,
        True,
        True,
        True,
        False,
        False,
    ]


def test_the_pictures_are_those_that_the_judge_was_shown(tmp_path: Path) -> None:
    (path,) = keep_rollouts(tmp_path, "grpo", 0, rollouts(SCRIPTED(0)))
    turns = load(path).turns
    assert [len(turn.frames) for turn in turns] == [8, 2]
    assert all(frame.jpeg.startswith(b"\xff\xd8") for turn in turns for frame in turn.frames)
    assert len({frame.jpeg for turn in turns for frame in turn.frames}) > 5


def test_what_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(BadInput, match="Cannot write"):
        keep_rollouts(tmp_path / "file", "grpo", 0, rollouts(SCRIPTED(0)))
