"""What waits in the queue, who is served beside it, and what becomes of a call that nobody collects."""

from __future__ import annotations

import json
import os
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.threads import run_in_thread
from tests.support.waiting import PATIENCE_S, until
from tests.ui.conftest import Clips, Serve, Server, write_script
from tests.ui.sessions.test_sessions import files
from tests.ui.support.api import answers, begin, client, file, upload, uploaded
from tests.ui.support.page_events import act, comparing, config, join
from tests.ui.support.saved_examples import ENDLESS, PROMPT
from vrthinker_core.ui.gradio_blocks import LimitedQueue, SessionMessages

WAITING = 2


@pytest.fixture(scope="module")
def server(serve: Serve, examples: Path) -> Server:
    """One judge that never ends, and two places to wait for it."""
    options = ("--waiting", str(WAITING), "--examples", str(examples))
    return serve([ENDLESS], *options, protocol="paired", pause=0.05)


@pytest.fixture
def full(server: Server, clips: Clips) -> Iterator[list[Any]]:
    """Two videos, at a time when the queue is full of calls that nobody collects."""
    videos = uploaded(server, clips)
    with pytest.raises(urllib.error.HTTPError) as refused:
        any(not begin(server, *videos, PROMPT) for _ in range(WAITING + 9))
    assert refused.value.code == 503
    sentence = json.loads(refused.value.read())["detail"]
    assert sentence.startswith("Queue is full")
    assert sentence.endswith(".")
    yield videos
    until(lambda: counts(server) == (0, 0))


def counts(server: Server) -> tuple[int, int]:
    """How many comparisons run, and how many wait."""
    found = client(server).predict(api_name="/health")
    return found["judging"], found["waiting"]


def events(server: Server, trigger: str, of: str | None = None) -> list[dict[str, Any]]:
    """The page's events with outputs that such a trigger sets off, on a component of the type `of`."""
    page = config(server)
    types = {component["id"]: component["type"] for component in page["components"]}
    targets = [
        (event, target)
        for event in page["dependencies"]
        if event["outputs"]
        for target in event["targets"]
    ]
    found = [
        event
        for event, (component, name) in targets
        if name == trigger and types.get(component) == of
    ]
    assert found
    return found


# -- a full queue ---------------------------------------------------------------------------------------------------------


def test_a_full_queue_holds_up_nothing_else_and_calls_that_nobody_collects_are_dropped(
    server: Server, full: list[Any], clips: Clips
) -> None:
    assert counts(server) in {(1, WAITING), (1, WAITING + 1)}, (
        "one more, where the first had begun before the last one came"
    )
    for page in ("", "?trace=a-block", "config"):
        assert urllib.request.urlopen(server.url + page, timeout=PATIENCE_S).status == 200
    for event in events(server, "load"):
        assert act(server, event["id"], [])["data"], "the page loads"
    for event in events(server, "upload", of="video"):
        assert act(server, event["id"], [file(upload(server, clips[0]))])["data"], "a video arrives"
    assert counts(server)[1] > 0, "all this while others wait"
    until(lambda: counts(server) == (0, 0))


def test_a_call_that_is_collected_goes_on(server: Server, full: list[Any]) -> None:
    """Also while it waits for longer than an uncollected one is kept."""
    until(lambda: counts(server)[1] < WAITING + 1)
    with urllib.request.urlopen(begin(server, *full, PROMPT), timeout=PATIENCE_S) as stream:
        lines = (line for line in stream if line.startswith(b"data: [") and b"on and on" in line)
        assert next(lines)
        assert counts(server) == (1, 0)


def test_a_run_ends_whose_page_was_left_before_it_began(server: Server, clips: Clips) -> None:
    """Its heartbeat ends at once, and its stream is never opened."""
    (folder,) = server.folder.glob("vr-thinker-page-*")
    pictures, records = folder / "pictures", folder / "records"
    until(
        lambda: not files(records)
    )  # a run's files go once its judge has stopped, after it has left the queue
    before = sorted(files(pictures))
    event, inputs = comparing(server)
    videos = uploaded(server, clips)
    with urllib.request.urlopen(f"{server.url}gradio_api/heartbeat/bert", timeout=PATIENCE_S):
        join(server, event, [*videos, PROMPT, *[None] * (inputs - 3)], "bert")
    until(lambda: sorted(files(pictures)) != before and files(records))
    until(lambda: not files(records))
    assert sorted(files(pictures)) == before
    assert counts(server) == (0, 0)


def test_an_event_that_began_just_after_its_session_was_forgotten_is_dropped() -> None:
    async def dropped() -> list[str]:
        abandoned: list[str] = []
        queue = LimitedQueue(None, "judge", WAITING, lambda _: None, abandoned.append)
        for session_id in ("collected", "forgotten"):
            queue.event_ids_to_events[session_id] = SimpleNamespace(session_hash=session_id)
        queue.pending_messages_per_session["collected"] = SessionMessages()
        await queue.drop_uncollected()
        return abandoned

    assert run_in_thread(dropped()) == ["forgotten"]


# -- judges that are still being loaded -----------------------------------------------------------------------------------


def test_a_run_that_waits_for_its_judge_to_be_loaded_leaves_its_place_to_others(
    serve: Serve, clips: Clips, tmp_path: Path
) -> None:
    answer = "<Answer>TA=1, MQ=0, VQ=2, OA=1</Answer>"
    slow, script = tmp_path / "slow.jsonl", tmp_path / "whole.jsonl"
    write_script(script, [answer], protocol="paired")
    os.mkfifo(slow)
    server = serve([answer], "--judge", f"scripted:{slow}", "--at-once", "1", protocol="paired")
    videos = uploaded(server, clips)
    url = begin(server, *videos, "The slow one.", "slow")
    with urllib.request.urlopen(url, timeout=PATIENCE_S) as stream:
        assert next(line for line in stream if line.startswith(b"data: ["))
        assert answers(server, *videos, "The quick one.")[-1]["stop"] == "answered"
        assert counts(server) == (0, 1)
        slow.write_bytes(script.read_bytes())
        last = [line for line in stream if line.startswith(b"data: [")][-1]
    assert json.loads(last[6:])[0]["stop"] == "answered"
    assert counts(server) == (0, 0)
