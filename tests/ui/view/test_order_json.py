"""Both orders as page, API and report are given them: labels and frames in the sides of the first run, words as they came."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.ui.conftest import OpenReport
from tests.ui.support import handmade_runs
from tests.ui.support.handmade_runs import both_orders
from tests.ui.view.test_page_json import image_of
from vrthinker_core.traces import from_json, to_json
from vrthinker_core.types import Side
from vrthinker_core.types.events import Finished, Started, StopReason, Swapped, TextArrived
from vrthinker_core.types.order import swap_verdict
from vrthinker_core.types.progress import totals
from vrthinker_core.ui import words
from vrthinker_core.ui.api_json import run_json
from vrthinker_core.ui.html_report import inline_image, render_report
from vrthinker_core.ui.page_json import replay_status_line, status_line, transcript_json, view_json
from vrthinker_core.ui.replay import trace_of
from vrthinker_core.ui.run_state import RunState, fold, fold_all, join_text, state_in_first_sides

WHOLE = handmade_runs.WHOLE


def test_how_the_text_is_split_does_not_matter_in_either_run() -> None:
    events = list(both_orders().events())
    state = RunState()
    for event in events:
        state = fold(state, event)
    assert state == fold_all(events)
    assert (
        sum(isinstance(getattr(event, "event", event), TextArrived) for event in join_text(events))
        == 6
    )


def test_a_state_becomes_the_trace_it_came_from() -> None:
    trace = both_orders()
    assert trace_of(fold_all(trace.events())) == trace
    assert from_json(to_json(trace)) == trace


def test_the_sides_of_the_first_run_twice_is_the_same_run() -> None:
    second = fold_all(both_orders().events()).swapped
    there = state_in_first_sides(second)
    assert there != second
    assert state_in_first_sides(there) == second
    assert there.started.clips == handmade_runs.three_turns().started.clips
    for before, after in zip(second.turns, there.turns, strict=True):
        assert [frame.jpeg for frame in after.frames] == [frame.jpeg for frame in before.frames]
        assert [frame.number for frame in after.frames] == [frame.number for frame in before.frames]
        assert [frame.ref.side for frame in after.frames] == [
            Side(3 - frame.ref.side) for frame in before.frames
        ]
        assert after.text == before.text


def test_the_page_is_given_both_verdicts_and_a_word_for_each_dimension() -> None:
    order = view_json(fold_all(both_orders().events()), image_of)["order"]
    assert [
        (row["name"], row["first"]["label"], row["second"]["label"], row["effect"])
        for row in order["rows"]
    ] == [
        ("Overall", "Video 1", "Video 2", "flips"),
        ("Text alignment", "Video 1", "Video 2", "flips"),
        ("Visual quality", "Video 2", "Video 1", "flips"),
        ("Motion quality", "No difference found", "No difference found", "stable"),
    ]
    assert (order["live"], order["line"].split(":")[0]) == (False, "Flips")
    assert view_json(fold_all(both_orders(swap_verdict(WHOLE)).events()), image_of)["order"][
        "line"
    ].startswith("Stable")


def test_a_tile_of_the_second_run_stands_on_the_persons_sides() -> None:
    view = view_json(fold_all(both_orders().events()), inline_image)
    order = view["order"]
    for first, second in zip(view["turns"], order["run"]["turns"], strict=True):
        for one, two in zip(first["tiles"], second["tiles"], strict=True):
            assert [half["src"] for half in two["halves"] if half] == [
                half["src"] for half in one["halves"] if half
            ][::-1]


@pytest.mark.parametrize(
    ("stop", "error", "line"),
    [
        (StopReason.CANCELLED, "", "Order not checked: the second run was stopped."),
        (StopReason.FAILED, "The judge broke.", "Order not checked: The judge broke."),
        (StopReason.NO_ANSWER, "", "Order not checked: the judge's answer could not be read."),
    ],
)
def test_without_a_second_verdict_the_first_one_stands(
    stop: StopReason, error: str, line: str
) -> None:
    state = fold_all(both_orders(None, stop=stop, error=error).events())
    view, item = view_json(state, image_of), run_json(state)
    assert (
        view["verdict"]
        == view_json(fold_all(handmade_runs.three_turns().events()), image_of)["verdict"]
    )
    assert (view["order"]["line"], view["order"]["rows"], view["order"]["live"]) == (
        line,
        [],
        False,
    )
    assert item["labels"] == {"TA": 1, "MQ": 0, "VQ": 2, "OA": 1}
    assert (item["swapped"]["order"], item["swapped"]["unchecked"], item["swapped"]["stop"]) == (
        None,
        line,
        stop.value,
    )


def test_the_api_is_given_labels_mapped_back_and_both_runs() -> None:
    item = run_json(fold_all(both_orders(replace(WHOLE, TA=None)).events()))
    second = item["swapped"]
    assert second["labels"] == {"TA": None, "MQ": 0, "VQ": 1, "OA": 2}
    assert second["order"] == {
        "TA": "said in one order only",
        "MQ": "stable",
        "VQ": "flips",
        "OA": "flips",
    }
    assert second["unchecked"] == ""
    assert [frame["video"] for frame in second["turns"][0]["frames"][:2]] == [2, 1]
    assert run_json(fold_all(handmade_runs.three_turns().events()))["swapped"] is None


def test_while_the_second_run_goes_on_the_status_says_so_and_nothing_is_said_of_the_order() -> None:
    trace = both_orders()
    events = [*handmade_runs.three_turns().events(), Swapped(trace.swapped.started)]
    state = fold_all(events)
    assert status_line(state, 3).startswith("Sides swapped: ")
    order = view_json(state, image_of)["order"]
    assert (order["live"], order["rows"]) == (True, [])
    assert run_json(state)["swapped"] == {
        **{"stop": None, "labels": None, "probabilities": None, "order": None, "unchecked": ""},
        "turns": [],
    }


def test_transcript_and_report_hold_both_runs() -> None:
    trace = both_orders()
    second = replace(
        trace.swapped, started=replace(trace.swapped.started, system="The second system prompt.")
    )
    headings = [
        heading
        for heading, _ in transcript_json(fold_all(replace(trace, swapped=second).events()))[
            "passages"
        ]
    ]
    assert "Received, turn 3" in headings
    assert "Sides swapped: System prompt" in headings
    assert "Sides swapped: Received, turn 3" in headings
    assert "The second system prompt." in render_report(replace(trace, swapped=second))


def test_a_second_run_that_never_began_is_no_trace_of_one() -> None:
    state = fold(
        fold_all(handmade_runs.three_turns().events()), Swapped(Finished(StopReason.CANCELLED))
    )
    trace = trace_of(state)
    assert trace.swapped is None
    assert isinstance(trace.started, Started)
    order = view_json(state, image_of)["order"]
    assert order["line"] == "Order not checked: the second run was stopped."


@pytest.mark.browser
def test_the_report_shows_both_verdicts_and_either_run(open_report: OpenReport) -> None:
    trace = both_orders()
    shorter = replace(trace, swapped=replace(trace.swapped, turns=trace.swapped.turns[:2]))
    page = open_report(shorter)
    assert page.locator(".vrt-both tr").count() == 5
    assert page.locator(".vrt-turn").count() == 3
    page.locator(".vrt-choice button", has_text="Sides swapped").click()
    assert page.locator(".vrt-turn").count() == 2
    assert page.locator(".vrt-swapped-notice").is_visible()
    page.locator(".vrt-choice button", has_text="As given").click()
    assert page.locator(".vrt-turn").count() == 3
    assert page.get_by_role("button", name=words.CHECK_ORDER).count() == 0, (
        "no judge can be asked in a file"
    )


def test_the_status_counts_both_runs_and_says_so() -> None:
    trace = both_orders()
    cut = replace(
        trace.swapped,
        turns=trace.turns[:2],
        finished=Finished(StopReason.ANSWERED, WHOLE, seconds=2.5),
    )
    trace = replace(trace, swapped=cut)
    line, took = status_line(fold_all(trace.events()), 99), totals([*trace.turns, *cut.turns])
    assert line == f"Finished in both orders after 5 turns in 7.1 s · {took}"
    assert replay_status_line(fold_all(trace.events())) == f"Replaying a saved trace. {line}"
    assert totals(trace.turns) not in line
    stopped = replace(
        trace, swapped=replace(cut, finished=Finished(StopReason.CANCELLED, seconds=2.5))
    )
    start = "Finished as given, stopped with the sides swapped, after 5 turns in 7.1 s"
    assert status_line(fold_all(stopped.events()), 99) == f"{start} · {took}"
    opened = replace(
        trace,
        swapped=replace(cut, turns=(), finished=Finished(StopReason.FAILED, error="It is gone.")),
    )
    assert "failed with the sides swapped, after 3 turns in 4.6 s" in status_line(
        fold_all(opened.events()), 99
    )
