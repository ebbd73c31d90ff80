"""The judge's line: who begins, who waits, who is refused, and what nobody collects."""

import json
import time
import urllib.request
from pathlib import Path

import pytest

from tests.support.waiting import PATIENCE_S, until
from tests.ui.conftest import Clips, Serve
from tests.ui.support import api
from tests.ui.support.saved_examples import ENDLESS, PROMPT
from vrthinker_core.errors import BadInput
from vrthinker_core.ui import words
from vrthinker_core.ui.queue import JudgeQueue

WAITING = 2


def test_each_device_takes_as_many_runs_as_it_may_in_the_order_they_came() -> None:
    places = {"here": ("local", 1), "also here": ("local", 1), "far": ("server", 2)}
    queue = JudgeQueue(place=places.__getitem__)
    judges = {"a": "here", "b": "also here", "c": "far", "d": "here", "e": "far", "f": "far"}
    for run, judge in judges.items():
        queue.join(run, judge)
    assert [run for run in reversed(judges) if queue.take(run)] == ["e", "c", "a"]
    assert [queue.before(run) for run in ("b", "d", "f")] == [1, 2, 2]
    assert queue.counts() == (3, 3)
    queue.leave("b")  # which was stopped as it waited
    assert not queue.take("d")
    queue.leave("a")
    assert [run for run in ("f", "d") if queue.take(run)] == ["d"]
    queue.leave("e")
    assert queue.take("f")


@pytest.mark.parametrize(("width", "waiting"), [(1, 0), (2, 0), (1, 2), (3, 1)])
def test_a_device_is_waited_for_by_so_many_and_no_more(width: int, waiting: int) -> None:
    queue = JudgeQueue(waiting, lambda judge: (judge, width))
    for run in range(width + waiting):
        queue.join(run, "here")
    for begun in range(width):
        with pytest.raises(BadInput, match=words.BUSY):
            queue.join("late", "here")
        assert queue.take(begun)
    queue.join("elsewhere", "another device")
    queue.leave(0)
    queue.join("late", "here")


def test_a_run_whose_judge_is_still_loading_lets_others_pass_and_keeps_its_place() -> None:
    loaded = {"quick"}
    queue = JudgeQueue(is_loaded=loaded.__contains__)
    for run, judge in {"a": "slow", "b": "quick", "c": "quick"}.items():
        queue.join(run, judge)
    assert [run for run in ("a", "b", "c") if queue.take(run)] == ["b"]
    loaded.add("slow")
    queue.leave("b")
    assert [run for run in ("c", "a") if queue.take(run)] == ["a"]


def test_a_full_line_holds_up_nothing(serve: Serve, examples: Path, clips: Clips) -> None:
    options = ("--waiting", str(WAITING), "--examples", str(examples))
    server = serve([ENDLESS], *options, protocol="paired", pause=0.4)
    values, (compare, inputs) = [*api.uploaded(server, clips), PROMPT], api.compare_inputs(server)
    (folder,) = server.folder.glob("vr-thinker-page-*")
    program = api.client(server)  # made once: it reads all of the page's configuration

    def counts() -> tuple[int, int]:
        """How many comparisons run, and how many wait; asked for a few times a second."""
        time.sleep(0.3)
        found = program.predict(api_name="/health")
        return found["judging"], found["waiting"]

    with urllib.request.urlopen(api.begin(server, *values), timeout=PATIENCE_S) as stream:
        words_of_the_judge = (line for line in stream if b"on and on" in line)
        assert next(words_of_the_judge)
        api.join(server, compare, [*values, *[None] * (len(inputs) - 3)], "nobody's page")
        for _ in range(WAITING - 1):  # the run of nobody's page waits, too
            api.begin(server, *values)
        until(lambda: counts() == (1, WAITING))
        body = json.dumps({"data": values}).encode()
        status, said = api.ask(server, "POST", "gradio_api/call/compare", body)
        assert (status, words.BUSY in said) == (503, True)
        for page in ("", "?trace=a-block", "config"):
            assert api.ask(server, "GET", page)[0] == 200
        for event in api.config(server)["dependencies"]:
            if event["outputs"] and "load" in (trigger for _, trigger in event["targets"]):
                assert api.act(server, event["id"], [])["data"], "the page loads"
        for side in ("first", "second"):
            event, _ = api.find_event(server, side, "upload")
            arrived = api.act(server, event, [api.file(api.upload(server, clips[0]))])
            assert arrived["data"], "a video arrives"
        assert counts()[1] > 0, "all this while others wait"
        until(lambda: counts() == (1, 0))
        assert next(words_of_the_judge), "a call that is collected goes on"
    until(lambda: counts() == (0, 0) and not api.files(folder / "records"))
