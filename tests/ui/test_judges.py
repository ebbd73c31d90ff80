"""The judges of one page: their names, how they open and are chosen, where they run, their jobs."""

import pickle
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import get_args

import pytest
import torch

from tests.support.waiting import PATIENCE_S
from tests.test_branches import Talker, run
from tests.ui.conftest import write_script
from tests.ui.support.inside import RUN
from tests.ui.support.saved_examples import ANSWER
from vrthinker_core.backends import Backend, ScriptedBackend, devices
from vrthinker_core.backends.devices import gpu_seconds
from vrthinker_core.branch_plan import Changes, plan_branch
from vrthinker_core.errors import BadInput, CheckpointError
from vrthinker_core.types import Settings, VideoPair, Vote
from vrthinker_core.types.events import Event, Finished, Opening, Started, Swapped, Voted
from vrthinker_core.types.messages import Retrying
from vrthinker_core.ui import judges as module
from vrthinker_core.ui.judges import JudgeLoader, OpenJudge, judge_openers
from vrthinker_core.ui.run import RunJob

LoadJudges = Callable[..., JudgeLoader]


def scripted(name: str) -> OpenJudge:
    return partial(ScriptedBackend, [ANSWER], name=name)


def failing() -> Backend:
    raise CheckpointError("There is no such checkpoint.")


@pytest.fixture
def load() -> Iterator[LoadJudges]:
    """Makes loaders of the given judges, by name; all are closed at the end."""
    with ExitStack() as made:
        yield lambda **judges: made.enter_context(closing(JudgeLoader(judges)))


@pytest.fixture
def job(pair: VideoPair, tmp_path: Path) -> RunJob:
    return RunJob(pair, Settings(max_turns=3), tmp_path / "trace.json", tmp_path / "stop")


def test_names_are_distinct_hold_no_path_and_are_those_of_the_judges(tmp_path: Path) -> None:
    folder = tmp_path / "models" / "mine"
    folder.mkdir(parents=True)
    chosen = {
        "nano": "nano (built in)",
        "hf:someone/a-checkpoint": "someone/a-checkpoint",
        f"hf:{folder}": "mine",
        f"hf:{folder}/": "mine 2",
        f"scripted:{tmp_path}/replies.v2.jsonl": "replies.v2",
        str(folder): "mine 3",
    }
    assert list(judge_openers(list(chosen))) == list(chosen.values())
    numbered = ["hf:/x/a 2", "hf:/x/a", "hf:/y/a", "hf:/z/a"]
    assert list(judge_openers(numbered)) == ["a 2", "a", "a 3", "a 4"]
    paths = tmp_path / "one.jsonl", folder / "one.jsonl"
    openers = judge_openers([write_script(path, [ANSWER], name="its own") for path in paths])
    assert [opener().name for opener in openers.values()] == list(openers) == ["one", "one 2"]


@pytest.mark.parametrize("best", [[], ["qunwang13/vrthinker"]], ids=["no GPU", "GPU"])
def test_the_best_judge_comes_first(best: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "GPU_FILES", ["null"])
    monkeypatch.setattr(torch.cuda, "is_available", lambda: bool(best))
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (24 * 2**30, 24 * 2**30))
    assert list(judge_openers([])) == [*best, "nano (built in)"]


def test_judges_share_this_machine_and_a_server_has_a_width(load: LoadJudges) -> None:
    class Served(ScriptedBackend):
        pairs_in_hand, streams = 8, True

    judges = load(here=scripted("here"), served=lambda: Served([ANSWER]))
    judges.wait_all()
    assert [judges.device(name, 2) for name in ("", "here")] == [("local", 2)] * 2
    widths = {1: module.SERVED_AT_ONCE, 99: 99}
    assert {most: judges.device("served", most)[1] for most in widths} == widths
    assert judges.device("served", 1)[0] == "served"


def test_judges_open_in_order_and_each_is_ready_before_the_next(load: LoadJudges) -> None:
    go_on = threading.Event()
    judges = load(one=scripted("one"), slow=lambda: go_on.wait() and failing(), last=scripted("l"))
    waiting = threading.Thread(target=judges.wait_all, daemon=True)
    waiting.start()
    assert judges.get().name == "one"
    assert [judges.is_loaded(name) for name in ("", *judges.names)] == [True, True, False, False]
    assert [judges.find(name) for name in ("one", "last", "none")] == ["one", "last", None]
    waiting.join(0.2)
    assert waiting.is_alive()
    go_on.set()
    waiting.join(PATIENCE_S)
    assert judges.is_loaded("slow")
    assert judges.get("last").name == "l"


@pytest.mark.parametrize("broken", [failing, sys.exit, lambda: ScriptedBackend(*[1 / 0])])
def test_a_broken_judge_leaves_others_alone(load: LoadJudges, broken: OpenJudge) -> None:
    judges, depths = load(broken=broken, whole=scripted("whole")), set[int]()
    assert judges.get("whole").name == "whole"
    for _ in range(3):
        with pytest.raises(CheckpointError) as raised:
            judges.get()
        depths.add(len(raised.traceback))
    assert len(depths) == 1, "an error that is raised again and again must not grow"


def test_a_judge_is_chosen_by_its_name_or_what_stands_before_brackets(load: LoadJudges) -> None:
    names = ["one", "nano (built in)", "two (b)", "nano"]
    judges = load(**{name: scripted(name) for name in names})
    judges.wait_all()
    chosen = {None: "one", "": "one", **{name: name for name in names}, "two": "two (b)"}
    assert {value: judges.choose(value) for value in chosen} == chosen
    assert [judges.get(name).name for name in names] == [*map(judges.find, names)] == names
    choose = r"^There is no judge .{1,42} here\. Choose one, nano \(built in\), two \(b\), nano\.$"
    for wrong in ("three", "One", "one ", 7, ["one"], True, "x" * 999):
        with pytest.raises(BadInput, match=choose):
            judges.choose(wrong)


def test_a_branch_runs_and_its_trace_is_lost(load: LoadJudges, job: RunJob, tmp_path: Path) -> None:
    plan, judges = plan_branch(run(job.pair), 3), load(one=lambda: ScriptedBackend(Talker()))
    lost = replace(job, settings=plan.settings, plan=plan, trace=tmp_path / "gone" / "trace.json")
    events = [*judges.run_job(lost)]
    assert [each.branch for each in events if isinstance(each, Started)] == [plan.branch]
    (end,) = (each for each in events if isinstance(each, Finished))
    assert end.notes == (module.TRACE_NOT_KEPT,)


def test_the_gpu_seconds_follow_the_settings() -> None:
    def seconds(**settings: int) -> int:
        return gpu_seconds(Settings(**settings))

    assert seconds(max_turns=1) < seconds(max_turns=3) < seconds() == 75
    assert seconds(max_turns=3, max_new_tokens=100) < seconds(max_turns=3)
    assert seconds(max_turns=32, max_new_tokens=32_768) == 75


def test_jobs_and_events_survive_pickling(job: RunJob) -> None:
    run = [Opening((0.4, 1.0)), Retrying(2, 6, busy=True), *RUN.run_events()]
    events: list[Event] = [*run, *map(Swapped, run), Voted(Vote(datetime.now(UTC), note="A note."))]
    assert {type(event) for event in events} == set(get_args(Event))
    branch = replace(job, plan=plan_branch(RUN, 2, Changes(frames=(4, 9))))
    for value in (job, branch, *events):
        assert pickle.loads(pickle.dumps(value)) == value
