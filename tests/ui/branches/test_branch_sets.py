"""What the page keeps and says of origin and branches, without a browser."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.waiting import until
from tests.test_branches import Talker, run
from tests.ui.support import handmade_runs
from vrthinker_core.backends import ScriptedBackend
from vrthinker_core.branch_plan import Changes, plan_branch
from vrthinker_core.errors import BadInput
from vrthinker_core.protocols.sanitize import MAX_PROMPT
from vrthinker_core.types import Preference, Settings, Trace, Verdict, VideoPair
from vrthinker_core.types.events import Branch, Event, Origin
from vrthinker_core.types.progress import Pace
from vrthinker_core.ui import branch_sets
from vrthinker_core.ui.api_json import run_json
from vrthinker_core.ui.background_run import RunJob
from vrthinker_core.ui.branch_sets import (
    BranchRequest,
    BranchSet,
    BranchSets,
    read_request,
    strip_json,
)
from vrthinker_core.ui.judge_loader import JudgeLoader
from vrthinker_core.ui.page_json import view_json
from vrthinker_core.ui.page_sessions import Session, Sessions
from vrthinker_core.ui.run_state import fold_all
from vrthinker_core.ui.tiles import ImageSource

ORIGIN = handmade_runs.three_turns()
FACTS = Origin(ORIGIN.started.prompt, ORIGIN.started.judge, ORIGIN.started.settings)
VISITOR = "visitor"


def branch(turn: int = 2, verdict: Verdict | None = None) -> Trace:
    started = replace(ORIGIN.started, branch=Branch(FACTS, turn, (4, 9)))
    return replace(
        ORIGIN,
        started=started,
        finished=replace(ORIGIN.finished, verdict=verdict or ORIGIN.finished.verdict),
    )


def play(job: RunJob) -> Generator[Event, None, None]:
    yield from branch().events()


@pytest.fixture
def sessions(tmp_path: Path) -> Sessions:
    return Sessions(tmp_path, play)


def begin(sessions: Sessions, sets: BranchSets, before: Session) -> Session:
    """A branch of the run that is shown, which runs to its end."""
    pair = VideoPair(ORIGIN.started.prompt, Path("a.mp4"), Path("b.mp4"))
    after = sessions.start_run(
        VISITOR, pair, Settings(), plan=plan_branch(ORIGIN, 2, Changes(frames=(4, 9)))
    )
    sets.begin(VISITOR, before, after)
    until(lambda: after.run.over)
    return after


def show(sessions: Sessions, sets: BranchSets, before: Session, place: int) -> Session:
    kept = sets.keep(VISITOR, before).runs[place]
    after = sessions.start_replay(VISITOR, kept.trace)
    sets.show(VISITOR, after, place)
    return after


def names(sets: BranchSets, session: Session) -> list[str]:
    strip = strip_json(sets.get(VISITOR, session), session.run.state)
    return [each["name"] for each in strip["runs"]] if strip else []


def test_a_branch_stands_beside_its_origin_and_either_can_be_shown(sessions: Sessions) -> None:
    sets, origin = BranchSets(), sessions.start_replay(VISITOR, ORIGIN)
    assert names(sets, origin) == [], "a run without branches has no strip"
    shown = begin(sessions, sets, origin)
    assert names(sets, shown) == ["Origin", "From turn 2, with frames 4, 9"]
    back = show(sessions, sets, shown, 0)
    assert back.run.state == fold_all(ORIGIN.events())
    assert names(sets, back) == ["Origin", "From turn 2, with frames 4, 9"]
    again = show(sessions, sets, back, 1)
    assert again.run.state == fold_all(branch().events())
    found = sets.get(VISITOR, again)
    assert found.shown == 1


def test_another_run_has_no_part_in_it(sessions: Sessions) -> None:
    sets = BranchSets()
    begin(sessions, sets, sessions.start_replay(VISITOR, ORIGIN))
    other = sessions.start_replay(VISITOR, ORIGIN)
    assert sets.get(VISITOR, other) is None
    assert names(sets, begin(sessions, sets, other)) == ["Origin", "From turn 2, with frames 4, 9"]


def test_however_many_branches_the_origin_and_the_run_they_come_from_stay(
    sessions: Sessions,
) -> None:
    sets, shown = BranchSets(), sessions.start_replay(VISITOR, ORIGIN)
    for _ in range(branch_sets.MAX_RUNS + 3):
        before = shown
        shown = begin(sessions, sets, before)
        found = sets.get(VISITOR, shown)
        assert found.runs[0].trace == ORIGIN
        assert found.runs[-1] is None
        assert found.shown == len(found.runs) - 1 < branch_sets.MAX_RUNS
    first = show(sessions, sets, shown, 1)
    before = sets.keep(VISITOR, first).runs
    found = sets.get(VISITOR, begin(sessions, sets, first))
    assert found.runs[:2] == before[:2]
    assert [id(each) for each in found.runs[2:-1]] == [id(each) for each in before[3:]], (
        "the next one had to go"
    )


def test_what_is_kept_of_all_pages_is_bounded(
    sessions: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    sets, shown = BranchSets(), sessions.start_replay(VISITOR, ORIGIN)
    size = sets.keep(VISITOR, shown).size
    monkeypatch.setattr(branch_sets, "MAX_BYTES", 3 * size)
    others = {
        f"other {number}": sessions.start_replay(f"other {number}", ORIGIN) for number in range(5)
    }
    for session_id, session in others.items():
        sets.keep(session_id, session)
    assert [sets.get(each, session) is not None for each, session in others.items()] == [
        False,
        False,
        True,
        True,
        True,
    ]
    sets.forget("other 4")
    assert sets.get("other 4", others["other 4"]) is None


def test_the_strip_marks_what_differs_from_the_origin() -> None:
    assert ORIGIN.finished.verdict is not None
    verdict = ORIGIN.finished.verdict
    other = replace(
        verdict, VQ=Preference.TIE if verdict.VQ is not Preference.TIE else Preference.FIRST
    )
    origin, changed = (branch_sets.KeptRun(trace, 1) for trace in (ORIGIN, branch(verdict=other)))
    strip = strip_json(
        BranchSet("name", 1, (origin, changed, None)), fold_all(branch(verdict=other).events())
    )
    first, second, third = strip["runs"]
    assert [label["name"] for label in second["labels"] if label["differs"]] == ["Visual quality"]
    assert not any(label["differs"] for label in first["labels"])
    assert third["note"] == "", "the run that is shown stands for what is not kept"


def test_a_run_that_waits_for_a_vote_waits_in_the_strip_too_and_when_it_is_shown_again(
    sessions: Sessions,
) -> None:
    sets, origin = BranchSets(), sessions.start_replay(VISITOR, ORIGIN)
    origin.disclosure.begin(hidden=True)
    shown = begin(sessions, sets, origin)
    strip = strip_json(sets.get(VISITOR, shown), shown.run.state)
    first, second = strip["runs"]
    assert (first["note"], first["labels"]) == ("Hidden until you vote", [])
    assert len(second["labels"]) == 4
    assert not any(label["differs"] for label in second["labels"])
    shown.disclosure.vote()
    kept = sets.keep(VISITOR, shown).runs
    assert [(run.disclosure.hidden, run.disclosure.voted) for run in kept if run] == [
        (True, False),
        (False, True),
    ]


def test_a_branch_says_so_on_the_page_and_in_the_api() -> None:
    state = fold_all(branch(3).events())
    view = view_json(state, lambda half: ImageSource("", 1, 1))
    assert "from turn 3, with frames 4, 9" in view["notes"][0]
    assert [turn["taken"] for turn in view["turns"]] == [True, True, False]
    assert [turn["state"].startswith("taken over") for turn in view["turns"]] == [True, True, False]
    assert run_json(state)["branch"] == "from turn 3, with frames 4, 9"
    assert run_json(fold_all(ORIGIN.events()))["branch"] == ""


def test_turns_that_are_taken_over_tell_nothing_of_the_time_left() -> None:
    pace = Pace()
    for event in branch(3).events():
        pace = pace.after(event, 0.0)
    assert pace.seconds_left(5.0, 6) is None


def test_a_job_with_a_plan_runs_the_branch(pair: VideoPair, tmp_path: Path) -> None:
    judges = JudgeLoader({"one": lambda: ScriptedBackend(Talker())})
    plan = plan_branch(run(pair), 3)
    job = RunJob(pair, plan.settings, tmp_path / "trace.json", tmp_path / "stop", plan=plan)
    state = fold_all(judges.run_job(job))
    judges.close()
    assert state.started.branch == plan.branch
    assert tuple(turn.turn for turn in state.turns[:2]) == plan.turns


def sent(**values: object) -> Callable[[str], object]:
    return {
        "turn": 2,
        "frames": "",
        "no_tool": False,
        "window": "",
        "judge": "",
        "prompt": None,
        **values,
    }.get


def test_the_form_is_read() -> None:
    assert read_request(sent(), ["one"]) == BranchRequest(2, Changes())
    everything = sent(
        turn="1", frames="4, 9 12", no_tool=True, window="2", judge="one", prompt="A cat."
    )
    assert read_request(everything, ["one"]) == BranchRequest(
        1, Changes((4, 9, 12), True, 2, "A cat."), "one"
    )


@pytest.mark.parametrize(
    "wrong",
    [
        {"turn": None},
        {"turn": True},
        {"turn": 1.5},
        {"turn": "²"},
        {"turn": 10**400},
        {"frames": "4, x"},
        {"frames": "-4"},
        {"frames": "1," * 10_000},
        {"frames": [4]},
        {"frames": "9" * 5000},
        {"window": "often"},
        {"window": [1]},
        {"judge": "none"},
        {"judge": {"a": 1}},
        {"prompt": "x" * (MAX_PROMPT + 1)},
    ],
)
def test_what_no_form_would_send_is_refused_in_one_sentence(wrong: dict[str, object]) -> None:
    with pytest.raises(BadInput, match=r"^[A-Z].*\.$"):
        read_request(sent(**wrong), ["one"])
