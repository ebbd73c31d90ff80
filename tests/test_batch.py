"""Many pairs at once: each has the events of its own run, and each has its end."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.support.engines import BatchScript
from tests.support.file_limit import open_file_limit
from tests.support.small_clips import write_clip
from tests.support.threads import threads_started
from tests.support.waiting import PATIENCE_S, until_equal
from tests.test_judge import ANSWER, CALL
from vrthinker_core.backends import ScriptedBackend
from vrthinker_core.backends.base import GenerationRequest, StreamItem
from vrthinker_core.errors import BackendFailed, BadInput
from vrthinker_core.runner import judge, judge_many
from vrthinker_core.types import Settings, VideoPair
from vrthinker_core.types.events import Event, Finished, StopReason, TextArrived, TurnEnded
from vrthinker_core.types.messages import Message


def test_wrong_arguments_are_refused_when_they_are_given(pair: VideoPair) -> None:
    backend: Any = ScriptedBackend([ANSWER])
    name = r"^'nano' is only the name of a judge: open it first, with open_backend\('nano'\)\.$"
    many = Settings(frames_per_call=12, protocol="concat")  # It takes eight
    wrong: dict[str, tuple[Any, ...]] = {
        name: ("nano",),
        "Frames per call": (backend, many),
        "is no Settings": (backend, {"seed": 1}),
    }
    for told, arguments in wrong.items():
        for ask in (partial(judge, pair), partial(judge_many, [pair])):
            with pytest.raises(BadInput, match=told):
                ask(*arguments)
    many_at_a_time: tuple[Any, ...] = (0, -1, 2.5)
    for live in many_at_a_time:
        with pytest.raises(BadInput, match=f"live={live} is no number of pairs"):
            judge_many([pair], backend, live=live)
    for ask, nothing in ((judge, pair.first), (judge_many, pair), (judge_many, "a.mp4")):
        with pytest.raises(BadInput, match="pair"):
            ask(nothing, backend)


def test_pairs_that_come_when_no_file_can_be_opened_have_their_ends(pair: VideoPair) -> None:
    backend = ScriptedBackend([ANSWER])
    list(judge_many([pair], backend))
    with open_file_limit():
        events = list(judge_many([pair] * 3, backend))
    ends = {position: event for position, event in events if isinstance(event, Finished)}
    assert [ends[position].fault for position in range(3)] == ["VideoUnavailable"] * 3
    assert "Too many files are open: " in ends[2].error


def timeless(events: Iterable[Event]) -> list[Event]:
    """Events without the one thing that differs between equal runs."""
    return [replace(event, seconds=0) if isinstance(event, Finished) else event for event in events]


@pytest.mark.parametrize("kind", [ScriptedBackend, BatchScript], ids=["one by one", "in a batch"])
def test_a_batch_gives_each_pair_the_events_of_its_own_run(
    tmp_path: Path, pair: VideoPair, kind: type[ScriptedBackend]
) -> None:
    """Pairs that end at different turns, one whose file is no video, one whose judge dies."""
    (tmp_path / "empty.mp4").touch()
    three = write_clip(tmp_path / "three.mp4", frames=8)
    pairs = [
        *(pair, replace(pair, prompt="fails"), replace(pair, second=tmp_path / "empty.mp4")),
        *(replace(pair, second=three), replace(pair, prompt="quick"), pair),
    ]

    def script(messages: Sequence[Message]) -> str | BackendFailed:
        if "fails" in messages[1].text:
            return BackendFailed("The model's process ended.")
        return CALL if len(messages) == 2 and "quick" not in messages[1].text else ANSWER

    together: dict[int, list[Event]] = {}
    for position, event in judge_many(iter(pairs), kind(script), live=3):
        together.setdefault(position, []).append(event)
    assert sorted(together) == list(range(len(pairs)))
    for position, one in enumerate(pairs):
        assert timeless(together[position]) == timeless(judge(one, ScriptedBackend(script)))


def test_a_batch_that_stops_ends_every_pair_that_still_waits(pair: VideoPair) -> None:
    class Broken(BatchScript):
        def stream_batch(
            self, requests: Sequence[GenerationRequest]
        ) -> Iterator[tuple[int, StreamItem]]:
            yield 0, "half a re"
            raise BackendFailed("The machine is gone.")

    events = judge_many([pair, pair], Broken([ANSWER]))
    ends = [(end.stop, end.error) for _, end in events if isinstance(end, Finished)]
    assert ends == [(StopReason.FAILED, "The machine is gone.")] * 2


def test_a_pair_that_is_done_ends_while_others_are_still_generating(pair: VideoPair) -> None:
    long, other = f"<Think>{'long ' * 200}</Think>{ANSWER}", replace(pair, prompt="Another prompt.")

    def script(messages: Sequence[Message]) -> str:
        return ANSWER if "Another" in messages[1].text else long

    events = list(judge_many([pair, other], BatchScript(script, pause=0.005), live=2))
    ends = (n for n, (_, event) in enumerate(events) if isinstance(event, Finished))
    later = events[next(ends) :]
    assert later[0][0] == 1
    assert any(position == 0 and isinstance(event, TextArrived) for position, event in later)


def test_no_pair_waits_for_the_slowest_reply_of_all(pair: VideoPair) -> None:
    """The quick pair has three turns, all while the first reply of the other one is being written."""
    let_go, other = threading.Event(), replace(pair, prompt="Another prompt.")

    def script(messages: Sequence[Message]) -> str:
        if "Another" in messages[1].text:
            return CALL.replace("[10", f"[{len(messages)}") if len(messages) < 6 else ANSWER
        assert let_go.wait(PATIENCE_S)
        return ANSWER

    ends = []
    for position, event in judge_many([pair, other], ScriptedBackend(script), live=2):
        if isinstance(event, Finished):
            ends.append((position, event.stop))
            let_go.set()
    assert ends == [(1, StopReason.ANSWERED), (0, StopReason.ANSWERED)]


def test_who_stops_listening_leaves_no_thread_behind(pair: VideoPair) -> None:
    with threads_started() as started:
        events = judge_many([pair] * 4, BatchScript([CALL, ANSWER]), live=2)
        next(event for event in events if isinstance(event[1], TurnEnded))
        events.close()
    assert started
    until_equal(lambda: [thread.name for thread in started if thread.is_alive()], [])


def test_a_batch_is_cancelled_as_a_whole(pair: VideoPair) -> None:
    flag = threading.Event()
    stops = []
    for _, event in judge_many([pair] * 3, BatchScript([ANSWER]), cancelled=flag.is_set):
        if isinstance(event, TextArrived):
            flag.set()
        if isinstance(event, Finished):
            stops.append(event.stop)
    assert stops == [StopReason.CANCELLED] * 3
