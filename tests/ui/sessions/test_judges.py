"""Several judges behind one page: their names, how they are opened, and which one does which run."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

import app
from tests.support.waiting import PATIENCE_S, until
from tests.ui.conftest import write_script
from vrthinker_core.backends import Backend, ScriptedBackend
from vrthinker_core.errors import BadInput, CheckpointError
from vrthinker_core.types import Preference, Settings, VideoPair
from vrthinker_core.ui import settings_form
from vrthinker_core.ui.judge_loader import JudgeLoader, OpenJudge, judge_openers
from vrthinker_core.ui.page_sessions import Sessions

FIRST = "<Answer>TA=1, MQ=0, VQ=2, OA=1</Answer>"
SECOND = "<Answer>TA=2, MQ=2, VQ=2, OA=2</Answer>"

LoadJudges = Callable[..., JudgeLoader]


def scripted(reply: str, name: str) -> OpenJudge:
    return lambda: ScriptedBackend([reply], name=name)


@pytest.fixture
def load_judges() -> Iterator[LoadJudges]:
    """Makes loaders of the given judges, by name; all are closed at the end."""
    started: list[JudgeLoader] = []

    def start(**judges: OpenJudge) -> JudgeLoader:
        started.append(JudgeLoader(judges))
        return started[-1]

    yield start
    for loader in started:
        loader.close()


def failing() -> Backend:
    raise CheckpointError("There is no such checkpoint.")


# -- names ---------------------------------------------------------------------------------------------------------------


def test_names_are_distinct_and_contain_no_path(tmp_path: Path) -> None:
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
    numbered = ["hf:/x/a 2", "hf:/x/a", "hf:/y/a", "hf:/z/a"]
    assert list(judge_openers(numbered)) == ["a 2", "a", "a 3", "a 4"]


def test_a_backend_has_the_name_that_the_page_shows(tmp_path: Path) -> None:
    scripts = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        scripts.append(write_script(tmp_path / name / "script.jsonl", [FIRST], name="of its own"))
    judges = judge_openers(scripts)
    assert (
        [open_judge().name for open_judge in judges.values()]
        == list(judges)
        == ["script", "script 2"]
    )


@pytest.mark.parametrize(
    "choice", ["hf:{}/nothing", "hf:{}", "scripted:{}/nothing.jsonl", "{}/nothing"]
)
def test_errors_name_the_judge_and_no_path(choice: str, tmp_path: Path) -> None:
    ((name, open_judge),) = judge_openers([choice.format(tmp_path)]).items()
    with pytest.raises((BadInput, CheckpointError), match=name) as raised:
        open_judge()
    assert str(tmp_path) not in str(raised.value)


# -- which judges a server offers ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "variable", "chosen"),
    [
        (["--judge", "nano", "--judge", "hf:me/mine"], "oracle", ["nano", "hf:me/mine"]),
        ([], " nano, hf:me/mine\tscripted:x.jsonl,", ["nano", "hf:me/mine", "scripted:x.jsonl"]),
        ([], "nano", ["nano"]),
        ([], "", []),
    ],
)
def test_judges_are_chosen_by_option_or_environment_variable(
    arguments: list[str], variable: str, chosen: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["app.py", *arguments])
    monkeypatch.setenv("VRTHINKER_JUDGE", variable)
    assert app.options().judge == chosen


@pytest.mark.parametrize(
    ("gpu", "names"),
    [(False, ["nano (built in)"]), (True, ["qunwang13/vrthinker", "nano (built in)"])],
)
def test_without_a_choice_the_best_judge_and_the_built_in_one_are_offered(
    gpu: bool, names: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: gpu)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (24 * 2**30, 24 * 2**30))
    assert list(judge_openers([])) == names


def test_without_a_gpu_the_built_in_judge_notes_why_it_was_chosen() -> None:
    (open_judge,) = judge_openers([]).values()
    opened = open_judge()
    assert opened.name == "nano (built in)"
    assert opened.notes[0].startswith("Neither a GPU with room")


# -- load_judges -------------------------------------------------------------------------------------------------------------


def test_judges_open_in_order_and_each_is_ready_before_the_next(load_judges: LoadJudges) -> None:
    go_on = threading.Event()

    def slow() -> Backend:
        go_on.wait()
        return ScriptedBackend([SECOND], name="slow")

    judges = load_judges(one=scripted(FIRST, "one"), slow=slow, last=scripted(FIRST, "last"))
    assert judges.names == ("one", "slow", "last")
    assert judges.get().name == judges.get("one").name == "one"
    assert judges.is_loaded()
    assert (judges.is_loaded("slow"), judges.is_loaded("last")) == (False, False)
    go_on.set()
    assert judges.get("slow").name == "slow"
    assert judges.get("last").name == "last"


def test_wait_all_waits_for_every_judge(load_judges: LoadJudges) -> None:
    go_on = threading.Event()

    def slow() -> Backend:
        go_on.wait()
        return failing()

    judges = load_judges(one=scripted(FIRST, "one"), slow=slow)
    waiting = threading.Thread(target=judges.wait_all, daemon=True)
    waiting.start()
    until(lambda: judges.is_loaded("one"))
    waiting.join(0.2)
    assert waiting.is_alive()
    go_on.set()
    waiting.join(PATIENCE_S)
    assert not waiting.is_alive()
    assert judges.is_loaded("slow")


@pytest.mark.parametrize(
    "broken", [failing, lambda: sys.exit(1), lambda: ScriptedBackend(*[1 / 0])]
)
def test_a_judge_that_cannot_be_opened_leaves_the_others_alone(
    load_judges: LoadJudges, broken: OpenJudge
) -> None:
    judges = load_judges(broken=broken, whole=scripted(SECOND, "whole"))
    assert judges.get("whole").name == "whole"
    depths = []
    for _ in range(3):
        with pytest.raises(CheckpointError) as raised:
            judges.get()
        depths.append(len(raised.traceback))
    assert len(set(depths)) == 1, "an error that is raised again and again must not grow"


def test_an_unknown_name_is_one_sentence(load_judges: LoadJudges) -> None:
    judges = load_judges(one=scripted(FIRST, "one"), two=scripted(SECOND, "two"))
    for wrong in ("three", "One", "one ", 7, ["one"], True, "x" * 999):
        with pytest.raises(BadInput, match=r"^There is no judge .{1,42} here\. Choose one, two\.$"):
            settings_form.parse_judge(wrong, judges.names)
    with pytest.raises(BadInput, match="Choose one, two"):
        judges.get("three")
    assert [
        settings_form.parse_judge(value, judges.names) for value in (None, "", "one", "two")
    ] == ["one", "one", "one", "two"]
    assert settings_form.parse_judge("nano", ["one", "nano (built in)"]) == "nano (built in)"


def test_a_judge_is_chosen_by_its_whole_name_also_where_another_ones_short_name_is_the_same(
    load_judges: LoadJudges,
) -> None:
    judges = load_judges(
        **{"nano (built in)": scripted(FIRST, "nano (built in)"), "nano": scripted(SECOND, "nano")}
    )
    assert [settings_form.parse_judge(name, judges.names) for name in judges.names] == [
        "nano (built in)",
        "nano",
    ]
    assert [judges.get(name).name for name in judges.names] == ["nano (built in)", "nano"]
    assert [judges.find(name) for name in judges.names] == ["nano (built in)", "nano"]


# -- runs ----------------------------------------------------------------------------------------------------------------


def test_runs_with_different_judges_never_mix(
    load_judges: LoadJudges, pair: VideoPair, tmp_path: Path
) -> None:
    judges = load_judges(one=scripted(FIRST, "one"), two=scripted(SECOND, "two"))
    sessions = Sessions(tmp_path, judges.run_job, at_once=4)
    names = ["one", "two", "", "two", "one", "two"]
    started = [
        sessions.start_run(str(number), pair, Settings(), name) for number, name in enumerate(names)
    ]
    until(lambda: all(session.run.over for session in started))
    for name, session in zip(names, started, strict=True):
        state = session.run.state
        assert session.judge == name
        assert state.started.judge == (name or "one")
        better = Preference.SECOND if name == "two" else Preference.FIRST
        assert state.finished.verdict.OA is better
    sessions.close()
