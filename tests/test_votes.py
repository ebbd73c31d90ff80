"""Votes in traces: kept after the end of a run, read back the same, refused when they cannot be."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import reduce
from pathlib import Path
from typing import Any

import pytest

from tests.test_cli import run as run_command
from tests.test_traces import changed
from tests.ui.support import handmade_runs
from vrthinker_core.errors import TraceError
from vrthinker_core.traces import from_json, to_json
from vrthinker_core.types import Preference, Verdict, Vote
from vrthinker_core.types.events import Swapped, Voted, add_event

AT = datetime(2026, 11, 22, 9, 30, tzinfo=UTC)
LABELS = Verdict(TA=Preference.FIRST, MQ=Preference.SECOND)
VOTE = Vote(AT, LABELS, True, (60, 16), "Video 2 jumps — see #60 <b>.", blind=True)
RUN = handmade_runs.three_turns()
BOTH_ORDERS = replace(handmade_runs.both_orders(), vote=VOTE)


def test_the_last_vote_counts_and_its_place_among_the_events_does_not() -> None:
    trace = BOTH_ORDERS
    events = list(trace.events())
    assert events[-1] == Voted(VOTE)
    earlier = Voted(replace(VOTE, note="before the order was checked"))
    at = next(number for number, event in enumerate(events) if isinstance(event, Swapped))
    live = [*events[:at], earlier, *events[at:]]
    told = reduce(add_event, live, None)
    assert told == trace == from_json(to_json(trace))
    assert told.with_event(earlier).vote == earlier.vote


MALFORMED = [
    ([], "yes"),
    *((["at"], time) for time in ("yesterday", "2026-11-22T09:30:00", 10**30)),
    (["labels", "TA"], 3),
    (["agrees"], "perhaps"),
    *((["slots"], slots) for slots in ([17], [60, 60], list(range(5000)))),
    *((["note"], note) for note in ("x" * 100_000, None)),
]


@pytest.mark.parametrize(("where", "value"), MALFORMED, ids=str)
def test_a_malformed_vote_is_refused_in_one_sentence(where: list[str], value: Any) -> None:
    with pytest.raises(TraceError) as error:
        from_json(changed(to_json(replace(RUN, vote=VOTE)), ["vote", *where], value))
    assert re.fullmatch(r"(?!.*Value error).{,299}", str(error.value))


def test_a_blind_vote_opens_also_where_the_run_was_cut_off(tmp_path: Path) -> None:
    """With "Vote first" on a person votes while the judge still looks, and then the server may die."""
    cut_off = replace(RUN, finished=None, vote=replace(VOTE, agrees=None, blind=True))
    assert from_json(to_json(cut_off)) == cut_off
    (tmp_path / "run.json").write_bytes(to_json(cut_off))
    said = run_command("replay", tmp_path / "run.json")
    assert said.returncode == 3
    assert VOTE.note in said.stdout


def test_replay_prints_the_vote_and_the_labels_stay_the_judges(tmp_path: Path) -> None:
    voted = replace(BOTH_ORDERS, vote=replace(VOTE, at=AT + timedelta(hours=1)))
    (tmp_path / "run.json").write_bytes(to_json(voted))
    said = run_command("replay", tmp_path / "run.json")
    assert said.returncode == 0
    vote = said.stdout.partition("Vote of a person, before they saw the verdict")[2]
    assert "Text alignment  video 1     agrees" in vote
    assert "Motion quality  video 2     differs" in vote
    assert VOTE.note in vote
    labels = json.loads(run_command("replay", tmp_path / "run.json", "--json").stdout)
    assert (labels["TA"], labels["MQ"], labels["order"]["OA"]) == (1, 0, "flips")
