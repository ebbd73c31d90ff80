"""What came beside a reply, as page, API and report are given it: probabilities of labels, and reasoning told apart."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tests.ui.support import handmade_runs
from tests.ui.view.test_html_report import ATTACKS
from tests.ui.view.test_page_json import image_of, view_of
from vrthinker_core.types import Dimension
from vrthinker_core.types.events import Finished, StopReason
from vrthinker_core.types.order import swap_verdict
from vrthinker_core.ui.api_json import ProbabilitiesJson, run_json
from vrthinker_core.ui.hidden_view import hide_view
from vrthinker_core.ui.html_report import render_report
from vrthinker_core.ui.page_json import transcript_json, view_json
from vrthinker_core.ui.run_state import fold_all
from vrthinker_core.ui.words import probability_words

SHARES = handmade_runs.SHARES
THOUGHT = "I wonder about the ball. "
BOTH = handmade_runs.both_orders(trace=handmade_runs.telling_probabilities(THOUGHT))
"""Judged with the same words each time, so that every label but the tie flips."""


def test_the_details_of_a_doubtful_label_say_how_likely_it_was() -> None:
    chips = view_of(handmade_runs.telling_probabilities())["verdict"]["chips"]
    assert ["likely" in chip["help"] for chip in chips] == [False, False, False, True], (
        "a share from 90 % on tells nobody anything"
    )
    assert "the judge was 50 % likely to write this label (video 1: " in chips[3]["help"]
    assert chips[3]["help"].endswith("does not say how often such labels are right.")
    assert not any("%" in chip["label"] for chip in chips)


def test_without_probabilities_nothing_is_shown() -> None:
    view = view_of(handmade_runs.three_turns())
    assert not any("likely" in chip["help"] for chip in view["verdict"]["chips"])
    assert all(label["probability"] == [] for turn in view["turns"] for label in turn["labels"])
    assert [turn["aside"] for turn in view["turns"]] == [[]] * 3
    assert probability_words(None, (0.1, 0.2, 0.3)) == []


def test_both_orders_have_theirs_in_the_sides_of_the_first() -> None:
    state = fold_all(BOTH.events())
    order = view_json(state, image_of)["order"]
    told = [(row["first"], row["second"]) for row in order["rows"]]
    assert [(first["label"], second["label"]) for first, second in told[-2:]] == [
        ("Video 2", "Video 1"),
        ("No difference found", "No difference found"),
    ]
    labels = order["run"]["turns"][-1]["labels"]
    assert [label["probability"][:1] for label in labels] == [[], [], [], ["50 %"]]
    api = run_json(state)
    assert api["swapped"]["probabilities"] == {
        name: [tie, second, first] for name, (tie, first, second) in SHARES.items()
    }


def test_the_api_has_all_three_numbers_of_each_label_and_the_reasoning() -> None:
    item = run_json(fold_all(handmade_runs.telling_probabilities(THOUGHT).events()))
    assert item["probabilities"] == {name: list(shares) for name, shares in SHARES.items()}
    assert (
        list(item["probabilities"] or ())
        == list(ProbabilitiesJson.__annotations__)
        == [each.value for each in Dimension]
    )
    assert [turn["probabilities"] is None for turn in item["turns"]] == [True, True, False]
    assert [turn["reasoning"] for turn in item["turns"]] == ["", "", THOUGHT]
    assert json.loads(json.dumps(item)) == item
    assert run_json(fold_all(handmade_runs.three_turns().events()))["probabilities"] is None


def test_a_label_of_a_partial_verdict_that_was_never_said_has_none() -> None:
    trace = handmade_runs.telling_probabilities()
    partial = replace(handmade_runs.WHOLE, VQ=None)
    last = trace.turns[-1]
    turns = (*trace.turns[:-1], replace(last, reply=replace(last.reply, verdict=partial)))
    item = run_json(
        fold_all(
            replace(trace, turns=turns, finished=Finished(StopReason.TURN_LIMIT, partial)).events()
        )
    )
    assert (item["probabilities"] or {})["VQ"] is None
    assert (item["probabilities"] or {})["TA"] == [0.02, 0.93, 0.05]
    assert swap_verdict(swap_verdict(partial)) == partial


def test_reasoning_is_folded_text_and_stands_in_the_transcript_before_its_reply() -> None:
    state = fold_all(BOTH.events())
    heading, text, help = view_json(state, image_of)["turns"][-1]["aside"]
    assert (heading, text) == ("Reasoning, aside (25 characters)", THOUGHT)
    assert "never sent back" in help
    passages = [
        heading
        for heading, text in transcript_json(state)["passages"]
        if text in (THOUGHT, handmade_runs.ANSWER)
    ]
    assert passages == [
        "Received beside the reply, turn 3",
        "Received, turn 3",
        "Sides swapped: Received beside the reply, turn 3",
        "Sides swapped: Received, turn 3",
    ]


def test_a_hidden_run_sends_neither_reasoning_nor_probabilities() -> None:
    hidden = json.dumps(hide_view(view_of(BOTH)))
    assert THOUGHT not in hidden
    assert "%" not in hidden


@pytest.mark.parametrize("attack", ATTACKS)
def test_hostile_reasoning_never_becomes_markup(attack: str) -> None:
    page = render_report(handmade_runs.telling_probabilities(attack))
    assert page.count("<script") == page.count("</script>") == 2
    assert "<img" not in page.partition("<script>")[0]
