"""Opening a judge beside the page: it comes, or it is said why not."""

from __future__ import annotations

import pickle
import tempfile
from pathlib import Path
from typing import get_args

import pytest

from tests.ui.sessions.test_background_run import until
from tests.ui.support import handmade_runs
from vrthinker_core.backends import OpenedBackend, ScriptedBackend, open_backend
from vrthinker_core.errors import BadInput, CheckpointError
from vrthinker_core.types import Settings, VideoPair
from vrthinker_core.types.events import Event, Finished, Started, StopReason
from vrthinker_core.ui.sessions.background_run import RunJob
from vrthinker_core.ui.sessions.judge_loader import TRACE_NOT_KEPT, JudgeLoader, gpu_seconds
from vrthinker_core.ui.view.page_json import view_json
from vrthinker_core.ui.view.run_state import fold_all
from vrthinker_core.ui.view.tiles import ImageSource

ANSWER = "<Answer>TA=1, MQ=0, VQ=2, OA=1</Answer>"


def test_the_judge_does_a_job_and_its_notes_are_told(pair: VideoPair, tmp_path: Path) -> None:
    opening = JudgeLoader({"one": lambda: OpenedBackend(ScriptedBackend([ANSWER]), ("A script speaks.",))})
    first, *_, last = opening.run_job(RunJob(pair, Settings(), tmp_path / "trace.json", tmp_path / "halt"))
    assert isinstance(first, Started)
    assert first.notes == ("A script speaks.",)
    assert isinstance(last, Finished)
    assert last.stop is StopReason.ANSWERED
    assert (tmp_path / "trace.json").exists()


def test_a_record_that_cannot_be_kept_is_told_without_its_place(
    pair: VideoPair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    opening = JudgeLoader({"one": lambda: OpenedBackend(ScriptedBackend([ANSWER]))})
    events = [*opening.run_job(RunJob(pair, Settings(), tmp_path / "gone" / "trace.json", tmp_path / "halt"))]
    assert str(tmp_path) not in repr(events[-1])
    assert view_json(fold_all(events), lambda half: ImageSource("", 1, 1))["notes"] == [TRACE_NOT_KEPT]
    opening.close()


def test_the_halt_file_stops_the_judge(pair: VideoPair, tmp_path: Path) -> None:
    job = RunJob(pair, Settings(), tmp_path / "trace.json", tmp_path / "halt")
    job.stop_file.touch()
    *_, last = JudgeLoader({"one": lambda: OpenedBackend(ScriptedBackend([ANSWER]))}).run_job(job)
    assert isinstance(last, Finished)
    assert last.stop is StopReason.CANCELLED


def test_a_judge_that_does_not_exist_is_named() -> None:
    opening = JudgeLoader({"gpt": lambda: open_backend("gpt")})
    until(opening.is_loaded)
    with pytest.raises(BadInput, match="no judge 'gpt'"):
        opening.get()


def test_a_failure_nobody_foresaw_still_is_a_sentence() -> None:
    opening = JudgeLoader({"one": lambda: OpenedBackend(*[1 / 0])})  # type: ignore[arg-type]
    with pytest.raises(CheckpointError, match="ZeroDivisionError"):
        opening.get()


def test_a_gpu_is_borrowed_for_as_long_as_the_settings_need(pair: VideoPair, tmp_path: Path) -> None:
    def seconds(settings: Settings) -> int:
        return gpu_seconds(RunJob(pair, settings, tmp_path / "trace.json", tmp_path / "halt"))

    assert seconds(Settings(max_turns=1)) < seconds(Settings(max_turns=3)) < seconds(Settings()) == 75
    assert seconds(Settings(max_turns=3, max_new_tokens=100)) < seconds(Settings(max_turns=3))
    assert seconds(Settings(max_turns=64, max_new_tokens=10**9)) == 75


def test_what_crosses_the_border_of_a_process_is_the_same_on_the_other_side(pair: VideoPair, tmp_path: Path) -> None:
    events = list(handmade_runs.three_turns().events())
    assert {type(event) for event in events} == set(get_args(Event))
    job = RunJob(pair, Settings(max_turns=3, window="all"), tmp_path / "trace.json", tmp_path / "halt", "second")
    for value in (job, *events):
        assert pickle.loads(pickle.dumps(value)) == value
