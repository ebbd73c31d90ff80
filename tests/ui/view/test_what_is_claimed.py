"""No surface claims more than a judge has earned: a flip has no winner, and a judge outside its scope says nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.ui.conftest import OpenReport
from tests.ui.support import handmade_runs
from tests.ui.view.test_page_json import image_of
from vrthinker_core.types import Preference
from vrthinker_core.types.events import Finished, StopReason, Trace
from vrthinker_core.types.order import swap_verdict
from vrthinker_core.ui.api_json import run_json
from vrthinker_core.ui.branch_sets import BranchSet, KeptRun, strip_json
from vrthinker_core.ui.history_words import outcome, unchecked
from vrthinker_core.ui.link_preview import LinkPreview, LinkPreviews
from vrthinker_core.ui.page_json import status_line, view_json
from vrthinker_core.ui.run_state import fold_all
from vrthinker_core.ui.run_store import record_of
from vrthinker_core.ui.tiles import Examples
from vrthinker_core.ui.words import HEADLINES

WHOLE = handmade_runs.WHOLE
WINNERS = {HEADLINES[Preference.FIRST], HEADLINES[Preference.SECOND]}
OUTSIDE = replace(
    handmade_runs.three_turns(), finished=Finished(StopReason.ANSWERED, outside_scope=True)
)


FLIP = handmade_runs.both_orders(WHOLE)
STABLE = handmade_runs.both_orders(swap_verdict(WHOLE))


def preview_of(trace: Trace, folder: Path, monkeypatch: pytest.MonkeyPatch) -> LinkPreview:
    monkeypatch.setattr("vrthinker_core.ui.link_preview.find_saved", lambda *_: trace)
    previews = LinkPreviews(Examples(folder), type("Shared", (), {"has": lambda *_: True})())
    return previews.find("name")


@pytest.mark.parametrize(
    ("trace", "headline", "note"),
    [
        (handmade_runs.three_turns(), "Video 1 is better overall", "not swap-tested"),
        (STABLE, "Video 1 is better overall", ""),
        (FLIP, "No reliable winner: swapping the sides changed it.", ""),
        (OUTSIDE, "No verdict: this judge cannot judge real videos", ""),
    ],
    ids=["unchecked", "stable", "flip", "outside"],
)
def test_page_list_and_preview_say_the_same(
    trace: Trace, headline: str, note: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    verdict = view_json(fold_all(trace.events()), image_of)["verdict"]
    assert (verdict["headline"], verdict["note"]) == (headline, note)
    in_list = "Demo run, no verdict" if trace is OUTSIDE else headline
    record = record_of("", trace, 0.0, 0.0)
    assert (outcome(record), unchecked(record)) == (in_list, note)
    assert preview_of(trace, tmp_path, monkeypatch).title.startswith(in_list.rstrip("."))


def test_a_flip_takes_the_winner_from_its_cards_and_keeps_the_scores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = fold_all(FLIP.events())
    verdict = view_json(state, image_of)["verdict"]
    assert [(chip["label"], chip["value"]) for chip in verdict["chips"]] == [
        *[("No reliable winner", None)] * 3,
        ("No difference found", Preference.TIE),
    ]
    assert "Video 1" not in preview_of(FLIP, tmp_path, monkeypatch).description.partition("”")[2]
    assert (run_json(state)["labels"] or {})["OA"] == Preference.FIRST


def test_outside_its_scope_no_label_reaches_anybody() -> None:
    state = fold_all(OUTSIDE.events())
    api = run_json(state)
    assert (api["labels"], api["probabilities"], api["outside_scope"], api["stop"]) == (
        None,
        None,
        True,
        "answered",
    )
    assert all(turn["labels"] is None and turn["probabilities"] is None for turn in api["turns"])
    assert OUTSIDE.turns[-1].reply.verdict is not None
    view = view_json(state, image_of)
    assert (
        view["verdict"]["chips"]
        == [label for turn in view["turns"] for label in turn["labels"]]
        == []
    )
    assert "another judge" in view["ending"]
    assert status_line(state, 1).startswith("Demo run, no verdict")
    strip = strip_json(BranchSet("name", 1, (KeptRun(OUTSIDE, 1), KeptRun(OUTSIDE, 1))), state)
    assert [(run["note"], run["labels"]) for run in strip["runs"]] == [
        ("Demo run, no verdict", [])
    ] * 2


def test_frames_are_shown_for_a_reason_only_if_it_names_them() -> None:
    last = handmade_runs.three_turns().turns[-1]
    thought = (
        "Text alignment: both follow the prompt. It is jerky between 10 and 30. Overall: video 1."
    )
    turn = replace(last, reply=replace(last.reply, think=thought))
    trace = handmade_runs.three_turns()
    verdict = view_json(
        fold_all(replace(trace, turns=(*trace.turns[:-1], turn)).events()), image_of
    )["verdict"]
    named = {chip["name"]: (chip["frames"], chip["source"]) for chip in verdict["chips"]}
    assert named["Motion quality"] == (["#10", "#30"], "Frames it names")
    assert {*map(str, named["Text alignment"]), *map(str, named["Overall"])} == {"[]", ""}


@pytest.mark.browser
@pytest.mark.parametrize(("trace", "chips"), [(FLIP, 4), (OUTSIDE, 0)], ids=["flip", "outside"])
def test_the_report_claims_no_winner(open_report: OpenReport, trace: Trace, chips: int) -> None:
    page = open_report(trace)
    assert page.locator(".vrt-headline").inner_text() not in WINNERS
    assert page.locator(".vrt-chip").count() == chips
    assert page.title().startswith("Demo run, no verdict") == (trace is OUTSIDE)
    assert page.locator(".vrt-verdict .vrt-says1, .vrt-verdict .vrt-says2").count() == 0
