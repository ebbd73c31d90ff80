"""A run as the API gives it: one shape, whole at every moment, and nothing filled in."""

from __future__ import annotations

import json
from typing import get_type_hints

from tests.ui.support import handmade_runs
from vrthinker_core.errors import CheckpointError
from vrthinker_core.types import Preference, Verdict
from vrthinker_core.types.events import Finished, StopReason, Trace
from vrthinker_core.ui.view.api_json import (
    FrameJson,
    LabelsJson,
    RunJson,
    TurnJson,
    refused_json,
    run_json,
)
from vrthinker_core.ui.view.run_state import RunState, fold_all


def state_of(finished: Finished) -> RunState:
    trace = handmade_runs.three_turns()
    return fold_all(Trace(trace.started, trace.turns, finished).events())


def test_missing_labels_are_not_filled_in() -> None:
    partial = Verdict(TA=Preference.FIRST, OA=Preference.TIE)
    item = run_json(
        state_of(Finished(StopReason.TURN_LIMIT, partial, provisional=True, forced=True))
    )
    assert item["labels"] == {"TA": 1, "MQ": None, "VQ": None, "OA": 0}
    assert (item["stop"], item["provisional"], item["forced"]) == ("turn limit", True, True)


def test_a_failure_keeps_the_turns() -> None:
    item = run_json(
        state_of(
            Finished(StopReason.FAILED, error="The judge stopped.", fault=CheckpointError.__name__)
        )
    )
    assert (item["stop"], item["labels"], item["error"]) == ("failed", None, "The judge stopped.")
    assert [turn["number"] for turn in item["turns"]] == [1, 2, 3]
    assert [turn["requested"] for turn in item["turns"]] == [
        [10, 30, 60, 90],
        [56, 58, 60, 62, 64, 66],
        [],
    ]


def test_the_typed_dicts_name_every_key_in_order() -> None:
    item = run_json(fold_all(handmade_runs.three_turns().events()), 4.6)
    assert list(item) == list(get_type_hints(RunJson))
    assert list(item["labels"] or ()) == list(get_type_hints(LabelsJson))
    assert list(item["turns"][0]) == list(get_type_hints(TurnJson))
    assert list(item["turns"][0]["frames"][0]) == list(get_type_hints(FrameJson))


def test_every_item_has_one_shape_and_is_json() -> None:
    whole = run_json(fold_all(handmade_runs.three_turns().events()), 4.6)
    for item in (run_json(RunState()), refused_json("No."), whole):
        assert item.keys() == whole.keys()
        assert json.loads(json.dumps(item)) == item
    assert whole["turns"][0]["frames"][0] == {
        "video": 1,
        "number": "16",
        "index": 8,
        "seconds": 8 / 24,
        "until": 9 / 24,
    }
