"""`python -m vrthinker_core branch`: a branch of a stored run in a terminal."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.test_branches import Talker, trace_of
from tests.test_cli import run
from tests.test_judge import ANSWER
from vrthinker_core.backends import ScriptedBackend
from vrthinker_core.branch_plan import plan_branch
from vrthinker_core.errors import JudgeError
from vrthinker_core.judge import judge, judge_branch
from vrthinker_core.traces import load, to_json
from vrthinker_core.types import StopReason, VideoPair
from vrthinker_core.types.events import Finished

Clips = tuple[Path, Path]


@pytest.fixture(scope="module")
def origin(clips: Clips, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("origin")
    (folder / "answer.jsonl").write_text(json.dumps({"reply": ANSWER}))
    path = folder / "trace.json"
    path.write_bytes(
        to_json(trace_of(judge(VideoPair("A block glides.", *clips), ScriptedBackend(Talker()))))
    )
    return path


def test_branch_goes_on_from_a_stored_trace_and_says_from_where(
    origin: Path, clips: Clips, tmp_path: Path
) -> None:
    judge_name, kept = f"scripted:{origin.with_name('answer.jsonl')}", tmp_path / "branch.json"
    options = ("--frames", "4,9", "--judge", judge_name, "--trace", kept)
    done = run("branch", origin, *clips, "--turn", 2, *options)
    assert done.returncode == 0, done.stderr
    assert "Branch    from turn 2, with frames 4, 9" in done.stdout
    assert done.stdout.index("Turn 1") < done.stdout.index("Turn 2") < done.stdout.index("Verdict")
    trace = load(kept)
    assert trace.turns[0] == load(origin).turns[0]
    assert sorted({frame.number for frame in trace.turns[1].frames}) == ["4", "9"]


def test_what_cannot_be_is_one_line_and_status_2(origin: Path, clips: Clips) -> None:
    """Refused before a judge is opened: there is none of that name."""
    for wrong in (
        ["--turn", 9],
        ["--turn", 2, "--frames", "x"],
        ["--turn", 2, "--window", "-1"],
        ["--turn", 2, "--prompt", "A cat."],
    ):
        done = run("branch", origin, *clips, *wrong, "--judge", "hf:no/such/judge")
        assert (done.returncode, done.stdout) == (2, ""), wrong
        assert done.stderr.count("\n") == 1, done.stderr
        assert "Traceback" not in done.stderr


def test_other_videos_than_those_of_the_trace_are_refused(origin: Path, clips: Clips) -> None:
    judge_name = f"scripted:{origin.with_name('answer.jsonl')}"
    done = run("branch", origin, *clips[::-1], "--turn", 2, "--judge", judge_name, "--json")
    assert (done.returncode, done.stdout) == (2, "")
    assert "not the videos" in done.stderr


def test_a_branch_never_replaces_the_run_that_it_goes_on_from(origin: Path, clips: Clips) -> None:
    before = origin.read_bytes()
    options = ("--frames", "4", "--judge", "hf:no/such/judge", "--trace", origin)
    done = run("branch", origin, *clips, "--turn", 2, *options)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"{origin} holds the run to branch from")
    assert done.stderr.count("\n") == 1
    assert origin.read_bytes() == before


def test_a_branch_that_is_refused_or_fails_replaces_no_earlier_trace(
    origin: Path, clips: Clips, tmp_path: Path
) -> None:
    earlier = tmp_path / "earlier.json"
    earlier.write_bytes(origin.read_bytes())
    gone, plan = ScriptedBackend([JudgeError("The server is gone.")]), plan_branch(load(origin), 2)
    for videos in (clips[::-1], clips):
        *_, end = judge_branch(plan, VideoPair(plan.prompt, *videos), gone, trace=earlier)
        assert isinstance(end, Finished)
        assert end.stop is StopReason.FAILED
        assert earlier.read_bytes() == origin.read_bytes()
