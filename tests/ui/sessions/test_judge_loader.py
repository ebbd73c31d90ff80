"""A judge that is loaded in a thread runs jobs, or says why it cannot be opened."""

from __future__ import annotations

import pickle
import tempfile
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import get_args

import pytest

from tests.ui.support import handmade_runs
from vrthinker_core.backends import BETTER_JUDGE, Backend, ScriptedBackend
from vrthinker_core.backends.built_in import NANO_NOTE
from vrthinker_core.branch_plan import Changes, plan_branch
from vrthinker_core.errors import CheckpointError
from vrthinker_core.types import Settings, VideoPair, Vote
from vrthinker_core.types.events import Event, Opening, Swapped, Voted
from vrthinker_core.ui import words
from vrthinker_core.ui.background_run import RunJob
from vrthinker_core.ui.compare_handlers import banner_values
from vrthinker_core.ui.judge_loader import TRACE_NOT_KEPT, JudgeLoader
from vrthinker_core.ui.page_json import view_json
from vrthinker_core.ui.run_state import fold_all
from vrthinker_core.ui.tiles import ImageSource
from vrthinker_core.ui.zero_gpu import gpu_seconds

ANSWER = "<Answer>TA=1, MQ=0, VQ=2, OA=1</Answer>"


def fail_to_open() -> Backend:
    raise CheckpointError("There is no folder missing.")


def test_the_banner_says_how_to_get_a_better_judge_and_what_to_do_about_one_that_cannot_be_opened() -> (
    None
):
    built_in, other = (
        lambda note=note: ScriptedBackend([ANSWER], notes=(note,))
        for note in (NANO_NOTE, "A script.")
    )
    for openers, notes in (
        ({"a": built_in}, (NANO_NOTE, BETTER_JUDGE)),
        ({"a": other, "b": built_in}, ("A script.",)),
    ):
        with closing(JudgeLoader(openers, in_thread=False)) as judges:
            assert banner_values(judges, "")[1]["notes"] == notes
            assert banner_values(judges, judges.names[-1])[1]["notes"][1:] == notes[1:], (
                "no advice where a better one is the default"
            )
    for openers, advice in (
        ({"a": fail_to_open}, ""),
        ({"a": fail_to_open, "b": built_in}, f" {words.CHOOSE_IN_SETTINGS}"),
    ):
        with closing(JudgeLoader(openers, in_thread=False)) as judges:
            assert banner_values(judges, "")[1]["ending"] == f"There is no folder missing.{advice}"


def test_a_trace_that_cannot_be_written_is_noted_without_its_path(
    pair: VideoPair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    judges = JudgeLoader({"one": lambda: ScriptedBackend([ANSWER])})
    events = [
        *judges.run_job(
            RunJob(pair, Settings(), tmp_path / "gone" / "trace.json", tmp_path / "stop")
        )
    ]
    assert str(tmp_path) not in repr(events[-1])
    assert view_json(fold_all(events), lambda half: ImageSource("", 1, 1))["notes"] == [
        TRACE_NOT_KEPT
    ]
    judges.close()


def test_the_gpu_seconds_follow_the_settings(pair: VideoPair, tmp_path: Path) -> None:
    def seconds(settings: Settings) -> int:
        return gpu_seconds(RunJob(pair, settings, tmp_path / "trace.json", tmp_path / "stop"))

    assert (
        seconds(Settings(max_turns=1)) < seconds(Settings(max_turns=3)) < seconds(Settings()) == 75
    )
    assert seconds(Settings(max_turns=3, max_new_tokens=100)) < seconds(Settings(max_turns=3))
    assert seconds(Settings(max_turns=64, max_new_tokens=10**9)) == 75


def test_jobs_and_events_survive_pickling(pair: VideoPair, tmp_path: Path) -> None:
    run = [Opening((0.4, 1.0)), *handmade_runs.three_turns().run_events()]
    events: list[Event] = [*run, *map(Swapped, run), Voted(Vote(datetime.now(UTC), note="A note."))]
    assert {type(event) for event in events} == set(get_args(Event))
    job = RunJob(
        pair,
        Settings(max_turns=3, window="all"),
        tmp_path / "trace.json",
        tmp_path / "stop",
        "second",
    )
    branch = replace(job, plan=plan_branch(handmade_runs.three_turns(), 2, Changes(frames=(4, 9))))
    for value in (job, branch, *events):
        assert pickle.loads(pickle.dumps(value)) == value
