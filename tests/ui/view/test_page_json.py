"""What page and API are given: live and replayed runs look the same, text stays text, and nothing is invented."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.ui.support import handmade_runs
from vrthinker_core.errors import CheckpointError
from vrthinker_core.types import (
    FrameRef,
    FrameSelection,
    Preference,
    Problem,
    ProblemKind,
    Reply,
    Side,
    Thumbnail,
    Verdict,
)
from vrthinker_core.types.events import Branch, Finished, FramesShown, Origin, StopReason, Trace
from vrthinker_core.types.messages import Completion
from vrthinker_core.ui.api_json import (
    FrameJson,
    LabelsJson,
    RunJson,
    TurnJson,
    refused_json,
    run_json,
)
from vrthinker_core.ui.page_json import status_line, view_json
from vrthinker_core.ui.run_state import RunState, fold_all
from vrthinker_core.ui.tiles import ImageSource, group_tiles, seek_time, timeline_position
from vrthinker_core.ui.words import CHECK_BRANCH, CONFIDENCE_HELP, OWN_CONFIDENCE_HELP

ATTACKS = [
    "<img src=x onerror=alert(1)>",
    "${alert(1)}",
    "</script><script>alert(1)</script>",
    "`${1}`",
    "\u202eright to left",
    "{{value}}",
    "x" * 1_000_000,
]


def image_of(frame: Thumbnail) -> ImageSource:
    return ImageSource(f"frames/{frame.ref.side}-{frame.ref.slot}.jpg", 96, 96)


def view_of(trace: Trace) -> Any:
    return view_json(fold_all(trace.events()), image_of)


@given(st.integers(0, 40))
def test_every_moment_of_a_live_run_can_be_shown(moment: int) -> None:
    state = fold_all(list(handmade_runs.three_turns().events())[:moment])
    json.dumps(view_json(state, image_of), allow_nan=False)
    assert status_line(state, 1.5)


def test_a_turn_with_frames_and_no_text_yet_is_shown() -> None:
    events = list(handmade_runs.three_turns().events())
    first = next(
        position for position, event in enumerate(events) if isinstance(event, FramesShown)
    )
    turn = view_json(fold_all(events[: first + 1]), image_of)["turns"][0]
    assert [tile["label"] for tile in turn["tiles"]] == ["#16", "#48", "#80", "#112"]
    assert turn["parts"] == []
    assert turn["live"]


def test_an_unfinished_reply_is_shown_raw_or_as_it_is_read() -> None:
    events = list(handmade_runs.three_turns().events())
    state = fold_all(events[:4])
    assert view_json(state, image_of)["turns"][0]["parts"] == [["Writing", "noted 1; thought"]]
    parts = view_json(state, image_of, lambda text: Reply(text, snapshot=text.upper()))["turns"][0][
        "parts"
    ]
    assert parts == [["Snapshot", "NOTED 1; THOUGHT"]]


def test_an_answered_run_shows_verdict_and_turns() -> None:
    view = view_of(handmade_runs.three_turns())
    assert view["verdict"]["headline"] == "Video 1 is better overall"
    assert [(chip["name"], chip["label"]) for chip in view["verdict"]["chips"]] == [
        ("Overall", "Video 1"),
        ("Text alignment", "Video 1"),
        ("Visual quality", "Video 2"),
        ("Motion quality", "No difference found"),
    ]
    assert view["verdict"]["note"] == "not swap-tested"
    assert view["verdict"]["caveats"] == []
    assert view["ending"] == ""
    assert [turn["state"] for turn in view["turns"]] == [
        "4 frame pairs · asked for 4 more",
        "4 frame pairs · asked for 6 more",
        "6 frame pairs · final answer",
    ]
    assert view["turns"][0]["parts"][2] == ["Tool call", "select_frames([10, 30, 60, 90])"]
    assert view["turns"][0]["foot"].startswith("312 in · ")


def test_frames_that_left_the_window_are_marked() -> None:
    turns = view_of(handmade_runs.three_turns())["turns"]
    gone = [
        [
            tile["label"]
            for tile in turn["tiles"]
            if any(half.get("gone") for half in tile["halves"])
        ]
        for turn in turns
    ]
    assert gone == [[], ["#10", "#30", "#90"], []]  # 60 came back in the third turn


@pytest.mark.parametrize("stop", list(StopReason))
def test_no_verdict_is_invented(stop: StopReason) -> None:
    trace = replace(handmade_runs.three_turns(), finished=Finished(stop, error="Why. What to do."))
    view = view_of(trace)
    assert view["verdict"]["headline"].startswith("No verdict")
    assert view["verdict"]["chips"] == []
    assert len(view["turns"]) == 3
    assert not any(turn["live"] for turn in view["turns"])
    assert status_line(fold_all(trace.events()), 9)


def test_a_partial_verdict_is_never_shown_as_whole() -> None:
    partial = Verdict(TA=Preference.FIRST, VQ=Preference.TIE)
    view = view_of(
        replace(handmade_runs.three_turns(), finished=Finished(StopReason.NO_ANSWER, partial))
    )
    assert view["verdict"]["headline"] == "No overall verdict"
    assert [chip["label"] for chip in view["verdict"]["chips"]] == [
        "Not said",
        "Video 1",
        "No difference found",
        "Not said",
    ]
    assert "Incomplete" in view["verdict"]["caveats"][0]


def test_forced_and_provisional_answers_have_caveats() -> None:
    caveats = view_of(
        replace(
            handmade_runs.three_turns(),
            finished=Finished(StopReason.TURN_LIMIT, handmade_runs.WHOLE, True, True),
        )
    )["verdict"]["caveats"]
    assert len(caveats) == 2
    assert "Provisional" in caveats[0]


@pytest.mark.parametrize("attack", ATTACKS)
def test_text_stays_text_byte_for_byte(attack: str) -> None:
    reply = Reply(attack, attack, attack, problems=(Problem(ProblemKind.NO_ACTION, attack),))
    turn = replace(
        handmade_runs.three_turns().turns[0],
        completion=handmade_runs.completion(attack, 4096),
        reply=reply,
    )
    finished = Finished(StopReason.FAILED, error=attack)
    view = view_of(Trace(handmade_runs.started(prompt=attack, notes=(attack,)), (turn,), finished))
    assert view["prompt"] == view["notes"][0] == view["ending"] == attack
    assert [text for _, text in view["turns"][0]["parts"]] == [attack] * 3
    assert view["turns"][0]["remarks"] == [attack]


def test_an_unreadable_reply_is_shown_as_it_came() -> None:
    turn = replace(
        handmade_runs.three_turns().turns[0], completion=Completion("mumble"), reply=Reply("mumble")
    )
    assert view_of(Trace(handmade_runs.started(), (turn,)))["turns"][0]["parts"] == [
        ["Reply as it came", "mumble"]
    ]


def test_what_a_stopped_turn_had_written_is_shown_once() -> None:
    text = "<Snapshot>A ball.</Snapshot><Think>It ro"
    turn = replace(
        handmade_runs.three_turns().turns[0],
        completion=Completion(text, "cancelled"),
        reply=Reply(text, "A ball.", "It ro"),
    )
    assert view_of(Trace(handmade_runs.started(), (turn,)))["turns"][0]["parts"] == [
        ["Snapshot", "A ball."],
        ["Think", "It ro"],
    ]


def test_ignored_requests_are_remarks_of_their_turn() -> None:
    wants = FrameSelection((5,), dropped=(140, 151, "x"), asked=6)
    turn = replace(handmade_runs.three_turns().turns[0], reply=Reply("", wants=wants))
    remarks = view_of(Trace(handmade_runs.started(), (turn,)))["turns"][0]["remarks"]
    assert remarks == [
        "3 requests ignored, no such frame: 140, 151, x.",
        "2 repeated requests ignored.",
    ]


def test_frames_that_do_not_come_again_are_remarks_of_the_turn_that_would_show_them() -> None:
    opening, late = handmade_runs.pairs([16, 48]), handmade_runs.pairs([10])
    view = (*handmade_runs.refs(opening), *handmade_runs.refs(late))
    turns = (
        handmade_runs.asking(1, opening, [16, 10, 48]),
        handmade_runs.asking(2, late, [10, 16], view),
        handmade_runs.answering(3, (), view=view),
    )
    trace = Trace(
        handmade_runs.started(), turns, Finished(StopReason.ANSWERED, handmade_runs.WHOLE)
    )
    shown = view_of(trace)["turns"]
    assert [turn["remarks"] for turn in shown] == [
        [],
        ["Already shown: 16, 48."],
        ["Already shown: 10, 16."],
    ]
    assert [turn["state"].split(" · ")[0] for turn in shown] == [
        "2 frame pairs",
        "1 frame pair",
        "no new frames",
    ]
    assert [turn["remarks"] for turn in run_json(fold_all(trace.events()))["turns"]] == [
        turn["remarks"] for turn in shown
    ]
    origin = Origin(trace.started.prompt, trace.started.judge, trace.started.settings)
    branch = replace(trace.started, branch=Branch(origin, 3, frames=(48,)))
    assert view_of(replace(trace, started=branch))["turns"][2]["remarks"] == ["Already shown: 48."]


def test_the_order_of_a_branch_that_took_turns_over_can_never_be_checked() -> None:
    trace = handmade_runs.three_turns()
    origin = Origin(trace.started.prompt, trace.started.judge, trace.started.settings)
    for branch, reason in ((None, ""), (Branch(origin, 1), ""), (Branch(origin, 2), CHECK_BRANCH)):
        assert (
            view_of(replace(trace, started=replace(trace.started, branch=branch)))["no_check"]
            == reason
        )


def test_a_note_on_both_files_is_given_once() -> None:
    clips = (
        handmade_runs.clip("a.mp4", ("It is short.", "It is dark.")),
        handmade_runs.clip("b.mp4", ("It is short.",)),
    )
    assert view_of(Trace(handmade_runs.started(clips=clips)))["health"] == [
        "Both videos: It is short.",
        "Video 1: It is dark.",
    ]


def test_confidence_comes_with_its_meaning() -> None:
    trace = handmade_runs.three_turns()
    sure = replace(trace.turns[0], reply=replace(trace.turns[0].reply, confidence=4))
    said = replace(trace, turns=(sure, *trace.turns[1:]))
    told = {
        "paired": ["confidence 4 (the judge's own)", OWN_CONFIDENCE_HELP],
        "concat": ["confidence 4 (concat)", CONFIDENCE_HELP],
    }
    for protocol, confidence in told.items():
        turns = view_of(replace(said, started=handmade_runs.started(dialect=protocol)))["turns"]
        assert [turn["confidence"] for turn in turns] == [confidence, [], []]


def test_the_grid_of_each_protocol_is_given_as_data() -> None:
    assert view_of(handmade_runs.three_turns())["grid"] == {
        "slots": 128,
        "rule": "floor",
        "first": [0, 0],
        "last": "127",
    }
    other = view_of(
        replace(handmade_runs.three_turns(), started=handmade_runs.started(dialect="concat"))
    )["grid"]
    assert other == {"slots": 48, "rule": "even", "first": [1, 49], "last": "96"}
    assert (
        view_of(
            replace(handmade_runs.three_turns(), started=handmade_runs.started(dialect="klingon"))
        )["grid"]
        is None
    )


def test_a_verdict_without_turns_gives_no_frames() -> None:
    trace = Trace(handmade_runs.started(), (), Finished(StopReason.ANSWERED, handmade_runs.WHOLE))
    assert [
        (chip["reason"], chip["frames"], chip["source"])
        for chip in view_of(trace)["verdict"]["chips"]
    ] == [("", [], "")] * 4


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


frames = st.lists(st.tuples(st.integers(0, 127), st.sampled_from(Side)), unique=True, max_size=40)


@given(frames)
def test_every_frame_is_on_exactly_one_tile_and_on_its_own_side(
    refs: list[tuple[int, Side]],
) -> None:
    sent = [handmade_runs.thumbnail(slot, side) for slot, side in refs]
    found = [
        (half.ref.slot, side) for tile in group_tiles(sent) for side, half in tile.halves.items()
    ]
    assert sorted(found) == sorted(refs)
    assert all(
        half.ref.side is side for tile in group_tiles(sent) for side, half in tile.halves.items()
    )


def test_a_side_that_was_not_sent_stays_empty() -> None:
    alone = group_tiles([handmade_runs.thumbnail(12, Side.SECOND, "61")])[0]
    assert alone.label == "#61"
    first, second = alone.to_json((None, None), frozenset(), image_of)["halves"]
    assert first is None
    assert second["gone"]


def test_frames_numbered_apart_show_both_numbers() -> None:
    assert (
        group_tiles(
            [
                handmade_runs.thumbnail(12, Side.FIRST, "13"),
                handmade_runs.thumbnail(12, Side.SECOND, "61"),
            ]
        )[0].label
        == "#13 · #61"
    )


def test_the_seek_time_lies_inside_the_frame_s_interval() -> None:
    frame = handmade_runs.thumbnail(16, Side.FIRST)
    assert frame.seconds < seek_time(frame) < frame.until


@given(st.integers(), st.floats(), st.floats())
def test_nonsense_numbers_give_finite_times_and_places(
    index: int, seconds: float, until: float
) -> None:
    frame = replace(
        handmade_runs.thumbnail(0, Side.FIRST),
        ref=FrameRef(0, Side.FIRST),
        index=index,
        seconds=seconds,
        until=until,
    )
    assert abs(seek_time(frame)) < float("inf")
    assert 0 <= timeline_position(frame, handmade_runs.clip("a")) <= 1
