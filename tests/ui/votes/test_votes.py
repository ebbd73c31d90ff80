"""Votes on the page's server, without a browser: what is kept, what is hidden, and what others see."""

from __future__ import annotations

import json
import threading
from collections.abc import Generator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from tests.support.waiting import PATIENCE_S, until
from tests.test_votes import VOTE, both_orders
from tests.ui.support import handmade_runs
from vrthinker_core.errors import BadInput
from vrthinker_core.traces import from_json
from vrthinker_core.types import Preference, Settings, Verdict, VideoPair
from vrthinker_core.types.events import Event, Run, Trace
from vrthinker_core.ui.api_json import run_json
from vrthinker_core.ui.background_run import RunJob
from vrthinker_core.ui.exact_frames import ExactFrames
from vrthinker_core.ui.file_routes import DownloadRoutes
from vrthinker_core.ui.hidden_view import hide_view
from vrthinker_core.ui.html_report import inline_image, render_report
from vrthinker_core.ui.order_handlers import read_vote
from vrthinker_core.ui.page_json import view_json
from vrthinker_core.ui.page_sessions import Session, Sessions
from vrthinker_core.ui.run_state import RunState, fold_all
from vrthinker_core.ui.run_store import RunStore
from vrthinker_core.ui.shared_traces import SharedTraces
from vrthinker_core.video import DecoderPool

RUN = handmade_runs.three_turns()
PAIR = VideoPair(RUN.started.prompt, Path("a.mp4"), Path("b.mp4"))
STATE = fold_all(RUN.events())
FORM = {
    "labels": {"TA": 1, "MQ": 0, "VQ": None, "OA": 2},
    "agrees": False,
    "slots": [60],
    "note": " A jump.\ud800 ",
}


def test_the_form_becomes_a_vote_of_this_moment() -> None:
    forged = {"at": "2001-01-01T00:00:00Z", "blind": True}  # which no client decides
    vote = read_vote(FORM | forged, STATE, hidden=False)
    assert vote.labels == Verdict(TA=Preference.FIRST, MQ=Preference.TIE, OA=Preference.SECOND)
    assert (vote.agrees, vote.slots, vote.note, vote.blind) == (False, (60,), "A jump.?", False)
    assert abs(datetime.now(UTC) - vote.at) < timedelta(minutes=5)


def test_what_has_not_been_seen_is_not_agreed_with() -> None:
    vote = read_vote(FORM, STATE, hidden=True)
    assert vote.blind
    assert vote.agrees is None


def test_a_blind_vote_stays_blind_as_long_as_its_labels_do() -> None:
    state = replace(STATE, vote=read_vote(FORM, STATE, hidden=True))
    assert read_vote({**FORM, "note": "On second thought."}, state, hidden=False).blind
    assert not read_vote({**FORM, "labels": {"OA": 1}}, state, hidden=False).blind


@pytest.mark.parametrize(
    "given",
    [
        None,
        "vote",
        [],
        {},
        {"labels": {}, "note": "  "},
        {"labels": {"TA": 7}},
        {"labels": "TA=1"},
        {"note": "x" * 3000},
        {"note": {"text": "x"}},
        {"slots": [17]},
        {"slots": list(range(20))},
        {"slots": [16, 16]},
        {"agrees": "perhaps"},
    ],
    ids=str,
)
def test_what_no_form_sends_is_refused_in_a_sentence(given: Any) -> None:
    with pytest.raises(BadInput) as error:
        read_vote(given, STATE, hidden=False)
    assert str(error.value).endswith(".")
    with pytest.raises(BadInput):
        read_vote(FORM, RunState(), hidden=True)


def test_a_frame_that_only_the_second_run_showed_may_be_marked() -> None:
    second = replace(RUN.turns[0], frames=handmade_runs.pairs([17]))
    state = fold_all(
        replace(both_orders(), swapped=Run(RUN.started, (second,), RUN.finished)).events()
    )
    assert read_vote({**FORM, "slots": [17]}, state, hidden=False).slots == (17,)


def test_page_report_and_api_have_the_vote() -> None:
    voted = replace(RUN, vote=VOTE)
    state = fold_all(voted.events())
    shown = view_json(state, inline_image)["vote"]
    assert [(row["name"], row["label"], row["compared"]) for row in shown["rows"]] == [
        ("Overall", "Not said", ""),
        ("Text alignment", "Video 1", "agree"),
        ("Visual quality", "Not said", ""),
        ("Motion quality", "Video 2", "differ"),
    ]
    assert json.dumps(VOTE.note).replace("<", "\\u003c").replace(">", "\\u003e") in render_report(
        voted
    )
    said = run_json(state)["vote"]
    assert (said["labels"]["TA"], said["blind"], said["slots"]) == (1, True, [60, 16])
    assert run_json(STATE)["vote"] is None


def telling() -> Trace:
    """A run in both orders whose every word, remark and label gives the verdict away."""
    trace = both_orders()
    turns = []
    for turn in trace.turns:
        reply = replace(
            turn.reply,
            text="TELL",
            snapshot="TELL",
            think="TELL",
            verdict=handmade_runs.WHOLE,
            confidence=4,
        )
        turns.append(
            replace(
                turn,
                reply=reply,
                completion=handmade_runs.completion("TELL"),
                told="TELL",
                note="TELL",
            )
        )
    return replace(trace, turns=tuple(turns), vote=replace(VOTE, note="TELL"))


def test_a_hidden_run_holds_its_frames_and_nothing_that_tells_its_verdict() -> None:
    whole = view_json(fold_all(telling().events()), inline_image)
    hidden = hide_view(whole)
    assert [turn["tiles"] for turn in hidden["turns"]] == [turn["tiles"] for turn in whole["turns"]]
    text = json.dumps(hidden)
    for word in (
        "TELL",
        "better",
        "flips",
        "confidence 4",
        "answer",
        '"value":',
        '"verdict"',
        '"order"',
        '"vote"',
    ):
        assert word in json.dumps(whole)
        assert word not in text


# -- sessions and what others see ----------------------------------------------------------------------------------------


def play(job: RunJob) -> Generator[Event, None, None]:
    yield from RUN.events()


class Visit:
    """A server's sessions with its downloads."""

    def __init__(self, folder: Path) -> None:
        self.sessions = Sessions(folder, play)
        self.shared = SharedTraces(RunStore(folder / "shared"))
        self.pool = DecoderPool()
        self.http = TestClient(
            Starlette(
                routes=DownloadRoutes(self.sessions, self.shared, ExactFrames(self.pool)).routes()
            )
        )

    def trace(self, session: Session) -> Trace:
        return from_json(self.http.get(f"/runs/{session.name}/trace.json").content)

    def link(self, session: Session) -> str:
        return str(self.http.post(f"/runs/{session.name}/link").json()["trace"])


@pytest.fixture
def visit(tmp_path: Path) -> Generator[Visit, None, None]:
    visit = Visit(tmp_path)
    yield visit
    visit.sessions.close()
    visit.pool.close()


def test_a_vote_on_a_live_run_is_downloaded_and_shared_with_it(visit: Visit) -> None:
    session = visit.sessions.start_run("me", PAIR, Settings())
    until(lambda: session.run.over)
    before = visit.link(session)
    visit.sessions.add_vote("me", session, VOTE)
    assert visit.trace(session) == replace(RUN, vote=VOTE)
    assert visit.link(session) != before
    assert visit.shared.get(before).vote is None, "a link shows what was shared"
    assert visit.shared.get(visit.link(session)).vote == VOTE


def test_a_vote_on_a_shared_run_is_the_visitors_own(visit: Visit) -> None:
    name = visit.shared.add("0" * 24, RUN)
    mine, other = (
        visit.sessions.start_replay(who, visit.shared.get(name), name) for who in ("me", "you")
    )
    visit.sessions.add_vote("me", mine, VOTE)
    assert visit.trace(mine).vote == VOTE
    assert visit.trace(other).vote is None
    assert visit.shared.get(name).vote is None
    assert visit.link(other) == name
    assert visit.shared.get(visit.link(mine)).vote == VOTE


def test_a_vote_for_a_run_that_is_not_shown_any_more_is_refused(visit: Visit) -> None:
    old = visit.sessions.start_replay("me", RUN)
    visit.sessions.start_replay("me", RUN)
    with pytest.raises(BadInput):
        visit.sessions.add_vote("me", old, VOTE)


def test_a_vote_while_the_run_goes_on_outlives_its_end(tmp_path: Path) -> None:
    go_on = threading.Event()

    def wait_in_the_middle(job: RunJob) -> Generator[Event, None, None]:
        events = list(RUN.events())
        yield from events[:8]
        go_on.wait(PATIENCE_S)
        yield from events[8:]

    sessions = Sessions(tmp_path, wait_in_the_middle)
    session = sessions.start_run("me", PAIR, Settings())
    until(lambda: bool(session.run.state.turns))
    sessions.add_vote("me", session, VOTE)
    assert sessions.get("me") is session, "the page goes on to show it"
    go_on.set()
    until(lambda: session.run.over)
    assert session.run.state == replace(STATE, vote=VOTE)
    sessions.close()
