"""The waiting room: who gets a place, and for how long."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.benchmarks.tools.numbered_clips import write_pair
from tests.benchmarks.tools.page_client import ObservedRun, PageClient, PageConfig
from tests.support.threads import run_in_thread
from tests.ui.conftest import Server
from tests.ui.support.saved_examples import SCRIPT
from vrthinker_core.ui.sessions import waiting_room
from vrthinker_core.ui.sessions.waiting_room import WaitingRoom


def test_a_run_holds_its_place_until_it_ends() -> None:
    room = WaitingRoom(1)
    assert room.join("anna")
    with room.active("anna"):
        assert not room.join("bert")
    assert room.join("bert")
    assert room.leave("bert"), "still waiting"


def test_leaving_during_the_run_gives_the_place_back() -> None:
    room = WaitingRoom(1)
    assert room.join("anna")
    with room.active("anna"):
        assert not room.leave("anna")
        assert room.join("bert")
    assert not room.join("anna"), "the end of an old run gives back no place but its own"
    assert room.leave("bert")


def test_a_place_taken_anew_outlives_the_old_run() -> None:
    room = WaitingRoom(1)
    assert room.join("anna")
    with room.active("anna"):
        assert room.join("anna")
    assert not room.join("bert")
    assert room.leave("anna")


def test_a_place_that_nobody_takes_up_is_given_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    room = WaitingRoom(3)
    assert all(map(room.join, ("queued", "gone", "lost")))
    monkeypatch.setattr(waiting_room, "CLAIM_SECONDS", -1)
    queued = {"queued"}
    for late in ("late", "later"):
        assert room.join(late, queued.__contains__)
        queued.add(late)
    assert not room.join("last", queued.__contains__)


def test_a_free_judge_takes_a_visitor_though_nobody_may_wait(
    serve: Callable[..., Server], tmp_path: Path
) -> None:
    server = serve(SCRIPT, "--at-once", "2", "--waiting", "0", protocol="paired", pause=0.02)

    async def three() -> list[ObservedRun]:
        site = await PageConfig.open(server.url)
        visitors = [PageClient(site) for _ in range(3)]
        both = await visitors[0].open_with_clips(write_pair(tmp_path, 0))
        await asyncio.gather(*(visitor.open() for visitor in visitors[1:]))
        seen = await asyncio.gather(
            *(visitor.compare(both, "A block glides.") for visitor in visitors)
        )
        await asyncio.gather(*(visitor.close() for visitor in visitors))
        return seen

    seen = run_in_thread(three())
    assert [sum(run.complete for run in seen), sum(run.busy for run in seen)] == [2, 1]


def test_a_place_is_left_by_its_number_and_no_later_one_with_it() -> None:
    room = WaitingRoom(2)
    first = room.join("anna")
    with room.active("anna") as number:
        assert number == first == room.number("anna")
    assert room.number("anna") == 0
    second = room.join("anna")
    assert second > first
    assert not room.leave("anna", first)
    assert room.number("anna") == second
    assert room.next_number() > second
    assert room.leave("anna", second)
    with room.active("anna") as number:
        assert number > second
        assert room.number("anna") == 0, "who has left has no place"
