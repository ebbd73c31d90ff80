"""Several judges behind one page: what they are called, how they are opened, and who speaks in which run."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

import app
from tests.ui.conftest import write_script
from tests.ui.sessions.test_background_run import until
from vrthinker_core.backends import OpenedBackend, ScriptedBackend
from vrthinker_core.errors import BadInput, CheckpointError
from vrthinker_core.types import Preference, Settings, VideoPair
from vrthinker_core.ui.sessions import settings_form
from vrthinker_core.ui.sessions.judge_loader import JudgeLoader, OpenJudge, judge_openers
from vrthinker_core.ui.sessions.sessions import Sessions

FIRST = "<Answer>TA=1, MQ=0, VQ=2, OA=1</Answer>"
SECOND = "<Answer>TA=2, MQ=2, VQ=2, OA=2</Answer>"

Open = Callable[..., JudgeLoader]


def speaking(reply: str, name: str) -> OpenJudge:
    return lambda: OpenedBackend(ScriptedBackend([reply], name=name))


@pytest.fixture
def opening() -> Iterator[Open]:
    """Opens judges, by name."""
    begun: list[JudgeLoader] = []

    def start(**judges: OpenJudge) -> JudgeLoader:
        begun.append(JudgeLoader(judges))
        return begun[-1]

    yield start
    for one in begun:
        one.close()


def failing() -> OpenedBackend:
    raise CheckpointError("There is no such checkpoint.")


# -- names ---------------------------------------------------------------------------------------------------------------


def test_names_tell_judges_apart_and_reveal_no_path(tmp_path: Path) -> None:
    folder = tmp_path / "models" / "mine"
    folder.mkdir(parents=True)
    chosen = {
        "nano": "nano (built in)",
        "hf:someone/a-checkpoint": "someone/a-checkpoint",
        f"hf:{folder}": "mine",
        f"hf:{folder}/": "mine 2",
        f"hf:{tmp_path}/elsewhere/mine": "mine 3",
        "hf:~/models/other": "other",
        f"scripted:{tmp_path}/replies.v2.jsonl": "replies.v2",
        str(folder): "mine 4",
        "oracle": "oracle",
    }
    assert list(judge_openers(list(chosen))) == list(chosen.values())


def test_a_number_is_never_taken_twice() -> None:
    assert list(judge_openers(["hf:/x/a 2", "hf:/x/a", "hf:/y/a", "hf:/z/a"])) == ["a 2", "a", "a 3", "a 4"]


def test_the_trace_names_a_judge_as_the_page_does(tmp_path: Path) -> None:
    scripts = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        scripts.append(write_script(tmp_path / name / "script.jsonl", [FIRST], name="of its own"))
    judges = judge_openers(scripts)
    assert [open_judge().backend.name for open_judge in judges.values()] == list(judges) == ["script", "script 2"]


@pytest.mark.parametrize("choice", ["hf:{}/nothing", "hf:{}", "scripted:{}/nothing.jsonl", "{}/nothing"])
def test_what_is_wrong_is_said_without_a_path(choice: str, tmp_path: Path) -> None:
    ((name, open_judge),) = judge_openers([choice.format(tmp_path)]).items()
    with pytest.raises((BadInput, CheckpointError), match=name) as told:
        open_judge()
    assert str(tmp_path) not in str(told.value)


# -- what a server is told -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "variable", "chosen"),
    [
        (["--judge", "nano", "--judge", "hf:me/mine"], "oracle", ["nano", "hf:me/mine"]),
        ([], " nano, hf:me/mine\tscripted:x.jsonl,", ["nano", "hf:me/mine", "scripted:x.jsonl"]),
        ([], "nano", ["nano"]),
        ([], "", []),
    ],
)
def test_judges_are_chosen_by_option_or_variable(
    arguments: list[str], variable: str, chosen: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["app.py", *arguments])
    monkeypatch.setenv("VRTHINKER_JUDGE", variable)
    assert app.options().judge == chosen


@pytest.mark.parametrize(("gpu", "names"), [(False, ["nano (built in)"]), (True, ["qunwang13/vrthinker", "nano (built in)"])])
def test_without_a_choice_it_is_the_best_one_and_the_built_in_one(
    gpu: bool, names: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: gpu)
    assert list(judge_openers([])) == names


def test_without_a_gpu_the_built_in_judge_says_why_it_speaks() -> None:
    (open_judge,) = judge_openers([]).values()
    opened = open_judge()
    assert opened.backend.name == "nano (built in)"
    assert opened.notes[0].startswith("No GPU was found")


# -- opening -------------------------------------------------------------------------------------------------------------


def test_judges_are_opened_in_their_order_and_none_waits_for_those_after_it(opening: Open) -> None:
    go_on = threading.Event()

    def slow() -> OpenedBackend:
        go_on.wait()
        return OpenedBackend(ScriptedBackend([SECOND], name="slow"))

    judges = opening(one=speaking(FIRST, "one"), slow=slow, last=speaking(FIRST, "last"))
    assert judges.names == ("one", "slow", "last")
    assert judges.get().backend.name == judges.get("one").backend.name == "one"
    assert judges.is_loaded()
    assert (judges.is_loaded("slow"), judges.is_loaded("last")) == (False, False)
    go_on.set()
    assert judges.get("slow").backend.name == "slow"
    assert judges.get("last").backend.name == "last"


def test_settling_is_waiting_for_all_of_them(opening: Open) -> None:
    go_on = threading.Event()

    def slow() -> OpenedBackend:
        go_on.wait()
        return failing()

    judges = opening(one=speaking(FIRST, "one"), slow=slow)
    settling = threading.Thread(target=judges.wait_all, daemon=True)
    settling.start()
    until(lambda: judges.is_loaded("one"))
    settling.join(0.2)
    assert settling.is_alive()
    go_on.set()
    settling.join(5)
    assert not settling.is_alive()
    assert judges.is_loaded("slow")


@pytest.mark.parametrize("broken", [failing, lambda: sys.exit(1), lambda: OpenedBackend(*[1 / 0])])
def test_one_that_cannot_be_opened_spoils_no_other(opening: Open, broken: OpenJudge) -> None:
    judges = opening(broken=broken, whole=speaking(SECOND, "whole"))
    assert judges.get("whole").backend.name == "whole"
    depths = []
    for _ in range(3):
        with pytest.raises(CheckpointError) as told:
            judges.get()
        depths.append(len(told.traceback))
    assert len(set(depths)) == 1, "an error that is told again and again must not grow"


def test_a_name_that_is_not_offered_is_one_sentence(opening: Open) -> None:
    judges = opening(one=speaking(FIRST, "one"), two=speaking(SECOND, "two"))
    for wrong in ("three", "One", "one ", 7, ["one"], True, "x" * 999):
        with pytest.raises(BadInput, match=r"^There is no judge .{1,42} here\. Choose one, two\.$"):
            settings_form.parse_judge(wrong, judges.names)
    with pytest.raises(BadInput, match="Choose one, two"):
        judges.get("three")
    assert [settings_form.parse_judge(value, judges.names) for value in (None, "", "one", "two")] == ["one", "one", "one", "two"]


# -- runs ----------------------------------------------------------------------------------------------------------------


def test_visitors_with_different_judges_never_mix(opening: Open, pair: VideoPair, tmp_path: Path) -> None:
    judges = opening(one=speaking(FIRST, "one"), two=speaking(SECOND, "two"))
    visits = Sessions(tmp_path, judges.run_job, at_once=4)
    names = ["one", "two", "", "two", "one", "two"]
    begun = [visits.start_run(str(number), pair, Settings(), name) for number, name in enumerate(names)]
    until(lambda: all(visit.run.over for visit in begun), 60)
    for name, visit in zip(names, begun, strict=True):
        state = visit.run.state
        assert state.started is not None
        assert state.finished is not None
        assert state.finished.verdict is not None
        assert visit.judge == name
        assert state.started.judge == (name or "one")
        better = Preference.SECOND if name == "two" else Preference.FIRST
        assert state.finished.verdict.OA is better
    visits.close()
